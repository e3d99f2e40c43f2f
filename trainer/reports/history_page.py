"""The page of a registry: how good its default was over time, what was decided when, and why.

All pictures have the same axis of dates. Gains of two weeks are measured on different images, so their sum is an
estimate: each promoted gain was one that looked large.
"""

import dataclasses
import datetime
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence

import matplotlib.dates as mdates
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.markers import MarkerStyle
from matplotlib.ticker import MaxNLocator

from trainer.evaluation import VersionRecord
from trainer.machine import code_version
from trainer.metrics import LEAD, METRICS
from trainer.models import PRETRAINED_VERSION
from trainer.reports import pages, version_summary
from trainer.texts import now

RED = "#d6455d"
"""Readable on white and on black, as the colours of `pages`."""
MARKS = {
    "promoted": (pages.BLUE, "o", True),
    "held": (pages.ORANGE, "o", False),
    "disagree": (RED, "X", True),
    "not decided": (pages.GREY, "o", False),
    "challenger": (pages.GREY, "o", True),
}
"""End of a version -> colour, shape, and whether the shape is filled."""
GLYPHS = {
    "promoted": "\N{BLACK CIRCLE}",
    "held": "\N{WHITE CIRCLE}",
    "disagree": "\N{MULTIPLICATION X}",
    "not decided": "\N{WHITE CIRCLE}",
    "challenger": "\N{BLACK CIRCLE}",
}
WIDTH = 600
"""Of the drawings, pixels."""
MOST_NUMBERED = 30
"""With more versions, the numbers beside the points would cover each other."""
Heights = Mapping[int, float]
"""Number of a version -> its place on the axis."""


@dataclasses.dataclass(frozen=True)
class HistoryEntry:
    """A version, as the page shows it."""

    number: int
    created: datetime.datetime
    end: str
    """What came of it, of MARKS. Empty if that is not known."""
    record: VersionRecord
    since: str = ""
    """What happened to it since, a sentence."""


@dataclasses.dataclass(frozen=True)
class HistoryMove:
    """The default became a version."""

    since: datetime.datetime
    version: int
    by_person: bool


def write_history(
    html: str | os.PathLike[str],
    name: str,
    place: str,
    versions: Sequence[HistoryEntry],
    moves: Sequence[HistoryMove],
) -> None:
    """Write the page.

    Args:
        html: The file.
        name: Name of the model.
        place: Path or address of its registry.
        versions: All versions, oldest first. At least one.
        moves: All moves of the default, oldest first.
    """
    default = moves[-1].version if moves else PRETRAINED_VERSION
    promotions = [move for move in moves if not move.by_person]
    by_person = [move for move in moves if move.by_person]
    last = versions[-1].record.decision
    ends = dict.fromkeys(version.end for version in versions if version.end in MARKS)
    pages.write_page(
        html,
        "history.html.jinja",
        title=f"{name}: {len(versions)} version{'' if len(versions) == 1 else 's'}",
        head=[("Registry", place), ("Date", now()), *pages.code_facts(code_version())],
        tiles=[
            ("Default", f"version {default}", _since(moves)),
            ("Promotions", str(len(promotions)), "by the gate"),
            ("Moves by a person", str(len(by_person)), "roll-backs and promotions by hand"),
            ("Last decision", str(last or "\N{EN DASH}"), "its number among those of 365 days"),
        ],
        charts=[chart for chart in _charts(versions, moves) if chart["svg"]],
        legend=[(MARKS[end][0], GLYPHS[end], end) for end in MARKS if end in ends],
        has_moves=bool(by_person),
        dates=f"{versions[0].created:%Y-%m-%d} to {versions[-1].created:%Y-%m-%d}",
        rows=[
            {
                "number": version.number,
                "date": f"{version.created:%Y-%m-%d}",
                "end": version.end,
                "is_default": version.number == default,
                "lines": list(version_summary.summary_lines(version.record).items()),
                "since": version.since,
            }
            for version in reversed(versions)
        ],
    )


def _since(moves: Sequence[HistoryMove]) -> str:
    name = "" if moves and moves[-1].version else "pretrained"
    return ", ".join(filter(None, [name, f"since {moves[-1].since:%Y-%m-%d}" if moves else ""]))


def _charts(versions: Sequence[HistoryEntry], moves: Sequence[HistoryMove]) -> list[dict[str, str]]:
    metric = _metric(versions)
    label = METRICS[metric].label if metric in METRICS else metric
    better = "higher" if metric in METRICS and METRICS[metric].higher_is_better else "lower"
    tested = _test_set(versions)
    return [
        {
            "name": "Gain since pretrained",
            "note": f"In {label}. Higher is better. The line is the default. Each point is a version, with the "
            "interval of its gain over the default of its day. The gains of the defaults before it are added.",
            "svg": _quality(versions, moves, *_cumulative(versions, metric), f"gain in {label}", zero=True),
        },
        {
            "name": "On the fixed test set",
            "note": f"{label}, {better} is better, on {tested}: the same images for all versions.",
            "svg": _quality(versions, moves, _tested(versions, tested, metric), {}, label, zero=False),
        },
        {
            "name": "On the known images",
            "note": "The gain over the default of the day on the images that it was chosen on, with its interval. "
            "Below 0 it was worse there.",
            "svg": _known(versions),
        },
        {
            "name": "Images in the data",
            "note": "Training and validation images of the last training step.",
            "svg": _images(versions),
        },
    ]


def _metric(versions: Iterable[HistoryEntry]) -> str:
    """The metric of the last gain. It is the gate's now."""
    found = [version.record.gain.metric for version in versions if version.record.gain]
    return found[-1] if found else LEAD


def _cumulative(
    versions: Iterable[HistoryEntry], metric: str
) -> tuple[dict[int, float], dict[int, tuple[float, float]]]:
    """The gain of each version over `pretrained`, by the defaults between, and the ends of its interval."""
    heights: dict[int, float] = {PRETRAINED_VERSION: 0.0}
    ends = {}
    for version in versions:
        gain, opponent = version.record.gain, version.record.compared_with
        if gain and gain.metric == metric and opponent in heights:
            start = heights[opponent]
            heights[version.number] = start + gain.mean
            if gain.low is not None and gain.high is not None:
                ends[version.number] = start + gain.low, start + gain.high
    return heights if len(heights) > 1 else {}, ends


def _test_set(versions: Iterable[HistoryEntry]) -> str:
    """The last dataset on which versions were tested and not trained. Empty without one."""
    names = [name for each in versions for name in each.record.metrics if name.endswith("-test")]
    return str(names[-1]) if names else ""


def _tested(versions: Sequence[HistoryEntry], name: str, metric: str) -> dict[int, float]:
    """The scores of the versions on the test set, as long as its images were the same as for the last version."""
    last = next((each for each in reversed(versions) if name in each.record.metrics), None)
    scores = {}
    for each in versions:
        score = each.record.metrics.get(name, {}).get(metric)
        if last and score is not None and _fingerprint(each) == _fingerprint(last):
            scores[each.number] = float(score)
    return scores


def _fingerprint(version: HistoryEntry) -> str:
    return version.record.lineage.data_of("test").fingerprint


# === Drawings ===


def _axes(versions: Sequence[HistoryEntry], height: int) -> tuple[Figure, Axes]:
    """An empty drawing from a bit before the first version to a bit after the last, `height` in pixels."""
    figure, axes = pages.plot((WIDTH, height), 10, "", "")
    figure.set_layout_engine("none")  # all drawings have their dates at the same places
    axes.set_position((0.1, 26 / height, 0.88, 1 - 38 / height))
    axes.tick_params(axis="x", pad=8)
    first, last = versions[0].created, versions[-1].created
    margin = max((last - first) / 18, datetime.timedelta(days=2))
    axes.set_xlim(_day(first - margin), _day(last + margin))
    locator = mdates.AutoDateLocator(minticks=3, maxticks=6)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(mdates.ConciseDateFormatter(locator, show_offset=False))  # type: ignore[no-untyped-call]
    axes.yaxis.set_major_locator(MaxNLocator(4))
    return figure, axes


def _day(moment: datetime.datetime) -> float:
    return float(mdates.date2num(moment))  # type: ignore[no-untyped-call]


def _quality(
    versions: Sequence[HistoryEntry],
    moves: Sequence[HistoryMove],
    heights: Heights,
    ends: Mapping[int, tuple[float, float]],
    label: str,
    zero: bool,
) -> str:
    """Draw the versions at their heights, and the default as steps. Empty without a height."""
    shown = [version for version in versions if version.number in heights]
    if not shown:
        return ""
    figure, axes = _axes(versions, 240)
    if zero:
        axes.axhline(0, color=pages.INK, linewidth=1)
    _draw_default(axes, moves, heights)
    for version in shown:
        if version.number in ends:
            axes.plot([_day(version.created)] * 2, ends[version.number], color=_mark(version)[0], linewidth=1.2)
        _draw_mark(axes, version, heights[version.number])
        if len(versions) <= MOST_NUMBERED:
            place = (_day(version.created), heights[version.number])
            axes.annotate(
                str(version.number), place, (7, 6), textcoords="offset points", color=pages.INK, fontsize=9
            )
    axes.margins(y=0.1)
    return pages.svg(figure, f"{label} of each version by date, and of the default", "wide")


def _draw_default(axes: Axes, moves: Sequence[HistoryMove], heights: Heights) -> None:
    """Draw the default as a line with steps, and a mark where a person moved it. Unknown heights are gaps."""
    start, end = axes.get_xlim()
    days = [start, *(_day(move.since) for move in moves), end]
    numbers = [PRETRAINED_VERSION, *(move.version for move in moves)]
    at = [heights.get(number) for number in numbers]
    for (begin, until), height in zip(itertools.pairwise(days), at, strict=True):
        if height is not None:
            axes.plot([begin, until], [height, height], color=pages.BLUE, linewidth=2)
    for move, before, after in zip(moves, at, at[1:], strict=False):
        if before is None or after is None:
            continue
        day = _day(move.since)
        axes.plot(
            [day, day], [before, after], color=pages.BLUE, linewidth=2, linestyle=":" if move.by_person else "-"
        )
        if move.by_person:
            axes.plot([day], [after], color=pages.INK, marker="D", markersize=6)


def _known(versions: Sequence[HistoryEntry]) -> str:
    """Draw the gains on the known images. Empty without one."""
    shown = [(each, each.record.known) for each in versions]
    measured = [(each, known, known.mean) for each, known in shown if known is not None and known.mean is not None]
    if not measured:
        return ""
    figure, axes = _axes(versions, 180)
    axes.axhline(0, color=pages.INK, linewidth=1)
    for version, known, mean in measured:
        if known.low is not None and known.high is not None:
            days = [_day(version.created)] * 2
            axes.plot(days, [known.low, known.high], color=_mark(version)[0], linewidth=1.2)
        _draw_mark(axes, version, mean)
    axes.margins(y=0.12)
    return pages.svg(figure, "gain of each version on the known images by date", "wide")


def _images(versions: Sequence[HistoryEntry]) -> str:
    """Draw the number of images by date. Empty if it is never known."""
    counts = {}
    for version in versions:
        lineage = version.record.lineage
        step = "finetune" if "finetune" in lineage.data else "base"
        if total := sum(lineage.data_of(step).counts.values()):
            counts[version.number] = total
    shown = [version for version in versions if version.number in counts]
    if not shown:
        return ""
    figure, axes = _axes(versions, 130)
    days, heights = [_day(each.created) for each in shown], [counts[each.number] for each in shown]
    axes.step(days, heights, where="post", color=pages.GREY, linewidth=1.8)
    axes.plot(days, heights, color=pages.GREY, marker="o", markersize=4, linestyle="none")
    axes.set_ylim(-0.1 * max(heights), 1.1 * max(heights))
    axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    return pages.svg(figure, "images in the data by date", "wide")


def _mark(version: HistoryEntry) -> tuple[str, str, bool]:
    return MARKS.get(version.end, (pages.GREY, "o", True))


def _draw_mark(axes: Axes, version: HistoryEntry, height: float) -> None:
    color, shape, is_filled = _mark(version)
    style = MarkerStyle(shape, fillstyle="full" if is_filled else "none")
    size = 8 if version.end in ("promoted", "held", "disagree") else 6
    place = [_day(version.created)], [height]
    axes.plot(*place, color=color, marker=style, markersize=size, markeredgewidth=1.5, linestyle="none")
