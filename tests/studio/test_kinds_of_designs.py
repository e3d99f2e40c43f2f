"""Designs that are seen as two kinds are not compared, and the demo page says as which it saw an image."""

import httpx
import numpy as np
import pytest

from studio.designs import Design
from studio.difference import compare_designs
from studio.verdicts import judge_designs, parse_requirement
from tests import kinds
from tests.kinds import page, sky
from tests.refusals import refused
from tests.studio.demo import Held, encoded, serving, unpacked
from trainer.api import MismatchError, Region
from trainer.network.model_folder import PAGE, PICTURE
from trainer.prediction.inputs import Input
from trainer.prediction.kinds import page_weight

BYTES = {"content-type": "application/octet-stream"}

pytestmark = pytest.mark.usefixtures("narrow")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return Held(kinds.write_model(tmp_path_factory.mktemp("kinds") / "model"))


def test_designs_that_are_seen_as_two_kinds_are_refused(model):
    region = Region("top", 0, 0, 700, 100)
    requirements = [parse_requirement("top>=0%", ["top"])]
    kind = {True: PAGE, False: PICTURE}
    for first, second in ((page(), sky()), (sky(), page())):
        pictures = {"first": first, "second": second}
        designs = [Design(name, pixels, (400, 700), (region,)) for name, pixels in pictures.items()]
        inputs = [Input(name, name, bytes) for name in pictures]
        named = ("first", kind[page_weight(first) == 1], "second", kind[page_weight(second) == 1], "--kind")
        with refused(MismatchError, *named):
            judge_designs(model, designs, requirements)
        with refused(MismatchError, *named):
            compare_designs(model, inputs, (first, second), (region,), {}, None)
        for asked in (PAGE, PICTURE):
            checked = judge_designs(model, designs, requirements, asked)
            for measured, pixels in zip((checked.design, checked.baseline), (first, second), strict=True):
                assert measured.as_json()["kind"] == asked
                np.testing.assert_array_equal(measured.map, model.predict(pixels, kind=asked))
            compared = compare_designs(model, inputs, (first, second), (region,), {}, None, asked)
            assert compared.kind == asked
            assert [change.first.share for change in compared.changes] == [checked.design.measures[0].share]


def test_a_baseline_that_is_a_page_nearly_as_much_is_seen_as_the_design(model):
    """Lower rows of the page are replaced by the photograph's, which makes it less of a page."""
    region = Region("top", 0, 0, 700, 100)
    requirements = [parse_requirement("top>=0%", ["top"])]
    mixtures = [np.concatenate([page()[:rows], sky()[rows:]]) for rows in range(400, 0, -4)]
    mixture = next(each for each in mixtures if page_weight(each) < 1)
    assert 0.5 < page_weight(mixture) < 1
    designs = [Design(name, each, (400, 700), (region,)) for name, each in (("a", page()), ("b", mixture))]
    checked = judge_designs(model, designs, requirements)
    assert [each.map.page for each in (checked.design, checked.baseline)] == [1, 1]
    np.testing.assert_array_equal(checked.baseline.map, model.predict(mixture, kind=PAGE))


@pytest.mark.parametrize(
    ("pixels", "query", "expected"),
    [
        (page(), "", PAGE),
        (sky(), "", PICTURE),
        (sky(), "?page=1", PAGE),  # it is compared with one
        (sky(), "?kind=page", PAGE),
        (page(), "?kind=picture", PICTURE),
    ],
)
def test_the_page_says_as_what_it_saw_an_image(model, pixels, query, expected):
    with serving(model) as address:
        response = httpx.post(f"{address}/map{query}", content=encoded(pixels), headers=BYTES, timeout=60)
    lines, (values,) = unpacked(response.content)
    assert expected in lines[-1]["seenAs"]
    np.testing.assert_allclose(values, model.predict(pixels, kind=expected), rtol=0, atol=1 / 65535)
