"""Scores and gains as rows of tables, for pages and for terminals."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from trainer.evaluation import wording
from trainer.evaluation.compare import Difference
from trainer.evaluation.confidence import Gain
from trainer.evaluation.per_image import CENTER_BIAS, UNIFORM, PerImage, Scores
from trainer.metric_table import METRICS
from trainer.reports import charts

TONES = {wording.BETTER: "good", wording.WORSE: "bad", wording.NOT_SIGNIFICANT: "soft", wording.SAME: "soft"}
"""Significance -> colour."""

Intervals = Mapping[str, Sequence[float] | None]
"""Metric -> low and high; None for too few images."""


def name(metric: str) -> str:
    """Return the label of a metric with an arrow in the direction of better scores."""
    row = heading(metric)
    return f"{row['label']} {row['arrow']}"


def interval(metric: str, ends: Sequence[float] | None) -> str:
    """Format the interval of a mean, such as `0.641 to 0.778`, within the possible scores of `metric`.

    Student's interval is symmetric, so an end can lie where no score does: that end is the metric's own. Empty
    without an interval, or if both ends have the same three decimals.
    """
    if ends is None:
        return ""
    row = METRICS[metric]
    low, high = (f"{min(max(end, row.lowest), row.highest) + 0.0:.3f}" for end in ends)
    return "" if low == high else f"{low} to {high}".replace("-", wording.MINUS)


def describe_scores(
    table: PerImage,
    labels: Mapping[str, tuple[str, str]],
    means: Mapping[str, Scores],
    intervals: Mapping[str, Intervals],
) -> dict[str, Any]:
    """Return the values of the macros `table` and `distributions` for one dataset.

    Args:
        table: Scores of each image.
        labels: Model -> label and colour; charts and narrow screens do not show a model without a colour.
        means: Model -> metric -> mean.
        intervals: Model -> metric -> confidence interval of the mean.
    """
    headings = [{"label": label, "color": color} for label, color in labels.values()]
    colors = {model: color for model, (_, color) in labels.items() if color}
    metrics = [metric for metric in METRICS if metric in means[next(iter(labels))]]
    # One network beats the baselines nearly everywhere, so a mark would say nothing.
    marks_best = len(means.keys() - {CENTER_BIAS, UNIFORM}) > 1
    return {
        "n_images": f"{len(table.images):,}",
        "models": headings,
        "legend": [heading for heading in headings if heading["color"]],
        "marks_best": marks_best,
        "rows": [_score_row(metric, colors, means, intervals, marks_best) for metric in metrics],
        "distributions": [
            {**heading(metric), "chart": charts.histogram(table, metric, colors)} for metric in metrics
        ],
    }


def _score_row(
    metric: str,
    colors: Collection[str],
    means: Mapping[str, Scores],
    intervals: Mapping[str, Intervals],
    marks_best: bool,
) -> dict[str, Any]:
    """Return a row of a page's table of scores; it may mark the models whose rounded score is best."""
    texts = {model: f"{round(means[model][metric], 3) + 0.0:.3f}" for model in means}
    best = (max if METRICS[metric].higher_is_better else min)(texts.values(), key=float)
    cells = [
        {
            "text": texts[model].replace("-", wording.MINUS),
            "interval": interval(metric, intervals[model][metric]),
            "best": marks_best and texts[model] == best,
            "minor": model not in colors,
        }
        for model in means
    ]
    return {**heading(metric), "cells": cells}


def gain_row(metric: str, gain: Gain) -> dict[str, Any]:
    """Return a row of a table of gains, with the interval as a bar around 0."""
    significance, p_value = wording.significance(gain), gain.p_value
    if isinstance(gain, Difference):
        significance, p_value = gain.significance, gain.p_adjusted
    ends = [gain.mean] if gain.low is None or gain.high is None else [gain.low, gain.mean, gain.high]
    extent = 1.1 * max(map(abs, ends)) or 1.0
    places = [round(50 + 50 * end / extent, 2) for end in ends]
    interval = f"{wording.signed(gain.low)} to {wording.signed(gain.high)}" if gain.low is not None else ""
    return {
        **heading(metric),
        "mean": wording.signed(gain.mean),
        "interval": interval or "too few images",
        "left": places[0],
        "width": round(places[-1] - places[0], 2),
        "dot": places[len(places) // 2],
        "significance": significance,
        "tone": TONES[significance],
        "p": wording.p_value(p_value),
        "better_on": f"{gain.better_on:,} of {gain.n_images:,}",
    }


def heading(metric: str) -> dict[str, Any]:
    """Return the label, the arrow and the meaning of a metric."""
    row = METRICS[metric]
    return {"label": row.label, "arrow": "↑" if row.higher_is_better else "↓", "meaning": row.meaning}
