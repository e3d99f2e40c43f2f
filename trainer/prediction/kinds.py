"""What kind of image a network sees, since a model may predict each kind at its own size.

Two things are read from the pixels, and neither depends on the shape of the image:

- How much it is a page. A page is drawn, and photographs are not. Charts and posters on a flat ground are pages.
- How large its text is. On a page of a desktop, text is small against the page's width. On a phone it is not.

A picture is every image that is no page. Between the two, both maps are mixed, so that none flips by a change that
nobody sees.
"""

import functools

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from trainer.network import PAGE, PICTURE
from trainer.prediction.screens import DESKTOP, DESKTOP_PX, PHONE, SCREENS, WHOLE

DRAWN = (0.01, 0.03)
"""Products of the share of flat places and the share of them that end at an edge: up to the first an image is a
picture, from the second on a page (research/log.md, 2026-11-29 "Kinds by content")."""
MOST_PX = 1600
"""Width above which an image is shrunk before it is looked at."""
RUN_PX = 8
"""Pixels of equal brightness in a row that are a flat place, and pixels behind its end that may have an edge."""
EDGE = 40
"""Least difference of brightness, 0..255, that is an edge."""
SMALL_TEXT = 0.018
"""Largest height of the lines of text on a desktop's page, divided by its width: 23 of 1280 pixels.

Lines of pages have .006 to .011, those of phones .025 and more, from the lowest to the highest stroke.
"""
STRIPS = 8
"""Strips into which an image is cut from left to right, and again half a strip further, to find lines of text."""
STROKES = 6
"""Least edges in a row of a strip that are a part of a line of text."""
THINNEST = 0.003
"""Least height of a line of text, divided by the image's width."""


def page_weight(image: NDArray[np.uint8]) -> float:
    """Return how much an image (h, w, 3) is a page: 0 for a picture, 1 for a page, and in between for both.

    A drawn image has many flat places that end at an edge, such as the ground around letters and boxes. In
    photographs few places are flat, and most of those fade away, such as a sky.
    """
    height, width = image.shape[:2]
    # Part by part, so that a long page needs little memory.
    parts = np.array_split(image, max(1, height // (2 * width)))
    drawn = float(np.mean([_drawn(_grey(part)) for part in parts]))
    first, last = np.log(DRAWN)
    step = float(np.clip((np.log(max(drawn, 1e-9)) - first) / (last - first), 0, 1))
    return step * step * (3 - 2 * step)


def kind_of(page: float) -> str:
    """Return what an image with this `page_weight` is more than half: PICTURE or PAGE. Half is a PAGE."""
    return PAGE if page >= 0.5 else PICTURE


def screen_of(image: NDArray[np.uint8], page: float) -> str:
    """Return what a person sees at a time of an image (h, w, 3) with this `page_weight`: of SCREENS, or WHOLE.

    A picture is seen as a whole. So is a page that is not higher than a screen.
    """
    height, width = image.shape[:2]
    if kind_of(page) == PICTURE or height <= SCREENS[DESKTOP] * width:
        return WHOLE
    return DESKTOP if width >= DESKTOP_PX and text_height(image) <= SMALL_TEXT else PHONE


def text_height(image: NDArray[np.uint8]) -> float:
    """Return the median height of the lines of text of an image (h, w, 3), divided by its width. 1 without text.

    A line is where rows of a strip have several edges beside each other.
    """
    grey = _grey(image).astype(np.int16)
    width = grey.shape[1]
    edges = np.pad(np.abs(np.diff(grey, axis=1)) > EDGE, ((1, 1), (0, 1)))
    bounds = [width * index // (2 * STRIPS) for index in range(2 * STRIPS)]
    halves = np.add.reduceat(edges, bounds, axis=1, dtype=np.int32)
    is_text = (halves[:, 1:] + halves[:, :-1]) >= STROKES
    steps = np.diff(is_text.astype(np.int8), axis=0).T
    heights = np.nonzero(steps == -1)[1] - np.nonzero(steps == 1)[1]  # strip by strip, from the top
    lines = heights[heights >= max(2, THINNEST * width)]
    return float(np.median(lines)) / width if lines.size else 1.0


def _grey(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The brightness of an image (h, w, 3), at most MOST_PX wide."""
    return np.asarray(Image.fromarray(image).reduce(-(-image.shape[1] // MOST_PX)).convert("L"))


def _drawn(grey: NDArray[np.uint8]) -> float:
    """The smaller of `_drawn_along_rows` of the rows and of the columns of an image (h, w)."""
    return min(_drawn_along_rows(grey), _drawn_along_rows(np.ascontiguousarray(grey.T)))


def _drawn_along_rows(grey: NDArray[np.uint8]) -> float:
    """The share of flat places of an image (h, w) times the share of them that end at an edge, row by row."""
    is_flat, steps = grey[:, 2:] == grey[:, 1:-1], 1
    while steps < RUN_PX:  # so many equal steps from pixel x + 1 on
        is_flat = is_flat[:, steps:] & is_flat[:, :-steps]
        steps *= 2
    if not is_flat[:, RUN_PX:].size:
        return 0.0  # too narrow to have a flat place with an end
    ends = np.flatnonzero(
        np.pad(is_flat[:, :-RUN_PX] & ~is_flat[:, 1 : 1 - RUN_PX], ((0, 0), (0, 2 * RUN_PX + 1)))
    )
    behind = [grey.ravel()[ends + 1 + RUN_PX + offset] for offset in range(RUN_PX)]
    is_edge = functools.reduce(np.maximum, behind) - functools.reduce(np.minimum, behind) > EDGE
    return float(is_flat.mean() * np.count_nonzero(is_edge) / max(ends.size, 1))
