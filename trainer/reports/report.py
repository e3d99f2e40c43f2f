"""The page of an evaluation: the decision, the scores, and images."""

import os
import pathlib
from collections.abc import Sequence
from typing import Any

from trainer import artifacts, files, generated, records
from trainer.evaluation import gate, held_out, per_image, wording
from trainer.evaluation.confidence import Gain
from trainer.evaluation.per_image import PerImage
from trainer.metric_table import FIXATIONS, METRICS, metrics_that_need
from trainer.reports import ceiling_rows, charts, pages, score_rows

MODELS = {
    "candidate": ("Candidate", charts.BLUE),
    "champion": ("Current default", charts.ORANGE),
    "centre_bias": ("Centre bias", charts.GREY),
    "uniform": ("Uniform", ""),
}
"""Name in the evaluation -> label and colour; a model without a colour is not in the charts."""
PANELS = charts.PANELS | {model: label for model, (label, _) in MODELS.items()}
"""Name of a picture -> label."""
RANKED = {"best": "Best", "median": "Median", "worst": "Worst"}
EXTREME = {"gains": "Largest gains", "losses": "Largest losses"}
"""Group of pictures in the evaluation -> heading."""

Path = str | os.PathLike[str]


def write_report(evaluation: Path, html: Path, registers: bool = True) -> None:
    """Write the page of an evaluation folder; `UserError` if it is not one.

    `registers`: whether the candidate is registered after the evaluation, as the pipeline does.
    """
    folder = pathlib.Path(evaluation)
    remedy = f"{folder} is not an evaluation; make one with `python -m trainer evaluate`"
    content = files.read_json(folder / artifacts.EVALUATION, remedy, records.Evaluation)
    tables = per_image.read(folder / artifacts.PER_IMAGE, remedy)
    *others, last = content["datasets"]
    pages.write(
        html,
        "report.html.jinja",
        title=f"MSI-Net on {', '.join(others)}{' and ' if others else ''}{last}",
        verdict=verdict(content, registers),
        reason=gate.reason_of(content, registers) + ("" if registers else f" {gate.REGISTERS_NOTHING}"),
        notices=generated.of_evaluation(content),
        percent=wording.percent(content["shown_confidence"]),
        sets=[_describe_set(folder, name, tables[name], content) for name in content["datasets"]],
        provenance=_provenance(content),
    )


def verdict(content: dict[str, Any], registers: bool) -> dict[str, str]:
    """Colour and headline of the decision, which has no effect unless the candidate is registered."""
    if not content["passed_baseline"]:
        return {"tone": "bad", "headline": "Worse than the centre bias"}
    if content["promote"]:
        return {"tone": "good", "headline": gate.HEADLINE if registers else gate.WOULD_HEADLINE}
    return {"tone": "plain", "headline": "Not promoted"}


def _describe_set(folder: pathlib.Path, name: str, table: PerImage, content: dict[str, Any]) -> dict[str, Any]:
    """The values of the template for one dataset."""
    result = content["datasets"][name]
    labels = {model: heading for model, heading in MODELS.items() if model in result["models"]}
    gate_metric, who = gate.metric_of(content["gate"]), generated.observers(result["manifest"])
    note = ""
    if not result["has_fixations"]:
        missing = ", ".join(METRICS[metric].label for metric in metrics_that_need(FIXATIONS))
        note = f"Not computed: {missing}. They need fixations, but this dataset has only maps."
    images = wording.images_of(name)
    return {
        "name": name,
        "title": f"{images[0].upper()}{images[1:]}",
        "leak": held_out.leak(images, result.get("left_out", ()), result["n_images"]),
        "decides": name == content["decides"],
        "note": note,
        **score_rows.describe_scores(table, labels, result["models"], result["intervals"]),
        "gains": [score_rows.gain_row(metric, Gain(**gain)) for metric, gain in result["gains"].items()],
        "who": who,
        "ceiling": _ceiling(result.get("ceiling"), labels, content["shown_confidence"], who),
        "extreme": _groups(folder, result["pictures"], EXTREME, gate_metric),
        "extreme_metric": METRICS[gate_metric].label,
        "ranked": _groups(folder, result["pictures"], RANKED, "kld"),
    }


def _ceiling(
    ceiling: dict[str, Any] | None, labels: dict[str, tuple[str, str]], level: float, who: str
) -> dict[str, Any] | None:
    """The bars from the centre bias to people, or `absent`, the reason for none; None if nobody is told apart."""
    if ceiling is None or "absent" in ceiling:
        return ceiling
    rows = ceiling_rows.describe(ceiling)
    return ceiling_rows.draw(rows, labels) | {
        "who": who,
        "scope": wording.ceiling_scope(ceiling),
        "note": " ".join(ceiling_rows.notes(rows, ceiling, level)),
    }


def _groups(
    folder: pathlib.Path, pictures: Sequence[dict[str, Any]], titles: dict[str, str], metric: str
) -> list[dict[str, Any]]:
    """The groups that have pictures, with the scores of their images in one metric."""
    groups = []
    for group, title in titles.items():
        examples = [_example(folder, picture, metric) for picture in pictures if picture["group"] == group]
        if examples:
            groups.append({"title": title, "examples": examples})
    return groups


def _example(folder: pathlib.Path, picture: dict[str, Any], metric: str) -> dict[str, Any]:
    """One image with its panels, and the scores of the models as text."""
    scores = {PANELS[model]: f"{scores[metric]:.3f}" for model, scores in picture["scores"].items()}
    text = f"{METRICS[metric].label} {scores.pop(PANELS['candidate'])}"
    text += "".join(f", {label.lower()} {score}" for label, score in scores.items())
    panels = charts.panels({panel: folder / file for panel, file in picture["files"].items()}, PANELS)
    return {"image": picture["image"], "scores": text, "panels": panels}


def _provenance(content: dict[str, Any]) -> list[tuple[str, pages.Facts]]:
    """Titled lists of facts: each dataset, each model, the gate and the code."""
    sections = [
        (f"Dataset {name}", pages.manifest_facts(result["manifest"]))
        for name, result in content["datasets"].items()
    ]
    for model, config in content["model_configs"].items():
        if config:
            sections.append((MODELS[model][0], pages.flatten(config)))
    name, level = content["gate"], content["gate_confidence"]
    rule = METRICS[name].label if name in METRICS else name
    if content["gate_margin"]:
        rule += f", better by more than {content['gate_margin']:g}"
    rule += f", {wording.percent(level)} confidence" if level else ", means only"
    facts = [
        ("Gate", rule),
        ("Decided on", wording.images_of(content["decides"])),
        ("Code", content["code_version"]),
    ]
    return [*sections, ("This evaluation", facts)]
