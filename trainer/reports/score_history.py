"""The page and the picture of the default's scores over time, on the same images."""

import dataclasses
import datetime
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure

from trainer.artifacts import Manifest
from trainer.errors import now
from trainer.evaluation.confidence import CONFIDENCE, Interval, in_groups, percent
from trainer.metric_table import METRICS, SHOWN
from trainer.reports import pages


@dataclasses.dataclass(frozen=True)
class Term:
    """A version's time as the default, and its scores on the images."""

    version: str
    """Name, such as `msinet@3`."""
    since: datetime.datetime
    means: Mapping[str, float]
    """Metric -> mean over the images."""
    intervals: Mapping[str, Interval | None]
    """Metric -> confidence interval of the mean; None for too few images."""
    bias: Mapping[str, float]
    """Metric -> mean of the centre bias."""
    images: int
    """Number of the images."""
    units: int
    """Number of the images, with those of a group as one (`PerImage.n_units`)."""
    seen: int
    """Number of those that the version was trained on."""


def write_history(name: str, terms: Sequence[Term], data: pathlib.Path, html: pathlib.Path) -> None:
    """Write the page of the defaults of model `name`, oldest first, and its picture next to it, a PNG."""
    metrics = [metric for metric in SHOWN if all(metric in term.means for term in terms)]
    manifest, n_images = Manifest.load(data), terms[-1].images
    groups = in_groups(terms[-1].units, n_images)
    figure = _draw(f"{name} on {n_images:,} images of {manifest.dataset}{groups}", terms, metrics)
    chart = pages.svg(figure, f"scores of {name} over time", "wide")
    figure.savefig(html.with_suffix(".png"), dpi=144, facecolor="white")
    seen = [f"{term.version} ({term.seen:,})" for term in terms if term.seen]
    pages.write(
        html,
        "history.html.jinja",
        title=f"{name}: the default over time",
        head=[
            ("Images", f"{n_images:,} of {manifest.dataset}{groups}, fingerprint {manifest.fingerprint[:8]}"),
            ("Intervals", f"{percent(CONFIDENCE)} confidence intervals of the mean"),
            ("Date", now()),
        ],
        seen=", ".join(seen),
        tiles=[
            (
                METRICS[metric].label,
                f"{terms[-1].means[metric]:.3f}",
                f"first default {terms[0].means[metric]:.3f}",
            )
            for metric in metrics
        ],
        chart=chart,
        labels=[METRICS[metric].label for metric in metrics],
        rows=[
            (term.version, f"{term.since:%Y-%m-%d %H:%M}", [_cell(term, metric) for metric in metrics])
            for term in reversed(terms)
        ],
    )


def _cell(term: Term, metric: str) -> tuple[str, str]:
    """The mean and its interval as text."""
    interval = term.intervals[metric]
    return f"{term.means[metric]:.3f}", f"{interval[0]:.3f} to {interval[1]:.3f}" if interval else ""


def _draw(title: str, terms: Sequence[Term], metrics: Sequence[str]) -> Figure:
    """Draw a panel for each metric: a line for each term, until now, in its interval; the centre bias in grey."""
    figure = Figure(figsize=(600 / 72, (150 * len(metrics) + 40) / 72), dpi=72, layout="constrained")
    figure.suptitle(f"{title}; dashed: the centre bias", fontsize=11, color=pages.INK)
    moments = [*(term.since for term in terms), datetime.datetime.now(datetime.UTC)]
    days = [date2num(moment) for moment in moments]  # type: ignore[no-untyped-call]
    for row, metric in enumerate(metrics, 1):
        axes = pages.axes_of(figure, (len(metrics), 1, row), 10)
        direction = "higher" if METRICS[metric].higher_is_better else "lower"
        label = f"{METRICS[metric].label}, {direction} is better"
        axes.set_title(label, loc="left", fontsize=10, color=pages.INK)
        for term, start, end in zip(terms, days, days[1:], strict=False):
            mean, interval = term.means[metric], term.intervals[metric]
            axes.plot([start, end], [mean, mean], color=pages.BLUE, linewidth=2.2)
            axes.plot([start], [mean], color=pages.BLUE, marker="o", markersize=5)
            if interval:
                low, high = interval
                axes.fill_between([start, end], low, high, color=pages.BLUE, alpha=0.18, linewidth=0)
            if row == 1:
                number = term.version.rpartition("@")[2]
                axes.annotate(number, (start, mean), (0, 7), textcoords="offset points", color=pages.INK)
        axes.axhline(terms[-1].bias[metric], color=pages.GREY, linestyle="--", linewidth=1.2)
        axes.margins(0.03, 0.2)
        locator: Any = AutoDateLocator(minticks=3, maxticks=8)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    return figure
