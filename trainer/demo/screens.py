"""Predicts the map of a full-page screenshot, whole or screen by screen: nobody sees such a page at once."""

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trainer.errors import check
from trainer.picture import Pixels
from trainer.prediction.predictor import Predictor

SCREENS = {"desktop": (800, 1280), "phone": (844, 390)}
"""Kind of screen -> (h, w). A tall image is cut into parts of these proportions."""
TALL = 1.5
"""Smallest ratio of height and width at which an image may be cut into screens."""
MAX_SCREENS = 40
MAX_PIXELS = 50_000_000
"""Pixels of the largest image. Nearly all phone cameras stay below; a map needs 650 MB while it is resized."""


def predict(predictor: Predictor, image: Pixels, screen: str = "") -> tuple[NDArray[np.float32], int]:
    """Predict the map of an image, or the maps of its screens.

    Each screen is predicted alone. All screens get the same attention for their area, so that a region's ratio of
    share and area is that on its screen. The largest value is 1.

    Args:
        predictor: predicts the map of an image.
        image: (h, w, 3) RGB.
        screen: of SCREENS; empty for the image as a whole.

    Returns:
        The map (h, w), 0..1, and the number of screens, which are equally high.

    Raises:
        UserError: the image has more than MAX_SCREENS screens.
    """
    edges = cut(image.shape[:2], screen)
    n_screens = len(edges) - 1
    if n_screens == 1:
        return predictor.predict(image), 1
    joined = np.empty(image.shape[:2], np.float32)
    for top, bottom in itertools.pairwise(edges):
        part = predictor.predict(image[top:bottom])
        mean = part.mean(dtype=np.float64)
        joined[top:bottom] = part / mean if mean > 0 else 1  # zeros count as evenly spread
    return joined / joined.max(), n_screens


def cut(size: Sequence[int], screen: str) -> list[int]:
    """Return the first row of each screen of an image of `size` (h, w), and the image's height as the last.

    Raises:
        UserError: there are more than MAX_SCREENS.
    """
    height, width = size
    if not screen or height <= TALL * width:
        return [0, height]
    across, down = SCREENS[screen][1], SCREENS[screen][0]
    n_screens = max(1, round(height / width * across / down))
    check(
        n_screens <= MAX_SCREENS,
        f"the image is {n_screens} {screen} screens high; at most {MAX_SCREENS} are allowed: cut it into parts",
    )
    return [round(height * index / n_screens) for index in range(n_screens + 1)]
