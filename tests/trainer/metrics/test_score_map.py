"""Scores of one map for people: all metrics as their oracles, what is left out, and what is refused."""

import numpy as np
import pytest

from tests.refusals import refused
from tests.trainer.metrics import test_metrics
from tests.trainer.metrics.test_metrics import CASES, ORACLES, case, centred_gaussian, others
from trainer.errors import SettingError
from trainer.metrics.metric_table import METRICS
from trainer.metrics.points import blur
from trainer.metrics.score_map import score

MAP, POINTS = test_metrics.MAP, test_metrics.POINTS


@pytest.mark.parametrize("index", CASES)
def test_agrees_with_an_independent_implementation(index):
    prediction, density, fixations = case(index)
    given = {"other_fixations": others(index), "baseline": centred_gaussian(prediction.shape), "density": density}
    scores = score(prediction, fixations, **given)
    assert list(scores) == list(METRICS)
    assert scores == pytest.approx({name: oracle(index) for name, oracle in ORACLES.items()}, abs=1e-6)


@pytest.mark.parametrize(
    ("given", "more"),
    [
        ({}, set()),
        ({"density": test_metrics.DENSITY}, {"cc", "kld", "sim"}),
        ({"blur_px": 2}, {"cc", "kld", "sim"}),
        ({"other_fixations": POINTS}, {"shuffled_auc"}),
        ({"baseline": MAP}, {"information_gain"}),
        (
            {"other_fixations": POINTS, "baseline": MAP},
            {"shuffled_auc", "information_gain", "shuffled_auc_over_bias"},
        ),
    ],
)
def test_metrics_without_their_inputs_are_left_out(given, more):
    assert score(MAP, POINTS, **given).keys() == {"auc_judd", "nss"} | more


def test_density_is_made_as_prepared_data_has_it():
    blurred = blur(POINTS, MAP.shape, 2)
    assert score(MAP, POINTS, blur_px=2) == score(MAP, POINTS, density=blurred)
    assert score(blurred, POINTS, blur_px=2)["cc"] == pytest.approx(1)


def test_points_between_pixels_are_in_the_pixel_that_contains_them():
    assert score(MAP, POINTS + 0.9) == score(MAP, POINTS.tolist()) == score(MAP, POINTS)
    marked = np.zeros(MAP.shape)
    marked[3, 4] = marked[5, 0] = 1
    assert score(MAP, np.argwhere(marked)) == score(MAP, [[3, 4], [5, 0]])


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"fixations": [[0, 12], [12, 0]]}, ("1 of 2", "(12, 0)")),
        ({"fixations": [[0, -0.1]]}, ("(0, -1)",)),
        ({"fixations": [[0, np.nan]]}, ("fixations",)),
        ({"fixations": np.zeros((0, 2))}, ("fixations",)),
        ({"fixations": [1, 2]}, ("fixations", "(2,)")),
        ({"other_fixations": [[99, 0]]}, ()),
        ({"saliency_map": np.zeros((3, 4, 3))}, ("saliency_map", "(3, 4, 3)")),
        ({"saliency_map": np.full((12, 16), np.nan)}, ("192 of 192",)),
        ({"density": np.ones((3, 3))}, ("density", "(3, 3)")),
        ({"baseline": np.ones((3, 3))}, ("baseline", "(3, 3)")),
        ({"blur_px": 0}, ("blur_px", 0)),
        ({"blur_px": 3, "density": MAP}, ("density", "blur_px")),
    ],
)
def test_what_cannot_be_scored_is_refused(given, named):
    with refused(SettingError, *named):
        score(**{"saliency_map": MAP, "fixations": POINTS, **given})
