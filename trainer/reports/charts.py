"""Charts for the HTML pages, as SVG by matplotlib. Text and lines have the page's colours, light or dark.

The colours of models are those of Okabe and Ito, which colour-blind people can distinguish.
"""

import io
import re
from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from markupsafe import escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.markers import MarkerStyle
from matplotlib.ticker import MaxNLocator

from trainer.evaluation.per_image import PerImage
from trainer.metric_table import METRICS

BLUE, ORANGE, GREY = "#2b8cc4", "#e08a00", "#8c959f"
"""Colours that are readable on white and on black."""
INK = "#010203"
"""Placeholder for the colour of the page's text, which only the browser knows."""
BINS = 24
FOR_FILES = ("<metadata>.*?</metadata>", "<style.*?</style>", r' xmlns[:\w]*="[^"]*"', r'(?<=<g) id="[^"]*"')
"""Patterns of the parts of an SVG that are for files: in a page, its styles would apply to the whole page."""


def histogram(table: PerImage, metric: str, colors: Mapping[str, str]) -> str:
    """Draw the number of images by score, one shape per model in `colors`; equal scores are only a line."""
    # The first model is drawn last, in front.
    scores = {model: table.values(model, metric) for model in reversed(list(colors))}
    edges = np.histogram_bin_edges(np.concatenate(list(scores.values())), BINS)
    figure, axes = _plot((240, 170), 12, "score", "images")
    for model, values in scores.items():
        if values.min() < values.max() or len(scores) == 1:
            fill = (colors[model], 0.28)
            axes.hist(values, list(edges), histtype="stepfilled", facecolor=fill, edgecolor=colors[model])
        axes.axvline(float(values.mean()), color=colors[model], linestyle="--")
    axes.set_xlim(edges[0], edges[-1])
    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    return _svg(figure, f"{METRICS[metric].label} of each image, by model")


def loss_curve(epochs: Sequence[int], loss: Sequence[float], valid_loss: Sequence[float], best: int) -> str:
    """Draw training and validation loss by epoch, with a ring around the epoch at index `best`."""
    figure, axes = _plot((600, 270), 10, "epoch", "loss, nats")
    for series, color in ((loss, GREY), (valid_loss, BLUE)):
        axes.plot(epochs, series, color=color, marker="o", linewidth=1.8)
    ring = MarkerStyle("o", fillstyle="none")
    axes.plot([epochs[best]], [valid_loss[best]], color=ORANGE, marker=ring, markersize=15, markeredgewidth=2)
    axes.margins(0.05, 0.12)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    return _svg(figure, "training and validation loss by epoch", "wide")


def _plot(size: tuple[int, int], font_px: int, x_label: str, y_label: str) -> tuple[Figure, Axes]:
    """Make an empty drawing of `size` (width, height) in pixels, with horizontal grid lines and no frame."""
    figure = Figure(figsize=(size[0] / 72, size[1] / 72), dpi=72, layout="constrained")
    axes = figure.add_subplot(frameon=False)
    axes.set_xlabel(x_label, color=INK, fontsize=font_px)
    axes.set_ylabel(y_label, color=INK, fontsize=font_px)
    axes.tick_params(length=0, labelcolor=INK, labelsize=font_px)
    axes.ticklabel_format(useOffset=False)
    axes.grid(axis="y", color=INK, alpha=0.25, linewidth=1)
    return figure, axes


def _svg(figure: Figure, label: str, kind: str = "") -> str:
    """Return the drawing as an element of a page; a screen reader says `label`."""
    for artist in figure.findobj():
        artist.set_clip_on(False)  # all data is inside, and half of a marker is not
    file = io.StringIO()
    # Text stays text, and the same drawing is the same bytes.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": label}):
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    svg = file.getvalue()[file.getvalue().index("<svg") :]
    for pattern in FOR_FILES:
        svg = re.sub(pattern, "", svg, flags=re.DOTALL)
    head = f'<svg class="chart {kind}" role="img" aria-label="{escape(label)}"'
    return svg.replace("<svg", head, 1).replace(INK, "currentColor")
