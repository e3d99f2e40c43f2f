"""Which kind of image a network sees, since a model may predict each kind at its own size.

A page on a desktop's screen has small text and many parts: it is predicted best at a larger size than pictures,
which are all other images: photographs, posters, charts, and screens of phones.
"""

import functools

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from trainer.network import PAGE, PICTURE
from trainer.prediction.screens import DESKTOP_PX, count_screens, rows_of_screens

WIDE = (1.4, 2.4)
"""Least and largest ratio of width and height of a desktop's screen, with or without the frame of the browser."""
MOST_PX = 1600
"""Width above which an image is shrunk before it is looked at."""
RUN_PX = 8
"""Pixels of equal brightness in a row that are a flat place, and pixels behind its end that may have an edge."""
EDGE = 40
"""Least difference of brightness, 0..255, that is an edge."""
DRAWN = 0.015
"""Least product, in a drawn image, of the share of flat places and the share of them that end at an edge.

49 of 51 web pages of FiWI have more, also as JPEG, and 2 of 151 photographs of a screen's shape (research/log.md,
2026-11-27 "Pages told from photographs").
"""


def kind_of(image: NDArray[np.uint8], is_page: bool = False, n_screens: int = 0) -> str:
    """Return the kind of an image (h, w, 3): a page has a desktop screen's shape and is drawn.

    A drawn image has many flat places that end at an edge, such as the ground around letters and boxes. In
    photographs few places are flat, and most of those fade away, such as a sky.

    Args:
        image: (h, w, 3) RGB.
        is_page: whether somebody knows that it is the picture of a page, such as the browser that took it. Then a
            desktop's width is enough.
        n_screens: into how many screens it is cut. Each has the shape then. 0 to decide by its size.
    """
    height, width = image.shape[:2]
    if width < DESKTOP_PX:
        return PICTURE
    if is_page:
        return PAGE
    screens = rows_of_screens(height, n_screens or count_screens(image.shape))
    if not WIDE[0] <= width / (screens[0].stop - screens[0].start) <= WIDE[1]:
        return PICTURE
    # Screen by screen, so that a long page needs little memory.
    return PAGE if np.mean([_drawn(image[rows]) for rows in screens]) >= DRAWN else PICTURE


def _drawn(image: NDArray[np.uint8]) -> float:
    """The smaller of `_drawn_along_rows` of the rows and of the columns of an image (h, w, 3)."""
    grey = np.asarray(Image.fromarray(image).reduce(-(-image.shape[1] // MOST_PX)).convert("L"))
    return min(_drawn_along_rows(grey), _drawn_along_rows(grey.T))


def _drawn_along_rows(grey: NDArray[np.uint8]) -> float:
    """The share of flat places of an image (h, w) times the share of them that end at an edge, row by row."""
    equal = np.cumsum(grey[:, 1:] == grey[:, :-1], axis=1, dtype=np.int32)
    is_flat = equal[:, RUN_PX:] - equal[:, :-RUN_PX] == RUN_PX  # the RUN_PX steps to pixel x + 1 + RUN_PX
    ends = is_flat[:, :-RUN_PX] & ~is_flat[:, 1 : 1 - RUN_PX]
    behind = [grey[:, 1 + RUN_PX + offset :][:, : ends.shape[1]] for offset in range(RUN_PX)]
    is_edge = functools.reduce(np.maximum, behind) - functools.reduce(np.minimum, behind) > EDGE
    return float(is_flat.mean() * (ends & is_edge).sum() / max(ends.sum(), 1))
