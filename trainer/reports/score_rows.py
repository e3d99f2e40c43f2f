"""Scores and gains as rows of tables, for pages and for terminals."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from trainer.evaluation import wording
from trainer.evaluation.confidence import Gain
from trainer.evaluation.per_image import Scores
from trainer.metric_table import METRICS

PLUS_MINUS = "\N{PLUS-MINUS SIGN}"
TONES = {wording.BETTER: "good", wording.WORSE: "bad", wording.NOT_SIGNIFICANT: "soft", wording.SAME: "soft"}
"""Significance -> colour."""

Intervals = Mapping[str, Sequence[float] | None]
"""Metric -> low and high; None for too few images."""


def name(metric: str) -> str:
    """The label of a metric with its arrow."""
    return f"{METRICS[metric].label} {arrow(metric)}"


def arrow(metric: str) -> str:
    """An arrow in the direction of better scores."""
    return "↑" if METRICS[metric].higher_is_better else "↓"


def half_width(interval: Sequence[float] | None, digits: int = 3) -> str:
    """Half of an interval's width after ±; empty without an interval, or if all digits are 0."""
    half = f"{(interval[1] - interval[0]) / 2:.{digits}f}" if interval else ""
    return f"{PLUS_MINUS}{half}" if half.strip("0.") else ""


def score_row(
    metric: str,
    models: Sequence[str],
    means: Mapping[str, Scores],
    intervals: Mapping[str, Intervals],
    minor: Collection[str] = (),
) -> dict[str, Any]:
    """One row of a page's table of scores.

    The best model is marked, and so is every model with the same three decimals. Narrow screens do not show the
    models in `minor`.
    """
    texts = {model: f"{round(means[model][metric], 3) + 0.0:.3f}" for model in models}
    best = (max if METRICS[metric].higher_is_better else min)(texts.values(), key=float)
    cells = [
        {
            "text": texts[model].replace("-", wording.MINUS),
            "half": half_width(intervals[model][metric]),
            "best": texts[model] == best,
            "minor": model in minor,
        }
        for model in models
    ]
    return {**_heading(metric), "cells": cells}


def gain_row(
    metric: str, gain: Gain, significance: str | None = None, p_adjusted: float | None = None
) -> dict[str, Any]:
    """One row of a page's table of gains, with the interval as a bar around 0.

    `significance` and `p_adjusted` replace the values of `gain` itself.
    """
    significance = significance or wording.significance(gain)
    ends = [gain.mean] if gain.low is None or gain.high is None else [gain.low, gain.mean, gain.high]
    extent = 1.1 * max(map(abs, ends)) or 1.0
    places = [round(50 + 50 * end / extent, 2) for end in ends]
    interval = f"{wording.signed(gain.low)} to {wording.signed(gain.high)}" if gain.low is not None else ""
    return {
        **_heading(metric),
        "mean": wording.signed(gain.mean),
        "interval": interval or "too few images",
        "left": places[0],
        "width": round(places[-1] - places[0], 2),
        "dot": places[len(places) // 2],
        "significance": significance,
        "tone": TONES[significance],
        "p": wording.p_value(gain.p_value if p_adjusted is None else p_adjusted),
        "better_on": f"{gain.better_on:,} of {gain.n_images:,}",
    }


def _heading(metric: str) -> dict[str, Any]:
    row = METRICS[metric]
    return {"label": row.label, "arrow": arrow(metric), "meaning": row.meaning}
