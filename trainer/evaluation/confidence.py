"""Confidence intervals over images: of a mean, of the paired difference of two models, and of a share of a way.

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


@dataclasses.dataclass(frozen=True)
class Share:
    """How far a model comes on the way from one score to another: 0 at the start, 1 at the end, or beyond."""

    share: float | None
    """None if the end is not certainly better than the start, or there are fewer than MIN_IMAGES images."""
    low: float | None
    """Lower end of the confidence interval; None with `share`."""
    high: float | None


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


def share(
    model: npt.ArrayLike,
    start: npt.ArrayLike,
    end: npt.ArrayLike,
    higher_is_better: bool,
    level: float = CONFIDENCE,
) -> Share:
    """The mean gain of the model over the start, divided by that of the end, from scores of the same images, (n,).

    The interval is Fieller's (1954): all shares r for which Student's interval of the mean of (gain of the model)
    - r (gain of the end) contains 0. It has two ends exactly if Student's interval of the gain of the end excludes
    0; otherwise any share would do, and there is none.
    """
    gained, way = gains_of(model, start, higher_is_better), gains_of(end, start, higher_is_better)
    low, _ = interval(way, level) or (0.0, 0.0)
    if low <= 0:
        return Share(None, None, None)
    x, y = float(gained.mean()), float(way.mean())
    (xx, xy), (_, yy) = stats.t.ppf((1 + level) / 2, len(way) - 1) ** 2 / len(way) * np.cov(gained, way)
    # The ends are the roots of r^2 (y^2 - yy) - 2 r (x y - xy) + x^2 - xx.
    leading, middle = y * y - yy, x * y - xy
    half = float(np.sqrt(max(0.0, middle * middle - leading * (x * x - xx))))
    return Share(x / y, float((middle - half) / leading), float((middle + half) / leading))


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
