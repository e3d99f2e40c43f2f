"""The page of an evaluation: the verdict, the scores, how the images differ."""

import csv
import itertools
import os
import pathlib
from collections import defaultdict
from typing import Any

import numpy as np
from PIL import Image

from trainer import artifacts, charts, pages
from trainer.config import HIGHER_IS_BETTER
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
MODELS = {
    "candidate": ("Candidate", charts.BLUE),
    "champion": ("Current default", charts.ORANGE),
    "centre_bias": ("Centre bias", charts.GREY),
    "uniform": ("Uniform", ""),
}
"""Name in the evaluation -> label and colour; without a colour it is not drawn in the charts."""
PANELS = {
    "stimulus": "Stimulus",
    "density": "Ground truth",
    "candidate": "Candidate",
    "champion": "Current default",
}

Path = str | os.PathLike[str]


def write_report(evaluation: Path, html: Path) -> None:
    """Write the page of an evaluation folder; `UserError` where it is not one."""
    folder = pathlib.Path(evaluation)
    remedy = f"{folder} is not an evaluation; make one with `python -m trainer evaluate`"
    content = artifacts.read_json(folder / artifacts.EVALUATION, remedy)
    per_image = _read_per_image(folder / artifacts.PER_IMAGE)
    sets = [
        _describe_set(folder, name, result, per_image[name], decides=name == content["decides"])
        for name, result in content["datasets"].items()
    ]
    pages.write(
        html,
        "report.html.jinja",
        title=f"MSI-Net on {' and '.join(content['datasets'])}",
        verdict=verdict(content),
        reason=content["reason"],
        sets=sets,
        provenance=_provenance(content),
    )


def _read_per_image(path: pathlib.Path) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Data set -> model -> metric -> the score of each image that has one."""
    scores: dict[str, dict[str, dict[str, list[float]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            for metric in HIGHER_IS_BETTER:
                if row[metric]:
                    scores[row["dataset"]][row["model"]][metric].append(float(row[metric]))
    return scores


def verdict(content: dict[str, Any]) -> dict[str, str]:
    """Colour and headline of the decision."""
    if not content["passed_baseline"]:
        return {"tone": "bad", "headline": "Below the centre bias"}
    if content["promote"]:
        return {"tone": "good", "headline": "Becomes the default"}
    return {"tone": "plain", "headline": "Not promoted"}


def _describe_set(
    folder: pathlib.Path,
    name: str,
    result: dict[str, Any],
    scores: dict[str, dict[str, list[float]]],
    decides: bool,
) -> dict[str, Any]:
    models = [model for model in MODELS if model in result["models"]]
    labels = [{"label": MODELS[model][0], "color": MODELS[model][1]} for model in models]
    note = ""
    if not result["has_fixations"]:
        note = "AUC, sAUC, NSS and IG need fixations, and this data set has only maps."
    return {
        "name": name,
        "decides": decides,
        "n_images": f"{result['n_images']:,}",
        "note": note,
        "models": labels,
        "legend": [label for label in labels if label["color"]],
        "rows": [_row(metric, models, result["models"]) for metric in _present(result)],
        "distributions": [_distribution(metric, scores) for metric in _present(result)],
        "groups": [
            {"title": group.capitalize(), "examples": [_example(folder, picture) for picture in pictures]}
            for group, pictures in itertools.groupby(result["pictures"], key=lambda picture: picture["group"])
        ],
    }


def _present(result: dict[str, Any]) -> list[str]:
    return [metric for metric in HIGHER_IS_BETTER if metric in result["models"]["candidate"]]


def _arrow(metric: str) -> str:
    return "↑" if HIGHER_IS_BETTER[metric] else "↓"


def _row(metric: str, models: list[str], means: dict[str, dict[str, float]]) -> dict[str, Any]:
    """One line of the table; models that show the same three decimals as the best are marked with it."""
    shown = {model: f"{round(means[model][metric], 3) + 0.0:.3f}" for model in models}
    best = (max if HIGHER_IS_BETTER[metric] else min)(shown.values(), key=float)
    cells = [
        {"text": shown[m].replace("-", pages.MINUS), "best": shown[m] == best, "minor": m == "uniform"}
        for m in models
    ]
    return {"label": LABELS[metric], "arrow": _arrow(metric), "meaning": MEANINGS[metric], "cells": cells}


def _distribution(metric: str, scores: dict[str, dict[str, list[float]]]) -> dict[str, Any]:
    drawn = {model: scores[model][metric] for model, (_, color) in MODELS.items() if color and model in scores}
    colors = {model: MODELS[model][1] for model in drawn}
    return {
        "label": LABELS[metric],
        "arrow": _arrow(metric),
        # The centre bias in the background, the candidate in front.
        "picture": charts.histogram(dict(reversed(drawn.items())), colors),
    }


def _example(folder: pathlib.Path, picture: dict[str, Any]) -> dict[str, Any]:
    images = {what: np.asarray(Image.open(folder / file)) for what, file in picture["files"].items()}
    panels = []
    for what, label in PANELS.items():
        if what == "stimulus":
            panels.append({"label": label, "src": charts.image_uri(images[what])})
        elif what in images:
            panels.append({"label": label, "src": charts.overlay(images["stimulus"], images[what] / 255)})
    return {"image": picture["image"], "kld": picture["kld"], "panels": panels}


def _provenance(content: dict[str, Any]) -> list[tuple[str, pages.Facts]]:
    """Titled lists of facts: each data set, each model, the code."""
    sections = [
        (f"Data set {name}", pages.manifest_facts(each["manifest"])) for name, each in content["datasets"].items()
    ]
    for model, config in content["model_configs"].items():
        if config:
            sections.append((MODELS[model][0], pages.flatten(config)))
    margin = f", by more than {content['gate_margin']:g}" if content["gate_margin"] else ""
    gate = [
        ("Gate", f"{LABELS.get(content['gate'], content['gate'])}{margin}"),
        ("Decided on", content["decides"]),
    ]
    return [*sections, ("This evaluation", [*gate, ("Code", content["code_version"])])]
