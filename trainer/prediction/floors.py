"""The floor of a region: the share that its place gets without its content. Needs no TensorFlow.

A network gives some attention to each place, whatever is there: in the middle, near to other things, and in bands
along the edges.
"""

from typing import TYPE_CHECKING

import numpy as np

from trainer.pictures import Pixels
from trainer.prediction.regions import Measure
from trainer.prediction.saliency_map import SaliencyMap
from trainer.prediction.screens import WHOLE

if TYPE_CHECKING:
    from trainer.prediction.predictor import Predictor

RING_PARTS, RING_PX = 10, 3
"""The ring around a box is as wide as the box's shorter side divided by the first, and at least the second."""


def painted_over(image: Pixels, box: tuple[slice, slice]) -> Pixels:
    """Return an image (h, w, 3) with a box painted over with the colour that surrounds it.

    It is the median of a ring around the box, in each channel the lower one of two. A box without a ring, since it
    is the whole image, gets its own median.

    Args:
        image: (h, w, 3) RGB.
        box: the rows and the columns.
    """
    rows, columns = box
    width = max(RING_PX, min(rows.stop - rows.start, columns.stop - columns.start) // RING_PARTS)
    top, left = max(0, rows.start - width), max(0, columns.start - width)
    around = image[top : rows.stop + width, left : columns.stop + width]
    is_ring = np.ones(around.shape[:2], bool)
    is_ring[rows.start - top : rows.stop - top, columns.start - left : columns.stop - left] = False
    painted = image.copy()
    painted[box] = _median(around[is_ring] if is_ring.any() else around.reshape(-1, 3))
    return painted


def floor_of(predictor: "Predictor", image: Pixels, saliency: SaliencyMap, measured: Measure) -> float:
    """Return the share, 0..1, that a region of an image (h, w, 3) keeps with its content painted over.

    Args:
        predictor: that predicted the map of the image.
        image: (h, w, 3) RGB, of the map's size.
        saliency: its map.
        measured: the region's measures on the map. On a long page, the floor is of the same screen.
    """
    screen = saliency.screens[(measured.screen or 1) - 1].rows
    rows, columns = measured.region.box((image.shape[0], image.shape[1]))
    inside = slice(max(rows.start, screen.start) - screen.start, min(rows.stop, screen.stop) - screen.start)
    box = inside, columns
    without = predictor.predict(painted_over(image[screen], box), WHOLE, saliency.page)
    total = float(without.sum(dtype=np.float64))
    return float(without[box].sum(dtype=np.float64)) / total if total else measured.area


def _median(colors: Pixels) -> Pixels:
    """The median (3,) of colours (n, 3) in each channel, the lower one of two."""
    middle = (len(colors) - 1) // 2
    median: Pixels = np.partition(colors, middle, axis=0)[middle]
    return median
