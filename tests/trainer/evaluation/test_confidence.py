"""Intervals and p-values, compared with published values and with each other."""

import numpy as np
import pytest
from scipy import stats

from research import promotions
from trainer.evaluation import confidence
from trainer.evaluation.confidence import (
    MIN_IMAGES,
    decision_level,
    gain,
    holm,
    mean_interval,
    share,
)
from trainer.evaluation.evaluation import Share


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


# === The interval that decides ===


def years_of_promotions(name, n, rules, n_years=400, shift=0.0):
    draw = promotions.GAINS[name]
    return promotions.years(np.random.default_rng(3), draw, n, rules, shift, n_years)


@pytest.mark.parametrize("name", promotions.OF_GROUPS)
@pytest.mark.parametrize("n", [confidence.MIN_DECIDING, 75])
def test_models_that_are_no_better_are_promoted_in_few_years_whatever_their_gains(name, n):
    """At most 6%, whose standard error is 1.2%; a model that is worse still less often."""
    (share,) = years_of_promotions(name, n, [promotions.gate])
    assert share <= 0.06
    assert years_of_promotions(name, n, [promotions.gate], shift=-0.1)[0] <= share


def test_other_intervals_promote_models_that_are_no_better():
    """What the test above finds in the rules that decided before."""
    heavy = years_of_promotions("lognormal, to the left", 30, [promotions.hall, promotions.student])
    rare = years_of_promotions("5% lose four spreads", 75, [promotions.hall, promotions.student])
    assert min(heavy) > 0.2
    assert min(rare) > 0.08


def test_models_of_groups_that_are_no_better_are_promoted_in_few_years():
    for name in ("normal", "lognormal, to the left"):
        draw = promotions.group_means(promotions.GAINS[name], 0.3, confidence.MIN_DECIDING)
        shares = promotions.years(
            np.random.default_rng(0), draw, confidence.MIN_DECIDING, [promotions.gate], n_years=60
        )
        assert shares[0] <= 0.06, name


@pytest.mark.parametrize("alpha", [0.1, 0.01, 0.001])
@pytest.mark.parametrize("n", [30, 200])
def test_the_end_is_a_quantile_of_means_with_random_weights(alpha, n):
    """The definition of Gaffke's bound, with 400,000 drawn weights."""
    rng = np.random.default_rng(n)
    for values in (rng.standard_normal(n), rng.lognormal(size=n), -rng.lognormal(size=n)):
        (end,) = confidence.lower_ends(values[None], alpha)
        bounded = np.append(values, 3 * values.min() - 2 * values.mean()) - end
        is_below = [rng.standard_exponential((20_000, n + 1)) @ bounded <= 0 for _ in range(20)]
        share = np.mean(is_below)
        assert share == pytest.approx(alpha, abs=4 * np.sqrt(alpha / 400_000), rel=0.05)


@pytest.mark.parametrize(("wins", "n"), [(3, 30), (15, 30), (29, 30), (60, 200)])
def test_the_end_of_wins_and_losses_is_that_of_clopper_and_pearson(wins, n, monkeypatch):
    """If nothing is thought to lie beyond the sample, and its values are 0 and 1."""
    monkeypatch.setattr(confidence, "UNSEEN", 1.0)
    values = np.repeat([1.0, 0.0], [wins, n - wins])
    for level in (0.9, 0.99, 0.999):
        exact = stats.binomtest(wins, n).proportion_ci(level, "exact")
        assert confidence.deciding_interval(values, level) == pytest.approx([exact.low, exact.high], rel=0.01)


def test_the_deciding_interval_follows_scale_offset_and_sign():
    values = np.random.default_rng(1).gamma(2.0, size=40)
    low, high = confidence.deciding_interval(values, 0.999)
    assert low < values.mean() < high
    for scale in (10.0, 1e-9):
        assert confidence.deciding_interval(scale * values, 0.999) == pytest.approx([scale * low, scale * high])
    assert confidence.deciding_interval(values - 100, 0.999) == pytest.approx([low - 100, high - 100])
    assert confidence.deciding_interval(-values, 0.999) == pytest.approx([-high, -low])
    assert confidence.deciding_interval(values[::-1], 0.999) == pytest.approx([low, high])


@pytest.mark.filterwarnings("error")
def test_the_deciding_interval_is_finite_and_wider_at_higher_levels():
    for seed in range(5):
        values = np.random.default_rng(seed).standard_t(2, size=30)
        ends = np.array(
            [confidence.deciding_interval(values, level) for level in (0, 0.5, 0.9, 0.999, 1 - 1e-9, 1)]
        )
        assert np.isfinite(ends).all()
        assert (np.diff(ends[:, 0]) < 0).all()
        assert (np.diff(ends[:, 1]) > 0).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [0.0, 0.3, -2.0])
def test_equal_gains_are_their_mean_and_one_that_differs_widens_the_interval(value):
    values = np.full(30, value)
    assert confidence.deciding_interval(values, 0.999) == pytest.approx([value, value], abs=1e-15)
    values[0] += 1e-17
    assert confidence.deciding_interval(values, 0.999) == pytest.approx([value, value], abs=1e-15)
    values[0] -= 0.1
    low, high = confidence.deciding_interval(values, 0.999)
    assert low < values.mean() < high


def test_there_is_no_deciding_interval_of_few_values():
    values = scores(confidence.MIN_DECIDING)
    assert confidence.deciding_interval(values) is not None
    assert confidence.deciding_interval(values[1:]) is None
    assert confidence.detectable_gain(1.0, confidence.MIN_DECIDING - 1, 0.95) == float("inf")


@pytest.mark.parametrize("n", [30, 50, 300])
@pytest.mark.parametrize("decision", [1, 12, 52])
def test_the_detectable_gain_is_found_half_of_the_time(n, decision):
    level = decision_level(0.95, decision)
    gains = np.random.default_rng(2).normal(confidence.detectable_gain(0.1, n, level), 0.1, (1000, n))
    found = (confidence.lower_ends(gains, (1 - level) / 2) > 0).mean()
    assert found == pytest.approx(0.5, abs=0.08)
