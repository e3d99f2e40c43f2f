"""The site sees images as the demo's server does: as which kind, in which screens, and with which map."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from studio.demo.app import PAGE
from studio.site.build import build_site
from tests.browser import Watched
from tests.guide import ROOT
from tests.studio.demo import encoded, picture, serving as serving_demo
from tests.studio.site import BASE64, ISOLATED, opening, received, sent
from trainer.api import load
from trainer.prediction.kinds import _drawn, kind_of
from trainer.prediction.screens import count_screens, rows_of_screens

LANDING, LANDING_B = ROOT / "examples" / "landing-a.png", ROOT / "examples" / "landing-b.png"
PHOTOGRAPH = PAGE / "examples" / "coffee.jpg"
LEVEL = 1 / 255
SEE = """async ([bytes, [height, width], asked]) => {
  const image = { values: decoded(bytes), height, width, channels: 3 };
  const { drawnIn, weightsOf } = await import("./kinds.js");
  const { screensOf } = await import("./screens.js");
  const facts = await (await fetch("facts.json")).json();
  const screens = screensOf(image, asked.screen, facts);
  const drawn = screens.map((rows) => drawnIn(image, rows, facts.page));
  return { weights: [...weightsOf(image, asked, facts)], screens, drawn };
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


def long_page():
    return np.concatenate([np.asarray(Image.open(each).convert("RGB")) for each in (LANDING, LANDING_B) * 2])


IMAGES = {
    "page": lambda: page(1),
    "halved": lambda: page(0.5),
    "enlarged": lambda: page(1.6),  # is shrunk before it is looked at
    "long": long_page,
    "photograph": lambda: of_a_screens_shape(PHOTOGRAPH),
    "small": lambda: picture(300, 400),
    "noise": lambda: picture(701, 1283),
    "tall": lambda: picture(2103, 390),
}


@pytest.fixture(scope="module")
def folder(runtime, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "site"
    build_site(load("pretrained"), runtime, folder)
    return folder


@pytest.fixture(scope="module")
def site(browser, folder):
    with opening(browser, folder, ISOLATED) as watched:
        yield watched.page


@pytest.fixture(scope="module")
def demo(browser):
    """The demo page of the same model, in the same browser."""
    with serving_demo(load("pretrained")) as address, browser.new_context() as context:
        context.add_init_script(BASE64)
        yield Watched(context, f"{address}/").page


@pytest.mark.parametrize("name", IMAGES)
def test_kinds_and_screens_are_those_of_python(site, name):
    pixels = IMAGES[name]()
    found = site.evaluate(SEE, [sent(pixels), pixels.shape[:2], {"screen": "", "kind": ""}])
    rows = rows_of_screens(pixels.shape[0], count_screens(pixels.shape))
    assert found["screens"] == [[each.start, each.stop] for each in rows]
    assert found["weights"] == [[kind_of(pixels), 1]]
    np.testing.assert_allclose(found["drawn"], [_drawn(pixels[each]) for each in rows], rtol=1e-9)


def as_png(pixels):
    return lambda: encoded(pixels())


FILES = {
    "page": (LANDING.read_bytes, {}, 1e-3),
    "page as one picture": (LANDING.read_bytes, {"screen": "whole"}, 1e-3),
    "long page": (as_png(lambda: long_page()[:1700]), {"screen": "desktop"}, 1e-3),
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
    wanted = [base64.b64encode(content).decode(), {"screen": "", "kind": "", **asked}, regions]
    answers = [door.evaluate(PREDICT, wanted) for door in (site, demo)]
    np.testing.assert_allclose(*(received(each.pop("values")) for each in answers), atol=tolerance)
    # A tenth of a percent is printed, and rounding may fall on either side of it.
    np.testing.assert_allclose(*(each.pop("shares") for each in answers), atol=tolerance / 2)
    assert answers[0] == answers[1]
