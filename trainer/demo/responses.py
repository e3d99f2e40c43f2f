"""Makes the responses of an image: its map for the page, and the downloads; and the texts of the page's table.

A full-page screenshot is predicted whole or screen by screen, since nobody sees such a page at once. Everything
here that predicts runs in the prediction thread.
"""

import dataclasses
import io
import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from PIL import Image
from starlette.responses import Response

from trainer.data import sample
from trainer.errors import check
from trainer.evaluation.confidence import TIMES
from trainer.heat import OPACITY, blend, tint
from trainer.picture import Pixels, read_picture
from trainer.prediction import render
from trainer.prediction.predictor import Predictor

SCREENS = {"desktop": (800, 1280), "phone": (844, 390)}
"""Kind of screen -> (h, w). A tall image is cut into parts of these proportions."""
TALL = 1.5
"""Smallest ratio of height and width at which an image may be cut into screens."""
MAX_SCREENS = 40
MAX_PIXELS = 50_000_000
"""Pixels of the largest image. Nearly all phone cameras stay below; a map needs 650 MB while it is resized."""
MAX_MAP_PX = 1024
"""Longest side of the map for the page; a larger one would look the same."""
PATTERN_SIZE = (480, 640)
PATTERNS = 100
"""Number of different patterns."""
MEANINGS = {
    "Share": "The part of all attention on the image that falls into the region.",
    "Area": "The part of the image that the region covers.",
    "Ratio": f"Share divided by area. 1{TIMES} is evenly spread attention; 3{TIMES} is three times as much.",
    "Peak": "The region's hottest point, compared with the hottest point of the image (100%).",
    "Rank": "1 for the region with the largest share.",
    "pp": "Percentage points: from 10% to 15% is +5 pp.",
}
"""Column or unit of the table of regions -> explanation."""
CAUTION = (
    "A prediction of where people look in the first seconds when nobody has given them a task. It does not "
    "replace a test with people."
)
COLORS = ("#ffffff", "#56b4e9", "#f0c929", "#3ddc97", "#ff9e5e", "#e58ac0", "#b9a3ff", "#b5e853")
"""Colours of the regions in order, then again from the first. They are light because boxes have a dark outline."""


def _focus(image: Pixels, map: NDArray[np.float32], opacity: float) -> Pixels:
    """Draw a map over a grey, darkened image, which gets its colours back towards the opacity 0."""
    return blend(image, map, opacity, min(1.0, opacity / OPACITY))


VIEWS: Mapping[str, Callable[[Pixels, NDArray[np.float32], float], Pixels]] = {"heat": tint, "focus": _focus}
"""View of the page that shows the map over the image -> the function that draws it."""


def map_for_page(predictor: Predictor, data: bytes, origin: str, screen: str) -> Response:
    """Return the saliency map for the page: little-endian float32 in 0..1, row by row.

    The headers have its size, that of the image, and the number of screens that were predicted one by one
    (`screens.predict_screens`).

    It is the map at the image's own size, reduced by averaging areas until its longer side has `MAX_MAP_PX`: sums
    over regions stay the same.

    Raises:
        UserError: the data is not an image, is damaged, or too large; `origin` is its name in the message.
    """
    image = read_picture(data, origin, MAX_PIXELS)
    full, n_screens = predict_screens(predictor, image, screen)
    shrunk = shrink(full)
    sizes = {"image": image.shape, "map": shrunk.shape}
    headers = {f"{name}-size": f"{size[1]}x{size[0]}" for name, size in sizes.items()}
    headers["map-screens"] = str(n_screens)
    return Response(shrunk.astype("<f4").tobytes(), media_type="application/octet-stream", headers=headers)


def map_png(predictor: Predictor, data: bytes, origin: str, screen: str) -> Response:
    """Return the map at the image's own size as a PNG with 8 bits of grey, as `predict` writes it.

    Arguments and errors are those of `map_for_page`.
    """
    image = read_picture(data, origin, MAX_PIXELS)
    return _png(render.draw_grey(predict_screens(predictor, image, screen)[0]))


def overlay_png(
    predictor: Predictor, data: bytes, origin: str, screen: str, opacity: float, view: str
) -> Response:
    """Return a PNG of the map over the image at its own size, drawn as a view of VIEWS.

    Arguments and errors are those of `map_for_page`; `opacity` is that of the map, 0..1.
    """
    image = read_picture(data, origin, MAX_PIXELS)
    return _png(Image.fromarray(VIEWS[view](image, predict_screens(predictor, image, screen)[0], opacity)))


def pattern(number: int) -> Response:
    """Return an odd-one-out pattern of the sample dataset at PATTERN_SIZE; there are PATTERNS different ones."""
    settings = dataclasses.replace(sample.settings("salicon"), size=PATTERN_SIZE)
    return _png(sample.generate_pattern(settings, number % PATTERNS).stimulus)


def predict_screens(predictor: Predictor, image: Pixels, screen: str = "") -> tuple[NDArray[np.float32], int]:
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


def _png(image: Image.Image) -> Response:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1)
    return Response(buffer.getvalue(), media_type="image/png")


def shrink(map: NDArray[np.float32]) -> NDArray[np.float32]:
    """Average areas of a map (h, w) until its longer side has at most `MAX_MAP_PX`."""
    height, width = map.shape
    scale = MAX_MAP_PX / max(height, width)
    if scale >= 1:
        return map
    size = max(1, round(height * scale)), max(1, round(width * scale))
    return np.asarray(tf.raw_ops.ResizeArea(images=map[None, ..., None], size=size))[0, ..., 0]
