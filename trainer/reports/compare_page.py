"""The page of a comparison: the verdicts, the scores, and the images on which the models differ most."""

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from trainer import scratch
from trainer.evaluation import wording
from trainer.evaluation.compare import Result
from trainer.evaluation.contestants import Contestant
from trainer.evaluation.per_image import CENTER_BIAS
from trainer.evaluation.shared_scores import Files, Shared, draw
from trainer.metric_table import METRICS
from trainer.reports import charts, pages, score_rows

COLORS = (charts.BLUE, charts.ORANGE, "#009e73", "#cc79a7", "#d55e00", "#56b4e9")
"""Of Okabe and Ito; a seventh model has the first colour again."""
TONES = {
    wording.BETTER: ("good", "Significantly better"),
    wording.WORSE: ("bad", "Significantly worse"),
    wording.NOT_SIGNIFICANT: ("plain", "No significant difference"),
    wording.SAME: ("plain", "The same"),
}
"""Significance -> colour and headline."""


def write_comparison(
    contestants: Sequence[Contestant],
    shared: Mapping[str, Shared],
    results: Mapping[str, Result],
    level: float,
    html: str | os.PathLike[str],
) -> None:
    """Write the page of a comparison at `level`; it has pictures if the data and the models still exist."""
    colors = {contestant.label: COLORS[index % len(COLORS)] for index, contestant in enumerate(contestants)}
    sets = []
    with scratch.folder(scratch.LOCAL) as folder:
        for name, result in results.items():
            files = draw(contestants, shared[name], result.differing, folder / name)
            sets.append(_describe_set(name, result, shared[name], colors, files))
    first, *others = colors
    pages.write(
        html,
        "compare.html.jinja",
        title=f"{' and '.join(others)} against {first}",
        notices=[text for each in contestants if (text := each.notice)],
        first=first,
        percent=wording.percent(level),
        corrected=len(others) if len(others) > 1 else 0,
        sets=sets,
        provenance=[(each.label, [("named", each.name), *each.facts.items()]) for each in contestants],
    )


def _describe_set(
    name: str, result: Result, shared: Shared, colors: Mapping[str, str], files: Files
) -> dict[str, Any]:
    """The values of the template for one dataset."""
    labels = {model: (model, color) for model, color in colors.items()}
    if CENTER_BIAS in result.means:
        labels[CENTER_BIAS] = ("Centre bias", "")
    return {
        "name": name,
        **score_rows.describe_scores(shared.table, labels, result.means, result.intervals),
        "metric": METRICS[result.metric].label,
        "notes": result.notes,
        "verdicts": [
            (*TONES[result.differences[label][result.metric].significance], verdict)
            for label, verdict in result.verdicts.items()
        ],
        "gains": {
            label: [score_rows.gain_row(metric, gain) for metric, gain in differences.items()]
            for label, differences in result.differences.items()
        },
        "examples": [
            _example(image, scores, result.metric, files.get(image, {}))
            for image, scores in result.differing.items()
        ],
    }


def _example(
    image: str, scores: Mapping[str, float], metric: str, files: Mapping[str, pathlib.Path]
) -> dict[str, Any]:
    """One image with the scores of the models as text, and its panels if it has pictures."""
    text = f"{METRICS[metric].label} " + ", ".join(f"{label} {score:.3f}" for label, score in scores.items())
    return {"image": image, "scores": text, "panels": charts.panels(files, charts.PANELS)}
