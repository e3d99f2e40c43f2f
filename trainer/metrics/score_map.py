"""Scores one saliency map against the fixations of one image, for people: `trainer.api.score`."""

from typing import Any

import numpy as np
import numpy.typing as npt

from trainer.errors import SettingError, check
from trainer.metrics import metrics
from trainer.metrics.metric_table import BASELINE, DENSITY, FIXATIONS, METRICS, OTHER_COUNTS
from trainer.metrics.points import blur, count_points


def score(
    saliency_map: npt.ArrayLike,
    fixations: npt.ArrayLike,
    *,
    density: npt.ArrayLike | None = None,
    blur_px: float | None = None,
    other_fixations: npt.ArrayLike | None = None,
    baseline: npt.ArrayLike | None = None,
) -> dict[str, float]:
    """Score a saliency map against the fixations of people who looked at the image.

    Example:
        >>> score(saliency_map, fixations, blur_px=35)
        {'auc_judd': 0.86, 'nss': 1.92, 'cc': 0.81, 'kld': 0.42, 'sim': 0.69}

    The metrics are defined as in the MIT/Tuebingen benchmark (Kümmerer et al. 2018). What is given decides which:

    - always: `auc_judd`, `nss`
    - with `density` or `blur_px`: `cc`, `kld` (in nats, lower is better), `sim`
    - with `other_fixations`: `shuffled_auc`
    - with `baseline`: `information_gain` (in bits per fixation)
    - with both: `shuffled_auc_over_bias`, the shuffled AUC of the map divided by the baseline

    Each is computed at the map's own size. `python -m trainer evaluate` computes `cc`, `kld` and `sim`
    at 240 x 320 pixels, so that its scores may differ a little.

    Args:
        saliency_map: (h, w), of the image's size, such as `Model.predict` returns it. Its scale does not matter.
        fixations: (n, 2), each (y, x) in pixels from the top left. A float such as 12.7 is in pixel 12. For a
            binary map of fixations, give `np.argwhere(map)`.
        density: (h, w), the map of fixations that somebody has blurred, 0 or above.
        blur_px: the standard deviation, in pixels, of the Gaussian that makes a density of `fixations`, as
            `fetch` does it. One degree of visual angle is usual, such as 35 pixels.
        other_fixations: (m, 2), where people looked in other images, each (y, x) scaled to pixels of this one.
        baseline: (h, w), a density that knows nothing of the image, such as the centre bias.

    Returns:
        Name of the metric -> its score.

    Raises:
        UserError: an array has another shape, or is not finite. A fixation is outside of the map. There are none.
            Both `density` and `blur_px` are given.
    """
    size = np.shape(saliency_map)
    check(len(size) == 2, f"saliency_map has shape {size}. It must be (height, width)", SettingError)
    check(density is None or blur_px is None, "give either density or blur_px, which makes one", SettingError)
    try:
        truth: dict[str, Any] = {FIXATIONS: _pixels("fixations", fixations)}
        if other_fixations is not None:
            truth[OTHER_COUNTS] = count_points(_pixels("other_fixations", other_fixations), size)
        if baseline is not None:
            truth[BASELINE] = baseline
        scores = _scores(saliency_map, truth)
        if blur_px is not None:
            density = _blurred(truth[FIXATIONS], size, blur_px)
        if density is not None:
            scores |= _scores(saliency_map, {DENSITY: density})
    except ValueError as error:
        raise SettingError(str(error)) from None
    return {name: scores[name] for name in METRICS if name in scores}


def _scores(saliency_map: npt.ArrayLike, truth: dict[str, Any]) -> dict[str, float]:
    """The scores in the metrics for which `truth` suffices."""
    names = [name for name, row in METRICS.items() if truth.keys() >= set(row.needs)]
    return {name: metrics.metric_value(name, saliency_map, truth) for name in names}


def _pixels(name: str, points: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """The pixels that contain points (n, 2)."""
    given = np.asarray(points, np.float64)
    check(
        bool(np.isfinite(given).all()),
        f"{name} have values that are not finite. Leave out those of blinks",
        SettingError,
    )
    return np.floor(given).astype(np.int64)


def _blurred(fixations: npt.NDArray[np.int64], size: tuple[int, ...], sigma_px: float) -> npt.NDArray[np.uint8]:
    check(0 < sigma_px < np.inf, f"blur_px is {sigma_px:g}. It must be above 0, such as 35", SettingError)
    height, width = size
    return blur(fixations, (height, width), sigma_px)
