"""Intervals and p-values against known distributions and independent computations."""

import itertools

import numpy as np
import pytest
from scipy import stats

from trainer.evaluation.confidence import CONFIDENCE, fewest, gain, holm, interval, surely_above, turning_point


def scores(n, seed=0, mean=0.0):
    return np.random.default_rng(seed).normal(mean, size=n)


@pytest.mark.parametrize(
    ("n", "confidence"),
    [(n, each) for n in (10, 11, 40, 1000) for each in (0.8, 0.95, 0.99, 0.999) if n >= fewest(each)],
)
def test_interval_of_normal_scores_is_students(n, confidence):
    values = scores(n, seed=n, mean=3.0)
    expected = stats.ttest_1samp(values, 0).confidence_interval(confidence)
    width = expected.high - expected.low
    low, high = interval(values, confidence)
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=0.08 * width)
    assert high - low == pytest.approx(width, rel=0.04)


def test_interval_of_skewed_scores_leans_to_the_long_tail():
    values = np.random.default_rng(0).lognormal(size=60)
    low, high = interval(values)
    assert high - values.mean() > 1.2 * (values.mean() - low)
    exact = stats.bootstrap((values,), np.mean, n_resamples=4999, method="BCa", rng=1).confidence_interval
    assert (low, high) == pytest.approx((exact.low, exact.high), rel=0.05)


def test_interval_follows_scale_and_offset():
    values = scores(30)
    low, high = interval(values)
    assert interval(1e-200 * values) == pytest.approx((1e-200 * low, 1e-200 * high), rel=1e-9)
    assert interval(1e6 + values) == pytest.approx((1e6 + low, 1e6 + high), rel=1e-12)


def test_the_order_of_the_images_is_nothing_to_an_interval_or_a_p_value():
    values = np.random.default_rng(9).normal(0.5, size=20)
    mixed = np.random.default_rng(1).permutation(values)
    assert interval(mixed) == pytest.approx(interval(values), rel=1e-12)
    assert gain(mixed, np.zeros(20), True).p_value == gain(values, np.zeros(20), True).p_value


def test_the_same_scores_give_the_same_answer_in_any_state_of_the_generators():
    first = gain(scores(50), scores(50, seed=1), higher_is_better=True)
    np.random.default_rng().normal()
    assert gain(scores(50), scores(50, seed=1), higher_is_better=True) == first


@pytest.mark.parametrize(
    "values",
    [
        np.zeros(6),
        np.full(10, 0.3),
        np.r_[1.0, np.zeros(9)],
        np.r_[1.0, -1.0, np.zeros(8)],
        np.r_[1e6, np.arange(9)],
        np.r_[np.full(9, 0.1), 0.1 + 1e-16],
        1e-300 * np.arange(8),
    ],
)
def test_degenerate_scores_have_a_finite_interval_around_their_mean(values):
    low, high = interval(values)
    assert low <= values.mean() * (1 + 1e-12)
    assert high >= values.mean() * (1 - 1e-12)
    assert 0 < gain(values, np.zeros(len(values)), higher_is_better=True).p_value <= 1


@pytest.mark.parametrize(("confidence", "n"), [(0.0, 1), (0.5, 2), (0.9, 5), (0.95, 6), (0.99, 8), (0.999, 11)])
def test_fewest_images_are_those_whose_signs_can_be_certain(confidence, n):
    assert fewest(confidence) == n
    assert 2 * 0.5**n <= 1 - confidence or confidence == 0
    if n > 2:
        assert interval(scores(n), confidence) is not None
        assert interval(scores(n - 1), confidence) is None


def test_gain_is_above_zero_where_ours_is_better():
    ours, theirs = np.array([0.1, 0.2, 0.3]), np.array([0.3, 0.2, 0.6])
    lower = gain(ours, theirs, higher_is_better=False)
    assert lower.mean == pytest.approx(0.5 / 3)
    assert (lower.better_on, lower.worse_on, lower.n_images) == (2, 0, 3)
    assert (lower.low, lower.high) == (None, None)
    assert gain(ours, theirs, higher_is_better=True).mean == pytest.approx(-0.5 / 3)


def test_p_value_is_the_share_of_sign_flips_that_differ_as_much():
    differences = scores(9, mean=0.6)
    flips = [np.mean(differences * signs) for signs in itertools.product((-1, 1), repeat=9)]
    expected = np.mean(np.abs(flips) >= abs(differences.mean()) - 1e-12)
    assert gain(differences, np.zeros(9), higher_is_better=True).p_value == pytest.approx(expected)


def test_p_value_of_many_images_is_near_students():
    differences = scores(200, mean=0.12)
    expected = stats.ttest_1samp(differences, 0).pvalue
    assert 0.01 < expected < 0.3
    assert gain(differences, np.zeros(200), higher_is_better=True).p_value == pytest.approx(expected, abs=0.02)


def test_models_that_are_the_same_differ_by_nothing():
    found = gain(scores(20), scores(20), higher_is_better=True)
    assert (found.mean, found.low, found.high, found.p_value) == (0, 0, 0, 1)
    assert (found.better_on, found.worse_on) == (0, 0)


def test_one_image_says_nothing():
    found = gain([0.5], [0.4], higher_is_better=True)
    assert (found.low, found.high, found.p_value) == (None, None, 1)


@pytest.mark.parametrize(
    ("p_values", "adjusted"),
    [
        ([0.01], [0.01]),
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),  # R: p.adjust(p, "holm")
        ([0.5, 0.6, 0.4], [1.0, 1.0, 1.0]),
        ([], []),
    ],
)
def test_holm_adjusts_as_the_literature_does(p_values, adjusted):
    assert holm(p_values) == pytest.approx(adjusted)


@pytest.mark.parametrize("margin", [0.0, 0.05])
def test_turning_point_is_the_number_of_gains_that_carry_the_certainty(margin):
    gains = np.r_[np.full(5, 1.0), scores(60) / 10] + margin
    count = turning_point(gains, margin, CONFIDENCE)
    ascending = np.sort(gains)
    assert surely_above(ascending[: len(gains) - count + 1], margin, CONFIDENCE)
    assert not surely_above(ascending[: len(gains) - count], margin, CONFIDENCE)
    assert 1 <= count <= 5


def test_turning_point_is_the_number_of_losses_that_stand_in_the_way():
    gains = np.r_[np.full(3, -1.0), 0.1 + np.abs(scores(30)) / 10]
    count = turning_point(gains, 0.0, CONFIDENCE)
    ascending = np.sort(gains)
    assert not surely_above(ascending[count - 1 :], 0.0, CONFIDENCE)
    assert surely_above(ascending[count:], 0.0, CONFIDENCE)
    assert 1 <= count <= 3


@pytest.mark.parametrize("gains", [np.zeros(20), np.full(20, -0.1), np.ones(4), np.ones(6)])
def test_without_a_turning_point_there_is_none(gains):
    assert turning_point(gains, 0.0, CONFIDENCE) is None


def test_turning_point_of_means_alone():
    assert turning_point([5.0, -1.0, -1.0, -1.0], 0.0, 0.0) == 1
    assert turning_point([-5.0, 1.0, 1.0], 0.0, 0.0) == 1
