"""Fixations of one image, and where they come from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Size = tuple[int, int]
Points = NDArray[np.int64]
"""(n, 2) of (y, x), pixels counted from 0."""
MAX_POINT_SHARE = 0.02
"""Fixated pixels are less than this share of an image; a map with more is a density."""
MARGIN_PX = 1
"""How far outside of its image a fixation may be to count for the pixel at the border: eye trackers, and those who
convert their files, count from 0 or from 1, and round."""


@dataclass(frozen=True)
class Gaze:
    """The fixations of one image."""

    points: Points
    """(n, 2) of (y, x) in pixels of the image, with repeats."""
    observers: NDArray[np.int64] | None
    """(n,): the observer of each point, counted from 0; None if observers are not told apart."""
    n_outside: int = 0
    """Fixations that the source has, but that are outside of the image."""
    n_blinks: int = 0
    """Fixations whose position is no number (NaN), as eye trackers write blinks."""
    is_pictured: bool = False
    """Whether a picture marks the fixated pixels, which shows no repeats."""

    @classmethod
    def inside(cls, points: NDArray[Any], observers: NDArray[np.int64] | None, size: Size) -> "Gaze":
        """Keep the points (n, 2), any numbers, that are in an image of `size`, and count the others."""
        values = np.asarray(points, np.float64)
        pixels, is_inside = inside(values, np.array(size))
        kept = None if observers is None else observers[is_inside]
        n_blinks = int(np.count_nonzero(np.isnan(values).any(axis=1)))
        return cls(pixels, kept, len(values) - len(pixels) - n_blinks, n_blinks)


def inside(points: NDArray[np.float64], sizes: NDArray[np.int64]) -> tuple[Points, NDArray[np.bool_]]:
    """The pixels of those points that are in their image, or less than `MARGIN_PX` outside: then at its border.

    Args:
        points: (n, 2) of (y, x), pixels counted from 0; any numbers, also NaN.
        sizes: (2,) or (n, 2) of (height, width).

    Returns:
        The pixels (m, 2), and (n,) which of the points they are of.
    """
    near = (points >= -MARGIN_PX) & (points < sizes + MARGIN_PX)  # False for NaN
    is_inside = near[:, 0] & near[:, 1]
    last = np.broadcast_to(sizes, points.shape)[is_inside] - 1
    return np.clip(np.floor(points[is_inside]).astype(np.int64), 0, last), is_inside


@dataclass(frozen=True)
class Fixations:
    """The fixations of one image, from a source that keeps those of many images in one file."""

    origin: str
    """Their place in messages."""
    read: Callable[[Size], Gaze]
    """The fixations in an image of this (h, w), in any thread while the source is open; raises `UserError`."""
