"""Recordings that can be read in several ways: the readings, for a user to choose one."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trainer.errors import UserError
from trainer.io.pictures import Pixels

SHOWN_FIXATIONS = 3
"""Fixations of a reading that its line in an error shows, each of another image."""


@dataclasses.dataclass(frozen=True)
class Reading:
    """One way to read the recordings."""

    text: str
    """What it takes the data for."""
    setting: str
    """The setting that chooses it, or what to do."""
    rows: str
    """How many rows it would use, of how many."""
    fixations: dict[str, NDArray[np.float64]]
    """Path of an image -> some of its fixations, (n, 2) of (y, x): in pixels, or as the tables have them if what
    they mean is not known yet."""


class AmbiguousError(UserError):
    """Recordings that can be read in several ways, with the readings side by side.

    `pictures` has some images for a page that draws the readings: path -> (h, w, 3) uint8 RGB.
    """

    def __init__(self, question: str, readings: Sequence[Reading]) -> None:
        super().__init__("\n".join([f"{question}:", *(f"- {_line(reading)}" for reading in readings)]))
        self.question = question
        self.readings = readings
        self.pictures: dict[str, Pixels] = {}


def _line(reading: Reading) -> str:
    first = [(image, points[0].tolist()) for image, points in reading.fixations.items() if len(points)]
    where = "; ".join(f"x {x:g}, y {y:g} of {image}" for image, (y, x) in first[:SHOWN_FIXATIONS])
    return f"{reading.text}: {reading.rows}{f', such as at {where}' if where else ''} -> {reading.setting}"
