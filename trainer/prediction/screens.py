"""Cuts a long page into screens, since nobody sees it at once. Needs no TensorFlow.

Whatever predicts or measures an image asks `count_screens` first: `predict`, `check`, the demo's page and
`trainer.api`. A screen is predicted alone, and its map's largest value becomes 1. Nothing says how many people get
to a screen, so values of two screens cannot be compared, and a figure is always of one screen or a mean of all.
"""

import itertools
from collections.abc import Sequence

SCREENS = {"desktop": (800, 1280), "phone": (844, 390)}
"""Kind of screen -> (h, w), pixels. A page is cut into parts of about these proportions."""
ONE_SCREEN = 2.4
"""Largest ratio of height and width of a phone's screen. An image up to it may be one screen, and is not cut."""
TALL = 1.5
"""Ratio of height and width above which an image is cut if somebody says that it is a page."""
NARROWEST_PX = 320
"""Width of the narrowest phones. A narrower image is no page: it is whole, such as a tall banner."""
DESKTOP_PX = 640
"""Width from which on a page is a desktop's: half of its screen's."""


def count_screens(size: Sequence[int], kind: str = "") -> int:
    """Return the number of screens, equally high, into which an image is cut: 1 for one that is not a long page.

    The image's size decides alone, so the same image is cut in the same way everywhere.

    Example:
        >>> count_screens((2532, 390))  # the page of a phone
        3

    Args:
        size: (h, w) of the image, pixels.
        kind: of SCREENS, if somebody says that the image is a page of it. Empty to decide by the size.
    """
    height, width = size[:2]
    if width < NARROWEST_PX or height <= (TALL if kind else ONE_SCREEN) * width:
        return 1
    down, across = SCREENS[kind or ("desktop" if width >= DESKTOP_PX else "phone")]
    return max(1, round(height / width * across / down))


def rows_of_screens(height: int, n_screens: int) -> list[slice]:
    """Return the rows of each of `n_screens` screens, from the top, in an image that is `height` pixels high."""
    edges = [round(height * index / n_screens) for index in range(n_screens + 1)]
    return [slice(top, bottom) for top, bottom in itertools.pairwise(edges)]


def screens_of(size: Sequence[int], n_screens: int = 0) -> list[slice]:
    """Return the rows of each screen of an image of `size` (h, w): all rows for an image that is not cut.

    `n_screens` is into how many it is cut. 0 to decide by its size, as `count_screens` does.

    Example:
        >>> [saliency[rows].max() for rows in screens_of((2532, 390))]
        [1.0, 1.0, 1.0]
    """
    return rows_of_screens(size[0], n_screens or count_screens(size))
