"""Makes the responses of an image: its map for the page, and the downloads. Runs in the prediction thread."""

import dataclasses
import io
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from PIL import Image
from starlette.responses import Response

from trainer.data import sample
from trainer.demo import screens
from trainer.heat import OPACITY, blend, tint
from trainer.picture import Pixels, read_picture
from trainer.prediction import render
from trainer.prediction.predictor import Predictor

MAX_MAP_PX = 1024
"""Longest side of the map for the page; a larger one would look the same."""
PATTERN_SIZE = (480, 640)
PATTERNS = 100
"""Number of different patterns."""


def _focus(image: Pixels, map: NDArray[np.float32], opacity: float) -> Pixels:
    """Draw a map over a grey, darkened image, which gets its colours back towards the opacity 0."""
    return blend(image, map, opacity, min(1.0, opacity / OPACITY))


VIEWS: Mapping[str, Callable[[Pixels, NDArray[np.float32], float], Pixels]] = {"heat": tint, "focus": _focus}
"""View of the page that shows the map over the image -> the function that draws it."""


def map_for_page(predictor: Predictor, data: bytes, origin: str, screen: str) -> Response:
    """Return the saliency map for the page: little-endian float32 in 0..1, row by row.

    The headers have its size, that of the image, and the number of screens that were predicted one by one
    (`screens.predict`).

    It is the map at the image's own size, reduced by averaging areas until its longer side has `MAX_MAP_PX`: sums
    over regions stay the same.

    Raises:
        UserError: the data is not an image, is damaged, or too large; `origin` is its name in the message.
    """
    image = read_picture(data, origin, screens.MAX_PIXELS)
    full, n_screens = screens.predict(predictor, image, screen)
    shrunk = shrink(full)
    sizes = {"image": image.shape, "map": shrunk.shape}
    headers = {f"{name}-size": f"{size[1]}x{size[0]}" for name, size in sizes.items()}
    headers["map-screens"] = str(n_screens)
    return Response(shrunk.astype("<f4").tobytes(), media_type="application/octet-stream", headers=headers)


def map_png(predictor: Predictor, data: bytes, origin: str, screen: str) -> Response:
    """Return the map at the image's own size as a PNG with 8 bits of grey, as `predict` writes it.

    Arguments and errors are those of `map_for_page`.
    """
    image = read_picture(data, origin, screens.MAX_PIXELS)
    return _png(render.draw_grey(screens.predict(predictor, image, screen)[0]))


def overlay_png(
    predictor: Predictor, data: bytes, origin: str, screen: str, opacity: float, view: str
) -> Response:
    """Return a PNG of the map over the image at its own size, drawn as a view of VIEWS.

    Arguments and errors are those of `map_for_page`; `opacity` is that of the map, 0..1.
    """
    image = read_picture(data, origin, screens.MAX_PIXELS)
    return _png(Image.fromarray(VIEWS[view](image, screens.predict(predictor, image, screen)[0], opacity)))


def pattern(number: int) -> Response:
    """Return an odd-one-out pattern of the sample dataset at PATTERN_SIZE; there are PATTERNS different ones."""
    settings = dataclasses.replace(sample.settings("salicon"), size=PATTERN_SIZE)
    return _png(sample.generate_pattern(settings, number % PATTERNS).stimulus)


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
