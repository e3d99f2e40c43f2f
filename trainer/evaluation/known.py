"""The known images of a model: held-out images with their recordings, on which it was compared when it was made.

A later candidate must not be significantly worse on them. They are a prepared test set in one file, `KNOWN`, in
the folder of a version, so that they outlive the data that they came from. Only their originals matter: the file
of each picture, its density and its fixations. Removing the file is how an owner deletes them.
"""

import csv
import dataclasses
import io
import pathlib
import zipfile
from collections.abc import Collection, Iterator

import numpy as np
from PIL import Image

from trainer.data import center_bias, decode, splits, tfrecords
from trainer.data.prepared_data import CENTER_BIAS, IMAGES, ORIGINALS, TEST, Manifest
from trainer.data.tfrecords import Example, Original
from trainer.errors import UserError
from trainer.evaluation import recorded
from trainer.evaluation.evaluation import KNOWN
from trainer.io import files, package_version
from trainer.io.archive_files import Member
from trainer.io.files import StrPath
from trainer.network import preprocess

MOST, MOST_BYTES = 200, 2**26
"""So many images are kept, chosen by a hash of their pixels, while their files have no more bytes than this."""
SIZE = (48, 64)
"""(height, width) of the small copies that a prepared dataset has beside the originals, pixels."""


@dataclasses.dataclass(frozen=True)
class _Image:
    """A known image, and its line in IMAGES."""

    example: Example
    original: Original
    line: recorded.Line
    as_seen: bool
    has_fixations: bool


def write_known(path: pathlib.Path, folder: StrPath, names: Collection[str], before: StrPath | None) -> int:
    """Write the known images of a model that is compared now.

    An image that was known before stays as it was, so that recordings which change a little each week cannot carry
    the known images along.

    Args:
        path: The file to write.
        folder: Prepared data whose held-out images decide.
        names: The images among them that were scored.
        before: Prepared data with the known images of the current default; None without them, and if the models
            contradict them.

    Returns:
        Number of the images; 0 if there is none, and no file is written.
    """
    split = Manifest.load(folder).held_out
    old = recorded.read_lines(before) if before is not None else []
    new = [line for line in recorded.read_lines(folder) if line.split == split and line.image in names]
    lines = [*old, *recorded.compare(new, old).added]
    ordered = sorted({line.digest for line in lines}, key=splits.position)[:MOST]
    kept: dict[str, _Image] = {}
    for source, listed in ((before, old), (folder, new)):
        wanted = {line.image for line in listed if line.digest in ordered}
        for image in _held_out(source, wanted) if source is not None else ():
            kept.setdefault(image.line.digest, image)
    chosen, n_bytes = [], 0
    for digest in ordered:
        n_bytes += len(kept[digest].original.file)
        if n_bytes <= MOST_BYTES:
            chosen.append(kept[digest])
    if not chosen:
        return 0
    with files.folder() as scratch:
        prepared = scratch / "known"
        prepared.mkdir()
        _write(prepared, chosen)
        with zipfile.ZipFile(path, "w") as archive:  # not compressed, as pictures are already
            for file in sorted(prepared.iterdir()):
                archive.write(file, file.name)
    return len(chosen)


def open_known(model: StrPath) -> pathlib.Path | None:
    """Unpack the known images of the model in a folder.

    Returns:
        Prepared data that is there until the process ends; None if the model has none.

    Raises:
        UserError: the file is damaged.
    """
    path = pathlib.Path(model, KNOWN)
    if not path.is_file():
        return None
    folder = files.folder_for_now() / "known"
    try:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
        Manifest.load(folder)
    except (OSError, zipfile.BadZipFile, UserError) as error:
        raise UserError(
            f"{path} cannot be read ({error}): restore it, or remove it and set known_images=forget once"
        ) from None
    return folder


def _held_out(folder: StrPath, names: Collection[str] | None = None) -> Iterator[_Image]:
    """The held-out images of prepared data with these names; all of them if None."""
    manifest = Manifest.load(folder)
    lines = {line.image: line for line in recorded.read_lines(folder) if line.split == manifest.held_out}
    for example, original in tfrecords.read_held_out(folder):
        if names is None or example.name in names:
            yield _Image(example, original, lines[example.name], manifest.as_seen, manifest.has_fixations)


def _write(folder: pathlib.Path, images: list[_Image]) -> None:
    """Write the images as a prepared test set."""
    as_seen = images[0].as_seen
    has_fixations = all(image.has_fixations for image in images)
    has_observers = has_fixations and all(len(image.example.observers) for image in images)
    bias = np.zeros((center_bias.FOLDS, *center_bias.SIZE))
    names: set[str] = set()
    columns = dict.fromkeys(column for image in images for column in image.line.cells)
    with (
        tfrecords.ShardWriter(folder, TEST, len(images), SIZE) as shards,
        tfrecords.ShardWriter(folder, ORIGINALS, len(images), SIZE) as originals,
        (folder / IMAGES).open("w", newline="", encoding="utf-8") as file,
    ):
        listed = csv.DictWriter(file, columns)
        listed.writeheader()
        for index, image in enumerate(images):
            example, original = image.example, image.original
            name = example.name if example.name not in names else f"{image.line.digest[:8]}/{example.name}"
            names.add(name)
            listed.writerow({**image.line.cells, "split": TEST, "image": name})
            pixels = decode.decode_stimulus(Member(name, name, lambda file=original.file: file), image.as_seen)  # type: ignore[misc]
            content = original.file if image.as_seen == as_seen else _png(pixels)
            size = example.original_size
            box = preprocess.content_box(size, SIZE)
            shards.write(
                tfrecords.serialize(
                    Example(
                        index,
                        name,
                        np.round(preprocess.prepare_stimulus(pixels, SIZE)).astype(np.uint8),
                        np.round(preprocess.prepare_map(original.density, SIZE)).astype(np.uint8),
                        size,
                        example.fixations,
                        decode.rescale_points(example.fixations, box, size),
                        example.observers if has_observers else np.zeros(0, np.int64),
                    )
                )
            )
            originals.write(
                tfrecords.serialize_original(Original(name, content, original.density, original.group))
            )
            density = None if has_fixations else original.density
            bias[center_bias.fold_of(index)] += center_bias.histogram_of(example.fixations, size, density)
    files.write_array(folder / CENTER_BIAS, bias.astype(np.float32))
    counts = {TEST: len(images)}
    Manifest(
        dataset="known",
        source="known",
        fingerprint="",
        image_size=SIZE,
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
        objects=[],
        code_version=package_version.code_version(),
        as_seen=as_seen,
    ).save(folder)


def _png(pixels: np.ndarray) -> bytes:
    """The pixels in a form that is decoded the same by any rule."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()
