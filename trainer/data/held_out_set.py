"""Write held-out images of prepared data as a test set of its own, so that they outlive the data.

Only the originals of the images matter: the file of each picture, its density and its fixations. Their copies at
the input size of a network are small.
"""

import csv
import dataclasses
import io
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from trainer.data import tfrecords
from trainer.data.center_bias import FOLDS, SIZE, CenterBias, histogram_of
from trainer.data.decode import decode_original, rescale_points
from trainer.data.prepared_data import CENTER_BIAS, IMAGES, ORIGINALS, TEST, Manifest
from trainer.data.tfrecords import Example, Original
from trainer.io import write_array
from trainer.machine import code_version
from trainer.network import Frame

SMALL = (48, 64)
"""(height, width) of the small copies, pixels."""


@dataclasses.dataclass(frozen=True)
class HeldOutImage:
    """A held-out image of prepared data."""

    example: Example
    original: Original
    line: Mapping[str, str]
    """Its line in `PreparedData.image_list`: column -> cell. Example: `digest` -> its digest."""
    as_seen: bool
    """`Manifest.as_seen` of its data."""
    has_fixations: bool
    """`Manifest.has_fixations` of its data."""


def write_test_set(folder: pathlib.Path, name: str, images: Sequence[HeldOutImage]) -> None:
    """Write images as a prepared test set.

    It has fixations if all images have them, and observers if all fixations have them. An image with the name of
    another one gets its digest in front. Example: `1f2e3d4c/a.png`.

    Args:
        folder: an existing folder.
        name: the name of the dataset in its manifest.
        images: at least one.
    """
    as_seen = images[0].as_seen
    has_fixations = all(image.has_fixations for image in images)
    has_observers = has_fixations and all(len(image.example.observers) for image in images)
    bias = np.zeros((FOLDS, *SIZE))
    names: set[str] = set()
    columns = dict.fromkeys(column for image in images for column in image.line)
    with (
        tfrecords.ShardWriter(folder, TEST, len(images), SMALL) as shards,
        tfrecords.ShardWriter(folder, ORIGINALS, len(images), SMALL) as originals,
        (folder / IMAGES).open("w", newline="", encoding="utf-8") as file,
    ):
        listed = csv.DictWriter(file, columns)
        listed.writeheader()
        for index, image in enumerate(images):
            example, original = image.example, image.original
            own = example.name if example.name not in names else f"{image.line['digest'][:8]}/{example.name}"
            names.add(own)
            listed.writerow({**image.line, "split": TEST, "image": own})
            pixels = decode_original(own, original.file, image.as_seen)
            content = original.file if image.as_seen == as_seen else _png(pixels)
            shards.write(tfrecords.serialize(_small(example, original, pixels, index, own, has_observers)))
            originals.write(tfrecords.serialize_original(Original(own, content, original.density, original.group)))
            density = None if has_fixations else original.density
            bias[CenterBias.fold_of(index)] += histogram_of(example.fixations, example.original_size, density)
    write_array(folder / CENTER_BIAS, bias.astype(np.float32))
    counts = {TEST: len(images)}
    Manifest(
        dataset=name,
        source=name,
        fingerprint="",
        image_size=SMALL,
        counts=counts,
        expected_counts=counts,
        split="given",
        ground_truth="density",
        blur_sigma_px=0.0,
        has_fixations=has_fixations,
        has_observers=has_observers,
        original_sizes={},
        shards={TEST: shards.names},
        originals=originals.names,
        code_version=code_version(),
        as_seen=as_seen,
    ).save(folder)


def _small(
    example: Example, original: Original, pixels: NDArray[np.uint8], index: int, name: str, has_observers: bool
) -> Example:
    """The example at the size `SMALL`, from its original's pixels."""
    size = example.original_size
    return Example(
        index,
        name,
        np.round(Frame(SMALL).image(pixels)).astype(np.uint8),
        np.round(Frame(SMALL).map(original.density)).astype(np.uint8),
        size,
        example.fixations,
        rescale_points(example.fixations, Frame(SMALL).box(size), size),
        example.observers if has_observers else np.zeros(0, np.int64),
    )


def _png(pixels: NDArray[np.uint8]) -> bytes:
    """The pixels in a form that is decoded the same by any rule."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()
