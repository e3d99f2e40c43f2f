"""The page of an evaluation: the decision in a headline and a sentence, the scores, and images."""

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trainer import artifacts, files, generated
from trainer.evaluation import confidence, gate, per_image, seen
from trainer.evaluation.confidence import Gain
from trainer.evaluation.per_image import CANDIDATE, CENTER_BIAS, CHAMPION, PerImage
from trainer.metric_table import FIXATIONS, METRICS, metrics_that_need
from trainer.reports import charts, gallery, pages, score_rows

THAN = {
    confidence.BETTER: "significantly better than",
    confidence.WORSE: "significantly worse than",
    confidence.NOT_SIGNIFICANT: "not significantly different from",
    confidence.SAME: "the same as",
}
"""Significance -> words that compare the candidate in a sentence."""
OTHERS = {CENTER_BIAS: "the centre bias", CHAMPION: "the current default"}
MODELS = {
    "candidate": ("Candidate", charts.BLUE),
    "champion": ("Current default", charts.ORANGE),
    "centre_bias": ("Centre bias", charts.GREY),
    "uniform": ("Uniform", ""),
}
"""Name in the evaluation -> label and colour; a model without a colour is not in the charts."""
PANELS = gallery.PANELS | {model: label for model, (label, _) in MODELS.items()}
"""Name of a picture in the evaluation -> label on the page."""
GROUPS = {"best": "Best", "median": "Median", "worst": "Worst", "gains": "Largest gain", "losses": "Largest loss"}
"""Group of pictures in the evaluation -> the reason why they are shown."""
Path = str | os.PathLike[str]


def write_report(evaluation: Path, html: Path, registers: bool = True) -> None:
    """Write the page of an evaluation folder; `UserError` if it is not one.

    `registers`: whether the candidate is registered after the evaluation, as the pipeline does.
    """
    folder = pathlib.Path(evaluation)
    content, tables = _read(folder)
    decides, is_alone = content["decides"], not (registers or content.get("run"))
    pages.write(
        html,
        "report.html.jinja",
        title=title(content),
        head=head(folder, content),
        headline=headline(content, registers),
        sentence=sentence(content, tables[decides]),
        reason=" ".join([gate.reason_of(content, registers), *([gate.REGISTERS_NOTHING] if is_alone else [])]),
        notices=generated.of_evaluation(content),
        percent=confidence.percent(content["shown_confidence"]),
        sets=[_describe_set(folder, name, tables[name], content) for name in content["datasets"]],
        data=pages.grid(
            {name: pages.manifest_facts(result["manifest"]) for name, result in content["datasets"].items()}
        ),
        settings=pages.grid(
            pages.columns({MODELS[model][0]: of for model, of in content["model_configs"].items()})
        ),
        rule=_rule(content),
    )


def _read(folder: pathlib.Path) -> tuple[dict[str, Any], dict[str, PerImage]]:
    """Read the content of an evaluation folder, and the scores on each dataset."""
    remedy = f"{folder} is not an evaluation; make one with `python -m trainer evaluate`"
    content = files.read_json(folder / artifacts.EVALUATION, remedy, artifacts.Evaluation)
    return content, per_image.read(folder / artifacts.PER_IMAGE, remedy)


def title(content: Mapping[str, Any]) -> str:
    """Return the heading of the page, which names all data."""
    *others, last = content["datasets"]
    return f"MSI-Net on {', '.join(others)}{' and ' if others else ''}{last}"


def head(folder: pathlib.Path, content: Mapping[str, Any]) -> pages.Facts:
    """Return the facts that identify an evaluation in `folder`: model, data, run, date, version and commit."""
    images = (
        f"{result['n_images']:,} {confidence.images_of(name)}" for name, result in content["datasets"].items()
    )
    facts = {
        "Model": generated.origin(content["model_configs"][CANDIDATE]),
        "Data": " and ".join(images),
        "Run": _run(folder, content),
        "Date": content.get("date", ""),
    }
    return [(name, fact) for name, fact in facts.items() if fact] + pages.code_facts(content["code_version"])


def _run(folder: pathlib.Path, content: Mapping[str, Any]) -> str:
    """Return the name of the run; on this machine it is that of its folder, by which people know it."""
    homes = (parent.name for parent in folder.absolute().parents if (parent / artifacts.RUN_FILE).is_file())
    return next(homes, str(content.get("run", "")))


def headline(content: Mapping[str, Any], registers: bool) -> tuple[str, str]:
    """Return tone and headline of the decision, which has no effect unless the candidate is registered."""
    if not content["passed_baseline"]:
        return "bad", "Worse than the centre bias"
    if gate.is_undecided(content, registers):
        return "plain", "Not compared with a default model"
    if content["promote"]:
        return "good", "Becomes the default" if registers else "Would become the default"
    return "plain", "Not promoted"


def sentence(content: Mapping[str, Any], table: PerImage) -> str:
    """Say how good the candidate is on the images that decide, in the metric of the gate, and its worst image.

    Args:
        content: content of the EVALUATION file.
        table: The scores on these images.
    """
    name, level = content["decides"], content["shown_confidence"]
    result, metric = content["datasets"][name], gate.metric_of(content["gate"])
    means, row = result["models"], METRICS[metric]
    interval = score_rows.interval(metric, result["intervals"][CANDIDATE][metric])
    gains = {CENTER_BIAS: table.gains(CANDIDATE, CENTER_BIAS, level)[metric]}
    if CHAMPION in means:
        gains[CHAMPION] = Gain(**result["gains"][metric])
    comparisons = [
        f"{_than(gain)} that of {OTHERS[model]} ({_number(means[model][metric])})" for model, gain in gains.items()
    ]
    scores = table.scores[CANDIDATE][metric]
    worst = int((np.nanargmin if row.higher_is_better else np.nanargmax)(scores))
    return (
        f"On {result['n_images']:,} {confidence.images_of(name)}, the candidate's {row.label} is "
        f"{_number(means[CANDIDATE][metric])}{f' ({interval})' if interval else ''}, {' and '.join(comparisons)}; "
        f"the worst image is {table.images[worst]} ({_number(scores[worst])})."
    )


def _than(gain: Gain) -> str:
    if gain.low is None and gain.mean:
        return "better than" if gain.mean > 0 else "worse than"
    return THAN[confidence.significance(gain)]


def _number(score: float) -> str:
    return f"{round(score, 3) + 0.0:.3f}".replace("-", confidence.MINUS)


def _describe_set(folder: pathlib.Path, name: str, table: PerImage, content: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the template for one dataset."""
    result = content["datasets"][name]
    labels = {model: heading for model, heading in MODELS.items() if model in result["models"]}
    gate_metric, who = gate.metric_of(content["gate"]), generated.observers(result["manifest"])
    note = ""
    if not result["has_fixations"]:
        missing = ", ".join(METRICS[metric].label for metric in metrics_that_need(FIXATIONS))
        note = f"Not computed: {missing}. They need fixations, but this dataset has only maps."
    images = confidence.images_of(name)
    return {
        "name": name,
        "title": f"{images[0].upper()}{images[1:]}",
        "leak": seen.note(images, result.get("left_out", ()), result["n_images"]),
        "decides": name == content["decides"],
        "note": note,
        **_scores(name, table, content),
        "gains": [score_rows.gain_row(metric, Gain(**gain)) for metric, gain in result["gains"].items()],
        "who": who,
        "ceiling": _ceiling(result.get("ceiling"), labels, content["shown_confidence"], who),
        "gallery": gallery.describe(
            _examples(folder, result["pictures"], gate_metric),
            table,
            {model: MODELS[model][0].lower() for model in (CANDIDATE, CHAMPION) if model in table.scores},
            "kld",
            gallery.BEST,
            (PANELS["density"], PANELS[CANDIDATE]),
            PANELS,
        ),
    }


def _scores(name: str, table: PerImage, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scores on one dataset as values of the template (`score_rows.describe_scores`)."""
    result = content["datasets"][name]
    labels = {model: heading for model, heading in MODELS.items() if model in result["models"]}
    return score_rows.describe_scores(table, labels, result["models"], result["intervals"])


def _ceiling(
    ceiling: dict[str, Any] | None, labels: dict[str, tuple[str, str]], level: float, who: str
) -> dict[str, Any] | None:
    """Return the bars from centre bias to people, or `absent`, the reason for none.

    None is returned for an evaluation without a ceiling.
    """
    if ceiling is None or "absent" in ceiling:
        return ceiling
    rows = score_rows.describe(ceiling)
    return score_rows.draw(rows, labels) | {
        "who": who,
        "scope": confidence.ceiling_scope(ceiling),
        "note": " ".join(score_rows.notes(rows, ceiling, level)),
    }


def _examples(folder: pathlib.Path, drawn: Sequence[Mapping[str, Any]], gate_metric: str) -> list[gallery.Example]:
    """Return the images that have pictures, each once, with all reasons why they were chosen."""
    why: dict[str, list[str]] = {}
    for picture in drawn:
        group, _, metric = picture["group"].partition(" ")
        metric = metric or (gate_metric if group in ("gains", "losses") else "kld")
        why.setdefault(picture["image"], []).append(f"{GROUPS[group]} {METRICS[metric].label}")
    files_of = {picture["image"]: _files(folder, picture) for picture in drawn}
    return [gallery.Example(image, files_of[image], reasons) for image, reasons in why.items()]


def _files(folder: pathlib.Path, picture: Mapping[str, Any]) -> dict[str, pathlib.Path]:
    """Return the pictures of one image in an evaluation: name -> file."""
    return {panel: folder / file for panel, file in picture["files"].items()}


def _rule(content: Mapping[str, Any]) -> pages.Facts:
    """Return the facts about how the candidate was compared with the current default."""
    name, level = content["gate"], content["gate_confidence"]
    rule = METRICS[name].label if name in METRICS else name
    if content["gate_margin"]:
        rule += f", better by more than {content['gate_margin']:g}"
    rule += f", {confidence.percent(level)} confidence" if level else ", means only"
    return [("Gate", rule), ("Decided on", confidence.images_of(content["decides"]))]
