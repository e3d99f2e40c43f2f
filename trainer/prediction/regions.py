"""How much attention falls into rectangles of an image. No TensorFlow needed."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer.errors import UserError

FORM = "NAME:X,Y,WIDTH,HEIGHT in pixels from the top left, logo:20,10,200,80, or all in percent, logo:5%,2%,20%,8%"


@dataclasses.dataclass(frozen=True)
class Region:
    """A named rectangle, in pixels of the image from its top left."""

    name: str
    x: float
    y: float
    width: float
    height: float
    percent: bool = False
    """Whether the numbers are percentages of the image's width and height."""

    def box(self, size: tuple[int, int], image: str = "the image") -> tuple[slice, slice]:
        """Its rows and columns in an image of `size` (h, w), one pixel at least.

        Raises:
            UserError: it leaves the image, which the message calls `image`.
        """
        height, width = size
        sides = (self.x, self.width, width), (self.y, self.height, height)
        if self.percent:
            sides = tuple((start * whole / 100, length * whole / 100, whole) for start, length, whole in sides)  # type: ignore[assignment]
        # A hundredth of a pixel is what percentages may be off by.
        if any(start < 0 or start + length > whole + 0.01 for start, length, whole in sides):
            raise UserError(
                f"region {self} leaves {image}, which is {width} pixels wide and {height} high; move it inside"
            )
        columns, rows = (_pixels(*side) for side in sides)
        return rows, columns

    def __str__(self) -> str:
        sign = "%" if self.percent else ""
        numbers = (self.x, self.y, self.width, self.height)
        return f"{self.name}:" + ",".join(f"{each:g}{sign}" for each in numbers)


@dataclasses.dataclass(frozen=True)
class Measure:
    """What falls into a region."""

    region: Region
    share: float
    """Of the sum of the map, 0..1."""
    area: float
    """Of the image's pixels, 0..1."""
    ratio: float
    """share / area: 1 is what the region would have if attention were spread evenly."""
    peak: float
    """Largest value in it over the largest of the image, 0..1."""
    peak_at: tuple[int, int]
    """(y, x) of that value, pixels of the image."""
    rank: int
    """1 for the region with the largest share; equal shares have equal ranks."""

    def as_json(self) -> dict[str, Any]:
        """For a machine to read."""
        numbers = dataclasses.asdict(self)
        return {"name": self.region.name, **numbers, "region": str(self.region)}


def parse_region(text: str) -> Region:
    """The region that `name:x,y,width,height` names, in pixels or all in percent.

    Raises:
        UserError: if it is written otherwise, or is empty.
    """
    name, _, numbers = text.rpartition(":")
    parts = [part.strip() for part in numbers.split(",")]
    percent = all(part.endswith("%") for part in parts)
    try:
        x, y, width, height = (float(part.removesuffix("%") if percent else part) for part in parts)
    except ValueError:
        raise UserError(f"region {text!r} is not {FORM}") from None
    if not name.strip() or not all(map(math.isfinite, (x, y, width, height))):
        raise UserError(f"region {text!r} is not {FORM}")
    if width <= 0 or height <= 0:
        raise UserError(f"region {text!r} is empty, its width or height is not above 0; it is {FORM}")
    return Region(name.strip(), x, y, width, height, percent)


def measure(map: npt.NDArray[np.floating], regions: Sequence[Region]) -> list[Measure]:
    """Measure a saliency map (h, w), 0 or above, in each region, in their order.

    Raises:
        UserError: a region leaves the image.
    """
    size = (map.shape[0], map.shape[1])
    total, largest = float(map.sum(dtype=np.float64)), float(map.max())
    found = []
    for region in regions:
        rows, columns = region.box(size)
        inside = map[rows, columns]
        # A map that is 0 everywhere prefers nothing.
        area = inside.size / map.size
        share = float(inside.sum(dtype=np.float64)) / total if total else area
        y, x = np.unravel_index(inside.argmax(), inside.shape)
        peak = float(inside[y, x]) / largest if largest else 0.0
        at = (rows.start + int(y), columns.start + int(x))
        found.append(Measure(region, share, area, share / area, peak, at, 0))
    return [dataclasses.replace(each, rank=1 + sum(o.share > each.share for o in found)) for each in found]


def _pixels(start: float, length: float, whole: int) -> slice:
    first = min(round(start), whole - 1)
    return slice(first, min(whole, max(first + 1, round(start + length))))
