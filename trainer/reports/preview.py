"""The page of a prepared dataset: its counts, its origin, and some of its images."""

import dataclasses
import itertools
import os
import pathlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer import artifacts, generated
from trainer.errors import now
from trainer.evaluation import confidence
from trainer.files import read_map
from trainer.heat import blend
from trainer.reports import gallery, pages

PREVIEW_IMAGES = {"train": 15, "valid": 10, "test": 15}


def write_preview(dataset: str | os.PathLike[str], html: str | os.PathLike[str]) -> None:
    """Write the page of a prepared dataset; `UserError` if the folder is not one."""
    folder = pathlib.Path(dataset)
    manifest = artifacts.Manifest.load(folder)
    expected = manifest.expected_counts
    is_sample, partial = generated.is_sample(vars(manifest)), ""
    if manifest.counts != expected:
        partial = (
            f"This dataset has {pages.counts(manifest.counts)} images; the complete dataset has "
            f"{pages.counts(expected)}. The results are not comparable with those on the complete dataset."
        )
    splits = [
        {
            "name": split,
            "title": _title(split),
            "text": f"The first {min(PREVIEW_IMAGES[split], count)} of {count:,}.",
            "thumbnails": _thumbnails(folder, split, manifest),
        }
        for split, count in manifest.counts.items()
        if count
    ]
    pages.write(
        html,
        "preview.html.jinja",
        title=manifest.dataset,
        head=[("Date", now()), *pages.code_facts(manifest.code_version)],
        tiles=[
            *(
                (_title(split), f"{count:,}", f"of {expected[split]:,}")
                for split, count in manifest.counts.items()
            ),
            (
                "Network input",
                confidence.size_text(manifest.image_size),
                f"height {confidence.TIMES} width, pixels",
            ),
            (
                "Ground truth",
                manifest.ground_truth,
                "with fixations" if manifest.has_fixations else "no fixations",
            ),
        ],
        notices=[generated.DATA] if is_sample else [],
        partial=partial,
        splits=splits,
        center_bias=""
        if manifest.is_test_set
        else gallery.heat(read_map(folder / artifacts.CENTER_BIAS, artifacts.PREPARE_AGAIN)),
        notes=manifest.notes,
        has_dots=manifest.has_fixations,
        facts=pages.manifest_facts(dataclasses.asdict(manifest) | {"notes": []}),
    )


def _title(split: str) -> str:
    return f"{artifacts.SPLIT_NAMES[split].capitalize()} images"


def _thumbnails(folder: pathlib.Path, split: str, manifest: artifacts.Manifest) -> list[dict[str, Any]]:
    """Return the first images of a split with their maps, without padding."""
    from trainer import preprocess  # imports TensorFlow, as `tfrecords` does
    from trainer.data import tfrecords

    thumbnails = []
    for example in itertools.islice(tfrecords.read(folder, split), PREVIEW_IMAGES[split]):
        top, left, height, width = preprocess.content_box(example.original_size, manifest.image_size)
        box = slice(top, top + height), slice(left, left + width)
        density = example.density[box] / max(1, example.density.max())
        thumbnails.append(
            {
                "name": example.name,
                "stem": pathlib.PurePosixPath(example.name).stem,
                "width": width,
                "height": height,
                "stimulus": gallery.image_uri(example.stimulus[box]),
                "dots": _dots(example.fixations_prepared - (top, left)),
                "overlay": gallery.image_uri(blend(example.stimulus[box], density)),
            }
        )
    return thumbnails


def _dots(points: NDArray[np.int64]) -> str:
    """Return the path of an SVG that marks the pixels (n, 2) of (y, x), each once."""
    return "".join(f"M{x + 0.5} {y + 0.5}h0" for y, x in np.unique(points, axis=0).tolist())
