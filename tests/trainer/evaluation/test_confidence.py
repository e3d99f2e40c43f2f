"""Intervals and p-values, compared with published values and with each other."""

import numpy as np
import pytest
from scipy import stats

from trainer.evaluation import confidence
from trainer.evaluation.confidence import (
    MIN_IMAGES,
    Share,
    decision_level,
    gain,
    holm,
    mean_interval,
    share,
    skewed_interval,
)


def scores(n, seed=0, mean=0.0):
    return np.random.default_rng(seed).normal(mean, size=n)


def test_interval_is_students():
    # The paired differences of Student (1908), as R's t.test(extra ~ group, sleep, paired=TRUE) evaluates them.
    hours = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4]
    assert mean_interval(hours) == pytest.approx([0.7001, 2.4599], abs=1e-4)
    assert gain(hours, np.zeros(10), higher_is_better=True).p_value == pytest.approx(0.002833, abs=1e-6)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_interval_contains_the_true_mean_as_often_as_it_says(level):
    intervals = [mean_interval(sample, level) for sample in scores((1000, 8), mean=3.0)]
    held = np.mean([low <= 3.0 <= high for low, high in intervals])
    assert held == pytest.approx(level, abs=4 * np.sqrt(level * (1 - level) / 1000))


def test_interval_follows_scale_and_offset():
    values = scores(30)
    low, high = mean_interval(values)
    assert mean_interval(1e-100 * values) == pytest.approx([1e-100 * low, 1e-100 * high], rel=1e-9)
    assert mean_interval(1e6 + values) == pytest.approx([1e6 + low, 1e6 + high], rel=1e-12)


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("n", [2, 3, 40])
def test_p_value_agrees_with_the_interval(n, level):
    outcomes = set()
    for seed in range(200):
        result = gain(scores(n, seed, mean=4 / n), np.zeros(n), higher_is_better=True, level=level)
        excludes_0 = result.low > 0 or result.high < 0
        assert excludes_0 == (result.p_value < 1 - level)
        outcomes.add(excludes_0)
    assert outcomes == {True, False}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("values", "p_value"),
    [(np.zeros(6), 1), (np.full(10, 0.3), 0), (np.r_[np.full(9, 0.1), 0.1 + 1e-16], 0)],
)
def test_interval_of_equal_scores_is_their_mean(values, p_value):
    assert mean_interval(values) == [values.mean()] * 2
    result = gain(values, np.zeros(len(values)), higher_is_better=True)
    assert (result.mean, result.low, result.high, result.p_value) == (*[values.mean()] * 3, p_value)
    assert (result.better_on, result.worse_on) == (np.count_nonzero(values), 0)


@pytest.mark.parametrize("sign", [1, -1])
def test_interval_of_skewed_scores_misses_the_mean_equally_often_on_both_sides(sign):
    """Student's misses it 1.75% of the time on one side, and 0.5% on the other."""
    rng = np.random.default_rng(0)
    samples = sign * (rng.gamma(4.0, size=(4000, 50)) - 4)
    skewed = np.array([skewed_interval(sample, 0.98) for sample in samples])
    plain = stats.ttest_1samp(samples, 0, axis=1).confidence_interval(0.98)  # `mean_interval` of them all at once
    above, below = (skewed[:, 0] > 0).mean(), (skewed[:, 1] < 0).mean()
    often, seldom = ((plain.high < 0).mean(), (plain.low > 0).mean())[::sign]
    assert often > 3 * seldom
    # Each side is missed with a probability of 1%, whose standard error is 0.16%.
    assert 0.006 < above < 0.014
    assert 0.006 < below < 0.014


def test_interval_of_scores_without_skewness_is_students():
    scores = np.concatenate([np.arange(1.0, 11), -np.arange(1.0, 11)])
    assert skewed_interval(scores, 0.99) == pytest.approx(mean_interval(scores, 0.99))
    for few in (scores[:9], [0.5] * 20):
        assert skewed_interval(few) == mean_interval(few)


def test_interval_needs_two_images():
    assert MIN_IMAGES == 2
    assert mean_interval([0.5, 0.6]) is not None
    result = gain([0.5], [0.4], higher_is_better=True)
    assert (result.low, result.high, result.p_value) == (None, None, 1)


def test_gain_is_positive_if_ours_is_better():
    ours, theirs = np.array([0.1, 0.2, 0.3]), np.array([0.3, 0.2, 0.6])
    lower = gain(ours, theirs, higher_is_better=False)
    assert lower.mean == pytest.approx(0.5 / 3)
    assert (lower.better_on, lower.worse_on, lower.n_images) == (2, 0, 3)
    assert [lower.low, lower.high] == mean_interval([0.2, 0.0, 0.3])
    assert gain(ours, theirs, higher_is_better=True).mean == pytest.approx(-0.5 / 3)


@pytest.mark.parametrize(
    ("p_values", "adjusted"),
    [
        ([0.01], [0.01]),
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),  # R: p.adjust(p, "holm")
        ([0.5, 0.6, 0.4], [1.0, 1.0, 1.0]),
        ([], []),
    ],
)
def test_holm_adjusts_p_values(p_values, adjusted):
    assert holm(p_values) == pytest.approx(adjusted)


def test_ends_of_a_share_are_where_students_interval_begins_to_contain_0():
    """The definition of Fieller's interval."""
    end = scores(30, 1, mean=2.0)
    model, start = 0.4 * end + scores(30, 2), scores(30, 3, mean=0.1)
    result = share(model, start, end, higher_is_better=True)
    for place, index in ((result.low, 0), (result.high, 1)):
        assert mean_interval((model - start) - place * (end - start))[index] == pytest.approx(0, abs=1e-12)
    assert result.share == pytest.approx((model - start).mean() / (end - start).mean())
    flipped = share(-model, -start, -end, higher_is_better=False)
    assert flipped == result


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_interval_of_a_share_contains_the_true_one_as_often_as_it_says(level):
    random = np.random.default_rng(5)
    held = []
    for _ in range(600):
        way = random.normal(1.0, 0.6, 25)
        gained = random.normal(0.7 * 1.0, 0.3, 25) + 0.5 * (way - 1.0)
        result = share(gained, np.zeros(25), way, higher_is_better=True, level=level)
        held.append(result.low <= 0.7 <= result.high)
    assert np.mean(held) == pytest.approx(level, abs=4 * np.sqrt(level * (1 - level) / 600))


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ([0.5], [0.9]),  # one image
        ([0.5, 0.5, 0.5], [0.4, 0.3, 0.4]),  # the end is worse
        ([0.5, 0.5, 0.5], [0.9, 0.4, 0.6]),  # and may be better
        ([0.5, 0.5], [0.5, 0.5]),
    ],
)
@pytest.mark.filterwarnings("error")
def test_there_is_no_share_of_a_way_that_is_not_certain(start, end):
    assert share(start, start, end, True) == Share(None, None, None)


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_all_decisions_of_a_year_spend_its_error_and_later_ones_never_more(confidence):
    spent = [(1 - decision_level(confidence, decision)) / 2 for decision in range(1, 100_001)]
    assert spent == sorted(spent, reverse=True)
    # What decisions beyond the last one have left is 0.5 / (n + 1) of the error.
    assert sum(spent) == pytest.approx((1 - confidence) * (1 - 0.5 / 100_001), rel=1e-9)
    assert sum(spent[:52]) > 0.98 * (1 - confidence)
    # By hand: 1/4 + 1/104, and 0.5 / (52 * 53) + 1/104, of the error.
    assert spent[0] == pytest.approx(0.2596153846 * (1 - confidence), rel=1e-9)
    assert spent[51] == pytest.approx(0.0097968069 * (1 - confidence), rel=1e-8)


def test_the_interval_of_groups_contains_the_others_and_comes_close_to_them_with_many():
    for seed, n in ((0, 12), (1, 30), (2, 3000)):
        values = 4 - np.random.default_rng(seed).gamma(4, size=n)
        low, high = confidence.grouped_interval(values, 0.99)
        others = [confidence.mean_interval(values, 0.99), confidence.skewed_interval(values, 0.99)]
        assert low <= min(each[0] for each in others)
        assert high >= max(each[1] for each in others)
    assert high - low == pytest.approx(others[1][1] - others[1][0], rel=0.05)


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0, 4.0], [0.3] * 20])
def test_the_interval_of_few_or_equal_groups_is_students(values):
    assert confidence.grouped_interval(values) == confidence.mean_interval(values)
