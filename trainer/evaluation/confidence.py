"""Confidence intervals of a mean over images, of the paired difference of two models, and of a share of a way.

Student's t (scipy). The images are a sample of all possible images, so another sample has another mean. The values
that an interval is made of are assumed to be independent: images that belong together, such as the pages of a
site, are one value, their mean (`per_image.PerImage.values`). The people who looked at them are a sample, too:
where it is known who saw which images, `people_of` estimates what other people would change.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from trainer.evaluation.evaluation import CONFIDENCE, Gain, Interval, Share

Values = npt.NDArray[np.float64]
Units = npt.NDArray[np.int64]

MIN_IMAGES = 2
"""Student's interval estimates the spread of the scores, so it needs two of them.

With two images it reaches 9 standard deviations to each side, so it rarely decides anything. It then contains the
true mean about as often as with ten images (0.95 for normal scores, 0.93 for uniform ones), so there is no reason
for a higher minimum.
"""
MIN_PEOPLE = 1.5
"""So many effective people tell how people differ."""
MIN_DECIDING = 20
"""A decision needs so many images that neither model was trained on, or groups where images belong together.

With fewer, too little is known of the losses: where these have a long tail, a year of decisions promotes models
that are no better in more than 6% of the cases (`python -m research.promotions`)."""
UNSEEN, ENOUGH = 3.0, 30
"""An image that is not in the sample may be so many times as far below the mean as the worst one that is. Of fewer
images than `ENOUGH` the worst tells less, so it may be sqrt(`ENOUGH` / n) times as far.

Chosen by simulation, as the least half with which a year of decisions promotes models that are no better in at
most 6% of the cases, if a few images lose so much that they are most of the spread: 10% of them three standard
deviations, 5% four, 3% five or 2% six. A sample without them has half of the true spread."""
EQUAL = 1e-12
"""Values are equal but for rounding if their bound is less far from their mean, relative to it."""
BETS, BISECTIONS = (1e-3, 1e9), 60
"""Bets that are searched, and the steps."""
DECISIONS_A_YEAR = 52
"""Weekly retraining decides so often whether its candidate becomes the default."""


@dataclasses.dataclass(frozen=True)
class People:
    """What the choice of the people adds to the variance of a mean over images."""

    variance: float
    n_effective: float
    """1 / the sum of the squared shares of people in the mean: their number, if these are equal (Kish 1965)."""


def people_of(influences: Values, shares: Values, observers: npt.NDArray[np.int64], units: Units) -> People | None:
    """Estimate what the choice of the people adds to the variance of a mean. None if it is of one person alone.

    Images and people are crossed samples, or each image has people of its own, or anything between. The squared
    influences of people, less the squared influences of their single images, are what a person has in common
    with himself on other
    images: an image's own noise is in the variance over images already. It is the variance of two-way clustered
    data (Cameron, Gelbach and Miller 2011, doi:10.1198/jbes.2010.07136) and, for balanced data, the variance
    of Clark's F' for items and subjects (1973, doi:10.1016/S0022-5371(73)80014-3). A bootstrap of images and
    people is conservative where few people see an image, and too short for few people (Owen 2007,
    doi:10.1214/07-AOAS122, and `research/people.py`).

    Args:
        influences: (k,) what each person on each image contributes to the difference of the mean from its
            expectation. Their sum over the people of an image is the contribution of the image.
        shares: (k,) weight of each person on each image in the mean. Their sum is 1.
        observers: (k,) the person, from 0.
        units: (k,) the image, or the group of images that are one value of the mean, from 0.
    """
    of_person, share = (np.bincount(observers, values) for values in (influences, shares))
    of_unit, n_units = np.bincount(units, influences), len(np.unique(units[shares > 0]))
    cells = np.unique(observers * len(of_unit) + units, return_inverse=True)[1]
    of_cell = np.bincount(cells, influences)
    n_effective = float(1 / (share @ share))
    if n_effective < MIN_PEOPLE:
        return None
    # Influences are differences from the mean of all, which hides 1 / n of the variance of n people.
    over_images = of_unit @ of_unit * n_units / max(1, n_units - 1)
    variance = (of_person @ of_person - of_cell @ of_cell + over_images / n_effective) / (1 - 1 / n_effective)
    return People(max(0.0, float(variance)), n_effective)


def mean_interval(
    values: npt.ArrayLike, level: float = CONFIDENCE, people: People | None = None
) -> Interval | None:
    """Compute Student's confidence interval of the mean of one score per image, (n,). None below MIN_IMAGES.

    With `people` it holds for other images and other people, else for other images and the same people. If all
    scores are equal (but for rounding), and people add no variance, both ends are their mean.
    """
    scores = np.asarray(values, np.float64)
    if len(scores) < MIN_IMAGES:
        return None
    error, freedom = _standard_error(scores, people)
    half = float(stats.t.ppf((1 + level) / 2, freedom)) * error
    return [float(scores.mean()) - half, float(scores.mean()) + half]


def deciding_interval(values: npt.ArrayLike, level: float = CONFIDENCE) -> Interval | None:
    """Compute the confidence interval of the mean, (n,), that decides. None below MIN_DECIDING.

    Each end is missed with a probability of at most (1 - `level`) / 2 if no value lies farther out than `UNSEEN`
    allows. Without such a bound there is no interval of a mean (Bahadur and Savage 1956,
    doi:10.1214/aoms/1177728077). Student's and Hall's miss it far too often where few values lose much: the sample
    may have none of these (`research/promotions.py`). If all values are equal (but for
    rounding), both ends are their mean.
    """
    scores = np.asarray(values, np.float64)
    if len(scores) < MIN_DECIDING:
        return None
    low, high = (end * float(lower_ends(end * scores[None], (1 - level) / 2)[0]) for end in (1, -1))
    return [low, high]


def lower_ends(samples: Values, alpha: float) -> Values:
    """Compute a bound of the mean, above the true one with probability `alpha`, of each sample, (k, n): (k,).

    The bound of N. Gaffke (Three test statistics for a nonparametric one-sided hypothesis on the mean of a
    nonnegative variable, Mathematical Methods of Statistics 14, 2005): one value at the bound of the unseen joins
    the sample, and the end is the `alpha` quantile of the mean with random weights of a flat Dirichlet
    distribution. It is not proven that it holds for all distributions above the bound, but none is known for which
    it fails (Learned-Miller and Thomas 2020, arXiv:1905.06208). For values of two kinds it is Clopper-Pearson's.

    The quantile is a saddlepoint approximation: in place of the weights are exponential variables, whose
    cumulant generating function at -b is minus the logarithm of the capital that bets of b on each value win
    against the mean (Waudby-Smith and Ramdas 2024, doi:10.1093/jrsssb/qkad009). The best bet is the saddlepoint.
    """
    mean = samples.mean(1)
    distances = UNSEEN * max(1.0, (ENOUGH / samples.shape[1]) ** 0.5) * (mean - samples.min(1))
    varies = distances > EQUAL * np.abs(mean)
    scale = np.where(varies, distances, 1)[:, None]
    # From the bound on, in units of its distance to the mean.
    above = np.concatenate([np.zeros_like(scale), (samples - mean[:, None]) / scale + 1], 1)
    target, n = special.ndtri(alpha), above.shape[1]
    low, high = (np.full(len(above), np.log(end)) for end in BETS)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        factors = 1 + np.exp(middle)[:, None] * above
        means = n / (1 / factors).sum(1)  # harmonic; 1 + bet * (end - bound)
        w = -np.sqrt(2 * (np.log(factors).sum(1) - n * np.log(means)))
        v = -np.sqrt(((1 - means[:, None] / factors) ** 2).sum(1))
        is_below = w + np.log(v / w) / w < target  # Barndorff-Nielsen's r*
        low, high = np.where(is_below, low, middle), np.where(is_below, middle, high)
    bet = np.exp(low)
    ends = (1 / ((1 / (1 + bet[:, None] * above)).mean(1)) - 1) / bet
    return np.asarray(np.where(varies, mean + (ends - 1) * distances, mean))


def detectable_gain(spread: float, n: int, level: float) -> float:
    """The mean gain that a decision on n images at this level finds half of the time, if gains are normal.

    It is so far from 0 to the lower end for the expected sample. Infinite below MIN_DECIDING.

    Args:
        spread: Standard deviation of the gains of images, in the unit of the result.
        n: Number of images, or of groups of images.
        level: Level of `deciding_interval`.
    """
    if n < MIN_DECIDING:
        return float("inf")
    expected = special.ndtri((np.arange(n) + 0.625) / (n + 0.25))  # of the ordered gains (Blom 1958)
    return -spread * float(lower_ends(expected[None] / expected.std(ddof=1), (1 - level) / 2)[0])


def gain(
    ours: npt.ArrayLike,
    theirs: npt.ArrayLike,
    higher_is_better: bool,
    level: float = CONFIDENCE,
    of_groups: bool = False,
    people: People | None = None,
) -> Gain:
    """Compute the gain of one model over another from the scores of both on the same images or groups, (n,).

    `people` is what people add to the variance of the gains, as for `mean_interval`.
    """
    gains = gains_of(ours, theirs, higher_is_better)
    low, high = mean_interval(gains, level, people) or (None, None)
    better_on, worse_on = int((gains > 0).sum()), int((gains < 0).sum())
    counts = len(gains), better_on, worse_on
    return Gain(float(gains.mean()), low, high, _p_value(gains, people), *counts, level=level, of_groups=of_groups)


def gains_of(ours: npt.ArrayLike, theirs: npt.ArrayLike, higher_is_better: bool) -> Values:
    """The gain on each image, (n,)."""
    differences = np.subtract(ours, theirs, dtype=np.float64)
    gains: Values = differences if higher_is_better else -differences
    return gains


def share(
    model: npt.ArrayLike,
    start: npt.ArrayLike,
    end: npt.ArrayLike,
    higher_is_better: bool,
    level: float = CONFIDENCE,
) -> Share:
    """The mean gain of the model over the start, divided by the end's, from scores of the same images, (n,).

    The interval is Fieller's (1954): all shares r for which Student's interval of the mean of (gain of the model)
    - r (gain of the end) contains 0. It has two ends exactly if Student's interval of the gain of the end excludes
    0. Otherwise any share would do, and there is none.
    """
    gained, way = gains_of(model, start, higher_is_better), gains_of(end, start, higher_is_better)
    low, _ = mean_interval(way, level) or (0.0, 0.0)
    if low <= 0:
        return Share(None, None, None)
    x, y = float(gained.mean()), float(way.mean())
    (xx, xy), (_, yy) = stats.t.ppf((1 + level) / 2, len(way) - 1) ** 2 / len(way) * np.cov(gained, way)
    # The ends are the roots of r^2 (y^2 - yy) - 2 r (x y - xy) + x^2 - xx.
    leading, middle = y * y - yy, x * y - xy
    half = float(np.sqrt(max(0.0, middle * middle - leading * (x * x - xx))))
    return Share(x / y, float((middle - half) / leading), float((middle + half) / leading))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust the p-values of several comparisons, so that each can be held against one level (Holm 1979)."""
    ascending = np.argsort(p_values)
    n_left = np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[ascending] = np.maximum.accumulate(np.minimum(1, n_left * np.asarray(p_values)[ascending]))
    return [float(p_value) for p_value in adjusted]


def decision_level(confidence: float, decision: int) -> float:
    """Return the level of the two-sided interval that makes decision number `decision` of a year, from 1.

    Each decision is about another candidate, so the year's probability of an error, 1 - `confidence`, is shared
    out among the decisions (alpha spending: Lan and DeMets 1983, doi:10.2307/2336502, here by Bonferroni's
    inequality, which holds for candidates and images that depend on each other in any way). One half goes to the
    first DECISIONS_A_YEAR decisions in equal parts. The other half favours the first few: decision k gets
    1 / (k (k + 1)) of it. The parts of all decisions sum up to 1, and a later decision never gets more than an
    earlier one. So the parts of any year are at most 1, too, when `decision` counts the decisions of the year
    before it.
    """
    spent = 0.5 / (decision * (decision + 1))
    if decision <= DECISIONS_A_YEAR:
        spent += 0.5 / DECISIONS_A_YEAR
    return 1 - 2 * (1 - confidence) * spent


def _p_value(gains: Values, people: People | None) -> float:
    """1 for too few images or gains of 0 only. 0 if all gains are equal and not 0, as their interval says."""
    if len(gains) < MIN_IMAGES or not gains.any():
        return 1.0
    error, freedom = _standard_error(gains, people)
    return float(2 * stats.t.sf(abs(gains.mean()) / error, freedom)) if error else 0.0


def _standard_error(scores: Values, people: People | None) -> tuple[float, float]:
    """The standard error of a mean, 0 if nothing varies, and its degrees of freedom (Satterthwaite 1946)."""
    of_images, freedom = (
        (0.0 if _are_equal(scores) else float(scores.var(ddof=1) / len(scores))),
        len(scores) - 1.0,
    )
    if people is None or not people.variance:
        return float(np.sqrt(of_images)), freedom
    variance, of_people = of_images + people.variance, people.variance / (of_images + people.variance)
    freedom = 1 / ((1 - of_people) ** 2 / freedom + of_people**2 / (people.n_effective - 1))
    return float(np.sqrt(variance)), freedom


def _are_equal(scores: Values) -> bool:
    # scipy divides by the spread, and rounding alone must not count as one.
    return bool(np.ptp(scores) <= 1e-12 * np.abs(scores).max())
