"""The site sees images as the demo's server does: as which kind, in which screens, and with which map."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from studio.demo.app import PAGE
from studio.site.build import build_site
from tests import kinds
from tests.browser import Watched
from tests.guide import ROOT
from tests.narrow import weights_of
from tests.studio.demo import encoded, picture, serving as serving_demo, written
from tests.studio.site import BASE64, ISOLATED, opening, received, sent
from tests.trainer import predictable
from trainer.api import Model
from trainer.models.answering import Answering
from trainer.network.compact import write_compact
from trainer.prediction.kinds import page_weight, screen_of, text_height
from trainer.prediction.screens import rows_of_screens

LANDING, LANDING_B = ROOT / "examples" / "landing-a.png", ROOT / "examples" / "landing-b.png"
PHOTOGRAPH = PAGE / "examples" / "coffee.jpg"
LEVEL = 1 / 255
SHARE_PX = 350
"""Rows of a photograph that are a page in `mixture`."""
SEE = """async ([bytes, [height, width], asked]) => {
  const image = { values: decoded(bytes), height, width, channels: 3 };
  const { see, textHeight } = await import("./kinds.js");
  const { screensOf } = await import("./screens.js");
  const facts = await (await fetch("facts.json")).json();
  const { page, seenAs, weights, screen } = see(image, asked, facts);
  const rows = screensOf(image, screen, facts);
  const text = textHeight(image, facts.content);
  return { page, seenAs, weights: Object.fromEntries(weights), screen, rows, text };
}"""
PREDICT = """async ([bytes, asked, regions]) => {
  const { Measurable, measureAll } = await import("./map.js");
  const { predict } = await import("./server.js");
  const { values, ...map } = await predict(new File([decoded(bytes)], "image.png"), asked);
  const measures = measureAll(new Measurable({ values, ...map }), regions);
  const shares = measures.map(({ share }) => share);
  return { ...map, shares, values: await encoded(values) };
}"""


def page(scale):
    """A page, `scale` times as wide and high."""
    opened = Image.open(LANDING).convert("RGB")
    return np.asarray(opened.resize([round(side * scale) for side in opened.size]))


def of_a_screens_shape(photograph):
    return np.asarray(Image.open(photograph).convert("RGB").resize((1280, 800)))


def mixture():
    """An image between both kinds: a page's lines on a part of a photograph."""
    pixels = of_a_screens_shape(PHOTOGRAPH).copy()
    pixels[:SHARE_PX] = written(SHARE_PX, 1280)
    return pixels


def long_page():
    return np.concatenate([np.asarray(Image.open(each).convert("RGB")) for each in (LANDING, LANDING_B) * 2])


IMAGES = {
    "page": lambda: page(1),
    "halved": lambda: page(0.5),
    "enlarged": lambda: page(1.6),  # is shrunk before it is looked at
    "long": long_page,
    "phone": lambda: written(2500, 390),
    "photograph": lambda: of_a_screens_shape(PHOTOGRAPH),
    "page and photograph": mixture,
    "noise": lambda: picture(701, 1283),
    "tall": lambda: picture(2103, 390),
    "narrow": lambda: picture(3000, 17),
}


@pytest.fixture(scope="module")
def model(narrow, tmp_path_factory):
    """An untrained narrow model that sees pages at a size of their own, with kernels of 8 bits as the site's."""
    folder = tmp_path_factory.mktemp("kinds") / "model"
    config = {"image_size": [64, 80], "dataset": "osie", "settings": {}, "kinds": {"page": kinds.PAGES}}
    write_compact(weights_of(predictable.network(5)), folder, config)
    return Model(Answering("tiny", folder)).load()


@pytest.fixture(scope="module")
def site(browser, model, runtime, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "site"
    build_site(model, runtime, folder)
    with opening(browser, folder, ISOLATED) as watched:
        yield watched.page


@pytest.fixture(scope="module")
def demo(browser, model):
    """The demo page of the same model, in the same browser."""
    with serving_demo(model) as address, browser.new_context() as context:
        context.add_init_script(BASE64)
        yield Watched(context, f"{address}/").page


@pytest.mark.parametrize("name", IMAGES)
def test_kinds_and_screens_are_those_of_python(site, model, name):
    pixels = IMAGES[name]()
    found = site.evaluate(SEE, [sent(pixels), pixels.shape[:2], {"screen": "", "kind": "", "page": ""}])
    weight = page_weight(pixels)
    assert found["page"] == pytest.approx(weight, abs=1e-9)
    assert found["weights"] == pytest.approx(model._loaded.weights(weight), abs=1e-9)
    assert found["seenAs"] == model.seen_as(weight)
    assert found["text"] == pytest.approx(text_height(pixels), abs=1e-9)
    assert found["screen"] == screen_of(pixels, weight)
    rows = rows_of_screens(pixels.shape, found["screen"])
    assert found["rows"] == [[each.start, each.stop] for each in rows]
    if name == "page and photograph":
        assert 0.1 < weight < 0.9


def as_png(pixels):
    return lambda: encoded(pixels())


FILES = {
    "page": (LANDING.read_bytes, {}, 1e-3),
    "page as one picture": (LANDING.read_bytes, {"screen": "whole", "kind": "picture"}, 1e-3),
    "page and photograph": (as_png(mixture), {}, 1e-3),
    "long page": (as_png(lambda: long_page()[:1100]), {}, 1e-3),
    # Chromium decodes a JPEG to other values than Pillow, by one level in some pixels.
    "photograph": (PHOTOGRAPH.read_bytes, {}, 2 * LEVEL),
}
"""Name -> what makes the file, what is asked for, and by how much values of two maps may differ."""
PARTS = [(0, 0, 1, 0.5), (0.05, 0.5, 0.2, 0.1), (0.5, 0.1, 0.4, 0.5), (0.1, 0.8, 0.8, 0.15)]
"""x, y, width and height of regions, as parts of the image's."""


@pytest.mark.parametrize("name", FILES)
def test_both_doors_give_one_answer(site, demo, name):
    make, asked, tolerance = FILES[name]
    content = make()
    width, height = Image.open(io.BytesIO(content)).size
    regions = [
        {"x": x * width, "y": y * height, "width": across * width, "height": down * height}
        for x, y, across, down in PARTS
    ]
    wanted = [base64.b64encode(content).decode(), asked, regions]
    answers = [door.evaluate(PREDICT, wanted) for door in (site, demo)]
    np.testing.assert_allclose(*(received(each.pop("values")) for each in answers), atol=tolerance)
    # A tenth of a percent is printed, and rounding may fall on either side of it.
    np.testing.assert_allclose(*(each.pop("shares") for each in answers), atol=tolerance / 2)
    np.testing.assert_allclose(*(each.pop("page") for each in answers), atol=1e-6)
    assert answers[0] == answers[1]
