"""Confidence intervals of a mean over images, and of the paired difference of two models on the same images.

Student's t (scipy). The images are a sample of all possible images, so another sample has another mean. Images are
assumed to be independent.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import stats

Values = npt.NDArray[np.float64]
Interval = list[float]
"""Lower and upper end."""

CONFIDENCE = 0.95
MIN_IMAGES = 2
"""Student's interval estimates the spread of the scores, so it needs two of them.

With two images it reaches 9 standard deviations to each side, so it rarely decides anything. It then contains the
true mean about as often as with ten images (0.95 for normal scores, 0.93 for uniform ones), so there is no reason
for a higher minimum.
"""


@dataclasses.dataclass(frozen=True)
class Gain:
    """How much better one model is than another on the same images; positive is better in every metric."""

    mean: float
    low: float | None
    """Lower end of the confidence interval of the mean; None for fewer than MIN_IMAGES images."""
    high: float | None
    p_value: float
    """Two-sided p-value of a paired t-test; it is below 1 - level exactly if the interval excludes 0."""
    n_images: int
    better_on: int
    worse_on: int


def interval(values: npt.ArrayLike, level: float = CONFIDENCE) -> Interval | None:
    """Student's confidence interval of the mean of one score per image, (n,); None for fewer than MIN_IMAGES.

    If all scores are equal (but for rounding), both ends are their mean.
    """
    scores = np.asarray(values, np.float64)
    if len(scores) < MIN_IMAGES:
        return None
    if _are_equal(scores):
        return [float(scores.mean())] * 2
    ends = stats.ttest_1samp(scores, 0).confidence_interval(level)
    return [float(ends.low), float(ends.high)]


def gain(ours: npt.ArrayLike, theirs: npt.ArrayLike, higher_is_better: bool, level: float = CONFIDENCE) -> Gain:
    """The gain of one model over another from the scores of both on the same images, (n,) each."""
    gains = gains_of(ours, theirs, higher_is_better)
    low, high = interval(gains, level) or (None, None)
    better_on, worse_on = int((gains > 0).sum()), int((gains < 0).sum())
    return Gain(float(gains.mean()), low, high, _p_value(gains), len(gains), better_on, worse_on)


def gains_of(ours: npt.ArrayLike, theirs: npt.ArrayLike, higher_is_better: bool) -> Values:
    """The gain on each image, (n,)."""
    differences = np.subtract(ours, theirs, dtype=np.float64)
    gains: Values = differences if higher_is_better else -differences
    return gains


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values of several comparisons, adjusted so that each can be held against the same level (Holm 1979)."""
    ascending = np.argsort(p_values)
    n_left = np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[ascending] = np.maximum.accumulate(np.minimum(1, n_left * np.asarray(p_values)[ascending]))
    return [float(p_value) for p_value in adjusted]


def _p_value(gains: Values) -> float:
    """1 for too few images or gains of 0 only; 0 if all gains are equal and not 0, as their interval says."""
    if len(gains) < MIN_IMAGES or not gains.any():
        return 1.0
    return 0.0 if _are_equal(gains) else float(stats.ttest_1samp(gains, 0).pvalue)


def _are_equal(scores: Values) -> bool:
    # scipy divides by the spread, and rounding alone must not count as one.
    return bool(np.ptp(scores) <= 1e-12 * np.abs(scores).max())
