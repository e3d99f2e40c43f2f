"""Fixations of one image, and where they come from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Size = tuple[int, int]
Points = NDArray[np.int64]
"""(n, 2) of (y, x), pixels counted from 0."""


@dataclass(frozen=True)
class Gaze:
    """The fixations of one image."""

    points: Points
    """In pixels of the image, with repeats."""
    observers: NDArray[np.int64] | None
    """(n,): the observer of each point, counted from 0; None if observers are not told apart."""
    n_left_out: int = 0
    """Fixations that the source has, but that are outside of the image or not numbers."""

    @classmethod
    def inside(cls, points: NDArray[Any], observers: NDArray[np.int64] | None, size: Size) -> "Gaze":
        """Those of the `points` (n, 2), any numbers, that are in an image of `size`, cut to whole pixels."""
        whole = np.trunc(np.asarray(points, np.float64))
        is_inside = ((whole >= 0) & (whole < size)).all(axis=1)  # False for NaN
        kept = None if observers is None else observers[is_inside]
        return cls(whole[is_inside].astype(np.int64), kept, int(np.count_nonzero(~is_inside)))


@dataclass(frozen=True)
class Fixations:
    """The fixations of one image, from a source that keeps those of many images in one file."""

    origin: str
    """Their place in messages."""
    read: Callable[[Size], Gaze]
    """The fixations in an image of this (h, w), in any thread while the source is open; raises `UserError`."""
