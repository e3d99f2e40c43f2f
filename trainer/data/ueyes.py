"""Read the tables of UEyes: the logs of its eye tracker, and the authors' split.

Each person looked at blocks of 36 images, 7 s at each. A log has the fixations of one person in one block.
Positions are shares of a screen of 1920 x 1200 pixels. In its middle each image was as large as fits. So the
authors compute them (github.com/YueJiang-nj/UEyes-CHI2023 at 7bc0641, data_processing/generate_heatmaps.py),
and their maps of images in that repository agree. These maps are of BPOGX and BPOGY, the gaze when a fixation
has ended. FPOGX and FPOGY, which are read here, are the mean of the fixation.

It runs in the worker of `trainer.machine.untrusted`: `trainer.data.source_layout` sends it the bytes of a table.
"""

import csv
import io
import math
import pathlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from trainer.data.recordings.geometry import Geometry, Positions
from trainer.data.settings import FRACTION
from trainer.data.source_layout import Fixations, Gaze, Size

GEOMETRY = Geometry(FRACTION, upwards=False, screen=(1200, 1920), image_on_screen="fit")
SPLITS = {"train": "train", "test": "valid"}
"""The authors' split, in lower case -> the split of this project. Their test images validate."""


@dataclass(frozen=True)
class ScreenFixations(Fixations):
    """Fixations whose `points` are (n, 2) of (y, x) as shares of the screen."""

    def read(self, size: Size) -> Gaze:
        """The fixations in an image of this (h, w)."""
        positions = Positions(self.points[:, 1], self.points[:, 0], np.tile(np.array(size), (len(self.points), 1)))
        pixels, is_inside = GEOMETRY.place(positions)
        n_blinks = int(np.count_nonzero(np.isnan(self.points).any(axis=1)))
        observers = None if self.observers is None else self.observers[is_inside]
        return Gaze(pixels, observers, len(self.points) - len(pixels) - n_blinks, n_blinks)


def read_log(origin: str, content: bytes) -> dict[str, Fixations]:
    """The fixations of one person, by the images' names in lower case without their endings.

    `origin` is the name of the log in messages.
    """
    images: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in _rows(content, ","):
        if _number(row["FPOGV"]) == 1:
            images[_key(row["MEDIA_NAME"])].append((_number(row["FPOGY"]), _number(row["FPOGX"])))
    return {
        key: ScreenFixations(f"the fixations of {key} in {origin}", np.array(shares), None)
        for key, shares in images.items()
    }


def read_splits(content: bytes) -> dict[str, str]:
    """The split of each image, by the keys of `read_log`. Example: `train` and `test` in the authors' table."""
    return {_key(row["Image Name"]): SPLITS[row["Train/Test"].lower()] for row in _rows(content, ";")}


def _rows(content: bytes, delimiter: str) -> Iterable[dict[str, str]]:
    return csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""), delimiter=delimiter)


def _key(name: str) -> str:
    return pathlib.PurePosixPath(name.strip().lower()).stem


def _number(text: str) -> float:
    return float(text) if text else math.nan
