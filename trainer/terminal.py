"""The scores of an evaluation as plain text, at most 80 characters wide, for a terminal or a log."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trainer import score_rows
from trainer.confidence import Gain
from trainer.config import HIGHER_IS_BETTER

MODELS = {
    "candidate": "candidate",
    "champion": "default",
    "centre_bias": "centre bias",
    "uniform": "uniform",
}
JUDGED = ("candidate", "champion")
"""Those whose intervals are shown."""


def print_evaluation(evaluation: dict[str, Any], console: Console) -> None:
    """Print a table for each data set, and the reason of the decision; `evaluation` is `artifacts.EVALUATION`."""
    percent = f"{100 * evaluation['shown_confidence']:g}%"
    for dataset, result in evaluation["datasets"].items():
        title = f"Validation images of {dataset}: {result['n_images']:,}; {percent} intervals"
        console.print(_table(title, result))
    console.print(Text(evaluation["reason"]), soft_wrap=True)


def _table(title: str, result: dict[str, Any]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    models = [model for model in MODELS if model in result["models"]]
    for model in models:
        table.add_column(MODELS[model], justify="right")
    if result["gains"]:
        table.add_column("gain", justify="right")
    for metric in HIGHER_IS_BETTER:
        if metric not in result["models"]["candidate"]:
            continue
        cells = []
        for model in models:
            interval = result["intervals"][model][metric] if model in JUDGED else None
            cells.append(_cell(f"{result['models'][model][metric]:.3f}", interval))
        if result["gains"]:
            gain = Gain(**result["gains"][metric])
            cells.append(_cell(f"{gain.mean:+.3f}", (gain.low, gain.high) if gain.low is not None else None))
        table.add_row(score_rows.name(metric), *cells)
    return table


def _cell(mean: str, interval: Any) -> str:
    return f"{mean} {score_rows.half_width(interval)}".rstrip()
