"""The evaluation metrics, one row each.

A new metric is one row here, and one function in `FUNCTIONS` of `trainer/metrics/metrics.py`. Scores, the gate,
reports and the pipeline's labels follow from the rows.
"""

import dataclasses
import math

FIXATIONS, OTHER_COUNTS, DENSITY, BASELINE = "fixations", "other_counts", "density", "baseline"
"""The possible needs of a metric. These are also the names of its arguments in `trainer/metrics/metrics.py`.

FIXATIONS: points (n, 2). OTHER_COUNTS: number of fixations of all other images per pixel, (H, W).
DENSITY: the image's own saliency map, (H, W). BASELINE: the centre bias, (H, W).
"""


@dataclasses.dataclass(frozen=True)
class Metric:
    """One metric."""

    label: str
    """Name of the metric in the literature."""
    meaning: str
    """A few words for reports."""
    higher_is_better: bool
    needs: tuple[str, ...]
    """Either FIXATIONS or DENSITY, and any others. With FIXATIONS the metric is computed at the size of the
    original image, with DENSITY at `Original.MAP_SIZE`, whatever the size of the network."""
    lowest: float = -math.inf
    """Lowest possible score."""
    highest: float = math.inf
    """Highest possible score."""
    is_of_map: bool = True
    """Whether it scores the map that users get, as a metric must that decides which model becomes the default."""


METRICS = {
    "auc_judd": Metric("AUC-Judd", "separates fixated from other pixels", True, (FIXATIONS,), 0, 1),
    "shuffled_auc": Metric(
        "sAUC",
        "separates fixated pixels from those fixated in other images",
        True,
        (FIXATIONS, OTHER_COUNTS),
        0,
        1,
    ),
    "shuffled_auc_over_bias": Metric(
        "sAUC/CB",
        "sAUC of the map divided by the centre bias, as benchmarks score it",
        True,
        (FIXATIONS, OTHER_COUNTS, BASELINE),
        0,
        1,
        is_of_map=False,
    ),
    "nss": Metric("NSS", "standard deviations above the mean at fixations", True, (FIXATIONS,)),
    "cc": Metric("CC", "correlation of the two maps", True, (DENSITY,), -1, 1),
    "kld": Metric("KLD", "divergence of the prediction from the truth", False, (DENSITY,), 0),
    "sim": Metric("SIM", "histogram intersection of the two maps", True, (DENSITY,), 0, 1),
    "information_gain": Metric("IG", "bits per fixation above the centre bias", True, (FIXATIONS, BASELINE)),
}
"""Name -> row, in the order of every table."""
DECIDING = tuple(name for name, row in METRICS.items() if row.is_of_map)
"""The metrics that may decide."""
LEAD = "kld"
"""The metric that decides, and by which images are ranked, unless another one is asked for."""
SHOWN = (LEAD, "cc", "nss")
"""The metrics of short tables."""
BASELINE_METRICS = (LEAD, "cc")
"""A candidate that is worse than the centre bias in all of these fails."""


def metrics_that_need(need: str) -> list[str]:
    """Names of the metrics that need FIXATIONS, OTHER_COUNTS, DENSITY or BASELINE."""
    return [name for name, row in METRICS.items() if need in row.needs]
