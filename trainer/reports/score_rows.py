"""Scores and gains as the rows of tables: for the pages, and as plain text."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from trainer.config import HIGHER_IS_BETTER
from trainer.evaluation import wording
from trainer.evaluation.confidence import Gain
from trainer.evaluation.per_image import Scores
from trainer.evaluation.wording import NOT_CERTAIN, SAME, certainty, p_value, signed
from trainer.metrics import LABELS

MEANINGS = {
    "auc_judd": "fixations told from all pixels",
    "shuffled_auc": "fixations told from other images' fixations",
    "nss": "standard deviations above the mean at fixations",
    "cc": "correlation of both maps",
    "kld": "divergence of the prediction from the truth",
    "sim": "shared mass of both maps",
    "information_gain": "bits per fixation above the centre bias",
}
PLUS_MINUS = "\N{PLUS-MINUS SIGN}"
TONES = {"better": "good", "worse": "bad", NOT_CERTAIN: "soft", SAME: "soft"}
"""Whether a gain is certain, and the colour for it."""

Intervals = Mapping[str, Sequence[float] | None]
"""Metric -> low and high; None where there are too few images."""


def name(metric: str) -> str:
    """What the literature calls a metric, with the direction of better."""
    return f"{LABELS[metric]} {arrow(metric)}"


def arrow(metric: str) -> str:
    return "↑" if HIGHER_IS_BETTER[metric] else "↓"


def half_width(interval: Sequence[float] | None, digits: int = 3) -> str:
    """Half of an interval's width behind ±; nothing where there is none, or where it shows as 0."""
    half = f"{(interval[1] - interval[0]) / 2:.{digits}f}" if interval else ""
    return f"{PLUS_MINUS}{half}" if half.strip("0.") else ""


def score_row(
    metric: str,
    models: Sequence[str],
    means: Mapping[str, Scores],
    intervals: Mapping[str, Intervals],
    minor: Collection[str] = (),
) -> dict[str, Any]:
    """One line of a page's table; models that show the same three decimals as the best are marked with it.

    `minor` models are left out on narrow screens.
    """
    shown = {model: f"{round(means[model][metric], 3) + 0.0:.3f}" for model in models}
    best = (max if HIGHER_IS_BETTER[metric] else min)(shown.values(), key=float)
    cells = [
        {
            "text": shown[model].replace("-", wording.MINUS),
            "half": half_width(intervals[model][metric]),
            "best": shown[model] == best,
            "minor": model in minor,
        }
        for model in models
    ]
    return {"label": LABELS[metric], "arrow": arrow(metric), "meaning": MEANINGS[metric], "cells": cells}


def gain_row(
    metric: str, gain: Gain, certain: str | None = None, p_adjusted: float | None = None
) -> dict[str, Any]:
    """One line of a page's table of gains, with the interval as a bar whose middle is 0.

    `certain` and `p_adjusted` take the places of what the interval and the p-value say by themselves.
    """
    certain = certain or certainty(gain)
    ends = [gain.mean] if gain.low is None or gain.high is None else [gain.low, gain.mean, gain.high]
    extent = 1.1 * max(map(abs, ends)) or 1.0
    places = [round(50 + 50 * end / extent, 2) for end in ends]
    return {
        "label": LABELS[metric],
        "arrow": arrow(metric),
        "meaning": MEANINGS[metric],
        "mean": signed(gain.mean),
        "interval": f"{signed(gain.low)} to {signed(gain.high)}" if gain.low is not None else "too few images",
        "left": places[0],
        "width": round(places[-1] - places[0], 2),
        "dot": places[len(places) // 2],
        "certain": certain,
        "tone": TONES[certain],
        "p": p_value(gain.p_value if p_adjusted is None else p_adjusted),
        "better_on": f"{gain.better_on:,} of {gain.n_images:,}",
    }
