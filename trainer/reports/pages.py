"""Shared parts of the HTML pages: the file, facts about data, code and trainings, and charts.

Charts are SVG by matplotlib. Their text and lines have the page's colours, light or dark. The colours of models
are by Okabe and Ito: colour-blind people can distinguish them.
"""

import io
import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
import matplotlib
import numpy as np
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.markers import MarkerStyle
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from trainer.data import SPLIT_NAMES, Manifest
from trainer.evaluation import PerImage
from trainer.io import replacing
from trainer.metrics import METRICS
from trainer.models import Provenance
from trainer.prediction import HEAT
from trainer.wording import TIMES, size_text

Facts = list[tuple[str, Any]]
"""Facts as (name, value) pairs."""
HEADING = re.compile(r'<h([23]) id="([^"]+)">(.*?)</h[23]>')
"""Heading with an anchor, for the macro `heading`."""
NESTED = ("base_model", "identity")
"""Keys of a MODEL_CONFIG that repeat other trainings or other keys."""
SETTINGS = "settings"
BLUE, ORANGE, GREY = "#2b8cc4", "#e08a00", "#8c959f"
"""Colours that are readable on white and on black."""
LOSS_LEGEND = ((GREY, "training"), (BLUE, "validation"), (ORANGE, "best epoch"))
"""Colours of `loss_curve`."""
INK = "#010203"
"""Placeholder for the colour of the page's text, which only the browser knows."""
BINS = 24
FOR_FILES = ("<metadata>.*?</metadata>", "<style.*?</style>", r' xmlns[:\w]*="[^"]*"', r'(?<=<g) id="[^"]*"')
"""Patterns of the parts of an SVG that are for files: in a page, its styles would apply to the whole page."""


def write_page(html: str | os.PathLike[str], template: str, **values: Any) -> None:
    """Render a template to the file `html`, which needs no other file."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        finalize=_marked,
    )
    environment.filters["headings"] = HEADING.findall
    page = environment.get_template(template).render(heat_stops=HEAT.stops(9), **values)
    with replacing(html) as partial:
        partial.write_text(page, encoding="utf-8")


def _marked(value: Any) -> Any:
    """A text for the terminal, with what is between backticks as code. Anything else as it is."""
    if not isinstance(value, str) or isinstance(value, Markup) or "`" not in value:
        return value
    parts = value.split("`")
    return Markup().join(Markup("<code>{}</code>").format(part) if i % 2 else part for i, part in enumerate(parts))


def manifest_facts(manifest: Manifest) -> Facts:
    """Return the facts about a prepared dataset."""
    truth = manifest.ground_truth
    if manifest.blur_sigma_px:
        truth += f", blurred with sigma {manifest.blur_sigma_px:g} px"
    sizes = sorted(manifest.original_sizes.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{size.replace('x', f' {TIMES} ')} ({count:,})" for size, count in sizes[:4])
    more = f" and {len(sizes) - 4} more" if len(sizes) > 4 else ""
    return [
        ("Source", manifest.source),
        ("Fingerprint", manifest.fingerprint),
        ("Images", f"{counts_text(manifest.counts)} (complete: {counts_text(manifest.expected_counts)})"),
        ("Split", "only tested on" if manifest.is_test_set else manifest.split),
        ("Original sizes", shown + more),
        ("Network input", size_text(manifest.image_size)),
        ("Ground truth", truth),
        ("Fixations", "known" if manifest.has_fixations else "not known"),
        *(("Licence", text) for text in [manifest.licence] if text),
        *(("Citation", text) for text in [manifest.citation] if text),
        *(("Reading of the tables", text) for text in [manifest.reading] if text),
        *(("Notes", " ".join(notes)) for notes in [manifest.notes] if notes),
        ("Prepared by", manifest.code_version),
    ]


def code_facts(code_version: str) -> Facts:
    """Split the text of `package_version.code_version()` into version and commit."""
    version, _, commit = code_version.partition("+")
    return [(name, fact) for name, fact in (("Version", version), ("Commit", commit)) if fact]


def grid(columns: Mapping[str, Facts]) -> dict[str, Any]:
    """Return the values of the macro `grid`: a row for each name, a column for each list of facts.

    A value that all columns share is shown once.
    """
    facts = [dict(pairs) for pairs in columns.values()]
    names = dict.fromkeys(name for pairs in facts for name in pairs)
    rows = []
    for name in names:
        values = [pairs.get(name, "\N{EN DASH}") for pairs in facts]
        is_shared = all(value == values[0] for value in values)
        rows.append((name, values[:1] if is_shared else values))
    return {"columns": list(columns), "rows": rows}


def counts_text(counts: dict[str, int]) -> str:
    """Format the numbers of images of all splits."""
    return " and ".join(f"{count:,} {SPLIT_NAMES[split]}" for split, count in counts.items())


def training_facts(models: Mapping[str, Mapping[str, Any] | None]) -> dict[str, Facts]:
    """Return the facts about the training of each model, of its base model and so on.

    Args:
        models: Label -> content of MODEL_CONFIG, if the model has one.

    Returns:
        Label of the training, such as "Candidate, training 2: osie" -> its facts, a model's last training first.
        Models that share a base model share its column.
    """
    found: list[tuple[list[str], str, Mapping[str, Any]]] = []
    for label, config in models.items():
        chain = list(Provenance(config).trainings)
        for number, training in zip(range(len(chain), 0, -1), chain, strict=True):
            same = [labels for labels, _, other in found if other == training]
            if same:
                same[0].append(label)
            else:
                # The same training has the same number in all models: it has the same base model.
                count = f", training {number}" if len(chain) > 1 else ""
                data = Provenance(training).dataset
                found.append(([label], f"{count}: {data}" if data else count, training))
    return {f"{' and '.join(labels)}{rest}": _facts(training) for labels, rest, training in found}


def _facts(training: Mapping[str, Any]) -> Facts:
    """Return the keys of a MODEL_CONFIG and its settings. A setting with a key's name is marked `(as set)`."""
    facts = {name: value for name, value in training.items() if name not in (*NESTED, SETTINGS)}
    for name, value in (training.get(SETTINGS) or {}).items():
        facts[f"{name} (as set)" if name in facts else name] = value
    return [pair for name, value in facts.items() for pair in _pairs(name, value)]


def _pairs(name: str, value: Any) -> Facts:
    if isinstance(value, dict):
        return [pair for key, part in value.items() for pair in _pairs(f"{name}.{key}", part)]
    return [(name, f" {TIMES} ".join(map(str, value)) if isinstance(value, list) else value)]


# === Charts ===


def histogram(table: PerImage, metric: str, colors: Mapping[str, str]) -> str:
    """Draw the number of images by score, one shape per model in `colors`. Equal scores are only a line."""
    # The first model is drawn last, in front.
    columns = {model: table.scores[model][metric] for model in reversed(list(colors))}
    scores = {model: column[~np.isnan(column)] for model, column in columns.items()}
    edges = np.histogram_bin_edges(np.concatenate(list(scores.values())), BINS)
    figure, axes = plot((240, 170), 12, "score", "images")
    for model, values in scores.items():
        if values.min() < values.max() or len(scores) == 1:
            fill = (colors[model], 0.28)
            axes.hist(values, list(edges), histtype="stepfilled", facecolor=fill, edgecolor=colors[model])
        axes.axvline(float(table.values(model, metric).mean()), color=colors[model], linestyle="--")
    axes.set_xlim(edges[0], edges[-1])
    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    return svg(figure, f"{METRICS[metric].label} of each image, by model")


def loss_curve(epochs: Sequence[int], loss: Sequence[float], valid_loss: Sequence[float], best: int) -> str:
    """Draw training and validation loss by epoch, with a ring around the epoch at index `best`."""
    figure, axes = plot((600, 270), 10, "epoch", "loss, nats")
    for series, color in ((loss, GREY), (valid_loss, BLUE)):
        axes.plot(epochs, series, color=color, marker="o", linewidth=1.8)
    ring = MarkerStyle("o", fillstyle="none")
    axes.plot([epochs[best]], [valid_loss[best]], color=ORANGE, marker=ring, markersize=15, markeredgewidth=2)
    axes.margins(0.05, 0.12)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    return svg(figure, "training and validation loss by epoch", "wide")


def trials_curve(losses: Sequence[float], is_complete: Sequence[bool], best: int) -> str:
    """Draw the loss of the trials of a sweep in order, the lowest so far as steps, and a ring around the best.

    Args:
        losses: The lowest validation loss of each trial. NaN if it has none.
        is_complete: Whether it was trained to its end. Others are grey.
        best: Index of the best one.
    """
    figure, axes = plot((600, 270), 10, "trial", "loss, nats")
    numbers, values = np.arange(1, len(losses) + 1), np.array(losses)
    complete = np.array(is_complete)
    lowest = np.fmin.accumulate(np.where(complete, values, np.nan))
    axes.step(numbers, lowest, where="post", color=BLUE, linewidth=1.8)
    for chosen, color in ((~complete, GREY), (complete, BLUE)):
        axes.plot(numbers[chosen], values[chosen], color=color, marker="o", linestyle="none")
    ring = MarkerStyle("o", fillstyle="none")
    axes.plot([best + 1], [values[best]], color=ORANGE, marker=ring, markersize=15, markeredgewidth=2)
    axes.margins(0.05, 0.12)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    return svg(figure, "validation loss of each trial", "wide")


def trials_by_setting(
    name: str,
    values: Sequence[float],
    losses: Sequence[float],
    is_complete: Sequence[bool],
    best: int,
    *,
    choices: Sequence[str] = (),
    is_log: bool = False,
) -> str:
    """Draw the loss of the trials of a sweep by their values of one setting.

    Args:
        name: The setting.
        values: Numbers, or the indices of `choices` if there are any.
        losses: As for `trials_curve`.
        is_complete: As for `trials_curve`.
        best: As for `trials_curve`.
        choices: The values of a setting without an order.
        is_log: Whether the axis is logarithmic.
    """
    figure, axes = plot((240, 170), 12, "", "loss")
    places, heights, complete = np.array(values, float), np.array(losses), np.array(is_complete)
    for chosen, color in ((~complete, GREY), (complete, BLUE)):
        axes.plot(places[chosen], heights[chosen], color=color, marker="o", linestyle="none", markersize=5)
    ring = MarkerStyle("o", fillstyle="none")
    axes.plot([places[best]], [heights[best]], color=ORANGE, marker=ring, markersize=11, markeredgewidth=2)
    axes.margins(0.1, 0.12)
    if is_log:
        axes.set_xscale("log")
        axes.minorticks_off()
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 3) if places.max() < 30 * places.min() else (1,)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    elif choices:
        axes.set_xlim(-0.5, len(choices) - 0.5)
        axes.set_xticks(range(len(choices)), choices)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.yaxis.set_major_locator(MaxNLocator(3))
    return svg(figure, f"validation loss by {name}")


def boxes(quantiles: Mapping[str, Sequence[float]], label: str) -> str:
    """Draw a box plot per colour. `quantiles`: colour -> 5%, 25%, 50%, 75% and 95% of the images."""
    figure, axes = plot((240, 22 + 16 * len(quantiles)), 10, "", "")
    for row, (color, (lowest, low, median, high, highest)) in enumerate(quantiles.items()):
        axes.plot([lowest, highest], [-row, -row], color=color, linewidth=1.5)
        axes.plot([low, high], [-row, -row], color=color, linewidth=7, alpha=0.5, solid_capstyle="butt")
        axes.plot([median], [-row], color=color, marker="o", markersize=5)
    axes.set_yticks([])
    axes.margins(0.08, 0.25)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    return svg(figure, f"{label} of the images")


def plot(size: tuple[int, int], font_px: int, x_label: str, y_label: str) -> tuple[Figure, Axes]:
    """Make an empty drawing of `size` (width, height) in pixels, with horizontal grid lines and no frame."""
    figure = Figure(figsize=(size[0] / 72, size[1] / 72), dpi=72, layout="constrained")
    axes = figure.add_subplot(frameon=False)
    axes.tick_params(length=0, labelcolor=INK, labelsize=font_px)
    axes.ticklabel_format(useOffset=False)
    axes.grid(axis="y", color=INK, alpha=0.25, linewidth=1)
    axes.set_xlabel(x_label, color=INK, fontsize=font_px)
    axes.set_ylabel(y_label, color=INK, fontsize=font_px)
    return figure, axes


def svg(figure: Figure, label: str, kind: str = "") -> str:
    """Return the drawing as an element of a page. A screen reader says `label`."""
    for artist in figure.findobj():
        artist.set_clip_on(False)  # all data is inside, and half of a marker is not
    file = io.StringIO()
    # Text stays text, and the same drawing is the same bytes.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": label}):
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    _, tag, rest = file.getvalue().partition("<svg")  # without the head of a file
    element = tag + rest
    for pattern in FOR_FILES:
        element = re.sub(pattern, "", element, flags=re.DOTALL)
    head = f'<svg class="chart {kind}" role="img" aria-label="{escape(label)}"'
    return element.replace("<svg", head, 1).replace(INK, "currentColor")
