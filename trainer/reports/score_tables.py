"""Tables of scores, gains and the ceiling: their rows, which pages show too, and the tables on a terminal.

The ceiling is the way from the centre bias to people; it has a row for each metric, a line of a table or a bar.
Text for a terminal is at most 80 characters wide if the names of the models are short.
"""

import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trainer.evaluation import confidence, gate, sample_notices
from trainer.evaluation.compare import DatasetComparison, Difference
from trainer.evaluation.evaluation import (
    CeilingScores,
    Evaluation,
    Gain,
    NoCeiling,
    ScoredDataset,
    Scores,
    Share,
)
from trainer.evaluation.metric_table import DENSITY, FIXATIONS, METRICS, metrics_that_need
from trainer.evaluation.per_image import (
    CANDIDATE,
    CENTER_BIAS,
    CHAMPION,
    LEAVE_ONE_OUT,
    OBSERVERS,
    SPLIT_HALF,
    UNIFORM,
    PerImage,
)
from trainer.reports import pages

TONES = {
    confidence.BETTER: "good",
    confidence.WORSE: "bad",
    confidence.NOT_SIGNIFICANT: "soft",
    confidence.SAME: "soft",
}
"""Significance -> colour."""
Intervals = Mapping[str, Sequence[float] | None]
"""Metric -> low and high; None for too few images."""
Rows = list[dict[str, Any]]
WIDEST = (-0.5, 2.0)
"""Shares beyond these are drawn at the end of a bar."""
MARGIN = 0.18
"""Free space at both ends of a bar for the texts under 0 and 1, as a share of the space between them."""
MODELS = {
    "candidate": "candidate",
    "champion": "default",
    "centre_bias": "centre\nbias",  # in one line, the gain would need more than 80 characters
    "uniform": "uniform",
}
OTHERS = {CENTER_BIAS: "the centre bias", CHAMPION: "the current default"}
"""The names of the models that the candidate is compared with, in sentences."""
HELD_OUT = {LEAVE_ONE_OUT: "one, by all others", SPLIT_HALF: "half, by the other half"}
"""Protocol of the ceiling -> who of the observers is held out, and by whom they are predicted."""
UNCORRECTED = "Neither they nor p-values are corrected for the number of metrics."
"""Said of intervals, by which a metric is called significantly better or worse."""
LABEL_WIDTH = 12
"""Longest line of a model's name above its scores, such as the half of 20260101-120000."""


# === Rows ===


def number(score: float) -> str:
    """Format a score with three decimals and a true minus sign."""
    return f"{round(score, 3) + 0.0:.3f}".replace("-", confidence.MINUS)


def title(dataset: str) -> str:
    """Return the heading of the images of a dataset, such as `Validation images of salicon`."""
    images = confidence.images_of(dataset)
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
        over_people: The metrics whose intervals hold for other people, as `PerImage.over_people`.
        metrics: All of them.
    """
    rest = [METRICS[metric].label for metric in metrics if metric not in over_people]
    if not over_people:
        return "Intervals hold for other images and the same people: with other people they would be wider."
    but = f", those of {', '.join(rest)} for the same people" if rest else ""
    return f"Intervals hold for other images and other people{but}."


def comparable(evaluation: Evaluation) -> dict[str, float]:
    """The scores of an evaluation by name, for a console that compares runs.

    The candidate's scores on the deciding images have the names of the metrics. `default_kld` is that of the
    current default, and `gain_kld` the mean gain over it, with its interval in `gain_kld_low` and `gain_kld_high`.
    """
    deciding = evaluation.deciding
    values = {**deciding.models[CANDIDATE], "images": deciding.n_images}
    values |= {f"default_{metric}": score for metric, score in deciding.models.get(CHAMPION, {}).items()}
    for metric, gain in deciding.gains.items():
        ends = {"": gain.mean, "_low": gain.low, "_high": gain.high}
        values |= {f"gain_{metric}{end}": value for end, value in ends.items() if value is not None}
    return values


def decision_page(evaluation: Evaluation) -> str:
    """The decision of an evaluation, why it was made, and the scores, as Markdown."""
    deciding, models = evaluation.deciding, evaluation.deciding.models
    groups = confidence.in_groups(deciding.n_units, deciding.n_images)
    heading = "Becomes the default" if evaluation.promote else "Does not become the default"
    if evaluation.end in (gate.HELD, gate.DISAGREE):
        heading += f": {evaluation.end}"
    lines = [
        f"# {heading}",
        "",
        evaluation.reason,
        "",
        f"{title(evaluation.decides)}: {deciding.n_images:,}{groups}",
    ]
    lines += ["", f"| | {' | '.join(MODELS[each].replace(chr(10), ' ') for each in models)} |"]
    lines.append("|---" * (1 + len(models)) + "|")
    for metric in models[CANDIDATE]:
        scores = [number(model[metric]) if metric in model else "" for model in models.values()]
        lines.append(f"| {metric_label(metric)} | {' | '.join(scores)} |")
    return "\n".join(lines) + "\n"


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
    groups = f"{confidence.count_text(table.n_units, of_groups=True)} of " if table.is_grouped else ""
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
    means: Mapping[str, Scores],
    intervals: Mapping[str, Intervals],
    marks_best: bool,
) -> dict[str, Any]:
    """Return a row of a page's table of scores; it may mark the models whose rounded score is best."""
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
    significance, p_value = confidence.significance(gain), gain.p_value
    if isinstance(gain, Difference):
        significance, p_value = gain.significance, gain.p_adjusted
    ends = [gain.mean] if gain.low is None or gain.high is None else [gain.low, gain.mean, gain.high]
    extent = 1.1 * max(map(abs, ends)) or 1.0
    places = [round(50 + 50 * end / extent, 2) for end in ends]
    interval = f"{confidence.signed(gain.low)} to {confidence.signed(gain.high)}" if gain.low is not None else ""
    return {
        **heading(metric),
        "mean": confidence.signed(gain.mean),
        "interval": interval or ("too few groups" if gain.of_groups else "too few images"),
        "left": places[0],
        "width": round(places[-1] - places[0], 2),
        "dot": places[len(places) // 2],
        "significance": significance,
        "tone": TONES[significance],
        "p": confidence.p_value_text(p_value),
        "better_on": f"{gain.better_on:,} of {gain.n_images:,}",
    }


def heading(metric: str) -> dict[str, Any]:
    """Return the label, the arrow and the meaning of a metric."""
    row = METRICS[metric]
    return {"label": row.label, "arrow": "↑" if row.higher_is_better else "↓", "meaning": row.meaning}


def ceiling_rows(ceiling: CeilingScores) -> Rows:
    """Make a row for each metric of a dataset's ceiling.

    Returns:
        Rows with the heading of the metric, `metric`, `held_out` (as HELD_OUT), `start` and `end` (the scores of
        centre bias and people as text), `interval` (that of people) and `shares`: model -> `Share`.
    """
    rows = []
    for metric, row in METRICS.items():
        protocol = LEAVE_ONE_OUT if FIXATIONS in row.needs else SPLIT_HALF
        scores = ceiling.leave_one_out if protocol == LEAVE_ONE_OUT else ceiling.split_half
        if metric in scores.means[OBSERVERS]:
            rows.append(
                {
                    **heading(metric),
                    "metric": metric,
                    "held_out": HELD_OUT[protocol],
                    "start": number(scores.means[CENTER_BIAS][metric]),
                    "end": number(scores.means[OBSERVERS][metric]),
                    "interval": interval_text(metric, scores.intervals[OBSERVERS][metric]),
                    "shares": {model: shares[metric] for model, shares in scores.shares.items()},
                }
            )
    return rows


def ceiling_notes(rows: Rows, ceiling: CeilingScores, level: float) -> list[str]:
    """Return the notes about the rows of a ceiling (`confidence.share_notes`)."""
    undefined = [row["label"] for row in rows if all(share.share is None for share in row["shares"].values())]
    is_grouped = ceiling.n_units < ceiling.n_images
    return confidence.share_notes(undefined, len(rows), ceiling.n_units, level, of_groups=is_grouped)


def ceiling_chart(rows: Rows, labels: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """Return the values of the macro `ceiling`: all bars have the same scale, in percent of their width.

    Args:
        rows: result of `ceiling_rows`.
        labels: Model -> label and colour.
    """
    shares: list[Share] = [share for row in rows for share in row["shares"].values()]
    lowest = max(WIDEST[0], min(0.0, *(share.low or 0.0 for share in shares))) - MARGIN
    highest = min(WIDEST[1], max(1.0, *(share.high or 0.0 for share in shares))) + MARGIN

    def place(share: float) -> float:
        inside = min(max(share, lowest), highest)
        return round(100 * (inside - lowest) / (highest - lowest), 2)

    return {
        "start": place(0),
        "end": place(1),
        "models": [{"label": labels[model][0], "color": labels[model][1]} for model in rows[0]["shares"]],
        "rows": [
            row | {"marks": [_mark(share, labels[model], place) for model, share in row["shares"].items()]}
            for row in rows
        ],
    }


def _mark(share: Share, label: tuple[str, str], place: Callable[[float], float]) -> dict[str, Any]:
    """Return the positions of a dot and its interval on the bar with their text; without a share only the text."""
    mark = {"label": label[0], "color": label[1], "text": confidence.share_text(share)}
    if share.share is None or share.low is None or share.high is None:
        return mark
    left, dot, right = map(place, (share.low, share.share, share.high))
    return mark | {"left": left, "width": round(right - left, 2), "dot": dot}


def decisive_text(result: ScoredDataset, metric: str) -> str:
    """Say which interval of the gains decides, as a sentence; empty if none does. `metric` is that of the gate."""
    gain = result.decisive_gain
    if gain is None:
        return ""
    return (
        f"{METRICS[metric].label} decides: its interval is at {confidence.percent(gain.level)}, the share of a "
        "year that this decision has, and holds for other images and the same people."
    )


def where_worse(result: ScoredDataset) -> list[str]:
    """Say in which metrics the candidate is significantly worse than the centre bias and the current default.

    Returns:
        A sentence for each model that is better in a metric.
    """
    labels = {
        model: ", ".join(METRICS[metric].label for metric in metrics)
        for model, metrics in result.worse.items()
        if metrics
    }
    return [
        f"The candidate is significantly worse than {OTHERS[model]} in {each}." for model, each in labels.items()
    ]


def how_measured(result: ScoredDataset) -> str:
    """Say what was measured on a dataset and at which size, and how its centre bias is made.

    Returns:
        Sentences; empty for an evaluation of an earlier version, which scored all models at the size of the data.
    """
    if not result.image_sizes:
        return ""
    manifest = result.manifest
    densities, points = (
        ", ".join(METRICS[metric].label for metric in metrics_that_need(need)) for need in (DENSITY, FIXATIONS)
    )
    blurred = manifest.ground_truth == "points"
    maps = f"fixations blurred by {manifest.blur_sigma_px:g} pixels" if blurred else "the dataset's own maps"
    names = {CANDIDATE: "the candidate", **OTHERS}
    sizes = [
        f"{names[model]} at {confidence.size_text(size)}{_pages_text(result, model)}"
        for model, size in result.image_sizes.items()
    ]
    runtime = f", by {result.runtime}" if result.runtime else ""
    text = f"Each model answers at its own input size: {' and '.join(sizes)} pixels{runtime}. "
    text += f"{densities}: against {maps}, within {confidence.size_text(result.map_size)} pixels. "
    if result.n_fixations:
        observers = f" by up to {result.n_observers:,} observers an image" if result.n_observers else ""
        text += f"{points}: on {result.n_fixations:,} fixations{observers}, at the original size of each image. "
        other = ", ".join(row.label for row in METRICS.values() if not row.is_of_map)
        text += f"One map is scored in all metrics but {other}, whose map is divided by the centre bias. "
    return text + gate.center_bias_text(result)


def _pages_text(result: ScoredDataset, model: str) -> str:
    """How many images a model saw as pages, and at which size; empty if none."""
    of_model = result.pages.get(model)
    if of_model is None:
        return ""
    size = confidence.size_text(of_model.image_size)
    return f" ({of_model.n_images:,} of {result.n_images:,} images as pages at {size})"


# === Terminal ===


def notices(evaluation: Evaluation) -> list[str]:
    """What readers of an evaluation must know of its data and models (`sample_notices.of_evaluation`)."""
    manifests = {name: vars(result.manifest) for name, result in evaluation.datasets.items()}
    return sample_notices.of_evaluation(evaluation.model_configs, manifests)


def print_evaluation(evaluation: Evaluation, console: Console, registers: bool = True) -> None:
    """Print a table for each dataset and the reason of the decision.

    `registers` is as for `report.write_report`. `gate.require_baseline` prints the reason if the candidate is
    worse than the centre bias.
    """
    level = evaluation.shown_confidence
    for dataset, result in evaluation.datasets.items():
        means, gains = dict(result.models), result.gains
        if gains:  # 80 characters have no room for the uniform map, or the default's interval, beside the gain
            del means[UNIFORM]
        columns, rows = _score_cells(means, {CANDIDATE: result.intervals[CANDIDATE]})
        for metric, gain in gains.items():
            ends = "" if gain.low is None else f"{gain.low:+.3f} to {gain.high:+.3f}"
            rows[metric] += [f"{gain.mean:+.3f}", ends]
        columns += ["gain", "interval"] if gains else []
        _print(console, _heading(dataset, result.n_images, result.n_units, level), columns, rows)
        covers = coverage(result.over_people, means[CANDIDATE])
        console.print(Text(f"{covers} {UNCORRECTED}"), soft_wrap=True)
        console.print(Text(how_measured(result), style="dim"), soft_wrap=True)
        for text in (*where_worse(result), decisive_text(result, gate.metric_of(evaluation.gate))):
            if text:
                console.print(Text(text), soft_wrap=True)
        if result.ceiling is not None:
            _print_ceiling(console, result.ceiling, level, sample_notices.observers(vars(result.manifest)))
    for text in evaluation.data_warnings:
        console.print(Text(f"warning: {text}"), soft_wrap=True)
    for text in notices(evaluation):
        console.print(Text(text), soft_wrap=True)
    if evaluation.passed_baseline:
        console.print(Text(gate.reason_of(evaluation, registers)), soft_wrap=True)


def _print_ceiling(console: Console, ceiling: CeilingScores | NoCeiling, level: float, who: str) -> None:
    """Print how well observers predict each other, and how far each model comes from the centre bias to that."""
    if isinstance(ceiling, NoCeiling):
        console.print(Text(f"No ceiling of {who}: {ceiling.absent}"), soft_wrap=True)
        return
    rows = ceiling_rows(ceiling)
    cells = {
        row["metric"]: [
            row["held_out"].partition(",")[0],
            row["start"],
            row["end"],
            *map(confidence.share_text, row["shares"].values()),
        ]
        for row in rows
    }
    columns = [
        "held\nout",
        "centre\nbias",
        who.replace(" ", "\n"),
        *(MODELS[model] for model in rows[0]["shares"]),
    ]
    title = f"Share of the way from the centre bias to {who}; {confidence.percent(level)} confidence intervals"
    _print(console, title, columns, cells)
    console.print(Text(f"Scored on held-out observers of {confidence.ceiling_scope(ceiling)}."), soft_wrap=True)
    console.print(Text("All others predict one observer, the other half predicts a half."), soft_wrap=True)
    console.print(Text(f"Intervals hold for other images and the same {who}."), soft_wrap=True)
    for note in ceiling_notes(rows, ceiling, level):
        console.print(Text(note), soft_wrap=True)


def print_comparison(results: Mapping[str, DatasetComparison], level: float, console: Console) -> None:
    """Print for each dataset the scores, the gains over the first model, the notes and the verdicts."""
    for dataset, result in results.items():
        # 80 characters have room for the intervals of two models.
        intervals = {label: ends for label, ends in result.intervals.items() if label != CENTER_BIAS}
        _print(
            console,
            _heading(dataset, result.n_images, result.n_units, level),
            *_score_cells(result.means, intervals),
        )
        for label, differences in result.differences.items():
            gains = {metric: gain_row(metric, gain) for metric, gain in differences.items()}
            fields = ("mean", "interval", "p", "better_on", "significance")
            rows = {metric: [gain[field] for field in fields] for metric, gain in gains.items()}
            title = f"Gain of {label} over {next(iter(result.means))}"
            _print(console, title, ("gain", "interval", "p", "better on", ""), rows)
        console.print(Text(coverage(result.over_people, next(iter(result.means.values())))), soft_wrap=True)
        for text in (*result.notes, *result.verdicts.values()):
            console.print(Text(text), soft_wrap=True)


def _score_cells(
    means: Mapping[str, Scores], intervals: Mapping[str, Intervals]
) -> tuple[list[str], dict[str, list[str]]]:
    """Return the columns, and for each metric the mean of each model with its interval if there is one."""
    columns: list[str] = []
    rows: dict[str, list[str]] = {metric: [] for metric in next(iter(means.values()))}
    for model, scores in means.items():
        columns += [MODELS.get(model) or "\n".join(textwrap.wrap(model, LABEL_WIDTH))] + (
            ["interval"] if model in intervals else []
        )
        for metric, cells in rows.items():
            cells.append(f"{round(scores[metric], 3) + 0.0:.3f}")
            if model in intervals:
                cells.append(interval_text(metric, intervals[model][metric]))
    return columns, rows


def _heading(dataset: str, n_images: int, n_units: int, level: float) -> str:
    images = f"{n_images:,}{confidence.in_groups(n_units, n_images)}"
    return f"{title(dataset)}: {images}; {confidence.percent(level)} confidence intervals"


def _print(console: Console, title: str, columns: Iterable[str], rows: Mapping[str, Sequence[str]]) -> None:
    """Print a table with one row for each metric, whose cells are in `rows`; minus signs are ASCII's."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    for column in columns:
        table.add_column(Text(column), justify="right", overflow="fold")
    for metric, cells in rows.items():
        # A spreadsheet that a score is pasted into takes no other sign for a number.
        table.add_row(metric_label(metric), *(cell.replace(confidence.MINUS, "-") for cell in cells))
    console.print(Text(title, style="bold"), soft_wrap=True)
    console.print(table)
