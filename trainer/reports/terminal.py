"""Scores as plain text for a terminal or a log, at most 80 characters wide if the names are short."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trainer.evaluation.compare import Difference, Result
from trainer.evaluation.confidence import Gain
from trainer.evaluation.wording import percent
from trainer.metric_table import METRICS
from trainer.reports import score_rows

MODELS = {
    "candidate": "candidate",
    "champion": "default",
    "centre_bias": "centre bias",
    "uniform": "uniform",
}
WITH_INTERVAL = ("candidate", "champion")
"""The models whose intervals are shown."""


def print_evaluation(evaluation: dict[str, Any], console: Console) -> None:
    """Print a table for each dataset and the reason of the decision; `evaluation` is `artifacts.EVALUATION`.

    `gate.require_baseline` prints the reason if the candidate is worse than the centre bias.
    """
    for dataset, result in evaluation["datasets"].items():
        _print(console, _title(dataset, result["n_images"], evaluation["shown_confidence"]), _table(result))
    if evaluation["passed_baseline"]:
        console.print(Text(evaluation["reason"]), soft_wrap=True)


def _table(result: dict[str, Any]) -> Table:
    table = _empty()
    # 80 characters have no room for both the uniform map and the gain.
    left_out = "uniform" if result["gains"] else ""
    models = [model for model in MODELS if model in result["models"] and model != left_out]
    for column in (*(MODELS[model] for model in models), *(("gain", "interval") if result["gains"] else ())):
        table.add_column(column, justify="right")
    for metric in METRICS:
        if metric not in result["models"]["candidate"]:
            continue
        cells = []
        for model in models:
            interval = result["intervals"][model][metric] if model in WITH_INTERVAL else None
            cells.append(_cell(f"{result['models'][model][metric]:.3f}", interval))
        if result["gains"]:
            gain = Gain(**result["gains"][metric])
            ends = "" if gain.low is None else f"{gain.low:+.3f} to {gain.high:+.3f}"
            cells += [f"{gain.mean:+.3f}", ends]
        table.add_row(score_rows.name(metric), *cells)
    return table


def print_comparison(results: Mapping[str, Result], level: float, console: Console) -> None:
    """Print for each dataset the scores, the gains over the first model, the notes and the verdicts."""
    for dataset, result in results.items():
        table = _empty()
        for label in result.means:
            table.add_column(Text(MODELS.get(label, label)), justify="right", overflow="fold")
        first = next(iter(result.means))
        for metric in result.means[first]:
            means, intervals = result.means, result.intervals
            cells = [_cell(f"{means[label][metric]:.3f}", intervals[label][metric]) for label in means]
            table.add_row(score_rows.name(metric), *cells)
        _print(console, _title(dataset, result.n_images, level), table)
        for label, differences in result.differences.items():
            _print(console, f"Gain of {label} over {first}", _gains(differences))
        for text in (*result.notes, *result.verdicts.values()):
            console.print(Text(text), soft_wrap=True)


def _gains(differences: Mapping[str, Difference]) -> Table:
    table = _empty()
    for column in ("gain", "interval", "p", "better on", ""):
        table.add_column(column, justify="right")
    for metric, difference in differences.items():
        row = score_rows.gain_row(metric, difference, difference.significance, difference.p_adjusted)
        cells = (row[column] for column in ("mean", "interval", "p", "better_on", "significance"))
        table.add_row(score_rows.name(metric), *cells)
    return table


def _title(dataset: str, n_images: int, level: float) -> str:
    return f"Validation images of {dataset}: {n_images:,}; {percent(level)} confidence intervals"


def _print(console: Console, title: str, table: Table) -> None:
    console.print(Text(title, style="bold"), soft_wrap=True)
    console.print(table)


def _empty() -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    return table


def _cell(mean: str, interval: Any) -> str:
    return f"{mean} {score_rows.half_width(interval)}".rstrip()
