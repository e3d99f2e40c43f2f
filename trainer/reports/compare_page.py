"""The page of a comparison: the verdicts, the scores, where the models differ."""

import os
import pathlib
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

from trainer.config import HIGHER_IS_BETTER
from trainer.evaluation import wording
from trainer.evaluation.compare import Result
from trainer.evaluation.contestants import Contestant
from trainer.evaluation.per_image import CENTER_BIAS
from trainer.evaluation.shared_scores import Files, Networks, Shared, draw
from trainer.metrics import LABELS
from trainer.reports import charts, pages, score_rows

COLORS = (charts.BLUE, charts.ORANGE, "#009e73", "#cc79a7", "#d55e00", "#56b4e9")
"""Okabe and Ito's; a seventh model has the first again."""
TITLES = {"stimulus": "Stimulus", "density": "Ground truth"}
TONES = {
    "better": ("good", "Better"),
    "worse": ("bad", "Worse"),
    wording.NOT_CERTAIN: ("plain", "Not certain"),
    wording.SAME: ("plain", "The same"),
}
"""Colour and headline of a verdict."""


def write_comparison(
    contestants: Sequence[Contestant],
    networks: Networks,
    found: Mapping[str, Shared],
    results: Mapping[str, Result],
    level: float,
    html: str | os.PathLike[str],
) -> None:
    """Write the page; pictures are drawn where data and models are there."""
    colors = {each.label: COLORS[index % len(COLORS)] for index, each in enumerate(contestants)}
    with tempfile.TemporaryDirectory(prefix="msinet-compare-") as folder:
        sets = [
            _describe_set(
                name,
                result,
                found[name],
                colors,
                draw(networks, found[name], result.differing, pathlib.Path(folder, name)),
            )
            for name, result in results.items()
        ]
    first, *others = colors
    pages.write(
        html,
        "compare.html.jinja",
        title=f"{' and '.join(others)} against {first}",
        first=first,
        percent=f"{100 * level:g}%",
        corrected=len(others) if len(others) > 1 else 0,
        sets=sets,
        provenance=[(each.label, _facts(each)) for each in contestants],
    )


def _facts(contestant: Contestant) -> pages.Facts:
    return [("named", contestant.given), *contestant.facts.items()]


def _describe_set(
    name: str, result: Result, shared: Shared, colors: Mapping[str, str], files: Files
) -> dict[str, Any]:
    labels = list(colors)
    models = [*labels, *([CENTER_BIAS] if CENTER_BIAS in result.means else [])]
    shown = [
        {"label": label if label in colors else "Centre bias", "color": colors.get(label, "")} for label in models
    ]
    present = [metric for metric in HIGHER_IS_BETTER if metric in result.means[labels[0]]]
    return {
        "name": name,
        "n_images": f"{result.n_images:,}",
        "metric": LABELS[result.metric],
        "notes": result.notes,
        "verdicts": [_verdict(result, label) for label in result.verdicts],
        "models": shown,
        "legend": shown[: len(labels)],
        "rows": [
            score_rows.score_row(metric, models, result.means, result.intervals, (CENTER_BIAS,))
            for metric in present
        ],
        "gains": [
            {
                "label": label,
                "rows": [
                    score_rows.gain_row(metric, each, each.certain, each.p_adjusted)
                    for metric, each in found.items()
                ],
            }
            for label, found in result.differences.items()
        ],
        "distributions": [_distribution(metric, shared, colors) for metric in present],
        "examples": [
            _example(image, scores, result.metric, files.get(image, {}))
            for image, scores in result.differing.items()
        ],
    }


def _distribution(metric: str, shared: Shared, colors: Mapping[str, str]) -> dict[str, Any]:
    # The first in front, since the others are compared with it.
    scores = {label: shared.table.values(label, metric).tolist() for label in reversed(list(colors))}
    picture = charts.histogram(scores, dict(colors))
    return {"label": LABELS[metric], "arrow": score_rows.arrow(metric), "picture": picture}


def _verdict(result: Result, label: str) -> dict[str, str]:
    tone, headline = TONES[result.differences[label][result.metric].certain]
    return {"tone": tone, "headline": headline, "text": result.verdicts[label]}


def _example(
    image: str, scores: Mapping[str, float], metric: str, files: Mapping[str, pathlib.Path]
) -> dict[str, Any]:
    """One image, with its pictures where there are some."""
    text = f"{LABELS[metric]} " + ", ".join(f"{label} {score:.3f}" for label, score in scores.items())
    images = {what: np.asarray(Image.open(file)) for what, file in files.items()}
    panels = []
    for what, pixels in images.items():
        is_map = what != "stimulus"
        source = charts.overlay(images["stimulus"], pixels / 255) if is_map else charts.image_uri(pixels)
        panels.append({"label": TITLES.get(what, what), "src": source})
    return {"image": image, "scores": text, "panels": panels}
