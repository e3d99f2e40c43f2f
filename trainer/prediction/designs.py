"""Two designs of one thing: which parts get more or less attention in the second."""

import dataclasses
import os
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from trainer.errors import UserError
from trainer.files import replacing
from trainer.picture import Pixels
from trainer.prediction import render
from trainer.prediction.inputs import Input, shown
from trainer.prediction.predict import open_input
from trainer.prediction.regions import Measure, Region, measure

if TYPE_CHECKING:
    from trainer.prediction.predictor import Predictor


@dataclasses.dataclass(frozen=True)
class Change:
    """What falls into one region of two designs."""

    first: Measure
    second: Measure

    @property
    def share(self) -> float:
        """How much larger the second one's share is, -1..1."""
        return self.second.share - self.first.share


def read_designs(designs: tuple[Input, Input], regions: Sequence[Region], most_pixels: int) -> list[Pixels]:
    """The pixels of two designs, (h, w, 3) each.

    Args:
        designs: the first and the second.
        regions: in pixels of the first.
        most_pixels: a larger image is refused.

    Raises:
        UserError: an image cannot be read, their aspect ratios differ, or a region leaves the first.
    """
    images = [open_input(each, most_pixels).decode() for each in designs]
    _check_aspect_ratios(designs, [image.shape for image in images])
    for region in regions:
        region.box(images[0].shape[:2], designs[0].shown)
    return images


def compare_designs(
    predictor: "Predictor",
    designs: tuple[Input, Input],
    images: Sequence[Pixels],
    regions: Sequence[Region],
    picture: str | os.PathLike[str] | None,
) -> list[Change]:
    """Predict two designs and measure where their maps differ.

    Args:
        predictor: the network.
        designs: the first and the second. Where their sizes differ, the second's map is resized to the first's.
        images: what `read_designs` made of them.
        regions: in pixels of the first.
        picture: PNG to write, if any: the difference over the second design, each map divided by its mean.

    Returns:
        A change for each region.
    """
    size = (images[0].shape[0], images[0].shape[1])
    predictions = predictor.predict_prepared(np.stack([predictor.prepare(image) for image in images]))
    maps = [predictor.restore(prediction, size) for prediction in predictions]
    if picture is not None:
        second = images[1]
        if second.shape != images[0].shape:
            second = np.asarray(Image.fromarray(second).resize(size[::-1], Image.Resampling.LANCZOS))
        names = [shown(pathlib.PurePath(each.key).name) for each in designs]
        change = maps[1] / max(maps[1].mean(), 1e-12) - maps[0] / max(maps[0].mean(), 1e-12)
        with replacing(picture) as partial:
            Image.fromarray(render.draw_difference(second, change, names)).save(partial, "PNG")
    return [Change(*pair) for pair in zip(*(measure(each, regions) for each in maps), strict=True)]


def as_json(change: Change) -> dict[str, Any]:
    """A change for a machine to read."""
    measures = {"first": change.first.as_json(), "second": change.second.as_json()}
    return {"name": change.first.region.name, "share_change": change.share, **measures}


def _check_aspect_ratios(designs: tuple[Input, Input], shapes: Sequence[Sequence[int]]) -> None:
    (height, width), (other_height, other_width) = shapes[0][:2], shapes[1][:2]
    scale = min(height / other_height, width / other_width)
    # One pixel is what rounding may do to a side.
    if max(height - other_height * scale, width - other_width * scale) > 1:
        raise UserError(
            f"{designs[0].shown} is {width} pixels wide and {height} high, {designs[1].shown} {other_width} and "
            f"{other_height}, another aspect ratio: their places do not correspond; cut or pad one of them"
        )
