"""How certain a mean over images is, and a difference of two models on the same images.

The images are a sample of all that might be asked about; another draw of them gives other means. Intervals are
bootstraps over images (BCa, Efron 1987), p-values come from flipping the signs of the paired differences. Both are
seeded: the same scores give the same answer, in whatever order.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import stats

Values = npt.NDArray[np.float64]
Interval = tuple[float, float]

CONFIDENCE = 0.95
RESAMPLES = 19_999
"""The width of a 95% interval is then random by about a hundredth, and for so many images alike in all of them."""
LEAST_BEYOND = 10
"""Resamples that must lie beyond each end of an interval; its ends are mere extremes where there are fewer."""
SEED = 0
BATCH = 250
"""Resamples at a time, to bound the memory: 10 MB for 5,000 images."""


@dataclasses.dataclass(frozen=True)
class Gain:
    """By how much one model is better than another on the same images; above 0 is better, whatever the metric."""

    mean: float
    low: float | None
    """The interval of the mean; None where there are too few images for one."""
    high: float | None
    p_value: float
    """How often differences as large come about where neither model is better (two-sided)."""
    n_images: int
    better_on: int
    worse_on: int


def fewest(confidence: float) -> int:
    """With fewer images there is no interval: 6 for 0.95.

    Even if all differences had the same sign, it would be by chance alone more often than `1 - confidence` allows.
    """
    return math.ceil(1 - math.log2(1 - confidence)) if confidence else 1


def interval(values: npt.ArrayLike, confidence: float = CONFIDENCE) -> Interval | None:
    """The interval of the mean of one score for each image, (n,); None of fewer than `fewest` images.

    It is taken somewhat wider than asked, as wide as Student's where scores are normal, since a bootstrap sees too
    little variance in a small sample (Hesterberg 2015, section 4.1). docs/log.md says how often it holds. It is
    Student's where the resamples do not reach as far: of 0.99 for fewer than 12 images, and of 0.999.
    """
    scores = np.sort(np.asarray(values, np.float64))
    n = len(scores)
    if n < fewest(confidence):
        return None
    # BCa divides by the spread, so that it is made 1, and there must be some.
    mean, spread = scores.mean(), np.ptp(scores)
    if spread <= 1e-12 * np.abs(scores).max():
        return float(scores.min()), float(scores.max())
    quantile = stats.t.ppf((1 + confidence) / 2, n - 1)
    beyond = stats.norm.sf(math.sqrt(n / (n - 1)) * quantile)
    if beyond * RESAMPLES < LEAST_BEYOND:
        reach = quantile * scores.std(ddof=1) / math.sqrt(n)
        return float(mean - reach), float(mean + reach)
    found = stats.bootstrap(
        ((scores - mean) / spread,),
        np.mean,
        n_resamples=RESAMPLES,
        batch=BATCH,
        confidence_level=1 - 2 * beyond,
        rng=np.random.default_rng(SEED),
    ).confidence_interval
    return float(mean + spread * found.low), float(mean + spread * found.high)


def gain(
    ours: npt.ArrayLike, theirs: npt.ArrayLike, higher_is_better: bool, confidence: float = CONFIDENCE
) -> Gain:
    """The gain of one model over another from the scores of both for the same images, (n,) each."""
    gains = gains_of(ours, theirs, higher_is_better)
    low, high = interval(gains, confidence) or (None, None)
    better, worse = int((gains > 0).sum()), int((gains < 0).sum())
    return Gain(float(gains.mean()), low, high, _p_value(gains), len(gains), better, worse)


def gains_of(ours: npt.ArrayLike, theirs: npt.ArrayLike, higher_is_better: bool) -> Values:
    """The gain on each image, (n,)."""
    differences = np.subtract(ours, theirs, dtype=np.float64)
    gains: Values = differences if higher_is_better else -differences
    return gains


def _p_value(gains: Values) -> float:
    if len(gains) == 1 or not gains.any():
        return 1.0
    flipped = stats.permutation_test(
        (np.sort(gains),),
        np.mean,
        permutation_type="samples",
        n_resamples=RESAMPLES,
        batch=BATCH,
        rng=np.random.default_rng(SEED),
    )
    return min(1.0, float(flipped.pvalue))


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values of several comparisons, each as large as it must be so that one rule serves all (Holm 1979)."""
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def turning_point(gains: npt.ArrayLike, margin: float, confidence: float) -> int | None:
    """How many images would have to be left out to change whether the mean gain surely is above `margin`.

    Where it is, the images with the largest gains are left out, else those with the largest losses. None where no
    number of them is enough. Found by halving, in some ten bootstraps.
    """
    ascending = np.sort(np.asarray(gains, np.float64))
    above = surely_above(ascending, margin, confidence)

    def is_turned(count: int) -> bool:
        kept = ascending[: len(ascending) - count] if above else ascending[count:]
        return surely_above(kept, margin, confidence) != above

    few, enough = 0, len(ascending) - fewest(confidence)
    if enough <= 0 or not is_turned(enough):
        return None
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if is_turned(middle) else (middle, enough)
    return enough


def surely_above(gains: Values, margin: float, confidence: float) -> bool:
    """Whether the interval of the mean gain lies above `margin`; with a confidence of 0, whether the mean does."""
    if not confidence:
        return float(np.mean(gains)) > margin
    found = interval(gains, confidence)
    return found is not None and found[0] > margin
