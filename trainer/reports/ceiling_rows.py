"""The way from the centre bias to people, one row for each metric: for tables and as bars."""

from collections.abc import Callable, Mapping
from typing import Any

from trainer.evaluation import wording
from trainer.evaluation.confidence import Share
from trainer.evaluation.per_image import CENTER_BIAS, LEAVE_ONE_OUT, OBSERVERS, SPLIT_HALF
from trainer.metric_table import FIXATIONS, METRICS
from trainer.reports import score_rows

Rows = list[dict[str, Any]]
WIDEST = (-0.5, 2.0)
"""Shares beyond these are drawn at the end of a bar."""
MARGIN = 0.18
"""Free space at both ends of a bar for the texts under 0 and 1, as a share of the space between them."""


def describe(ceiling: Mapping[str, Any]) -> Rows:
    """Make a row for each metric of a dataset's ceiling.

    Args:
        ceiling: result of `evaluation.ceiling.Ceiling.describe` with scores.

    Returns:
        Rows with the heading of the metric, `metric`, `start` and `end` (the scores of centre bias and people as
        text), `interval` (that of people) and `shares`: model -> `Share`.
    """
    rows = []
    for metric, row in METRICS.items():
        scores = ceiling[LEAVE_ONE_OUT if FIXATIONS in row.needs else SPLIT_HALF]
        if metric in scores["means"][OBSERVERS]:
            ends = [f"{scores['means'][model][metric]:.3f}" for model in (CENTER_BIAS, OBSERVERS)]
            start, end = (text.replace("-", wording.MINUS) for text in ends)
            shares = {model: Share(**shares[metric]) for model, shares in scores["shares"].items()}
            more = {"metric": metric, "start": start, "end": end, "shares": shares}
            more["interval"] = score_rows.interval(metric, scores["intervals"][OBSERVERS][metric])
            rows.append(score_rows.heading(metric) | more)
    return rows


def undefined(rows: Rows) -> list[str]:
    """Return the labels of the rows that have no shares."""
    return [row["label"] for row in rows if all(share.share is None for share in row["shares"].values())]


def notes(rows: Rows, ceiling: Mapping[str, Any], level: float) -> list[str]:
    """Return the notes about the rows of a ceiling (`wording.share_notes`)."""
    return wording.share_notes(undefined(rows), len(rows), ceiling["n_images"], level)


def draw(rows: Rows, labels: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """Return the values of the macro `ceiling`: all bars have the same scale, in percent of their width.

    Args:
        rows: result of `describe`.
        labels: Model -> label and colour.
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
            row | {"marks": [_mark(share, labels[model], place) for model, share in row["shares"].items()]}
            for row in rows
        ],
    }


def _mark(share: Share, label: tuple[str, str], place: Callable[[float], float]) -> dict[str, Any]:
    """Return the positions of a dot and its interval on the bar with their text; without a share only the text."""
    mark = {"label": label[0], "color": label[1], "text": wording.share(share)}
    if share.share is None or share.low is None or share.high is None:
        return mark
    left, dot, right = map(place, (share.low, share.share, share.high))
    return mark | {"left": left, "width": round(right - left, 2), "dot": dot}
