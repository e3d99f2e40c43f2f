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
    """What it measures, as a sentence for readers who do not know it."""
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
    "auc_judd": Metric(
        "AUC-Judd",
        "How often the map is higher where people looked than elsewhere: 1 is always, 0.5 is chance.",
        True,
        (FIXATIONS,),
        0,
        1,
    ),
    "shuffled_auc": Metric(
        "sAUC",
        "The same beside places looked at in other images, so that the centre counts for nothing.",
        True,
        (FIXATIONS, OTHER_COUNTS),
        0,
        1,
    ),
    "shuffled_auc_over_bias": Metric(
        "sAUC/CB",
        "sAUC of the map divided by the centre bias, as benchmarks score it.",
        True,
        (FIXATIONS, OTHER_COUNTS, BASELINE),
        0,
        1,
        is_of_map=False,
    ),
    "nss": Metric(
        "NSS",
        "How far the map lies above its mean where people looked, in standard deviations: 0 is chance.",
        True,
        (FIXATIONS,),
    ),
    "cc": Metric(
        "CC", "How alike the map and people's map are: 1 is equal, 0 is unrelated.", True, (DENSITY,), -1, 1
    ),
    "kld": Metric(
        "KLD", "How much of where people looked the map does not tell: 0 is nothing.", False, (DENSITY,), 0
    ),
    "sim": Metric("SIM", "How much of the map and of people's map overlaps: 1 is all.", True, (DENSITY,), 0, 1),
    "information_gain": Metric(
        "IG",
        "How much more the map tells than the centre bias, in bits for each fixation: 0 is no more.",
        True,
        (FIXATIONS, BASELINE),
    ),
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
