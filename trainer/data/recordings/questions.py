"""The question about recordings whose meaning is not proven, with the ways to read them side by side."""

import dataclasses
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trainer.data.source_layout import Points
from trainer.errors import AmbiguousError
from trainer.pictures import Pixels

DRAWN_FIXATIONS = 60
DRAWN_IMAGES = 3
SHOWN_FIXATIONS = 3
"""Fixations of an option that its line in an error shows, each of another image."""


HOW = "Give a setting, or say it in reading.toml: `python -m trainer fetch --propose` writes one"
"""How such a question is answered."""


@dataclasses.dataclass(frozen=True)
class Option:
    """One way to read recordings."""

    text: str
    """What it takes the data for."""
    setting: str
    """The setting or the line of `reading.toml` that chooses it, or what to do."""
    rows: str
    """How many rows it would use, of how many."""
    fixations: dict[str, NDArray[np.float64]] = dataclasses.field(default_factory=dict)
    """Path of an image -> some of its fixations, (n, 2) of (y, x): in pixels, or as the tables have them if what
    they mean is not known yet."""

    @property
    def line(self) -> str:
        """What chooses it in `reading.toml`. Example: `unit = "percent"` for the setting `coordinates=percent`."""
        found = re.fullmatch(
            r"(coordinates|screen_size|columns)=(\S+|'.+')(?: image_on_screen=(\S+))?", self.setting
        )
        if found is None:
            return self.setting
        name, value, how = found.groups()
        if name == "columns":
            return ", ".join(
                f'{role} = "{column}"'
                for role, _, column in (p.partition("=") for p in value.strip("'").split(","))
            )
        named = {"coordinates": "unit", "screen_size": "screen"}[name]
        return f'{named} = "{value}"' + (f', image_on_screen = "{how}"' if how else "")


class AmbiguousReadingsError(AmbiguousError):
    """Recordings that can be read in several ways, with the ways side by side.

    `pictures` has some images for a page that draws them: path -> (h, w, 3) uint8 RGB.
    """

    def __init__(self, question: str, readings: Sequence[Option]) -> None:
        super().__init__("\n".join([f"{question}:", *(f"- {_line(option)}" for option in readings), HOW]))
        self.question = question
        self.readings = readings
        self.pictures: dict[str, Pixels] = {}


def _line(option: Option) -> str:
    first = [(image, points[0].tolist()) for image, points in option.fixations.items() if len(points)]
    where = " and ".join(f"x {x:g}, y {y:g} of {image}" for image, (y, x) in first[:SHOWN_FIXATIONS])
    return f"{option.text}: {option.rows}{f', such as at {where}' if where else ''} -> {option.setting}"


def drawn(points: Points, images: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """The first fixations of the first images, for a drawing. `images` has the image of each point, (n, 2)."""
    chosen: dict[str, list[NDArray[np.float64]]] = {}
    for image, point in zip(images, points, strict=True):
        if image in chosen or len(chosen) < DRAWN_IMAGES:
            own = chosen.setdefault(image, [])
            if len(own) < DRAWN_FIXATIONS:
                own.append(point)
    return {image: np.stack(own).astype(np.float64) for image, own in chosen.items()}
