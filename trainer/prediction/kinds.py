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
"""Width above which an image is shrunk before lines are looked for."""
RUN_PX = 40
"""Length of a line."""
STEP, TOLERANCE = 12, 3
"""Least change of brightness, 0..255, from one side of a line to the other, and how far it may vary along it."""
FEWEST_LINES = 0.0006
"""Least share of places at which a line begins, across and down, on a page: of 51 web pages, also as JPEG and
scaled, 49 have more, and of 662 photographs of nine sets 4, three of them from a set of scenes in a frame
(research/log.md)."""


def kind_of(image: NDArray[np.uint8], is_page: bool = False) -> str:
    """Return the kind of an image (h, w, 3): a page has a desktop screen's shape and is drawn.

    Drawn images have straight lines along both axes whose contrast stays the same over tens of pixels, such as
    borders of boxes. In photographs, light and texture vary along a line.

    Args:
        image: (h, w, 3) RGB.
        is_page: whether somebody knows that it is the picture of a page, such as the browser that took it.
    """
    rows = screens_of(image.shape)[0]
    ratio = image.shape[1] / (rows.stop - rows.start)
    is_wide = image.shape[1] >= DESKTOP_PX and WIDE[0] <= ratio <= WIDE[1]
    return PAGE if is_wide and (is_page or _is_drawn(image)) else PICTURE


def _is_drawn(image: NDArray[np.uint8]) -> bool:
    grey = Image.fromarray(image).reduce(-(-image.shape[1] // MOST_PX)).convert("L")
    brightness = np.asarray(grey, np.int16)
    return min(_share_of_lines(brightness), _share_of_lines(brightness.T)) >= FEWEST_LINES


def _share_of_lines(brightness: NDArray[np.int16]) -> float:
    """The share of places at which a line goes on for RUN_PX along the second axis."""
    steps = np.diff(brightness, axis=0)
    goes_on = (np.abs(np.diff(steps, axis=1)) <= TOLERANCE) & (np.abs(steps[:, 1:]) > STEP)
    until = np.cumsum(goes_on, axis=1, dtype=np.int32)
    return float((until[:, RUN_PX:] - until[:, :-RUN_PX] == RUN_PX).mean())
