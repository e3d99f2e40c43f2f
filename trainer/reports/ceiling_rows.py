"""The ceiling of a dataset: its rows, its chart and its sentences.

It is the way from the centre bias to people.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainer import wording
from trainer.evaluation import CeilingScores, Role, Share
from trainer.metrics import FIXATIONS, METRICS
from trainer.reports.score_tables import heading, interval_text, number

Rows = list[dict[str, Any]]
WIDEST = (-0.5, 2.0)
"""Shares beyond these are drawn at the end of a bar."""
MARGIN = 0.18
"""Free space at both ends of a bar for the texts under 0 and 1, as a share of the space between them."""
ONE_HELD_OUT, HALF_HELD_OUT = "one, by all others", "half, by the other half"
"""Who of the observers is held out, and by whom they are predicted."""
FEW_IMAGES = 10
"""Shares of the way over fewer images get a warning."""
LARGEST_PERCENT = 1000
"""A share beyond this, positive or negative, means only that the images are too few for it."""


def ceiling_rows(ceiling: CeilingScores) -> Rows:
    """Make a row for each metric of a dataset's ceiling.

    Returns:
        Rows with the heading of the metric, `metric`, `held_out` (ONE_HELD_OUT or HALF_HELD_OUT),
        `start` and `end` (the scores of centre bias and people as text), `interval` (of people's score) and
        `shares`: model -> `Share`.
    """
    rows = []
    for metric, row in METRICS.items():
        by_halves = FIXATIONS not in row.needs
        scores = ceiling.split_half if by_halves else ceiling.leave_one_out
        if metric in scores.means[Role.OBSERVERS]:
            rows.append(
                {
                    **heading(metric),
                    "metric": metric,
                    "held_out": HALF_HELD_OUT if by_halves else ONE_HELD_OUT,
                    "start": number(scores.means[Role.CENTER_BIAS][metric]),
                    "end": number(scores.means[Role.OBSERVERS][metric]),
                    "interval": interval_text(metric, scores.intervals[Role.OBSERVERS][metric]),
                    "shares": {model: shares[metric] for model, shares in scores.shares.items()},
                }
            )
    return rows


def ceiling_notes(rows: Rows, ceiling: CeilingScores, level: float) -> list[str]:
    """Return the notes about the rows of a ceiling (`share_notes`)."""
    undefined = [row["label"] for row in rows if all(share.share is None for share in row["shares"].values())]
    is_grouped = ceiling.n_units < ceiling.n_images
    return share_notes(undefined, len(rows), ceiling.n_units, level, of_groups=is_grouped)


def ceiling_chart(rows: Rows, labels: Mapping[str, tuple[str, str]], of: str = "") -> dict[str, Any]:
    """Return the values of the macro `ceiling`: all bars have the same scale, in percent of their width.

    Args:
        rows: result of `ceiling_rows`.
        labels: Model -> label and colour.
        of: What follows a percentage, such as ` of the way to people`.
    """
    shares: list[Share] = [share for row in rows for share in row["shares"].values()]
    lowest = max(WIDEST[0], min(0.0, *(share.low or 0.0 for share in shares))) - MARGIN
    highest = min(WIDEST[1], max(1.0, *(share.high or 0.0 for share in shares))) + MARGIN

    def place(share: float) -> float:
        inside = min(max(share, lowest), highest)
        return round(100 * (inside - lowest) / (highest - lowest), 2)

    return {
        "start": place(0),
        "end": place(1),
        "models": [{"label": labels[model][0], "color": labels[model][1]} for model in rows[0]["shares"]],
        "rows": [
            row | {"marks": [_mark(share, labels[model], place, of) for model, share in row["shares"].items()]}
            for row in rows
        ],
    }


def _mark(share: Share, label: tuple[str, str], place: Callable[[float], float], of: str) -> dict[str, Any]:
    """Return the positions of a dot and its interval on the bar with their text. Without a share only the text."""
    mark = {"label": label[0], "color": label[1], "text": share_text(share, of)}
    if share.share is None or share.low is None or share.high is None:
        return mark
    left, dot, right = map(place, (share.low, share.share, share.high))
    return mark | {"left": left, "width": round(right - left, 2), "dot": dot}


def share_text(share: Share, of: str = "") -> str:
    """A share of the way to the ceiling in wording.percent, with its interval, such as `80% (74 to 86)`.

    `of` follows the percentage.
    Numbers beyond LARGEST_PERCENT are only named as such, such as `65% (< -1000 to 81)`.
    """
    if share.share is None or share.low is None or share.high is None:
        return "undefined"
    point, low, high = map(_bounded_percent, (share.share, share.low, share.high))
    return f"{point}%{of} ({low} to {high})"


def _bounded_percent(share: float) -> str:
    value = round(100 * share)
    sign = ("< " if value < 0 else "> ") if abs(value) > LARGEST_PERCENT else ""
    return f"{sign}{max(-LARGEST_PERCENT, min(value, LARGEST_PERCENT))}".replace("-", wording.MINUS)


def share_notes(
    undefined: Sequence[str], n_metrics: int, n_images: int, level: float, of_groups: bool = False
) -> list[str]:
    """Sentences about the shares of the way: why some of `n_metrics` have none, and that few images say little.

    With `of_groups`, images belong together, and `n_images` counts their groups.
    """
    notes, is_few = [], n_images < FEW_IMAGES
    images = f"{'only ' if is_few else ''}{wording.count_text(n_images, of_groups)}"
    if undefined:
        remedy = ". More images are needed" if is_few else ""
        notes.append(
            f"Undefined for {', '.join(undefined)}: over {images}, the {wording.percent(level)} confidence "
            f"interval of people's gain over the centre bias does not lie above 0{remedy}."
        )
    if is_few and len(undefined) < n_metrics:
        notes.append(f"Over {images}, these shares say little.")
    return notes


def ceiling_scope(ceiling: CeilingScores) -> str:
    """The images and observers of a ceiling, as one sentence."""
    fewest, _, most = ceiling.n_observers
    observers = f"{most:,}" if fewest == most else f"{fewest:,} to {most:,}"
    left_out = ceiling.n_too_few
    rest = f" ({left_out:,} with fewer than two left out)" if left_out else ""
    n_images, n_all = ceiling.n_images, ceiling.n_chosen_of
    groups = wording.in_groups(ceiling.n_units, n_images)
    images = (
        f"{n_images:,} of {n_all:,} images{groups}, chosen at random,"
        if n_images + left_out < n_all
        else f"{n_images:,} images{groups}"
    )
    return f"{images} with {observers} observers each{rest}"
