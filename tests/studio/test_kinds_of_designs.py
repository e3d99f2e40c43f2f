"""Designs that are seen as two kinds are not compared, and the demo page says as which it saw an image."""

import base64
import json

import httpx
import numpy as np
import pytest

from studio.__main__ import main
from studio.browser_settings import PageConfig
from studio.designs import Design, take_design
from studio.difference import compare_designs
from studio.verdicts import judge_designs, parse_requirement
from tests import kinds
from tests.kinds import page, sky
from tests.refusals import refused
from tests.studio import pages
from tests.studio.demo import Held, encoded, serving
from trainer.api import MismatchError, Region
from trainer.network.model_folder import PAGE, PICTURE
from trainer.prediction.inputs import Input
from trainer.prediction.kinds import kind_of

BYTES = {"content-type": "application/octet-stream"}

pytestmark = pytest.mark.usefixtures("narrow")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return Held(kinds.write_model(tmp_path_factory.mktemp("kinds") / "model"))


def test_designs_that_are_seen_as_two_kinds_are_refused(model):
    region = Region("top", 0, 0, 700, 100)
    requirements = [parse_requirement("top>=0%", ["top"])]
    for first, second in ((page(), sky()), (sky(), page())):
        pictures = {"first": first, "second": second}
        designs = [Design(name, pixels, (400, 700), (region,)) for name, pixels in pictures.items()]
        inputs = [Input(name, name, bytes) for name in pictures]
        named = ("first", kind_of(first), "second", kind_of(second), "--kind")
        with refused(MismatchError, *named):
            judge_designs(model, designs, requirements)
        with refused(MismatchError, *named):
            compare_designs(model, inputs, (first, second), (region,), {}, None)
        for kind in (PAGE, PICTURE):  # it is asked for
            checked = judge_designs(model, designs, requirements, kind)
            for measured, pixels in zip((checked.design, checked.baseline), (first, second), strict=True):
                assert measured.as_json()["kind"] == kind
                np.testing.assert_array_equal(measured.map, model.predict(pixels, kind=kind))
            compared = compare_designs(model, inputs, (first, second), (region,), {}, None, kind)
            assert compared.kind == kind
            assert [change.first.share for change in compared.changes] == [checked.design.measures[0].share]


@pytest.mark.parametrize(
    ("pixels", "query", "expected"),
    [
        (page(), "", PAGE),
        (page(), "?screen=whole", PICTURE),
        (page(), "?screen=phone", PICTURE),
        (sky(), "", PICTURE),
        (sky(), "?page=1", PAGE),  # a browser took it
        (sky(), "?screen=desktop", PAGE),
        (sky(400, 500), "?screen=desktop", PAGE),
        (sky(), "?kind=page", PAGE),  # it is compared with one
        (page(), "?kind=picture", PICTURE),
    ],
)
def test_the_page_says_as_what_it_saw_an_image(model, pixels, query, expected):
    with serving(model) as address:
        response = httpx.post(f"{address}/map{query}", content=encoded(pixels), headers=BYTES, timeout=60)
    assert expected in response.headers["map-seen-as"]
    values = np.frombuffer(response.content, "<f4").reshape(pixels.shape[:2])
    np.testing.assert_array_equal(values, model.predict(pixels, kind=expected))


@pytest.mark.parametrize(("path", "expected"), [("/page", PAGE), ("/sky.png", PICTURE)])
def test_the_browser_says_what_is_a_page(model, tmp_path, monkeypatch, path, expected):
    """A page that shows a photograph alone, and an address that is this photograph."""
    pages.needs_browser()
    content = encoded(sky(800, 1280))
    shown = f'<body style="margin: 0"><img src="data:image/png;base64,{base64.b64encode(content).decode()}">'
    flags = [
        "--viewport-width",
        "1280",
        "--viewport-height",
        "800",
        *([] if pages.CONFIG.sandbox else ["--no-sandbox"]),
    ]
    monkeypatch.chdir(tmp_path)
    with pages.serving({"/page": shown, "/sky.png": content}) as address:
        main(["predict", f"{address}{path}", "--model", str(model.folder), "--json", "found.json", *flags])
        (image,) = json.loads((tmp_path / "found.json").read_text())["images"]
        config = PageConfig(sandbox=pages.CONFIG.sandbox)
        design = take_design(f"{address}{path}", (), config)
        with serving(model, pages=config) as demo:
            answer = httpx.post(f"{demo}/picture", content=f"{address}{path}", headers=BYTES, timeout=120)
    assert image["kind"] == expected
    assert model.kind_of(design.pixels, is_page=design.is_page) == expected
    assert answer.headers["picture-kind"] == expected
