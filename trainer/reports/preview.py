"""The page of a prepared dataset: its counts, its origin, and some of its images."""

import dataclasses
import itertools
import os
import pathlib
from typing import Any

import numpy as np

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
    expected, partial, center_bias = manifest.expected_counts, "", ""
    if manifest.counts != expected:
        partial = (
            f"This dataset has {pages.counts(manifest.counts)} images; the complete dataset has "
            f"{pages.counts(expected)}. The results are not comparable with those on the complete dataset."
        )
    if not manifest.is_test_set:
        center_bias = gallery.heat(read_map(folder / artifacts.CENTER_BIAS, artifacts.PREPARE_AGAIN))
    fixations = "with fixations" if manifest.has_fixations else "no fixations"
    size = confidence.size_text(manifest.image_size)
    pages.write(
        html,
        "preview.html.jinja",
        title=manifest.dataset,
        head=[("Date", now()), *pages.code_facts(manifest.code_version)],
        tiles=[
            *((_title(split), f"{n:,}", f"of {expected[split]:,}") for split, n in manifest.counts.items()),
            ("Network input", size, f"height {confidence.TIMES} width, pixels"),
            ("Ground truth", manifest.ground_truth, fixations),
        ],
        notices=[generated.DATA] if generated.is_sample(vars(manifest)) else [],
        partial=partial,
        splits=[
            {
                "name": split,
                "title": _title(split),
                "text": f"The first {min(PREVIEW_IMAGES[split], count)} of {count:,}.",
                "thumbnails": _thumbnails(folder, split, manifest),
            }
            for split, count in manifest.counts.items()
            if count
        ],
        center_bias=center_bias,
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
        points = np.unique(example.fixations_prepared - (top, left), axis=0)
        thumbnails.append(
            {
                "name": example.name,
                "stem": pathlib.PurePosixPath(example.name).stem,
                "width": width,
                "height": height,
                "stimulus": gallery.image_uri(example.stimulus[box]),
                "dots": "".join(f"M{x + 0.5} {y + 0.5}h0" for y, x in points.tolist()),  # the path of an SVG
                "overlay": gallery.image_uri(blend(example.stimulus[box], density)),
            }
        )
    return thumbnails
