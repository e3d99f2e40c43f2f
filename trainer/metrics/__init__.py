"""The metrics of saliency: their table, and a function for each. They know of no model and no dataset."""

from trainer.doors import opened

__all__ = [
    "BASELINE",  # the model with which a metric of gain compares
    "BASELINE_METRICS",  # metrics that compare with a baseline
    "DECIDING",  # metrics by which a gate may decide
    "DENSITY",  # what a metric of densities needs
    "FIXATIONS",  # what a metric of fixations needs
    "LEAD",  # the metric that decides by default
    "METRICS",  # the table of metrics
    "OF_UNIFORM",  # the metrics that a uniform map has by definition
    "OTHER_COUNTS",  # metrics that count fixations of other images
    "Points",  # fixations as pixels (y, x)
    "Values",  # the values of all fixations of an image
    "blur",  # fixations to a density
    "cc",  # the correlation of two maps
    "count_points",  # how many fixations each pixel has
    "metric_value",  # one metric of one map
    "metric_values",  # the values with that mean
    "metrics_that_need",  # the metrics that need densities or fixations
    "scale_points",  # fixations in an image of another size
    "score",  # all metrics of a map against fixations
]
__getattr__ = opened(__name__, __file__)
