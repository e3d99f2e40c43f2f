"""From the bytes of a picture to what the page shows or has downloaded. Runs in the thread of predictions."""

import io
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from PIL import Image
from starlette.responses import Response

from trainer.heat import blend
from trainer.picture import read_picture
from trainer.prediction import render
from trainer.prediction.predictor import Predictor

MOST_PIXELS = 50_000_000
"""What the cameras of telephones make at most, but for a few; 650 MB while its map is resized."""
MOST_SHOWN_PX = 1024
"""The longer side of the map that the page gets at most; more would be sent and drawn without being seen."""


class Stages:
    """Milliseconds of the clock for each stage, for the header that browsers show with a request's timings."""

    def __init__(self) -> None:
        self._ms: dict[str, float] = {}

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self._ms[name] = (time.perf_counter() - started) * 1000

    def header(self) -> str:
        return ", ".join(f"{name};dur={ms:.1f}" for name, ms in self._ms.items())


def shown_map(predictor: Predictor, data: bytes, origin: str) -> Response:
    """The saliency map for the page: little-endian float32 in 0..1, row by row, with its size in the headers.

    It is the map at the picture's own size, of which areas are averaged until the longer side has `MOST_SHOWN_PX`:
    sums over regions stay what they are.
    """
    stages = Stages()
    with stages.time("decode"):
        image = read_picture(data, origin, MOST_PIXELS)
    with stages.time("predict"):
        whole = predictor.predict(image)
    with stages.time("shrink"):
        shown = shrink(whole)
    sizes = {"image": image.shape, "map": shown.shape}
    headers = {f"{what}-size": f"{size[1]}x{size[0]}" for what, size in sizes.items()}
    content = shown.astype("<f4").tobytes()
    return Response(
        content, media_type="application/octet-stream", headers={**headers, "Server-Timing": stages.header()}
    )


def map_png(predictor: Predictor, data: bytes, origin: str) -> Response:
    """The saliency map at the picture's own size as 8 grey bits, as `predict` writes it."""
    whole = predictor.predict(read_picture(data, origin, MOST_PIXELS))
    return _png(render.draw_grey(whole))


def overlay_png(predictor: Predictor, data: bytes, origin: str, opacity: float) -> Response:
    """The map in heat colours over the picture at its own size, as `predict` draws it."""
    image = read_picture(data, origin, MOST_PIXELS)
    return _png(Image.fromarray(blend(image, predictor.predict(image), opacity)))


def _png(picture: Image.Image) -> Response:
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", compress_level=1)
    return Response(buffer.getvalue(), media_type="image/png")


def shrink(map: NDArray[np.float32]) -> NDArray[np.float32]:
    """A map (h, w) whose longer side has at most `MOST_SHOWN_PX`, areas averaged."""
    height, width = map.shape
    scale = MOST_SHOWN_PX / max(height, width)
    if scale >= 1:
        return map
    size = max(1, round(height * scale)), max(1, round(width * scale))
    return np.asarray(tf.raw_ops.ResizeArea(images=map[None, ..., None], size=size))[0, ..., 0]
