"""The page of a comparison: the verdicts, the scores, and the images on which the models differ most."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from trainer import artifacts, files
from trainer.errors import now
from trainer.evaluation import confidence
from trainer.evaluation.compare import EVALUATE_AGAIN, Contestant, Files, Result, Shared, draw
from trainer.evaluation.per_image import CENTER_BIAS
from trainer.metric_table import METRICS
from trainer.reports import charts, gallery, pages, score_rows

COLORS = (charts.BLUE, charts.ORANGE, "#009e73", "#cc79a7", "#d55e00", "#56b4e9")
"""Colours of the models, by Okabe and Ito; a seventh model has the first colour again."""
TONES = {
    confidence.BETTER: ("good", "Significantly better"),
    confidence.WORSE: ("bad", "Significantly worse"),
    confidence.NOT_SIGNIFICANT: ("plain", "No significant difference"),
    confidence.SAME: ("plain", "The same"),
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
    first, *others = colors
    heading, head = f"{' and '.join(others)} against {first}", _head(results)
    notices = [text for each in contestants if (text := each.notice)]
    sets = []
    with files.folder(files.LOCAL) as folder:
        for name, result in results.items():
            drawn = draw(contestants, shared[name], result.differing, folder / name)
            sets.append(_describe_set(name, result, shared[name], colors, drawn))
    pages.write(
        html,
        "compare.html.jinja",
        title=heading,
        head=head,
        notices=notices,
        first=first,
        percent=confidence.percent(level),
        corrected=len(others) if len(others) > 1 else 0,
        sets=sets,
        models=pages.grid(
            {each.label: [("named", each.name), *each.facts.items()] for each in contestants},
        ),
        settings=pages.grid(pages.columns({each.label: _config(each) for each in contestants})),
    )


def _head(results: Mapping[str, Result]) -> pages.Facts:
    """Return the facts that identify a comparison: data, date, version and commit."""
    images = (f"{result.n_images:,} {confidence.images_of(name)}" for name, result in results.items())
    return [
        ("Data", " and ".join(images)),
        ("Date", now()),
        *pages.code_facts(artifacts.code_version()),
    ]


def _config(contestant: Contestant) -> Mapping[str, Any] | None:
    """Read a model's MODEL_CONFIG; None if there is none."""
    path = contestant.model / artifacts.MODEL_CONFIG if contestant.model else None
    return files.read_json(path, EVALUATE_AGAIN, artifacts.ModelConfig) if path and path.is_file() else None


def _describe_set(
    name: str, result: Result, shared: Shared, colors: Mapping[str, str], drawn: Files
) -> dict[str, Any]:
    """Return the values of the template for one dataset."""
    labels = {model: (model, color) for model, color in colors.items()}
    if CENTER_BIAS in result.means:
        labels[CENTER_BIAS] = ("Centre bias", "")
    images = confidence.images_of(name)
    return {
        "name": name,
        "title": f"{images[0].upper()}{images[1:]}",
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
        "gallery": gallery.describe(
            [gallery.Example(image, drawn.get(image, {})) for image in result.differing],
            shared.table,
            {model: model for model in colors},
            result.metric,
            gallery.DIFFERENCE,
            list(colors)[:2],
            gallery.PANELS,
        ),
    }
