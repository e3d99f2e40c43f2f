"""Images for the HTML pages, as data URIs: charts for light and dark pages, and heat maps over stimuli.

The colours are those of Okabe and Ito and matplotlib's `inferno`, which colour-blind people can distinguish.
"""

import base64
import io
import pathlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from PIL import Image

from trainer.evaluation.per_image import PerImage
from trainer.heat import HEAT, blend
from trainer.picture import open_header

BLUE, ORANGE, GREY = "#2b8cc4", "#e08a00", "#8c959f"
"""Readable on white and on black."""
BINS = 24
PANELS = {"stimulus": "Stimulus", "density": "Ground truth"}
"""Picture that is not of a model -> label."""


Chart = dict[str, str]
"""`light` and `dark` -> data URI of a chart for such a page."""
THEMES = {"light": ("#59636e", "#dfe3e8"), "dark": ("#9ba6b2", "#2d343c")}
"""Page -> colours of texts and lines."""


def histogram(table: PerImage, metric: str, colors: Mapping[str, str]) -> Chart:
    """Number of images by score, one shape per model in `colors`; a model with equal scores is only a line."""
    # The first model is drawn last, in front.
    scores = {model: table.values(model, metric) for model in reversed(list(colors))}
    all_scores = np.concatenate(list(scores.values()))
    low, high = all_scores.min(), all_scores.max()
    # A bin needs a width even if all scores are equal.
    edges = (np.linspace(low, high, BINS + 1) if high > low else np.array([low - 0.5, low + 0.5])).tolist()

    def draw(axes: Axes) -> None:
        for model, values in scores.items():
            if values.min() < values.max() or len(scores) == 1:
                axes.hist(values, edges, histtype="stepfilled", facecolor=(colors[model], 0.28))
                axes.hist(values, edges, histtype="step", edgecolor=colors[model], linewidth=1.4)
            axes.axvline(float(values.mean()), color=colors[model], linewidth=1.4, linestyle=(0, (4, 2)))
        axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
        axes.xaxis.set_major_locator(MaxNLocator(4))

    return _both(draw, (3.4, 2.1))


def loss_curve(epochs: Sequence[int], loss: Sequence[float], valid_loss: Sequence[float], best: int) -> Chart:
    """Training and validation loss by epoch, with a ring around the epoch at index `best`."""

    def draw(axes: Axes) -> None:
        axes.plot(epochs, loss, "o-", color=GREY, markersize=4, linewidth=1.8, label="training")
        axes.plot(epochs, valid_loss, "o-", color=BLUE, markersize=4, linewidth=1.8, label="validation")
        (ring,) = axes.plot(epochs[best], valid_loss[best], "o", color=ORANGE, markersize=12, label="best")
        ring.set(markerfacecolor="none", markeredgewidth=1.8)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.set_xlabel("epoch")
        axes.margins(x=0.04, y=0.12)
        legend = axes.legend(frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(-0.01, 1.0))
        for text in legend.get_texts():
            text.set_color(axes.xaxis.label.get_color())

    return _both(draw, (8.4, 3.4))


def panels(files: Mapping[str, pathlib.Path], labels: Mapping[str, str]) -> list[dict[str, str]]:
    """The stimulus of one image, and each of its maps over the darkened stimulus.

    Args:
        files: `stimulus`, and names of maps -> PNG file; may be empty.
        labels: Name -> label, if it is not the name itself.
    """
    images = {name: np.asarray(open_header(file.read_bytes())) for name, file in files.items()}
    sources = {
        name: image_uri(pixels if name == "stimulus" else blend(images["stimulus"], pixels / 255))
        for name, pixels in images.items()
    }
    return [{"label": labels.get(name, name), "src": source} for name, source in sources.items()]


def heat(density: npt.NDArray[np.floating], width: int = 640) -> str:
    """A map (h, w) in heat colours, with its maximum as the brightest, scaled to `width` pixels: a data URI."""
    scaled = np.asarray(density, float) / max(float(density.max()), 1e-12)
    image = Image.fromarray(np.round(HEAT(scaled)[..., :3] * 255).astype(np.uint8))
    return image_uri(np.asarray(image.resize((width, round(width * image.height / image.width)))))


def image_uri(image: npt.NDArray[np.uint8]) -> str:
    """An image (h, w, 3) as a data URI."""
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "WEBP", quality=82)
    return _uri("webp", buffer.getvalue())


def _both(draw: Callable[[Axes], None], inches: tuple[float, float]) -> Chart:
    return {theme: _render(draw, inches, ink, line) for theme, (ink, line) in THEMES.items()}


def _render(draw: Callable[[Axes], None], inches: tuple[float, float], ink: str, line: str) -> str:
    """Draw on a new transparent figure; without pyplot, because its state is global."""
    figure = Figure(figsize=inches, dpi=200, layout="constrained")
    axes = figure.subplots()
    axes.set_facecolor("none")
    axes.tick_params(colors=ink, labelsize=9, length=0)
    axes.xaxis.label.set_color(ink)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(line)
    axes.grid(axis="y", color=line, linewidth=0.8)
    axes.set_axisbelow(True)
    draw(axes)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", transparent=True)
    return _uri("png", buffer.getvalue())


def _uri(kind: str, data: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
