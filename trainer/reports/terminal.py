"""Scores as plain text for a terminal or a log, at most 80 characters wide if the names are short."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trainer import generated
from trainer.evaluation import confidence, gate
from trainer.evaluation.compare import Result
from trainer.evaluation.per_image import CENTER_BIAS, Scores
from trainer.reports import score_rows

MODELS = {
    "candidate": "candidate",
    "champion": "default",
    "centre_bias": "centre\nbias",  # in one line, the gain would need more than 80 characters
    "uniform": "uniform",
}
LABEL_WIDTH = 12
"""Longest line of a model's name above its scores, such as the half of 20260101-120000."""


def print_evaluation(evaluation: dict[str, Any], console: Console, registers: bool = True) -> None:
    """Print a table for each dataset and the reason of the decision; `evaluation` is `artifacts.EVALUATION`.

    `registers` is as for `report.write_report`. `gate.require_baseline` prints the reason if the candidate is
    worse than the centre bias.
    """
    for dataset, result in evaluation["datasets"].items():
        means, gains = dict(result["models"]), result["gains"]
        if gains:  # 80 characters have no room for the uniform map, or the default's interval, beside the gain
            del means["uniform"]
        columns, rows = _score_cells(means, {"candidate": result["intervals"]["candidate"]})
        for metric, gain in gains.items():
            ends = "" if gain["low"] is None else f"{gain['low']:+.3f} to {gain['high']:+.3f}"
            rows[metric] += [f"{gain['mean']:+.3f}", ends]
        columns += ["gain", "interval"] if gains else []
        _print(console, _title(dataset, result["n_images"], evaluation["shown_confidence"]), columns, rows)
        if "ceiling" in result:
            _print_ceiling(
                console, result["ceiling"], evaluation["shown_confidence"], generated.observers(result["manifest"])
            )
    for text in evaluation.get("data_warnings", ()):
        console.print(Text(f"warning: {text}"), soft_wrap=True)
    for text in generated.of_evaluation(evaluation):
        console.print(Text(text), soft_wrap=True)
    if evaluation["passed_baseline"]:
        console.print(Text(gate.reason_of(evaluation, registers)), soft_wrap=True)


def _print_ceiling(console: Console, ceiling: dict[str, Any], level: float, who: str) -> None:
    """Print how well observers predict each other, and how far each model comes from the centre bias to that."""
    if "absent" in ceiling:
        console.print(Text(f"No ceiling of {who}: {ceiling['absent']}"), soft_wrap=True)
        return
    rows = score_rows.describe(ceiling)
    cells = {
        row["metric"]: [row["start"], row["end"], *map(confidence.share_text, row["shares"].values())]
        for row in rows
    }
    columns = ["centre bias", who, *(MODELS[model] for model in rows[0]["shares"])]
    title = f"Share of the way from the centre bias to {who}; {confidence.percent(level)} confidence intervals"
    _print(console, title, columns, cells)
    console.print(Text(f"Scored on held-out observers of {confidence.ceiling_scope(ceiling)}."), soft_wrap=True)
    for note in score_rows.notes(rows, ceiling["n_images"], level):
        console.print(Text(note), soft_wrap=True)


def print_comparison(results: Mapping[str, Result], level: float, console: Console) -> None:
    """Print for each dataset the scores, the gains over the first model, the notes and the verdicts."""
    for dataset, result in results.items():
        # 80 characters have room for the intervals of two models.
        intervals = {label: ends for label, ends in result.intervals.items() if label != CENTER_BIAS}
        _print(console, _title(dataset, result.n_images, level), *_score_cells(result.means, intervals))
        for label, differences in result.differences.items():
            gains = {metric: score_rows.gain_row(metric, gain) for metric, gain in differences.items()}
            fields = ("mean", "interval", "p", "better_on", "significance")
            rows = {metric: [gain[field] for field in fields] for metric, gain in gains.items()}
            title = f"Gain of {label} over {next(iter(result.means))}"
            _print(console, title, ("gain", "interval", "p", "better on", ""), rows)
        for text in (*result.notes, *result.verdicts.values()):
            console.print(Text(text), soft_wrap=True)


def _score_cells(
    means: Mapping[str, Scores], intervals: Mapping[str, score_rows.Intervals]
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
                cells.append(score_rows.interval(metric, intervals[model][metric]))
    return columns, rows


def _title(dataset: str, n_images: int, level: float) -> str:
    return f"{score_rows.title(dataset)}: {n_images:,}; {confidence.percent(level)} confidence intervals"


def _print(console: Console, title: str, columns: Iterable[str], rows: Mapping[str, Sequence[str]]) -> None:
    """Print a table with one row for each metric, whose cells are in `rows`; minus signs are ASCII's."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    for column in columns:
        table.add_column(Text(column), justify="right", overflow="fold")
    for metric, cells in rows.items():
        # A spreadsheet that a score is pasted into takes no other sign for a number.
        table.add_row(score_rows.name(metric), *(cell.replace(confidence.MINUS, "-") for cell in cells))
    console.print(Text(title, style="bold"), soft_wrap=True)
    console.print(table)
