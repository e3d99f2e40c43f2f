"""Which kind of image a network sees, since a model may predict each kind at its own size.

A page on a desktop's screen has small text and many parts: it is predicted best at a larger size than pictures,
which are all other images: photographs, posters, charts, and screens of phones.
"""

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from trainer.models.model_folder import PAGE, PICTURE
from trainer.prediction.screens import DESKTOP_PX, screens_of

WIDE = (1.4, 2.4)
"""Least and largest ratio of width and height of a desktop's screen, with or without the frame of the browser."""
MOST_PX = 1600
"""Width above which an image is shrunk before it is looked at."""
RUN_PX = 8
"""Pixels of equal brightness in a row that are a flat place, and pixels behind its end that may have an edge."""
EDGE = 40
"""Least difference of brightness, 0..255, that is an edge."""
DRAWN = 0.015
"""Least product of the shares of flat places and of those that end at an edge in a drawn image.

49 of 51 web pages of FiWI have more, also as JPEG, and 2 of 151 photographs of a screen's shape (research/log.md,
2026-11-27 "Pages told from photographs").
"""


def kind_of(image: NDArray[np.uint8], is_page: bool = False) -> str:
    """Return the kind of an image (h, w, 3): a page has a desktop screen's shape and is drawn.

    A drawn image has many flat places that end at an edge, such as the ground around letters and boxes. In
    photographs few places are flat, and most of those fade away, such as a sky.

    Args:
        image: (h, w, 3) RGB.
        is_page: whether somebody knows that it is the picture of a page, such as the browser that took it.
    """
    rows = screens_of(image.shape)[0]
    ratio = image.shape[1] / (rows.stop - rows.start)
    is_wide = image.shape[1] >= DESKTOP_PX and WIDE[0] <= ratio <= WIDE[1]
    return PAGE if is_wide and (is_page or _is_drawn(image)) else PICTURE


def _is_drawn(image: NDArray[np.uint8]) -> bool:
    grey = np.asarray(Image.fromarray(image).reduce(-(-image.shape[1] // MOST_PX)).convert("L"))
    return min(_drawn_along_rows(grey), _drawn_along_rows(grey.T)) >= DRAWN


def _drawn_along_rows(grey: NDArray[np.uint8]) -> float:
    """The share of flat places of an image (h, w) times the share of them that end at an edge, row by row."""
    equal = np.cumsum(grey[:, 1:] == grey[:, :-1], axis=1, dtype=np.int32)
    is_flat = equal[:, RUN_PX:] - equal[:, :-RUN_PX] == RUN_PX  # the RUN_PX steps to pixel x + 1 + RUN_PX
    ends = is_flat[:, :-RUN_PX] & ~is_flat[:, 1 : 1 - RUN_PX or None]
    behind = [grey[:, 1 + RUN_PX + offset :][:, : ends.shape[1]] for offset in range(RUN_PX)]
    is_edge = np.maximum.reduce(behind) - np.minimum.reduce(behind) > EDGE
    return float(is_flat.mean() * (ends & is_edge).sum() / max(ends.sum(), 1))
