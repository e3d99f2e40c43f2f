"""Scores as plain text, at most 80 characters wide where names are short, for a terminal or a log."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trainer.config import HIGHER_IS_BETTER
from trainer.evaluation.compare import Difference, Result
from trainer.evaluation.confidence import Gain
from trainer.reports import score_rows

MODELS = {
    "candidate": "candidate",
    "champion": "default",
    "centre_bias": "centre bias",
    "uniform": "uniform",
}
JUDGED = ("candidate", "champion")
"""Those whose intervals are shown."""


def print_evaluation(evaluation: dict[str, Any], console: Console) -> None:
    """Print a table for each data set and the reason of the decision; `evaluation` is `artifacts.EVALUATION`.

    The reason of a candidate below the centre bias is left to `gate.require_baseline`.
    """
    percent = f"{100 * evaluation['shown_confidence']:g}%"
    for dataset, result in evaluation["datasets"].items():
        title = f"Validation images of {dataset}: {result['n_images']:,}; {percent} intervals"
        _print(console, title, _table(result))
    if evaluation["passed_baseline"]:
        console.print(Text(evaluation["reason"]), soft_wrap=True)


def _table(result: dict[str, Any]) -> Table:
    table = _empty()
    # Without the uniform map there is room for the interval of the gain, which ± would make symmetric.
    left_out = "uniform" if result["gains"] else ""
    models = [model for model in MODELS if model in result["models"] and model != left_out]
    for column in (*(MODELS[model] for model in models), *(("gain", "interval") if result["gains"] else ())):
        table.add_column(column, justify="right")
    for metric in HIGHER_IS_BETTER:
        if metric not in result["models"]["candidate"]:
            continue
        cells = []
        for model in models:
            interval = result["intervals"][model][metric] if model in JUDGED else None
            cells.append(_cell(f"{result['models'][model][metric]:.3f}", interval))
        if result["gains"]:
            gain = Gain(**result["gains"][metric])
            ends = "" if gain.low is None else f"{gain.low:+.3f} to {gain.high:+.3f}"
            cells += [f"{gain.mean:+.3f}", ends]
        table.add_row(score_rows.name(metric), *cells)
    return table


def print_comparison(results: Mapping[str, Result], level: float, console: Console) -> None:
    """Print for each data set the scores, the gains over the first model, what must be known, and the verdicts."""
    for dataset, result in results.items():
        title = f"Validation images of {dataset}: {result.n_images:,}; {100 * level:g}% intervals"
        table = _empty()
        for label in result.means:
            table.add_column(Text(MODELS.get(label, label)), justify="right", overflow="fold")
        first = next(iter(result.means))
        for metric in result.means[first]:
            means, intervals = result.means, result.intervals
            cells = [_cell(f"{means[label][metric]:.3f}", intervals[label][metric]) for label in means]
            table.add_row(score_rows.name(metric), *cells)
        _print(console, title, table)
        for label, found in result.differences.items():
            _print(console, f"Gain of {label} over {first}", _gains(found))
        for text in (*result.notes, *result.verdicts.values()):
            console.print(Text(text), soft_wrap=True)


def _gains(found: Mapping[str, Difference]) -> Table:
    table = _empty()
    for column in ("gain", "interval", "p", "better on", ""):
        table.add_column(column, justify="right")
    for metric, gain in found.items():
        row = score_rows.gain_row(metric, gain, gain.certain, gain.p_adjusted)
        table.add_row(
            score_rows.name(metric), row["mean"], row["interval"], row["p"], row["better_on"], row["certain"]
        )
    return table


def _print(console: Console, title: str, table: Table) -> None:
    console.print(Text(title, style="bold"), soft_wrap=True)
    console.print(table)


def _empty() -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    return table


def _cell(mean: str, interval: Any) -> str:
    return f"{mean} {score_rows.half_width(interval)}".rstrip()
