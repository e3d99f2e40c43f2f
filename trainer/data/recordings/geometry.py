"""How positions in tables become pixels of their images.

Example: (0.5, 0.5) in fractions of an image of 600 x 800 pixels (height x width) is the pixel (300, 400).
"""

import dataclasses
import re

import numpy as np
from numpy.typing import NDArray

from trainer.data.recordings.columns import CENTERED
from trainer.data.settings import (
    CENTER_FRACTION,
    CENTER_HEIGHT,
    CENTER_NORM,
    CENTER_PIXELS,
    DEGREES,
    FRACTION,
    PERCENT,
    PIXELS,
    THOUSANDTHS,
)
from trainer.data.source_layout import Points

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
SHARES = {FRACTION: 1.0, PERCENT: 0.01, THOUSANDTHS: 0.001, CENTER_FRACTION: 1.0, CENTER_NORM: 0.5}
"""Unit -> its share of a side of the image or the screen."""
DECIMALS = 9
"""Decimal places of a position in pixels. The rounding errors of a scaled screen are beyond them: they would put a
position at the edge outside of its image."""


@dataclasses.dataclass(frozen=True)
class Positions:
    """The positions of n fixations as their tables have them."""

    x: Floats
    """(n,)."""
    y: Floats
    """(n,)."""
    sizes: NDArray[np.int64]
    """(n, 2) of (height, width): the size of the image of each, pixels."""
    media: Floats | None = None
    """(n, 4) of (top, left, height, width): where the screen shows the image, pixels. None if this is unknown."""

    def exchanged(self) -> "Positions":
        """The positions with x and y exchanged."""
        return dataclasses.replace(self, x=self.y, y=self.x)

    def part(self, rows: slice | Mask | NDArray[np.int64]) -> "Positions":
        """The positions of some rows."""
        media = None if self.media is None else self.media[rows]
        return Positions(self.x[rows], self.y[rows], self.sizes[rows], media)


@dataclasses.dataclass(frozen=True)
class Geometry:
    """What positions mean: their unit, where its origin is, and where the screen shows the image."""

    unit: str
    """A unit of the setting `coordinates`, without auto."""
    upwards: bool
    """Whether y grows upwards."""
    screen: tuple[int, int] | None = None
    """(height, width) of the screen in pixels. None if it is not known, or if positions are on the image."""
    image_on_screen: str = "center"
    """Where the image is on the screen, in the form of the setting `image_on_screen`. Example: `fit`."""
    pixels_per_degree: float = 0.0
    uses_media: bool = False
    """Whether the tables themselves say where the screen shows the image (see `Positions.media`)."""

    def pixels(self, positions: Positions) -> tuple[Floats, Floats]:
        """(y, x), each (n,), in pixels of the images. Their upper left corner is (0, 0)."""
        height, width = positions.sizes.T.astype(np.float64)
        area_height, area_width = self.screen or (height, width)
        unit_y, unit_x = self._unit(np.asarray(area_height, np.float64), np.asarray(area_width, np.float64))
        x, y = positions.x * unit_x, positions.y * unit_y * (-1 if self.upwards else 1)
        if self.unit in CENTERED:
            x, y = x + np.divide(area_width, 2), y + np.divide(area_height, 2)
        elif self.upwards:
            y = area_height + y
        top, left, scale_y, scale_x = self._box(positions, height, width)
        return (y - top) / scale_y, (x - left) / scale_x

    def place(self, positions: Positions) -> tuple[Points, Mask]:
        """Find the pixels of the positions that are inside of their images.

        A position is inside if 0 <= x < width and 0 <= y < height. Its pixel is (floor(y), floor(x)).
        Example: (2.9, 0.5) is in the pixel (2, 0). A position that is not a number (NaN) is outside.
        Positions are rounded to `DECIMALS` places before.

        Returns:
            The pixels (m, 2) of (y, x) of the positions inside, and (n,) which positions these are.
        """
        points = np.stack(self.pixels(positions), axis=1).round(DECIMALS)
        in_range = (points >= 0) & (points < positions.sizes)
        is_inside = in_range[:, 0] & in_range[:, 1]
        return np.floor(points[is_inside]).astype(np.int64), is_inside

    def shares(self, positions: Positions) -> tuple[Floats, Floats]:
        """(y, x), each (n,), as shares of the sides of the images: 0 to 1 inside."""
        y, x = self.pixels(positions)
        return y / positions.sizes[:, 0], x / positions.sizes[:, 1]

    def _unit(self, height: Floats, width: Floats) -> tuple[Floats, Floats]:
        """The pixels of one unit of y and of x. `height` and `width` are the size of the image or screen.

        Example: one percent of a screen of 1080 x 1920 is 10.8 and 19.2 pixels.
        """
        if self.unit == DEGREES:
            return np.asarray(self.pixels_per_degree), np.asarray(self.pixels_per_degree)
        if self.unit == CENTER_HEIGHT:
            return height, height
        if self.unit in SHARES:
            return SHARES[self.unit] * height, SHARES[self.unit] * width
        return np.asarray(1.0), np.asarray(1.0)

    def _box(self, positions: Positions, height: Floats, width: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """The top and left of images on the screen, pixels, and their scales there (y, x)."""
        one = np.ones_like(height)
        if self.uses_media and positions.media is not None:
            top, left, shown_height, shown_width = positions.media.T
            scale_y = np.where(np.isfinite(shown_height), shown_height / height, 1)
            return top, left, scale_y, np.where(np.isfinite(shown_width), shown_width / width, 1)
        if match := re.fullmatch(r"(-?\d+),(-?\d+)(?:,(\d+)x(\d+))?", self.image_on_screen):
            left, top = float(match[1]) * one, float(match[2]) * one
            if match[3]:
                return top, left, float(match[3]) / height, float(match[4]) / width
            return top, left, one, one
        if self.screen is None:
            return 0 * one, 0 * one, one, one
        scale = (
            np.minimum(self.screen[0] / height, self.screen[1] / width) if self.image_on_screen == "fit" else one
        )
        return (self.screen[0] - scale * height) / 2, (self.screen[1] - scale * width) / 2, scale, scale

    @property
    def is_set(self) -> bool:
        """Whether it is known where images are on the screen."""
        return self.uses_media or self.screen is not None or "," in self.image_on_screen

    @property
    def text(self) -> str:
        """A description for people, such as `pixels of the image`."""
        left, top, size = (*self.image_on_screen.split(","), "", "")[:3]
        area = "the screen" if self.uses_media or (self.unit == PIXELS and top) else "the image"
        if self.screen is not None:
            area = f"a screen {self.screen[0]} pixels high and {self.screen[1]} wide"
        names = {
            PIXELS: f"pixels of {area}",
            FRACTION: f"fractions of {area}",
            PERCENT: f"percent of {area}",
            THOUSANDTHS: f"thousandths of {area}",
            CENTER_PIXELS: f"pixels from the centre of {area}",
            CENTER_FRACTION: f"fractions from the centre of {area}, -0.5 to 0.5",
            CENTER_NORM: f"-1 to 1 from the centre of {area}",
            CENTER_HEIGHT: f"heights of {area} from its centre",
            DEGREES: f"degrees from the centre of {area}, {self.pixels_per_degree:g} pixels each",
        }
        where = ""
        if self.uses_media:
            where = "the tables say where the screen showed the image"
        elif top:
            where = f"the image's upper left corner there is at x {left}, y {top}"
            where += f", its size there is {size}" if size else ""
        elif self.screen is not None:
            where = "the image is in its middle"
            where += ", enlarged to fill it" if self.image_on_screen == "fit" else ""
        return f"{names[self.unit]}{', y upwards' if self.upwards else ''}{f' ({where})' if where else ''}"
