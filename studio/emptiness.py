"""Tells a map that says nothing about its design: it is nearly the map of an empty one."""

import functools
from collections.abc import Sequence

import numpy as np

from studio.difference import CLEAR_MOVED, Map, Pixels, share_moved
from trainer.api import Model, SaliencyMap


def empty_screens(model: Model, image: Pixels, map: SaliencyMap) -> list[int]:
    """Return the screens, 1 for the top, on which a map is nearly that of an empty image. An image not cut is 1.

    The empty image has the size and the median colour of the screen. For `pretrained`, at most 10% of the
    attention is elsewhere on maps of plain grounds, gradients and a page with one word at the top, and at least
    25% on those of 33 designs and photographs.

    Args:
        model: that predicted the map.
        image: (h, w, 3) RGB.
        map: its map (h, w), 0..1.
    """

    @functools.cache  # most screens of a page have one ground
    def map_of_blank(height: int, *ground: int) -> Map:
        blank = np.full((height, image.shape[1], 3), ground, np.uint8)
        return model.predict(blank, "whole", map.page)

    found = []
    for number, (rows, seen) in enumerate(map.screens, 1):
        ground = np.median(image[rows].reshape(-1, 3), axis=0).astype(np.uint8).tolist()
        if share_moved(seen, map_of_blank(rows.stop - rows.start, *ground)) <= CLEAR_MOVED:
            found.append(number)
    return found


def sentence_about(screens: Sequence[int], n_screens: int, label: str) -> str:
    """Say what `empty_screens` returned for a design of `n_screens` screens. Empty if it returned none.

    Example:
        >>> sentence_about([3], 5, "page.png")
        'the map of page.png, screen 3, is nearly that of an empty page: its figures say nothing about the content'
    """
    numbers = ", ".join(map(str, screens))
    which = f", screen{'s' if screens[1:] else ''} {numbers}," if n_screens > 1 else ""
    said = f"the map of {label}{which} is nearly that of an empty page: its figures say nothing about the content"
    return said if screens else ""
