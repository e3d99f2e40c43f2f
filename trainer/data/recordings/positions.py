"""Positions of fixations as tables have them, and the pixels of the images where they are."""

import dataclasses
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trainer.config import FetchConfig, parse_screen_size
from trainer.data.recordings.columns import DEGREES, FRACTION, IMAGE, PIXELS, SCREEN, Columns
from trainer.errors import UserError

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Geometry:
    """How positions become pixels of their image."""

    unit: str
    """PIXELS, FRACTION or DEGREES."""
    upwards: bool
    """Whether y grows upwards."""
    screen: tuple[int, int] | None
    """(height, width) of the screen in pixels; None if it is not known or positions are on the image."""
    place: str
    """Where the image is on the screen, in the form of the setting `image_on_screen`."""
    pixels_per_degree: float

    @classmethod
    def of(cls, config: FetchConfig, unit: str, upwards: bool) -> "Geometry":
        """The geometry by the settings, for positions in `unit`; raises `UserError` if a setting is missing."""
        screen = parse_screen_size(config.screen_size) if config.screen_size else None
        if unit == DEGREES and not config.pixels_per_degree:
            raise UserError(
                "the positions are in degrees of visual angle; set pixels_per_degree, the pixels of one degree, "
                "to turn them into pixels"
            )
        if unit == FRACTION and screen is None and "," in config.image_on_screen:
            raise UserError("image_on_screen is given for fractions of the screen; set screen_size too")
        return cls(unit, upwards, screen, config.image_on_screen, config.pixels_per_degree)

    def pixels(self, x: Floats, y: Floats, sizes: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """(y, x) in pixels of the images, whose upper left corner is (0, 0).

        Args:
            x: (n,), in the unit.
            y: (n,), in the unit.
            sizes: (n, 2): (height, width) of each position's image, pixels.
        """
        height, width = sizes.T.astype(np.float64)
        area_height, area_width = self.screen or (height, width)
        if self.unit == FRACTION:
            x, y = x * area_width, y * area_height
        elif self.unit == DEGREES:
            # The origin is the centre.
            x, y = x * self.pixels_per_degree, y * self.pixels_per_degree
            x, y = x + np.divide(area_width, 2), (-y if self.upwards else y) + np.divide(area_height, 2)
        if self.upwards and self.unit != DEGREES:
            y = area_height - y
        top, left, scale_y, scale_x = self._box(height, width)
        return (y - top) / scale_y, (x - left) / scale_x

    def _box(self, height: Floats, width: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """The top and left of images on the screen, pixels, and their scales there (y, x)."""
        one = np.ones_like(height)
        if match := re.fullmatch(r"(-?\d+),(-?\d+)(?:,(\d+)x(\d+))?", self.place):
            left, top = float(match[1]) * one, float(match[2]) * one
            if match[3]:
                return top, left, float(match[3]) / height, float(match[4]) / width
            return top, left, one, one
        if self.screen is None:
            return 0 * one, 0 * one, one, one
        scale = np.minimum(self.screen[0] / height, self.screen[1] / width) if self.place == "fit" else one
        return (self.screen[0] - scale * height) / 2, (self.screen[1] - scale * width) / 2, scale, scale

    @property
    def is_set(self) -> bool:
        """Whether the settings say where images are on the screen."""
        return self.screen is not None or "," in self.place

    @property
    def swapped(self) -> "Geometry":
        """The geometry with the height and the width of the screen exchanged."""
        return dataclasses.replace(self, screen=self.screen and self.screen[::-1])

    @property
    def text(self) -> str:
        """A description for people, such as `pixels of the image`."""
        area = "the image"
        if self.unit == PIXELS and "," in self.place:
            area = "the screen"
        if self.screen is not None:
            area = f"a screen {self.screen[0]} pixels high and {self.screen[1]} wide"
        names = {
            PIXELS: f"pixels of {area}",
            FRACTION: f"fractions of {area}",
            DEGREES: f"degrees from the centre of {area}, {self.pixels_per_degree:g} pixels each",
        }
        where = ""
        if "," in self.place:
            left, top, *size = self.place.split(",")
            where = f"; the image's upper left corner there is at x {left}, y {top}"
            where += f", its size there is {size[0]}" if size else ""
        elif self.screen is not None:
            where = "; the image is in its middle" + (", enlarged to fill it" if self.place == "fit" else "")
        return f"{names[self.unit]}{', y upwards' if self.upwards else ''}{where}"


def guess_unit(x: Floats, y: Floats) -> str:
    """Guess the unit of positions: FRACTION if nearly all are near 0..1, else PIXELS.

    Raises:
        UserError: the positions can only be degrees.
    """
    if not len(x):
        return PIXELS
    low, high = (np.quantile(np.concatenate([x, y]), share) for share in (0.01, 0.99))
    if low >= -1 and high <= 2 and (x != np.floor(x)).any():
        return FRACTION
    if np.mean(x < 0) > 0.2 and np.mean(y < 0) > 0.2 and max(-low, high) < 90:
        raise UserError(
            f"the positions (x {x.min():.4g} to {x.max():.4g}, y {y.min():.4g} to {y.max():.4g}) look like "
            "degrees of visual angle; set coordinates=degrees and pixels_per_degree, or coordinates=pixels"
        )
    return PIXELS


def geometry_of(config: FetchConfig, tables: Sequence[Columns], x: Floats, y: Floats) -> tuple[Geometry, str]:
    """The geometry of the positions in all tables, and a sentence that says why they were taken so.

    Args:
        config: the settings.
        tables: the columns of each table.
        x: (n,), the positions in all tables, in their unit.
        y: (n,), in their unit.

    Raises:
        UserError: tables have positions of different kinds, or the settings do not fit them.
    """
    units = {table.unit for table in tables} - {""}
    unit, why = config.coordinates, "by the setting"
    unknown = sorted({table.unknown_unit for table in tables} - {""})
    if unit == "auto" and unknown:
        raise UserError(
            f"the names of the columns give positions in {unknown[0]!r}, which is no unit that can be turned into "
            "pixels of the images; convert them, and correct the names, or set coordinates to what the numbers are"
        )
    if unit == "auto" and len(units) > 1:
        raise UserError(
            f"the tables have positions in {' and in '.join(sorted(units))}; prepare each kind by itself"
        )
    if unit == "auto":
        unit, why = (units.pop(), "by the columns' names") if units else (guess_unit(x, y), "by their values")
    if len({table.upwards for table in tables}) > 1:
        raise UserError("y grows upwards in some tables and downwards in others; prepare each kind by itself")
    if config.screen_size and any(table.on == IMAGE for table in tables):
        raise UserError(
            "the names of the columns say that positions are on the image, but screen_size is given; leave it "
            "out, or name other columns with `columns`"
        )
    geometry = Geometry.of(config, unit, tables[0].upwards)
    if geometry.is_set:
        why = "as set" if unit == config.coordinates else f"the unit {why}, the screen as set"
    return geometry, f"Positions were taken as {geometry.text} ({why})."


def on_screen_hint(tables: Sequence[Columns], geometry: Geometry) -> list[str]:
    """A list with a warning if the columns say that positions are on the screen, and the settings do not."""
    if all(table.on != SCREEN for table in tables) or geometry.is_set:
        return []
    return [
        "The columns' names say that positions are on the screen; they were taken as positions on the image, "
        "which is right only if each image filled the screen: otherwise set screen_size and image_on_screen."
    ]
