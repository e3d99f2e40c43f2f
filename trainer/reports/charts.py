"""Charts for the HTML pages, as SVG. Text and lines have the page's colours, light or dark.

The colours of models are those of Okabe and Ito, which colour-blind people can distinguish.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from markupsafe import escape
from matplotlib.ticker import MaxNLocator

from trainer.evaluation.per_image import PerImage
from trainer.evaluation.wording import MINUS
from trainer.metric_table import METRICS

BLUE, ORANGE, GREY = "#2b8cc4", "#e08a00", "#8c959f"
"""Readable on white and on black."""
BINS = 24
LEFT, RIGHT, TOP, BOTTOM = 46, 8, 10, 38
"""Free space around the data, for ticks and labels, in units of the drawing."""

Point = tuple[float, float]


def histogram(table: PerImage, metric: str, colors: Mapping[str, str]) -> str:
    """Number of images by score, one shape per model in `colors`; a model with equal scores is only a line."""
    # The first model is drawn last, in front.
    scores = {model: table.values(model, metric) for model in reversed(list(colors))}
    all_scores = np.concatenate(list(scores.values()))
    low, high = float(all_scores.min()), float(all_scores.max())
    # A bin needs a width even if all scores are equal.
    low, high = (low, high) if high > low else (low - 0.5, high + 0.5)
    edges = np.linspace(low, high, BINS + 1)
    shapes = {
        model: np.histogram(values, edges)[0]
        for model, values in scores.items()
        if values.min() < values.max() or len(scores) == 1
    }
    highest = max([1, *(int(counts.max()) for counts in shapes.values())])
    plot = _Plot((240, 170), (low, high), (0, highest))
    parts = plot.axes("score", "images", MaxNLocator(3, integer=True))
    for model, values in scores.items():
        color = colors[model]
        if model in shapes:
            steps = [
                (float(x), float(count))
                for x, count in zip(np.repeat(edges, 2)[1:-1], np.repeat(shapes[model], 2), strict=True)
            ]
            outline = plot.path([(low, 0), *steps, (high, 0)])
            parts.append(f'<path d="{outline}" fill="{color}" fill-opacity=".28" stroke="{color}"/>')
        mean = plot.path([(float(values.mean()), 0), (float(values.mean()), highest)])
        parts.append(f'<path d="{mean}" stroke="{color}" stroke-dasharray="5 3"/>')
    return plot.svg(parts, f"{METRICS[metric].label} of each image, by model")


def loss_curve(epochs: Sequence[int], loss: Sequence[float], valid_loss: Sequence[float], best: int) -> str:
    """Training and validation loss by epoch, with a ring around the epoch at index `best`."""
    values = [*loss, *valid_loss]
    margin = 0.12 * (max(values) - min(values) or 1)
    plot = _Plot(
        (600, 270), (min(epochs) - 0.3, max(epochs) + 0.3), (min(values) - margin, max(values) + margin), left=64
    )
    parts = plot.axes("epoch", "loss, nats", MaxNLocator(5), MaxNLocator(integer=True, min_n_ticks=1))
    for series, color in ((loss, GREY), (valid_loss, BLUE)):
        points = list(zip(map(float, epochs), series, strict=True))
        parts.append(f'<path d="{plot.path(points)}" stroke="{color}" stroke-width="1.8"/>')
        parts += [plot.circle(point, 3.5, f'fill="{color}" stroke="none"') for point in points]
    parts.append(plot.circle((epochs[best], valid_loss[best]), 8, f'stroke="{ORANGE}" stroke-width="2"'))
    return plot.svg(parts, "training and validation loss by epoch", "wide")


@dataclasses.dataclass(frozen=True)
class _Plot:
    """A plane of data in a drawing of `size` (width, height)."""

    size: tuple[int, int]
    x: Point
    """Lowest and highest value."""
    y: Point
    left: int = LEFT

    def at(self, point: Point) -> Point:
        """The place of a point of the data in the drawing."""
        width, height = self.size[0] - self.left - RIGHT, self.size[1] - TOP - BOTTOM
        x = self.left + width * (point[0] - self.x[0]) / (self.x[1] - self.x[0])
        return round(x, 1), round(TOP + height * (1 - (point[1] - self.y[0]) / (self.y[1] - self.y[0])), 1)

    def path(self, points: Iterable[Point]) -> str:
        """Straight lines through points of the data."""
        return "M" + "L".join("{:g} {:g}".format(*self.at(point)) for point in points)

    def circle(self, point: Point, radius: float, style: str) -> str:
        x, y = self.at(point)
        return f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" {style}/>'

    def axes(
        self, x_label: str, y_label: str, y_ticks: MaxNLocator, x_ticks: MaxNLocator | None = None
    ) -> list[str]:
        """Grid lines, ticks and labels."""
        parts = []
        for tick in _ticks(y_ticks, self.y):
            y = self.at((self.x[0], tick))[1]
            parts.append(f'<path class="grid" d="M{self.left} {y:g}H{self.size[0] - RIGHT}"/>')
            parts.append(f'<text x="{self.left - 7}" y="{y + 4:g}" text-anchor="end">{_number(tick)}</text>')
        for tick in _ticks(x_ticks or MaxNLocator(3), self.x):
            x = self.at((tick, self.y[0]))[0]
            bottom = self.size[1] - BOTTOM + 16
            parts.append(f'<text x="{x:g}" y="{bottom}" text-anchor="middle">{_number(tick)}</text>')
        middle = (self.left + self.size[0] - RIGHT) / 2
        parts.append(f'<text x="{middle:g}" y="{self.size[1] - 5}" text-anchor="middle">{escape(x_label)}</text>')
        middle = (TOP + self.size[1] - BOTTOM) / 2
        turned = f'transform="translate(13 {middle:g}) rotate(-90)"'
        parts.append(f'<text {turned} text-anchor="middle">{escape(y_label)}</text>')
        return parts

    def svg(self, parts: Iterable[str], label: str, kind: str = "") -> str:
        """The whole drawing; `label` is what a screen reader says."""
        width, height = self.size
        head = f'<svg class="chart {kind}" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">'
        return f"{head}{''.join(parts)}</svg>"


def _ticks(locator: MaxNLocator, ends: Point) -> list[float]:
    return [float(tick) for tick in locator.tick_values(*ends) if ends[0] <= tick <= ends[1]]


def _number(value: float) -> str:
    return f"{round(value, 9) + 0.0:.6g}".replace("-", MINUS)
