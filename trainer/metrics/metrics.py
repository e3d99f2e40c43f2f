"""Saliency metrics of one image, as the MIT/Tuebingen benchmark defines them (Kümmerer et al. 2018). NumPy only.

All score one map, that which users get. `shuffled_auc_over_bias` alone scores another one, made of it.

Maps are (H, W). Points are (n, 2) integers, each (y, x) in pixels of the map. A point may occur several times.
Metrics of fixations are means over these: their functions return the value of each fixation, (n,). A prediction
may have any scale: only its order (AUC), its shape (CC, NSS) or its share of the sum (KLD, SIM, IG) counts.
Invalid arguments raise `ValueError` with the numbers. `trainer/metrics/metric_table.py` has one row per metric.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer.metrics.metric_table import METRICS
from trainer.metrics.points import Points, flat_indices

Map = npt.NDArray[np.float64]
Values = npt.NDArray[np.float64]
"""(n,): one for each fixation."""

EPSILON = 2.2204e-16
"""Keeps quotients and logarithms finite. The value is part of the benchmark's definition of KLD."""
MAX_EXPONENT = 1023
"""Exponent of the largest power of two that is a float."""
OF_UNIFORM = {"auc_judd": 0.5, "shuffled_auc": 0.5, "nss": 0.0, "cc": 0.0}
"""Metric -> its score of a uniform map, where that is the same for every image."""


def metric_value(name: str, prediction: npt.ArrayLike, truth: Mapping[str, Any]) -> float:
    """The metric of METRICS with this name. `truth` has at least what its row needs, under the same names."""
    return float(np.mean(metric_values(name, prediction, truth)))


def metric_values(name: str, prediction: npt.ArrayLike, truth: Mapping[str, Any]) -> Values | float:
    """The values with the mean `metric_value`: of all fixations, (n,), or one value of a metric of densities."""
    return FUNCTIONS[name](prediction, **{need: truth[need] for need in METRICS[name].needs})


def auc_judd(prediction: npt.ArrayLike, fixations: Points) -> Values:
    """Area under the ROC of the prediction at a fixation against all pixels, (n,) in 0..1. Ties count half."""
    prediction = _as_map("prediction", prediction)
    return _roc_areas(_at("fixations", prediction, fixations), prediction.ravel())


def shuffled_auc(prediction: npt.ArrayLike, fixations: Points, other_fixations: Points) -> Values:
    """Area under the ROC of the prediction at a fixation against other images' fixations, (n,) in 0..1.

    Ties count half. `other_fixations` are in pixels of this image (see `scale_points`). A centre bias does not
    help against them (Zhang et al. 2008).
    """
    prediction = _as_map("prediction", prediction)
    negatives = _at("other_fixations", prediction, other_fixations)
    return _roc_areas(_at("fixations", prediction, fixations), negatives)


def shuffled_auc_of_counts(prediction: npt.ArrayLike, fixations: Points, other_counts: npt.ArrayLike) -> Values:
    """`shuffled_auc`, (n,), with the other images' fixations counted per pixel, (H, W).

    The run time does not grow with the number of fixations (a million in SALICON).
    """
    prediction = _as_map("prediction", prediction)
    counts = _as_map("other_counts", other_counts, prediction.shape)
    if counts.min() < 0 or not counts.any():
        raise ValueError(
            f"other_counts sum to {counts.sum():g} with a minimum of {counts.min():g}. They need a positive sum "
            "and no negative value"
        )
    counts = _rescaled(counts)
    fixated = np.flatnonzero(counts)
    return _roc_areas(
        _at("fixations", prediction, fixations), prediction.ravel()[fixated], counts.ravel()[fixated]
    )


def shuffled_auc_over_bias(
    prediction: npt.ArrayLike, fixations: Points, other_counts: npt.ArrayLike, baseline: npt.ArrayLike
) -> Values:
    """`shuffled_auc_of_counts`, (n,), of the prediction divided by the baseline: a centre bias, (H, W).

    Other images' fixations follow the centre bias, so that of all maps of one density this one scores best: the
    benchmark scores densities by it, each metric with its own map (Kümmerer et al. 2018).
    """
    prediction, baseline = _pair(prediction, baseline, "baseline")
    ratio = (EPSILON + _as_distribution(prediction)) / (EPSILON + _as_distribution(baseline))
    return shuffled_auc_of_counts(ratio, fixations, other_counts)


def nss(prediction: npt.ArrayLike, fixations: Points) -> Values:
    """The prediction at a fixation, in standard deviations above its mean, (n,) (Peters 2005).

    The standard deviation divides by n, not n - 1. 0 for a constant prediction.
    """
    prediction = _rescaled(_as_map("prediction", prediction))
    values = _at("fixations", prediction, fixations)
    # Rounding can make the standard deviation of a constant map positive.
    if prediction.min() == prediction.max():
        return np.zeros(len(values))
    standardized: Values = (values - prediction.mean()) / prediction.std()
    return standardized


def correlation(prediction: npt.ArrayLike, density: npt.ArrayLike) -> float:
    """Pearson correlation of prediction and density, -1..1. 0 if either is constant."""
    prediction, density = map(_rescaled, _pair(prediction, density))
    if prediction.min() == prediction.max() or density.min() == density.max():
        return 0.0
    p, q = prediction - prediction.mean(), density - density.mean()
    return float((p * q).sum() / np.sqrt((p * p).sum() * (q * q).sum()))


def kld(prediction: npt.ArrayLike, density: npt.ArrayLike) -> float:
    """Kullback-Leibler divergence of the prediction from the density in nats, at least 0 (except for rounding).

    sum q ln(e + q / (p + e)) with p and q normalised to sum 1. The training loss has another epsilon and
    normalisation.
    """
    p, q = map(_as_distribution, _pair(prediction, density))
    return float((q * np.log(EPSILON + q / (p + EPSILON))).sum())


def sim(prediction: npt.ArrayLike, density: npt.ArrayLike) -> float:
    """Histogram intersection of prediction and density, both normalised to sum 1: 0 (disjoint) to 1 (equal)."""
    p, q = map(_as_distribution, _pair(prediction, density))
    return float(np.minimum(p, q).sum())


def information_gain(prediction: npt.ArrayLike, fixations: Points, baseline: npt.ArrayLike) -> Values:
    """Bits that the prediction gains over the baseline at a fixation, (n,) (Kümmerer 2015).

    log2(e + p) - log2(e + b), with p and b normalised to sum 1. The baseline is a centre bias, (H, W).
    """
    prediction, baseline = _pair(prediction, baseline, "baseline")
    p = _at("fixations", _as_distribution(prediction), fixations)
    b = _at("fixations", _as_distribution(baseline), fixations)
    gain: Values = np.log2(EPSILON + p) - np.log2(EPSILON + b)
    return gain


def _roc_areas(positives: Values, negatives: Values, weights: Values | None = None) -> Values:
    """Share of the negatives that are lower than a positive, (n,). A tie counts half.

    The many negatives are looked up once in the few positives. `weights` are the numbers of times that each
    negative counts.
    """
    levels, places = np.unique(positives, return_inverse=True)
    above = np.nextafter(levels, np.inf)  # between it and its level are the negatives that tie with that
    edges = np.union1d(levels, above)
    # below[k]: number of negatives below edge k; the last entry counts all.
    below = np.cumsum(np.bincount(np.searchsorted(edges, negatives, "right"), weights, edges.size + 1))
    lower, not_higher = (below[np.searchsorted(edges, values)] for values in (levels, above))
    shares: Values = (lower + not_higher) / (2 * below[-1])
    return shares[places]


def _as_map(name: str, values: npt.ArrayLike, shape: tuple[int, ...] | None = None) -> Map:
    values = np.asarray(values, np.float64)
    if values.ndim != 2 or not values.size:
        raise ValueError(f"{name} has shape {values.shape}. It must be (height, width)")
    if shape is not None and values.shape != shape:
        raise ValueError(f"{name} has shape {values.shape}, the prediction {shape}. They must be equal")
    if not np.isfinite(values).all():
        n_bad = values.size - np.count_nonzero(np.isfinite(values))
        raise ValueError(f"{name} has {n_bad} of {values.size} values that are not finite")
    return values


def _pair(prediction: npt.ArrayLike, truth: npt.ArrayLike, name: str = "density") -> tuple[Map, Map]:
    prediction = _as_map("prediction", prediction)
    truth = _as_map(name, truth, prediction.shape)
    if not truth.any():
        raise ValueError(f"{name} of shape {truth.shape} is zero everywhere. It needs a positive value")
    return prediction, truth


def _at(name: str, values: Map, points: Points) -> Values:
    """The values of the map at the points, (n,)."""
    return values.ravel()[flat_indices(name, points, values.shape)]


def _rescaled(values: Map) -> Map:
    """The map times a power of two, which rounds nothing: its largest magnitude is 0.5..1, or less if subnormal.

    Sums and squares of very large or small values would be infinite or 0.
    """
    _, exponent = math.frexp(max(values.max(), -values.min()))
    return values * 2.0 ** min(-exponent, MAX_EXPONENT)


def _as_distribution(values: Map) -> Map:
    """The map, shifted so that no value is negative and divided by its sum. Uniform for a map of zeros."""
    values = _rescaled(values)
    values = values - min(0.0, values.min())
    total = values.sum()
    return values / total if total > 0 else np.full_like(values, 1 / values.size)


FUNCTIONS: dict[str, Callable[..., Values | float]] = {
    "auc_judd": auc_judd,
    "shuffled_auc": shuffled_auc_of_counts,
    "shuffled_auc_over_bias": shuffled_auc_over_bias,
    "nss": nss,
    "cc": correlation,
    "kld": kld,
    "sim": sim,
    "information_gain": information_gain,
}
"""Name of a metric in METRICS -> its function, with arguments of the names of its needs."""
