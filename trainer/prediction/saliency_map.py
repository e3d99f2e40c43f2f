"""A saliency map that knows on which screens it was seen."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from trainer.prediction.kinds import kind_of

Map = npt.NDArray[np.floating]


class Screen(NamedTuple):
    """A part of an image that a person sees at a time, with its own map."""

    rows: slice
    """Rows of the image's map."""
    map: Map
    """(rows, w), 0..1. Of several screens, each has the largest value 1."""


class SaliencyMap(np.ndarray[Any, np.dtype[np.float32]]):
    """A saliency map (h, w), float32 in 0..1: an array like any other, with what is known of its image.

    Where two screens overlap, it has the values of the upper one. What is computed from it, such as a part or its
    square, is a plain map of one screen.

    Example:
        >>> [screen.rows for screen in model.predict("long-page.png").screens]
        [slice(0, 800, None), slice(800, 1600, None), slice(1172, 1972, None)]
    """

    screens: tuple[Screen, ...]
    """From the top. Empty for what is computed from a map."""
    page: float
    """How much the image was seen as a page: 0 for a picture, 1 for a page, and in between for a mixture."""

    def __new__(cls, screens: Sequence[Screen], page: float = 0.0) -> Self:
        """Assemble the map of an image from those of its screens."""
        first, ends = screens[0].map, [0, *(screen.rows.stop for screen in screens)]
        parts = [screen.map[end - screen.rows.start :] for end, screen in zip(ends, screens, strict=False)]
        whole = (first if len(parts) == 1 else np.concatenate(parts)).view(cls)
        whole.screens, whole.page = tuple(screens), page
        return whole

    @property
    def kind(self) -> str:
        """What the image is more than half: PAGE or PICTURE."""
        return kind_of(self.page)

    def __array_finalize__(self, other: Any) -> None:
        self.screens, self.page = (), 0.0


def screens_of(map: Map) -> tuple[Screen, ...]:
    """Return the screens of a map (h, w): one for a map that knows of none.

    Example:
        >>> [screen.map.max() for screen in screens_of(model.predict("long-page.png"))]
        [1.0, 1.0, 1.0]
    """
    return getattr(map, "screens", ()) or (Screen(slice(0, map.shape[0]), map),)
