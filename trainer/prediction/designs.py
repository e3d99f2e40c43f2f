"""Compares two designs: which parts get more or less attention in the second; and tables of regions."""

import dataclasses
import os
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image
from rich.table import Table
from rich.text import Text

from trainer.errors import UserError, printable
from trainer.files import replacing
from trainer.picture import Pixels
from trainer.prediction import render
from trainer.prediction.inputs import Input
from trainer.prediction.predict import Outcome, open_input
from trainer.prediction.regions import Measure, Region, measure

if TYPE_CHECKING:
    from trainer.prediction.predictor import Predictor


@dataclasses.dataclass(frozen=True)
class Change:
    """The attention that one region gets in two designs."""

    first: Measure
    second: Measure

    @property
    def share(self) -> float:
        """Difference of the shares, second minus first, -1..1."""
        return self.second.share - self.first.share


def read_designs(designs: tuple[Input, Input], regions: Sequence[Region], max_pixels: int) -> list[Pixels]:
    """Read the pixels of two designs, (h, w, 3) each.

    Args:
        designs: the first and the second.
        regions: in pixels of the first.
        max_pixels: a larger image is refused.

    Raises:
        UserError: an image cannot be read, the aspect ratios differ, or a region is not inside the first.
    """
    images = [open_input(design, max_pixels).decode() for design in designs]
    check_aspect_ratios([design.label for design in designs], [image.shape for image in images])
    for region in regions:
        region.box(images[0].shape[:2], designs[0].label)
    return images


def compare_designs(
    predictor: "Predictor",
    designs: tuple[Input, Input],
    images: Sequence[Pixels],
    regions: Sequence[Region],
    output: str | os.PathLike[str] | None,
) -> list[Change]:
    """Predict two designs and measure where their maps differ.

    Args:
        predictor: the network.
        designs: the first and the second. If their sizes differ, the second's map has the size of the first.
        images: their pixels, from `read_designs`.
        regions: in pixels of the first.
        output: PNG to write, or None: the difference over the second design, after each map was divided by its
            mean.

    Returns:
        The change of each region.
    """
    size = (images[0].shape[0], images[0].shape[1])
    predictions = predictor.predict_prepared(np.stack([predictor.prepare(image) for image in images]))
    maps = [predictor.restore(prediction, size) for prediction in predictions]
    if output is not None:
        second = images[1]
        if second.shape != images[0].shape:
            second = np.asarray(Image.fromarray(second).resize(size[::-1], Image.Resampling.LANCZOS))
        names = [printable(pathlib.PurePath(design.key).name) for design in designs]
        change = maps[1] / max(maps[1].mean(), 1e-12) - maps[0] / max(maps[0].mean(), 1e-12)
        with replacing(output) as partial:
            Image.fromarray(render.draw_difference(second, change, names)).save(partial, "PNG")
    measures = [measure(restored, regions) for restored in maps]
    return [Change(*pair) for pair in zip(*measures, strict=True)]


def as_json(change: Change) -> dict[str, Any]:
    """Convert a change to values for JSON."""
    measures = {"first": change.first.as_json(), "second": change.second.as_json()}
    return {"name": change.first.region.name, "share_change": change.share, **measures}


def check_aspect_ratios(labels: Sequence[str], shapes: Sequence[Sequence[int]]) -> None:
    """Raise `UserError` unless two pictures, (h, w) or more, have the same aspect ratio."""
    (height, width), (other_height, other_width) = shapes[0][:2], shapes[1][:2]
    scale = min(height / other_height, width / other_width)
    # Rounding can change a side by one pixel.
    if max(height - other_height * scale, width - other_width * scale) > 1:
        raise UserError(
            f"{labels[0]} is {width} pixels wide and {height} high, {labels[1]} is {other_width} "
            f"wide and {other_height} high; two designs need the same aspect ratio: crop or pad one of them"
        )


def measures_table(outcomes: Sequence[Outcome]) -> Table:
    """Make a table of the regions of each image, ordered by rank."""
    table = _table("image", "rank", "region", "share", "area", "share / area", "peak")
    for outcome in outcomes:
        for row, measured in enumerate(sorted(outcome.measures, key=lambda each: each.rank)):
            table.add_row(
                Text("" if row else outcome.input.label),
                str(measured.rank),
                Text(printable(measured.region.name)),
                f"{measured.share:.1%}",
                f"{measured.area:.1%}",
                f"{measured.ratio:.1f}",
                f"{measured.peak:.2f}",
            )
    return table


def changes_table(changes: Sequence[Change], names: Sequence[str]) -> Table:
    """Make a table of the regions of two designs, the one whose share grows most first."""
    table = _table("region", *map(printable, names), "change")
    for change in sorted(changes, key=lambda change: -change.share):
        table.add_row(
            Text(printable(change.first.region.name)),
            f"{change.first.share:.1%}",
            f"{change.second.share:.1%}",
            f"{round(100 * change.second.share, 1) - round(100 * change.first.share, 1):+.1f} pp",
        )
    return table


def _table(*titles: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in titles:
        is_text = title in ("image", "region")
        table.add_column(Text(title), justify="left" if is_text else "right", overflow="fold")
    return table
