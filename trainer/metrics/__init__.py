"""The metrics of saliency: their table, and a function for each. They know of no model and no dataset."""

from trainer.doors import opened

__all__ = [
    "BASELINE",  # the need of a metric that compares with a baseline
    "BASELINE_METRICS",  # a candidate that is worse than the centre bias in all of these fails
    "DECIDING",  # metrics by which a gate may decide
    "DENSITY",  # the need of a density
    "FIXATIONS",  # the need of fixations
    "LEAD",  # the metric that decides by default
    "METRICS",  # the table of metrics
    "OF_UNIFORM",  # the scores of a uniform map that are the same for every image
    "OTHER_COUNTS",  # the need of fixations on other images
    "Points",  # fixations as pixels (y, x)
    "Values",  # one value for each fixation of an image
    "blur",  # fixated pixels, blurred to a density
    "correlation",  # the correlation of a map and a density
    "count_points",  # how many fixations each pixel has
    "metric_value",  # one metric of one map
    "metric_values",  # the values with that mean
    "metrics_that_need",  # the metrics that need densities or fixations
    "scale_points",  # fixations in an image of another size
    "score",  # all metrics of a map against fixations
]
__getattr__ = opened(__name__, __file__)
