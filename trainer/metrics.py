"""Saliency metrics of one image, as the MIT/Tuebingen benchmark defines them (Kümmerer et al. 2018). NumPy only.

Maps are (H, W); points are (n, 2) integers, each (y, x) in pixels of the map, repeats kept. A prediction may have
any scale, since only its order (AUC), its shape (CC, NSS) or its share of the sum (KLD, SIM, IG) counts.
Arguments that do not fit raise `ValueError` with the numbers.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Map = npt.NDArray[np.float64]
Points = npt.NDArray[np.integer[Any]]

LABELS = {
    "auc_judd": "AUC-Judd",
    "shuffled_auc": "sAUC",
    "nss": "NSS",
    "cc": "CC",
    "kld": "KLD",
    "sim": "SIM",
    "information_gain": "IG",
}
"""What the literature calls each metric."""

EPSILON = 2.2204e-16
"""Keeps quotients and logarithms finite; the value is part of the benchmark's definition of KLD."""


def auc_judd(prediction: npt.ArrayLike, fixations: Points) -> float:
    """Area under the ROC of the prediction at fixations against all pixels, 0..1; ties count half."""
    prediction = _as_map("prediction", prediction)
    return _roc_area(_at("fixations", prediction, fixations), prediction.ravel())


def shuffled_auc(prediction: npt.ArrayLike, fixations: Points, other_fixations: Points) -> float:
    """Area under the ROC of the prediction at fixations against other images' fixations, 0..1; ties count half.

    `other_fixations` lie in this image's pixels already (see `scale_points`). Against them a centre bias gains
    nothing (Zhang et al. 2008).
    """
    prediction = _as_map("prediction", prediction)
    negatives = _at("other_fixations", prediction, other_fixations)
    return _roc_area(_at("fixations", prediction, fixations), negatives)


def shuffled_auc_of_counts(prediction: npt.ArrayLike, fixations: Points, other_counts: npt.ArrayLike) -> float:
    """`shuffled_auc` with the other images' fixations as their number in each pixel, (H, W).

    Its cost does not grow with the number of fixations (a million for SALICON).
    """
    prediction = _as_map("prediction", prediction)
    counts = _as_map("other_counts", other_counts, prediction.shape)
    if counts.min() < 0 or not counts.any():
        raise ValueError(
            f"other_counts sum to {counts.sum():g}, lowest {counts.min():g}; need some and none below 0"
        )
    taken = np.flatnonzero(counts)
    return _roc_area(_at("fixations", prediction, fixations), prediction.ravel()[taken], counts.ravel()[taken])


def nss(prediction: npt.ArrayLike, fixations: Points) -> float:
    """Mean of the prediction at fixations after it is brought to mean 0 and population deviation 1 (Peters 2005).

    0 for a constant prediction.
    """
    prediction = _as_map("prediction", prediction)
    values = _at("fixations", prediction, fixations)
    # Asked of the values, not of the deviation, which rounding can leave above zero.
    if prediction.min() == prediction.max():
        return 0.0
    return float((values.mean() - prediction.mean()) / prediction.std())


def cc(prediction: npt.ArrayLike, density: npt.ArrayLike) -> float:
    """Pearson correlation of prediction and density, -1..1; 0 where either is constant."""
    prediction, density = _pair(prediction, density)
    if prediction.min() == prediction.max() or density.min() == density.max():
        return 0.0
    p, q = prediction - prediction.mean(), density - density.mean()
    return float((p * q).sum() / np.sqrt((p * p).sum() * (q * q).sum()))


def kld(prediction: npt.ArrayLike, density: npt.ArrayLike) -> float:
    """Kullback-Leibler divergence of the prediction from the density, nats, at least 0 (but for rounding).

    sum q ln(e + q / (p + e)) with both normalised to sum 1: the metric, not the training loss, whose epsilon and
    normalisation differ.
    """
    p, q = map(_as_distribution, _pair(prediction, density))
    return float((q * np.log(EPSILON + q / (p + EPSILON))).sum())


def sim(prediction: npt.ArrayLike, density: npt.ArrayLike) -> float:
    """Shared mass of prediction and density, both normalised to sum 1: 0 (disjoint) to 1 (equal)."""
    p, q = map(_as_distribution, _pair(prediction, density))
    return float(np.minimum(p, q).sum())


def information_gain(prediction: npt.ArrayLike, fixations: Points, baseline: npt.ArrayLike) -> float:
    """Bits per fixation by which the prediction explains the fixations better than the baseline (Kümmerer 2015).

    mean log2(e + p) - log2(e + b), both normalised to sum 1; the baseline is a centre bias, (H, W).
    """
    prediction, baseline = _pair(prediction, baseline, "baseline")
    p = _at("fixations", _as_distribution(prediction), fixations)
    b = _at("fixations", _as_distribution(baseline), fixations)
    return float((np.log2(EPSILON + p) - np.log2(EPSILON + b)).mean())


def scale_points(points: Points, size: tuple[int, int], new_size: tuple[int, int]) -> npt.NDArray[np.int64]:
    """Points (n, 2) of an image of `size` (height, width) in the pixels of one of `new_size`, truncated."""
    # In integers: a float quotient can fall below the whole number it stands for and truncate to the pixel before.
    return np.asarray(points, np.int64).reshape(-1, 2) * np.array(new_size, np.int64) // np.array(size, np.int64)


def count_points(points: Points, size: tuple[int, int]) -> npt.NDArray[np.int64]:
    """How many of the points (n, 2) lie in each pixel of an image of `size`: (height, width)."""
    flat = _flat_indices("points", points, size)
    return np.bincount(flat, minlength=size[0] * size[1]).reshape(size)


def _roc_area(positives: Map, negatives: Map, weights: Map | None = None) -> float:
    """Share of pairs of a positive and a negative in which the positive is higher, ties half.

    The few positives are sorted and the many negatives looked up in them; `weights` says how often each negative
    counts.
    """
    levels, repeats = np.unique(positives, return_counts=True)
    # below[k]: positives under level k; the last is all of them.
    below = np.concatenate([[0], np.cumsum(repeats)])
    rank = np.searchsorted(levels, negatives)
    tied = levels[np.minimum(rank, levels.size - 1)] == negatives
    # Twice the number of positives that each negative beats, ties counted once.
    lost = below[rank] + below[rank + tied]
    if weights is None:
        return float(1 - lost.mean() / (2 * positives.size))
    return float(1 - (lost @ weights) / (2 * positives.size * weights.sum()))


def _as_map(what: str, values: npt.ArrayLike, shape: tuple[int, ...] | None = None) -> Map:
    values = np.asarray(values, np.float64)
    if values.ndim != 2 or not values.size:
        raise ValueError(f"{what} has shape {values.shape}; it must be (height, width)")
    if shape is not None and values.shape != shape:
        raise ValueError(f"{what} has shape {values.shape}, the prediction {shape}; they must be equal")
    if not np.isfinite(values).all():
        bad = values.size - np.count_nonzero(np.isfinite(values))
        raise ValueError(f"{what} has {bad} of {values.size} values that are not finite")
    return values


def _pair(prediction: npt.ArrayLike, truth: npt.ArrayLike, what: str = "density") -> tuple[Map, Map]:
    prediction = _as_map("prediction", prediction)
    truth = _as_map(what, truth, prediction.shape)
    if not truth.any():
        raise ValueError(f"{what} of shape {truth.shape} is zero everywhere; it must have mass")
    return prediction, truth


def _flat_indices(what: str, points: Points, size: tuple[int, ...]) -> npt.NDArray[np.int64]:
    points = np.asarray(points)
    if points.ndim != 2 or points.shape[1] != 2 or not np.issubdtype(points.dtype, np.integer):
        raise ValueError(f"{what} have shape {points.shape} and type {points.dtype}; they must be (n, 2) integers")
    if not len(points):
        raise ValueError(f"{what} are empty; the metric needs at least one point")
    outside = ((points < 0) | (points >= size)).any(axis=1)
    if outside.any():
        first = tuple(points[outside][0].tolist())
        raise ValueError(
            f"{outside.sum()} of {len(points)} {what} are outside the {size} map, the first (y, x) {first}"
        )
    return points[:, 0].astype(np.int64) * size[1] + points[:, 1]


def _at(what: str, values: Map, points: Points) -> Map:
    """The map's values at the points, (n,)."""
    return values.ravel()[_flat_indices(what, points, values.shape)]


def _as_distribution(values: Map) -> Map:
    """The map shifted to be at least 0 and divided by its sum; a map of zeros says nothing, so it is uniform."""
    values = values - min(0.0, values.min())
    total = values.sum()
    return values / total if total > 0 else np.full_like(values, 1 / values.size)
