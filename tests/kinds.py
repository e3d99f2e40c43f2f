"""A model that sees pages at a size of their own, a page and a picture."""

import numpy as np
from PIL import Image, ImageDraw

from tests.trainer import predictable
from trainer.io.files import write_json
from trainer.network.model_folder import MODEL_CONFIG, PAGE

CALIBRATION = {"exponent": 0.7, "bias_logit": 1.5, "bias_slope": 2.0, "bias_height": 0.15, "bias_width": 0.25}
PAGES = {
    "image_size": [40, 72],
    "settings": {"flip_prediction": True},
    "calibration": CALIBRATION | {"bias_y": -0.1},
}


def write_model(folder):
    """Write a narrow model of 64 x 80 pixels, and for pages of PAGES."""
    predictable.write_model(folder, predictable.network(5))
    config = {"image_size": [64, 80], "dataset": "osie", "settings": {}, "kinds": {PAGE: PAGES}}
    write_json(folder / MODEL_CONFIG, config)
    return folder


def page(height=400, width=700, ground="white"):
    """Lines of words on a plain ground, (h, w, 3) uint8."""
    drawn = Image.new("RGB", (width, height), ground)
    pen = ImageDraw.Draw(drawn)
    for y in range(20, height - 20, 24):
        pen.text((30, y), "Order your first bag until Sunday night, and it is yours on Monday. " * 2, "black")
    return np.asarray(drawn)


def sky(height=400, width=700):
    """A photograph's flat part, which fades, above its noise: (h, w, 3) uint8."""
    random = np.random.default_rng(1)
    pixels = np.repeat(np.linspace(255, 150, height)[:, None], width, axis=1)
    pixels[height // 2 :] += random.normal(0, 25, (height - height // 2, width))
    return np.repeat(np.clip(pixels, 0, 255).astype(np.uint8)[..., None], 3, axis=2)


def partly_drawn():
    """A few words on a sky: between a picture and a page, (h, w, 3) uint8."""
    pixels = sky(600, 700)
    pixels[:48] = page(48, 700)
    return pixels
