"""The screens of a page: what a person sees of it at a time while scrolling. Needs no TensorFlow.

A page that is higher than a screen is predicted screen by screen, from the top, and the last screen ends where
the page ends. So nothing that stands below a screen changes what is predicted in it. Nothing says how many people
get to a screen, so values of two screens cannot be compared: a figure is of one screen or a mean of all.
"""

from collections.abc import Sequence

WHOLE, DESKTOP, PHONE = "whole", "desktop", "phone"
SCREENS = {DESKTOP: 0.625, PHONE: 2.4}
"""Kind of screen -> its height, divided by its width. A phone's is that of the longest phones."""
DESKTOP_PX = 640
"""Least width of a page that may be a desktop's: half of its screen's."""
NARROWEST_PX = 320
"""Width of the narrowest phones. A narrower image is no page: it is whole, such as a tall banner."""


def rows_of_screens(size: Sequence[int], screen: str) -> list[slice]:
    """Return the rows of each screen of an image, from the top.

    All screens of an image are equally high. The last one ends with the image, so it may begin in the one before.

    Example:
        >>> rows_of_screens((1000, 1280), "desktop")
        [slice(0, 800, None), slice(200, 1000, None)]

    Args:
        size: (h, w) of the image, pixels.
        screen: of SCREENS. WHOLE for an image that is seen at once.
    """
    height, width = size[:2]
    step = height if screen == WHOLE or width < NARROWEST_PX else round(SCREENS[screen] * width)
    last = max(0, height - step)
    return [slice(top, min(top + step, height)) for top in (*range(0, last, step), last)]
