"""The rows of tables of scores and gains, for pages and for a terminal."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from trainer import wording
from trainer.data import PreparedData
from trainer.evaluation import Evaluation, Gain, PerImage, Role, Significance
from trainer.metrics import METRICS
from trainer.reports import pages, sentences

TONES = {
    Significance.BETTER: "good",
    Significance.WORSE: "bad",
    Significance.NOT_SIGNIFICANT: "soft",
    Significance.SAME: "soft",
}
"""Significance -> colour."""
Intervals = Mapping[str, Sequence[float] | None]
"""Metric -> low and high. None for too few images."""
MODELS = {
    "candidate": "candidate",
    "champion": "default",
    "centre_bias": "centre\nbias",  # in one line, the gain would need more than 80 characters
    "uniform": "uniform",
}
UNCORRECTED = "Neither they nor p-values are corrected for the number of metrics."
"""Said of intervals, by which a metric is called significantly better or worse."""


def number(score: float) -> str:
    """Format a score with three decimals and a true minus sign."""
    return f"{round(score, 3) + 0.0:.3f}".replace("-", wording.MINUS)


def title(dataset: str) -> str:
    """Return the heading of the images of a dataset, such as `Validation images of salicon`."""
    images = PreparedData.images_of(dataset)
    return f"{images[0].upper()}{images[1:]}"


def metric_label(metric: str) -> str:
    """Return the label of a metric with an arrow in the direction of better scores."""
    row = heading(metric)
    return f"{row['label']} {row['arrow']}"


def interval_text(metric: str, ends: Sequence[float] | None) -> str:
    """Format the interval of a mean, such as `0.641 to 0.778`, within the possible scores of `metric`.

    Student's interval is symmetric, so an end can lie where no score does: that end is the metric's own. Empty
    without an interval, or if both ends have the same three decimals.
    """
    if ends is None:
        return ""
    row = METRICS[metric]
    low, high = (number(min(max(end, row.lowest), row.highest)) for end in ends)
    return "" if low == high else f"{low} to {high}"


def coverage(over_people: Collection[str], metrics: Iterable[str]) -> str:
    """Say what the intervals of some metrics hold for, as a sentence.

    Args:
        over_people: The metrics with intervals that hold for other people, as `PerImage.over_people`.
        metrics: All of them.
    """
    rest = [METRICS[metric].label for metric in metrics if metric not in over_people]
    if not over_people:
        return "Intervals hold for other images and the same people: with other people they would be wider."
    but = f", those of {', '.join(rest)} for the same people" if rest else ""
    return f"Intervals hold for other images and other people{but}."


def comparable_scores(evaluation: Evaluation) -> dict[str, float]:
    """The scores of an evaluation by name, for a console that compares runs.

    The candidate's scores on the deciding images have the names of the metrics. `default_kld` is that of the
    current default, and `gain_kld` the mean gain over it, with its interval in `gain_kld_low` and `gain_kld_high`.
    """
    deciding = evaluation.deciding
    values = {**deciding.models[Role.CANDIDATE], "images": deciding.n_images}
    values |= {f"default_{metric}": score for metric, score in deciding.models.get(Role.CHAMPION, {}).items()}
    for metric, gain in deciding.gains.items():
        ends = {"": gain.mean, "_low": gain.low, "_high": gain.high}
        values |= {f"gain_{metric}{end}": value for end, value in ends.items() if value is not None}
    return values


def decision_page(evaluation: Evaluation) -> str:
    """The decision of an evaluation, why it was made, and the scores, as Markdown."""
    deciding, models = evaluation.deciding, evaluation.deciding.models
    groups = wording.in_groups(deciding.n_units, deciding.n_images)
    verdict = sentences.verdict(evaluation)
    lines = [
        f"# {verdict.headline}",
        "",
        verdict.why,
        "",
        evaluation.reason,
        "",
        f"{title(evaluation.decides)}: {deciding.n_images:,}{groups}",
    ]
    lines += ["", f"| | {' | '.join(MODELS[each].replace(chr(10), ' ') for each in models)} |"]
    lines.append("|---" * (1 + len(models)) + "|")
    for metric in models[Role.CANDIDATE]:
        scores = [number(model[metric]) if metric in model else "" for model in models.values()]
        lines.append(f"| {metric_label(metric)} | {' | '.join(scores)} |")
    return "\n".join(lines) + "\n"


def describe_scores(
    table: PerImage,
    labels: Mapping[str, tuple[str, str]],
    means: Mapping[str, Mapping[str, float]],
    intervals: Mapping[str, Intervals],
) -> dict[str, Any]:
    """Return the values of the macros `table` and `distributions` for one dataset.

    Args:
        table: Scores of each image.
        labels: Model -> label and colour. Charts and narrow screens do not show a model without a colour.
        means: Model -> metric -> mean.
        intervals: Model -> metric -> confidence interval of the mean.
    """
    headings = [{"label": label, "color": color} for label, color in labels.values()]
    colors = {model: color for model, (_, color) in labels.items() if color}
    metrics = [metric for metric in METRICS if metric in means[next(iter(labels))]]
    # One network beats the baselines nearly everywhere, so a mark would say nothing.
    marks_best = len(means.keys() - {Role.CENTER_BIAS, Role.UNIFORM}) > 1
    groups = f"{wording.count_text(table.n_units, of_groups=True)} of " if table.is_grouped else ""
    return {
        "n_images": f"{groups}{len(table.images):,} held-out images",
        "models": headings,
        "legend": [each for each in headings if each["color"]],
        "marks_best": marks_best,
        "coverage": f"{coverage(table.over_people, metrics)} {UNCORRECTED}",
        "rows": [_score_row(metric, colors, means, intervals, marks_best) for metric in metrics],
        "distributions": [
            {**heading(metric), "chart": pages.histogram(table, metric, colors)} for metric in metrics
        ],
    }


def _score_row(
    metric: str,
    colors: Collection[str],
    means: Mapping[str, Mapping[str, float]],
    intervals: Mapping[str, Intervals],
    marks_best: bool,
) -> dict[str, Any]:
    """Return a row of a page's table of scores. It may mark the models with the best rounded score."""
    rounded = {model: round(scores[metric], 3) for model, scores in means.items()}
    best = (max if METRICS[metric].higher_is_better else min)(rounded.values())
    cells = [
        {
            "text": number(score),
            "interval": interval_text(metric, intervals[model][metric]),
            "best": marks_best and score == best,
            "minor": model not in colors,
        }
        for model, score in rounded.items()
    ]
    return {**heading(metric), "cells": cells}


def gain_row(metric: str, gain: Gain) -> dict[str, Any]:
    """Return a row of a table of gains, with the interval as a bar around 0."""
    ends = [gain.mean] if gain.low is None or gain.high is None else [gain.low, gain.mean, gain.high]
    extent = 1.1 * max(map(abs, ends)) or 1.0
    places = [round(50 + 50 * end / extent, 2) for end in ends]
    interval = f"{wording.signed(gain.low)} to {wording.signed(gain.high)}" if gain.low is not None else ""
    return {
        **heading(metric),
        "mean": wording.signed(gain.mean),
        "interval": interval or ("too few groups" if gain.of_groups else "too few images"),
        "left": places[0],
        "width": round(places[-1] - places[0], 2),
        "dot": places[len(places) // 2],
        "significance": gain.outcome,
        "tone": TONES[gain.outcome],
        "p": wording.p_value_text(gain.p_shown),
        "better_on": f"{gain.better_on:,} of {gain.n_images:,}",
    }


def heading(metric: str) -> dict[str, Any]:
    """Return the label, the arrow and the meaning of a metric, and which direction is better."""
    row = METRICS[metric]
    return {
        "label": row.label,
        "arrow": "↑" if row.higher_is_better else "↓",
        "meaning": row.meaning,
        "direction": f"{'Higher' if row.higher_is_better else 'Lower'} is better.",
    }
