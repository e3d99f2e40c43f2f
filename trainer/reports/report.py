"""The page of an evaluation: the verdict, the scores, how the images differ."""

import os
import pathlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from PIL import Image

from trainer import artifacts, files
from trainer.config import HIGHER_IS_BETTER
from trainer.evaluation import per_image, wording
from trainer.evaluation.confidence import Gain
from trainer.evaluation.per_image import PerImage
from trainer.metrics import LABELS
from trainer.reports import charts, pages, score_rows

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
RANKED = {"best": "Best", "median": "Median", "worst": "Worst"}
DECIDING = {"gains": "Largest gains", "losses": "Largest losses"}
"""Group of pictures in the evaluation -> its heading."""

Path = str | os.PathLike[str]


def write_report(evaluation: Path, html: Path) -> None:
    """Write the page of an evaluation folder; `UserError` where it is not one."""
    folder = pathlib.Path(evaluation)
    remedy = f"{folder} is not an evaluation; make one with `python -m trainer evaluate`"
    content = files.read_json(folder / artifacts.EVALUATION, remedy)
    tables = per_image.read(folder / artifacts.PER_IMAGE, remedy)
    sets = [_describe_set(folder, name, tables[name], content) for name in content["datasets"]]
    pages.write(
        html,
        "report.html.jinja",
        title=f"MSI-Net on {' and '.join(content['datasets'])}",
        verdict=verdict(content),
        reason=content["reason"],
        sets=sets,
        provenance=_provenance(content),
    )


def verdict(content: dict[str, Any]) -> dict[str, str]:
    """Colour and headline of the decision."""
    if not content["passed_baseline"]:
        return {"tone": "bad", "headline": "Below the centre bias"}
    if content["promote"]:
        return {"tone": "good", "headline": "Becomes the default"}
    return {"tone": "plain", "headline": "Not promoted"}


def _describe_set(folder: pathlib.Path, name: str, table: PerImage, content: dict[str, Any]) -> dict[str, Any]:
    result = content["datasets"][name]
    models = [model for model in MODELS if model in result["models"]]
    labels = [{"label": MODELS[model][0], "color": MODELS[model][1]} for model in models]
    note = ""
    if not result["has_fixations"]:
        note = "AUC, sAUC, NSS and IG need fixations, and this data set has only maps."
    return {
        "name": name,
        "decides": name == content["decides"],
        "confidence": f"{100 * content['shown_confidence']:g}%",
        "n_images": f"{result['n_images']:,}",
        "note": note,
        "models": labels,
        "legend": [label for label in labels if label["color"]],
        "rows": [
            score_rows.score_row(metric, models, result["models"], result["intervals"], ("uniform",))
            for metric in _present(result)
        ],
        "gains": [score_rows.gain_row(metric, Gain(**gain)) for metric, gain in result["gains"].items()],
        "influence": _influence(content, result) if "influence" in result else "",
        "distributions": [_distribution(metric, table) for metric in _present(result)],
        "deciding": _groups(folder, result["pictures"], DECIDING, result.get("influence", {}).get("metric", "")),
        "groups": _groups(folder, result["pictures"], RANKED, "kld"),
    }


def _influence(content: dict[str, Any], result: dict[str, Any]) -> str:
    """On how many images the candidate is better, and on how many the decision hangs."""
    metric, count = result["influence"]["metric"], result["influence"]["turning_point"]
    gain = Gain(**result["gains"][metric])
    if wording.certainty(gain) == wording.SAME:
        return f"The {LABELS[metric]} of both is the same on every image."
    counted = (
        f"The candidate's {LABELS[metric]} is better on {gain.better_on:,} of {gain.n_images:,} images and worse "
        f"on {gain.worse_on:,}."
    )
    if count is None:
        return counted
    largest = "image with the largest" if count == 1 else f"{count:,} images with the largest"
    what = "gain" if content["beats_champion"] else "loss"
    which = f"{largest} {what if count == 1 else {'gain': 'gains', 'loss': 'losses'}[what]}"
    margin = f" by more than {content['gate_margin']:g}" if content["gate_margin"] else ""
    surely = "certainly " if content["gate_confidence"] else ""
    negation = "no longer" if content["beats_champion"] else "instead"
    return f"{counted} Without the {which} it would {negation} be {surely}better{margin}."


def _present(result: dict[str, Any]) -> list[str]:
    return [metric for metric in HIGHER_IS_BETTER if metric in result["models"]["candidate"]]


def _distribution(metric: str, table: PerImage) -> dict[str, Any]:
    shown = [model for model, (_, color) in MODELS.items() if color and model in table.scores]
    drawn = {model: table.values(model, metric).tolist() for model in shown}
    colors = {model: MODELS[model][1] for model in drawn}
    return {
        "label": LABELS[metric],
        "arrow": score_rows.arrow(metric),
        # The centre bias in the background, the candidate in front.
        "picture": charts.histogram(dict(reversed(drawn.items())), colors),
    }


def _groups(
    folder: pathlib.Path, pictures: Iterable[dict[str, Any]], titles: dict[str, str], metric: str
) -> list[dict[str, Any]]:
    """The examples of each group that has some, with their score in one metric."""
    found: dict[str, list[dict[str, Any]]] = {group: [] for group in titles}
    for picture in pictures:
        if picture["group"] in found:
            found[picture["group"]].append(_example(folder, picture, metric))
    return [{"title": titles[group], "examples": examples} for group, examples in found.items() if examples]


def _example(folder: pathlib.Path, picture: dict[str, Any], metric: str) -> dict[str, Any]:
    images = {what: np.asarray(Image.open(folder / file)) for what, file in picture["files"].items()}
    panels = []
    for what, label in PANELS.items():
        if what == "stimulus":
            panels.append({"label": label, "src": charts.image_uri(images[what])})
        elif what in images:
            panels.append({"label": label, "src": charts.overlay(images["stimulus"], images[what] / 255)})
    scores = {PANELS[model]: f"{each[metric]:.3f}" for model, each in picture["scores"].items()}
    text = f"{LABELS[metric]} {scores.pop(PANELS['candidate'])}"
    text += "".join(f", {label.lower()} {score}" for label, score in scores.items())
    return {"image": picture["image"], "scores": text, "panels": panels}


def _provenance(content: dict[str, Any]) -> list[tuple[str, pages.Facts]]:
    """Titled lists of facts: each data set, each model, the code."""
    sections = [
        (f"Data set {name}", pages.manifest_facts(each["manifest"])) for name, each in content["datasets"].items()
    ]
    for model, config in content["model_configs"].items():
        if config:
            sections.append((MODELS[model][0], pages.flatten(config)))
    margin = f", by more than {content['gate_margin']:g}" if content["gate_margin"] else ""
    certain = f", {100 * content['gate_confidence']:g}% certain" if content["gate_confidence"] else ", means alone"
    gate = [
        ("Gate", f"{LABELS.get(content['gate'], content['gate'])}{margin}{certain}"),
        ("Decided on", content["decides"]),
    ]
    return [*sections, ("This evaluation", [*gate, ("Code", content["code_version"])])]
