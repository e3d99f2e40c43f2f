"""Tables of scores, gains and the ceiling on a terminal.

Text is at most 80 characters wide if the names of the models are short.
"""

import textwrap
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trainer import wording
from trainer.evaluation import CeilingScores, Comparison, Evaluation, Role, ScoredDataset
from trainer.models import Provenance
from trainer.reports.ceiling_rows import ceiling_notes, ceiling_rows, ceiling_scope, share_text
from trainer.reports.score_tables import (
    MODELS,
    UNCORRECTED,
    Intervals,
    coverage,
    gain_row,
    interval_text,
    metric_label,
    title,
)
from trainer.reports.sentences import decisive_text, how_measured, reason_of, where_worse

LABEL_WIDTH = 12
"""Longest line of a model's name above its scores, such as the half of 20260101-120000."""


def print_evaluation(evaluation: Evaluation, console: Console, registers: bool = True) -> None:
    """Print a table for each dataset and the reason of the decision.

    `registers` is as for `report.write_report`. `Evaluation.require_baseline` prints the reason if the candidate
    is worse than the centre bias.
    """
    level = evaluation.shown_confidence
    for dataset, result in evaluation.datasets.items():
        means, gains = dict(result.models), result.gains
        if gains:  # 80 characters have no room for the uniform map, or the default's interval, beside the gain
            del means[Role.UNIFORM]
        columns, rows = _score_cells(means, {Role.CANDIDATE: result.intervals[Role.CANDIDATE]})
        for metric, gain in gains.items():
            ends = "" if gain.low is None else f"{gain.low:+.3f} to {gain.high:+.3f}"
            rows[metric] += [f"{gain.mean:+.3f}", ends]
        columns += ["gain", "interval"] if gains else []
        _print(console, _heading(dataset, result.n_images, result.n_units, level), columns, rows)
        covers = coverage(result.over_people, means[Role.CANDIDATE])
        console.print(Text(f"{covers} {UNCORRECTED}"), soft_wrap=True)
        console.print(Text(how_measured(result), style="dim"), soft_wrap=True)
        for text in (*where_worse(result), decisive_text(result, evaluation.metric)):
            if text:
                console.print(Text(text), soft_wrap=True)
        if result.ceiling is not None:
            _print_ceiling(console, result, level)
    for text in evaluation.data_warnings:
        console.print(Text(f"warning: {text}"), soft_wrap=True)
    for text in evaluation.notices:
        console.print(Text(text), soft_wrap=True)
    if evaluation.passed_baseline:
        console.print(Text(reason_of(evaluation, registers)), soft_wrap=True)


def _print_ceiling(console: Console, result: ScoredDataset, level: float) -> None:
    """Print how well observers predict each other, and how far each model comes from the centre bias to that."""
    ceiling, who = result.ceiling, Provenance(vars(result.manifest)).observers
    if not isinstance(ceiling, CeilingScores):
        console.print(Text(f"No ceiling of {who}: {ceiling.absent if ceiling else ''}"), soft_wrap=True)
        return
    rows = ceiling_rows(ceiling)
    cells = {
        row["metric"]: [
            row["held_out"].partition(",")[0],
            row["start"],
            row["end"],
            *map(share_text, row["shares"].values()),
        ]
        for row in rows
    }
    columns = [
        "held\nout",
        "centre\nbias",
        who.replace(" ", "\n"),
        *(MODELS[model] for model in rows[0]["shares"]),
    ]
    title = f"Share of the way from the centre bias to {who}, with {wording.percent(level)} confidence intervals"
    _print(console, title, columns, cells)
    console.print(Text(f"Scored on held-out observers of {ceiling_scope(ceiling)}."), soft_wrap=True)
    console.print(Text("All others predict one observer, the other half predicts a half."), soft_wrap=True)
    console.print(Text(f"Intervals hold for other images and the same {who}."), soft_wrap=True)
    for note in ceiling_notes(rows, ceiling, level):
        console.print(Text(note), soft_wrap=True)


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print for each dataset the scores, the gains over the first model, the notes and the verdicts."""
    for dataset, result in comparison.results.items():
        # 80 characters have room for the intervals of two models.
        intervals = {label: ends for label, ends in result.intervals.items() if label != Role.CENTER_BIAS}
        _print(
            console,
            _heading(dataset, result.n_images, result.n_units, comparison.level),
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
    means: Mapping[str, Mapping[str, float]], intervals: Mapping[str, Intervals]
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
    images = f"{n_images:,}{wording.in_groups(n_units, n_images)}"
    return f"{title(dataset)}: {images}, with {wording.percent(level)} confidence intervals"


def _print(console: Console, title: str, columns: Iterable[str], rows: Mapping[str, Sequence[str]]) -> None:
    """Print a table with one row for each metric, by its cells in `rows`. Minus signs are ASCII's."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    for column in columns:
        table.add_column(Text(column), justify="right", overflow="fold")
    for metric, cells in rows.items():
        # A spreadsheet that a score is pasted into takes no other sign for a number.
        table.add_row(metric_label(metric), *(cell.replace(wording.MINUS, "-") for cell in cells))
    console.print(Text(title, style="bold"), soft_wrap=True)
    console.print(table)
