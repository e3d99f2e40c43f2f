"""The page on loopback with an untrained network, for the tests of the server and of the page."""

import contextlib
import io
import json
import threading
import time
import zlib

import numpy as np
from PIL import Image

from studio.demo.app import build_app, build_server, host_names, listen
from tests.studio.pages import CONFIG
from tests.trainer import predictable
from trainer.api import Model
from trainer.io.files import write_json
from trainer.models.answering import Answering
from trainer.network.model_folder import MODEL_CONFIG

SIZE = (64, 96)


def write_model(folder, **facts):
    """Write a model of which config.json says `facts`."""
    predictable.write_model(folder, predictable.network(3))
    write_json(folder / MODEL_CONFIG, {"image_size": SIZE, **facts})
    return folder


def picture(height, width, seed=0):
    """(h, w, 3) uint8: a bright ellipse and a bar on noise, at positions that depend on the seed."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
    center_y, center_x = random.uniform(0.25, 0.75, 2)
    pixels = random.integers(40, 90, (height, width, 3), np.uint8)
    pixels[(y - center_y) ** 2 / 0.02 + (x - center_x) ** 2 / 0.01 < 1] = (235, 60, 40)
    pixels[abs(y - 1 + center_x) < 0.04] = (30, 90, 220)
    return pixels


def written(height, width, seed=0):
    """(h, w, 3) uint8: a page with lines of text and a photograph, at places that depend on the seed.

    Its text is 12 pixels high: from a width of 667 pixels on it is a desktop's page, below a phone's.
    """
    pixels = np.full((height, width, 3), 255, np.uint8)
    random = np.random.default_rng(seed)
    for top in range(20, height - 12, 40):
        start, end = sorted(random.integers(20, width - 20, 2))
        pixels[top : top + 12, start:end] = np.where(np.arange(start, end) % 8 < 4, 20, 255)[None, :, None]
    top = int(random.integers(0, max(1, height - 90)))
    pixels[top : top + 80, 20 : width // 2] = random.integers(0, 256, (80, width // 2 - 20, 3))[: height - top]
    return pixels


def encoded(pixels, format="PNG", **options):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format, **options)
    return buffer.getvalue()


def unpacked(content):
    """What `/map` streams: the lines of JSON, and the maps (n, h, w), None where the last line is an error."""
    lines, packed = [], content
    while not lines or lines[-1].keys() & {"waiting"}:
        line, _, packed = packed.partition(b"\n")
        lines.append(json.loads(line))
    if "error" in lines[-1]:
        return lines, None
    low, high = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(2, -1).astype(np.uint16)
    codes = low + 256 * high
    steps = (codes >> 1) ^ -(codes & 1)
    rows = steps.reshape(-1, lines[-1]["width"]).cumsum(axis=0, dtype=np.uint16).cumsum(axis=1, dtype=np.uint16)
    return lines, (rows / np.float32(65535)).reshape(-1, lines[-1]["height"], lines[-1]["width"])


class Held(Model):
    """A model that can be made to wait, and counts its predictions and their screens."""

    def __init__(self, folder):
        super().__init__(Answering("tiny", folder))
        self.let_go = threading.Event()
        self.let_go.set()
        self.count = self.screens = 0

    def predict(self, *args, begin=None, **options):
        def counted(number, count):
            if begin:
                begin(number, count)
            self.screens += 1

        self.count += 1
        assert self.let_go.wait(60)
        return super().predict(*args, **{**options, "begin": counted})


@contextlib.contextmanager
def serving(model, host="127.0.0.1", pages=CONFIG):
    """Serve the page for `model`; yields the address."""
    with listen(host, 0) as bound:
        server = build_server(build_app(model, host_names(host), pages))
        thread = threading.Thread(target=server.run, args=([bound],))
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.01)
            yield f"http://{host}:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(30)
    assert not thread.is_alive()
