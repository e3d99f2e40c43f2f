"""Designs that are compared are seen as one kind, and the demo page says as which it saw an image."""

import httpx
import numpy as np
import pytest

from studio.designs import Design
from studio.difference import compare_designs
from studio.verdicts import judge_designs, parse_requirement
from tests import kinds
from tests.kinds import page, sky
from tests.studio.demo import Held, encoded, serving
from trainer.api import Region
from trainer.models.model_folder import PAGE, PICTURE
from trainer.prediction.inputs import Input
from trainer.prediction.kinds import kind_of

pytestmark = pytest.mark.usefixtures("narrow")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return Held(kinds.write_model(tmp_path_factory.mktemp("kinds") / "model"))


def test_two_designs_are_seen_as_the_first(model):
    region = Region("top", 0, 0, 700, 100)
    requirements = [parse_requirement("top>=0%", ["top"])]
    for first, second in ((page(), sky()), (sky(), page())):
        kind = kind_of(first)
        designs = [Design("", pixels, (400, 700), (region,)) for pixels in (first, second)]
        checked = judge_designs(model, designs, requirements)
        for measured, pixels in zip((checked.design, checked.baseline), (first, second), strict=True):
            assert measured.as_json()["kind"] == kind
            np.testing.assert_array_equal(measured.map, model.predict(pixels, kind=kind))
        inputs = [Input(name, name, bytes) for name in ("first", "second")]
        compared = compare_designs(model, inputs, (first, second), (region,), {}, None)
        assert compared.kind == kind
        assert [change.first.share for change in compared.changes] == [checked.design.measures[0].share]
    given = judge_designs(model, designs, requirements, PAGE)
    assert (given.design.kind, given.baseline.kind) == (PAGE, PAGE)


@pytest.mark.parametrize(
    ("pixels", "query", "expected"),
    [
        (page(), "", PAGE),
        (page(), "?screen=whole", PICTURE),
        (page(), "?screen=phone", PICTURE),
        (sky(), "", PICTURE),
        (sky(), "?kind=page", PAGE),  # a browser took it
        (sky(), "?screen=desktop", PAGE),
        (sky(400, 500), "?screen=desktop", PICTURE),
    ],
)
def test_the_page_says_as_what_it_saw_an_image(model, pixels, query, expected):
    headers = {"content-type": "application/octet-stream"}
    with serving(model) as address:
        response = httpx.post(f"{address}/map{query}", content=encoded(pixels), headers=headers, timeout=60)
    assert expected in response.headers["map-seen-as"]
    values = np.frombuffer(response.content, "<f4").reshape(pixels.shape[:2])
    np.testing.assert_array_equal(values, model.predict(pixels, kind=expected))
