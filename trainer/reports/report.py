"""The pages of a prepared dataset, a training, an evaluation and a comparison."""

import dataclasses
import itertools
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from trainer import wording
from trainer.data import SPLIT_NAMES, Manifest, PreparedData
from trainer.errors import ContentError, check
from trainer.evaluation import (
    CeilingScores,
    Comparison,
    Evaluation,
    Gain,
    PerImage,
    Role,
    RunFolder,
    ScoredDataset,
    Significance,
)
from trainer.io import temporary_folder
from trainer.machine import code_version
from trainer.metrics import FIXATIONS, LEAD, METRICS, metrics_that_need
from trainer.models import Provenance
from trainer.network import PER_IMAGE, Frame, ModelFolder
from trainer.pictures import Pixels
from trainer.prediction import blend
from trainer.reports import ceiling_rows, gallery, pages, score_tables, sentences
from trainer.reports.score_tables import number
from trainer.texts import format_duration, now

if TYPE_CHECKING:
    from trainer.data import AmbiguousReadingsError

THAN = {
    Significance.BETTER: "significantly better than",
    Significance.WORSE: "significantly worse than",
    Significance.NOT_SIGNIFICANT: "not significantly different from",
    Significance.SAME: "the same as",
}
"""Significance -> words that compare the candidate in a sentence."""
MODELS = {
    "candidate": ("Candidate", pages.BLUE),
    "champion": ("Current default", pages.ORANGE),
    "centre_bias": ("Centre bias", pages.GREY),
    "uniform": ("Uniform", ""),
}
"""Name in the evaluation -> label and colour. A model without a colour is not in the charts."""
PANELS = gallery.PANELS | {model: label for model, (label, _) in MODELS.items()}
"""Name of a picture in the evaluation -> label on the page."""
GROUPS = {"best": "Best", "median": "Median", "worst": "Worst", "gains": "Largest gain", "losses": "Largest loss"}
"""Group of pictures in the evaluation -> the reason why they are shown."""
COMPARED_COLORS = (pages.BLUE, pages.ORANGE, "#009e73", "#cc79a7", "#d55e00", "#56b4e9")
"""Colours of the models, by Okabe and Ito. A seventh model has the first colour again."""
VERDICTS = {
    Significance.BETTER: ("good", "Significantly better"),
    Significance.WORSE: ("bad", "Significantly worse"),
    Significance.NOT_SIGNIFICANT: ("plain", "No significant difference"),
    Significance.SAME: ("plain", "The same"),
}
"""Significance -> colour and headline."""
N_ENDS, ENDS_PX = 3, 320
"""Number and longer side of the images that stand first: those that the candidate predicts best and worst."""
READING_PX = 320
"""Longer side of the images that show the readings of ambiguous recordings."""
LARGEST_SHARE = 2.0
"""Positions up to this number are taken for shares of the sides of an image, to draw them."""
PREVIEW_IMAGES = {"train": 15, "valid": 10, "test": 15}
"""Split -> number of its images on the page of a dataset."""
SAMPLE_NOTICE = (
    "These images are generated shapes, and no person has looked at them. They are for trying the pipeline."
)
"""Said of a prepared dataset of the sample set."""
Path = str | os.PathLike[str]


# === A prepared dataset ===


def write_preview(dataset: Path, html: Path) -> None:
    """Write the page of a prepared dataset. `UserError` if the folder is not one."""
    folder = pathlib.Path(dataset)
    manifest = Manifest.load(folder)
    expected, partial = manifest.expected_counts, ""
    if manifest.counts != expected:
        partial = (
            f"This dataset has {pages.counts_text(manifest.counts)} images, and the complete dataset has "
            f"{pages.counts_text(expected)}. The results are not comparable with those on the complete dataset."
        )
    fixations = "with fixations" if manifest.has_fixations else "no fixations"
    size = wording.size_text(manifest.image_size)
    pages.write_page(
        html,
        "preview.html.jinja",
        title=manifest.dataset,
        head=[("Date", now()), *pages.code_facts(manifest.code_version)],
        tiles=[
            *((_title(split), f"{n:,}", f"of {expected[split]:,}") for split, n in manifest.counts.items()),
            ("Network input", size, f"height {wording.TIMES} width, pixels"),
            ("Ground truth", manifest.ground_truth, fixations),
        ],
        notices=[SAMPLE_NOTICE] if Provenance(vars(manifest)).is_sample else [],
        partial=partial,
        splits=[
            {
                "name": split,
                "title": _title(split),
                "text": f"The first {min(PREVIEW_IMAGES[split], count)} of {count:,}.",
                "thumbnails": _thumbnails(folder, split, manifest),
            }
            for split, count in manifest.counts.items()
            if count
        ],
        bias_of=SPLIT_NAMES[manifest.bias_split],
        center_bias=gallery.heat(PreparedData(folder).center_bias.without(None)),
        notes=manifest.notes,
        has_dots=manifest.has_fixations,
        facts=pages.manifest_facts(dataclasses.replace(manifest, notes=[])),
    )


def write_unneeded(html: Path) -> None:
    """Write the page of a dataset that a run does not need."""
    pages.write_page(html, "unneeded.html.jinja", title="Not needed", head=[("Date", now())])


def write_readings(errors: Sequence["AmbiguousReadingsError"], html: Path) -> None:
    """Write a page with the fixations of each reading of recordings that are not proven, on their images."""
    pages.write_page(
        html,
        "readings.html.jinja",
        title="Which is right?",
        head=[("Date", now())],
        questions=[
            {
                "text": error.question[:1].upper() + error.question[1:],
                "readings": [
                    {
                        "text": reading.text,
                        "rows": reading.rows,
                        "setting": reading.setting,
                        "images": [
                            _drawn(path, error.pictures[path], points)
                            for path, points in reading.fixations.items()
                        ],
                    }
                    for reading in error.readings
                ],
            }
            for error in errors
        ],
    )


def _drawn(path: str, picture: Pixels, points: npt.NDArray[np.float64]) -> dict[str, Any]:
    """An image with points (n, 2) of (y, x) in its pixels, or in shares of its sides."""
    small = Image.fromarray(picture)
    small.thumbnail((READING_PX, READING_PX))
    shares = points if np.abs(points).max(initial=0) <= LARGEST_SHARE else points / picture.shape[:2]
    placed = shares * (small.height, small.width)
    return {
        "name": path,
        "width": small.width,
        "height": small.height,
        "stimulus": gallery.image_uri(np.asarray(small)),
        "dots": "".join(f"M{x:.1f} {y:.1f}h0" for y, x in placed.tolist()),  # the path of an SVG
    }


def _title(split: str) -> str:
    return f"{SPLIT_NAMES[split].capitalize()} images"


def _thumbnails(folder: pathlib.Path, split: str, manifest: Manifest) -> list[dict[str, Any]]:
    """Return the first images of a split with their maps, without padding."""
    thumbnails = []
    for example in itertools.islice(PreparedData(folder).examples(split), PREVIEW_IMAGES[split]):
        top, left, height, width = Frame(manifest.image_size).box(example.original_size)
        box = slice(top, top + height), slice(left, left + width)
        density = example.density[box] / max(1, example.density.max())
        points = np.unique(example.fixations_prepared - (top, left), axis=0)
        thumbnails.append(
            {
                "name": example.name,
                "stem": pathlib.PurePosixPath(example.name).stem,
                "width": width,
                "height": height,
                "stimulus": gallery.image_uri(example.stimulus[box]),
                "dots": "".join(f"M{x + 0.5} {y + 0.5}h0" for y, x in points.tolist()),  # the path of an SVG
                "overlay": gallery.image_uri(blend(example.stimulus[box], density)),
            }
        )
    return thumbnails


# === A training ===


def write_curve(model: Path, html: Path) -> None:
    """Write the page of a model folder's training history. `UserError` if it has none."""
    folder, remedy = ModelFolder(model), "train the model again"
    history = folder.history(remedy)
    check(bool(history), f"{folder.history_file} has no epoch: name the folder of a trained model", ContentError)
    settings: dict[str, Any] = dict(folder.known_config(remedy) or {})
    best = max((i for i, row in enumerate(history) if row["best"]), default=len(history) - 1)
    valid = [row["valid_loss"] for row in history]
    on = f"Training on {settings['dataset']}" if settings.get("dataset") else "Training"
    data = f"{pages.counts_text(settings['counts'])} images" if settings.get("counts") else ""
    head = (("Model", str(Provenance(settings))), ("Data", data), ("Date", now()))
    pages.write_page(
        html,
        "curve.html.jinja",
        title=f"{on}: {len(history)} epoch{'' if len(history) == 1 else 's'}",
        head=[(name, fact) for name, fact in head if fact]
        + pages.code_facts(str(settings.get("code_version", ""))),
        notices=list(filter(None, [Provenance(settings).notice()])),
        tiles=[
            ("Best validation loss", f"{valid[best]:.4f}", f"epoch {history[best]['epoch']}"),
            ("Steps", f"{sum(row['steps'] for row in history):,}", ""),
            ("Time", format_duration(sum(row["seconds"] for row in history)), "validation included"),
            ("Speed", f"{np.mean([row['images_per_s'] for row in history]):.3g}", "training images per second"),
        ],
        curve=pages.loss_curve([row["epoch"] for row in history], [row["loss"] for row in history], valid, best),
        rows=[
            row
            | {
                "best": i == best,
                "loss": f"{row['loss']:.4f}",
                "valid_loss": f"{row['valid_loss']:.4f}",
                "time": format_duration(row["seconds"]),
                "speed": f"{row['images_per_s']:.3g}",
            }
            for i, row in enumerate(history)
        ],
        legend=pages.LOSS_LEGEND,
        settings=pages.grid(pages.training_facts({"This training": settings or None})),
    )


# === An evaluation ===


def write_report(folder: Path, html: Path, registers: bool = True) -> None:
    """Write the page of an evaluation folder. `UserError` if it is not one.

    `registers`: whether the candidate is registered after the evaluation, as the pipeline does.
    """
    folder = pathlib.Path(folder)
    remedy = f"{folder} is not an evaluation: make one with `python -m trainer evaluate`"
    evaluation = Evaluation.read(folder, remedy)
    tables = PerImage.read_all(folder / PER_IMAGE, remedy)
    *others, last = evaluation.datasets
    is_alone = not (registers or evaluation.run)
    warnings, reason = evaluation.data_warnings, sentences.reason_of(evaluation, registers)
    for text in warnings:  # they stand above
        reason = reason.replace(f" {text}", "")
    pages.write_page(
        html,
        "report.html.jinja",
        title=f"MSI-Net on {', '.join(others)}{' and ' if others else ''}{last}",
        head=_head(folder, evaluation),
        verdict=sentences.verdict(evaluation, registers),
        way=_way(evaluation),
        ends=_ends(folder, evaluation.deciding),
        reason=" ".join([reason, *([sentences.REGISTERS_NOTHING] if is_alone else [])]),
        notices=evaluation.notices,
        data_warnings=warnings,
        percent=wording.percent(evaluation.shown_confidence),
        sets=[_describe_set(folder, name, tables[name], evaluation) for name in evaluation.datasets],
        summary=_sentence(evaluation, tables[evaluation.decides]),
        data=pages.grid(
            {name: pages.manifest_facts(result.manifest) for name, result in evaluation.datasets.items()}
        ),
        settings=pages.grid(
            pages.training_facts({MODELS[model][0]: of for model, of in evaluation.model_configs.items()})
        ),
        rule=_rule(evaluation),
        lead=METRICS[LEAD].label,
    )


def _head(folder: pathlib.Path, evaluation: Evaluation) -> pages.Facts:
    """Return the facts that identify an evaluation in `folder`: model, data, run, date, version and commit."""
    # On this machine, people know a run by its folder's name.
    homes = (parent.name for parent in folder.absolute().parents if RunFolder(parent).is_run)
    facts = {
        "Model": str(Provenance(evaluation.model_configs[Role.CANDIDATE])),
        "Data": _data({name: (each.n_images, each.n_units) for name, each in evaluation.datasets.items()}),
        "Run": next(homes, evaluation.run),
        "Date": evaluation.date,
    }
    return [(name, fact) for name, fact in facts.items() if fact] + pages.code_facts(evaluation.code_version)


def _data(counts: Mapping[str, tuple[int, int]]) -> str:
    """The datasets in words, from the number of images and of units (`PerImage.n_units`) of each."""
    return " and ".join(
        f"{n_images:,} {PreparedData.images_of(name)}{wording.in_groups(n_units, n_images)}"
        for name, (n_images, n_units) in counts.items()
    )


def _sentence(evaluation: Evaluation, table: PerImage) -> str:
    """Say how good the candidate is on the images that decide, in the metric of the gate, and its worst image.

    `table` has the scores on these images.
    """
    result, metric, level = evaluation.deciding, evaluation.metric, evaluation.shown_confidence
    means, row = result.models, METRICS[metric]
    interval = score_tables.interval_text(metric, result.intervals[Role.CANDIDATE][metric])
    gains = {Role.CENTER_BIAS: table.gains(Role.CANDIDATE, Role.CENTER_BIAS, level)[metric]}
    if Role.CHAMPION in means:
        gains[Role.CHAMPION] = result.gains[metric]
    comparisons = [
        f"{_than(gain)} that of {sentences.OTHERS[model]} ({number(means[model][metric])})"
        for model, gain in gains.items()
    ]
    scores = table.scores[Role.CANDIDATE][metric]
    worst = int((np.nanargmin if row.higher_is_better else np.nanargmax)(scores))
    sentence = (
        f"On {_data({evaluation.decides: (result.n_images, result.n_units)})}, the candidate's {row.label} is "
        f"{number(means[Role.CANDIDATE][metric])}{f' ({interval})' if interval else ''}, "
        f"{' and '.join(comparisons)}. "
        f"The worst image is {table.images[worst]} ({number(scores[worst])})."
    )
    return " ".join([sentence, *sentences.where_worse(result)])


def _than(gain: Gain) -> str:
    if gain.low is None and gain.mean:
        return "better than" if gain.mean > 0 else "worse than"
    return THAN[gain.outcome]


def _describe_set(folder: pathlib.Path, name: str, table: PerImage, evaluation: Evaluation) -> dict[str, Any]:
    """Return the values of the template for one dataset."""
    result = evaluation.datasets[name]
    labels = {model: heading for model, heading in MODELS.items() if model in result.models}
    gate_metric, who = evaluation.metric, Provenance(vars(result.manifest)).observers
    note = ""
    if not result.has_fixations:
        missing = ", ".join(METRICS[metric].label for metric in metrics_that_need(FIXATIONS))
        note = f"Not computed: {missing}. They need fixations, but this dataset has only maps."
    images = PreparedData.images_of(name)
    return {
        "name": name,
        "title": score_tables.title(name),
        "leak": result.left_out_note(images),
        "decides": name == evaluation.decides,
        "note": note,
        "how": sentences.how_measured(result),
        **score_tables.describe_scores(table, labels, result.models, result.intervals),
        "gains": [score_tables.gain_row(metric, gain) for metric, gain in result.gains.items()],
        "decisive": sentences.decisive_text(result, gate_metric),
        "who": who,
        "ceiling": _ceiling(result, labels, evaluation.shown_confidence, who),
        "gallery": gallery.describe_gallery(
            _examples(folder, result, gate_metric),
            table,
            {
                model: MODELS[model][0].lower()
                for model in (Role.CANDIDATE, Role.CHAMPION)
                if model in table.scores
            },
            LEAD,
            gallery.BEST,
            (PANELS["density"], PANELS[Role.CANDIDATE]),
            PANELS,
        ),
    }


def _ceiling(
    result: ScoredDataset, labels: dict[str, tuple[str, str]], level: float, who: str
) -> dict[str, Any] | None:
    """Return the bars from centre bias to people, or `absent`, the reason for none.

    None is returned for an evaluation without a ceiling.
    """
    ceiling = result.ceiling
    if not isinstance(ceiling, CeilingScores):
        return None if ceiling is None else {"absent": ceiling.absent}
    rows = ceiling_rows.ceiling_rows(ceiling)
    return ceiling_rows.ceiling_chart(rows, labels) | {
        "who": who,
        "scope": ceiling_rows.ceiling_scope(ceiling),
        "note": " ".join(ceiling_rows.ceiling_notes(rows, ceiling, level)),
    }


def _way(evaluation: Evaluation) -> dict[str, Any]:
    """Return the values of the macro `way`: how near each model comes to people in a metric, or why not.

    They are of the images that decide, or else of the first ones with a ceiling.
    """
    metric, level = evaluation.metric, evaluation.shown_confidence
    sets = {evaluation.decides: evaluation.deciding} | evaluation.datasets
    known = [name for name, each in sets.items() if isinstance(each.ceiling, CeilingScores)]
    name = known[0] if known else evaluation.decides
    ceiling, who = sets[name].ceiling, Provenance(vars(sets[name].manifest)).observers
    if not isinstance(ceiling, CeilingScores):
        absent = ceiling.absent if ceiling else "The data do not tell observers apart."
        return {"absent": f"How near the candidate comes to {who} is not known. {absent}"}
    rows = [row for row in ceiling_rows.ceiling_rows(ceiling) if row["metric"] == metric]
    return ceiling_rows.ceiling_chart(rows, MODELS, of=f" of the way to {who}") | {
        "who": who,
        "images": PreparedData.images_of(name),
        "percent": wording.percent(level),
        "note": " ".join(ceiling_rows.ceiling_notes(rows, ceiling, level)),
    }


def _ends(folder: pathlib.Path, result: ScoredDataset) -> dict[str, list[dict[str, Any]]]:
    """Heading -> the images that the candidate predicts best or worst, with what people and the candidate say."""
    names = ("stimulus", "density", Role.CANDIDATE)
    labels = {"density": Provenance(vars(result.manifest)).observers.capitalize(), "candidate": "Candidate"}
    found: dict[str, list[dict[str, Any]]] = {"Predicted best": [], "Predicted worst": []}
    for heading, group in zip(found, ("best", "worst"), strict=True):
        pictures = [picture for picture in result.pictures if picture.group == group]
        for picture in pictures[:N_ENDS] if group == "best" else pictures[: -N_ENDS - 1 : -1]:
            panels = gallery.load_panels({name: folder / picture.files[name] for name in names}, labels)
            found[heading].append(
                {
                    "image": picture.image,
                    "panels": {label: gallery.image_uri(panels[label], ENDS_PX) for label in labels.values()},
                }
            )
    return found


def _examples(folder: pathlib.Path, result: ScoredDataset, gate_metric: str) -> list[gallery.GalleryImage]:
    """Return the images that have pictures, each once, with all reasons why they were chosen."""
    why: dict[str, list[str]] = {}
    for picture in result.pictures:
        group, _, metric = picture.group.partition(" ")
        metric = metric or (gate_metric if group in ("gains", "losses") else LEAD)
        why.setdefault(picture.image, []).append(f"{GROUPS[group]} {METRICS[metric].label}")
    panels = {
        picture.image: {panel: folder / file for panel, file in picture.files.items()}
        for picture in result.pictures
    }
    return [gallery.GalleryImage(image, panels[image], reasons) for image, reasons in why.items()]


def _rule(evaluation: Evaluation) -> pages.Facts:
    """Return the facts about how the candidate was compared with the current default."""
    name, level = evaluation.gate, evaluation.gate_confidence
    rule = METRICS[name].label if name in METRICS else name
    if evaluation.gate_margin:
        rule += f", better by more than {evaluation.gate_margin:g}"
    rule += (
        f", {wording.percent(level)} confidence for other images and the same people" if level else ", means only"
    )
    facts = [("Gate", rule), ("Decided on", PreparedData.images_of(evaluation.decides))]
    if known := evaluation.known:
        facts.append(("Known images", known.text or known.verdict))
    return facts


# === A comparison ===


def write_comparison(comparison: Comparison, html: Path) -> None:
    """Write the page of a comparison. It has pictures if the data and the models still exist."""
    contestants, results = comparison.contestants, comparison.results
    colors = {
        contestant.label: COMPARED_COLORS[index % len(COMPARED_COLORS)]
        for index, contestant in enumerate(contestants)
    }
    first, *others = colors
    data = _data({name: (result.n_images, result.n_units) for name, result in results.items()})
    notices = [text for each in contestants if (text := each.notice)]
    configs = {each.label: each.config for each in contestants if each.config is not None}
    with temporary_folder() as folder:
        drawn = {name: comparison.draw_images(name, folder / name) for name in results}
        sets = [_describe_compared(comparison, name, colors, drawn[name]) for name in results]
    pages.write_page(
        html,
        "compare.html.jinja",
        title=f"{' and '.join(others)} against {first}",
        head=[("Data", data), ("Date", now()), *pages.code_facts(code_version())],
        notices=notices,
        first=first,
        percent=wording.percent(comparison.level),
        corrected=len(others) if len(others) > 1 else 0,
        sets=sets,
        models=pages.grid({each.label: [("named", each.name), *each.facts.items()] for each in contestants}),
        settings=pages.grid(pages.training_facts(configs)),
    )


def _describe_compared(
    comparison: Comparison,
    name: str,
    colors: Mapping[str, str],
    drawn: Mapping[str, Mapping[str, pathlib.Path]],
) -> dict[str, Any]:
    """Return the values of the template for one dataset."""
    result, table = comparison.results[name], comparison.shared[name].table
    labels = {model: (model, color) for model, color in colors.items()}
    if Role.CENTER_BIAS in result.means:
        labels[Role.CENTER_BIAS] = ("Centre bias", "")
    return {
        "name": name,
        "title": score_tables.title(name),
        **score_tables.describe_scores(table, labels, result.means, result.intervals),
        "metric": METRICS[result.metric].label,
        "notes": result.notes,
        "verdicts": [
            (*VERDICTS[result.differences[label][result.metric].significance], verdict)
            for label, verdict in result.verdicts.items()
        ],
        "gains": {
            label: [score_tables.gain_row(metric, gain) for metric, gain in differences.items()]
            for label, differences in result.differences.items()
        },
        "gallery": gallery.describe_gallery(
            [gallery.GalleryImage(image, drawn.get(image, {})) for image in result.differing],
            table,
            {model: model for model in colors},
            result.metric,
            gallery.DIFFERENCE,
            list(colors)[:2],
            gallery.PANELS,
        ),
    }
