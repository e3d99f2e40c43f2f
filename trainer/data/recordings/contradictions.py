"""What speaks against positions, although a column or a person says what they mean.

- People look at all quarters of images.
- They look where others do, and where the pictures have something to see.

What contradicts that is asked, and a person can overrule it (see `reading.CHECKS`).
"""

from collections.abc import Callable, Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from trainer import witness
from trainer.data.recordings.evidence import confirming, doubt
from trainer.data.recordings.questions import AmbiguousReadingsError
from trainer.data.recordings.reading import READING, Reading
from trainer.data.recordings.rows import ENOUGH, RARE, observer_numbers
from trainer.data.source_layout import Points
from trainer.texts import some
from trainer.witness import Testimony, Verdict

FAR = 0.08
"""How far, as a share of the sides, a person must seem to be off. Of honest people of web pages and photographs,
calibrations seem to be off by up to 6%."""
MOST_COMPARED = 80
"""So many images tell whether people agree."""
CORRECT = "correct the tables, or the setting or the line that says what they mean"


def doubts_of_positions(
    rows: pl.DataFrame, points: Points, sizes: Points, reading: Reading, ask: Callable[[], Testimony]
) -> list[AmbiguousReadingsError]:
    """The doubts about positions that were read, without those that the reading confirms.

    Args:
        rows: Rows of fixations inside of their images.
        points: (n, 2) of (y, x), their pixels.
        sizes: (height, width) of all images.
        reading: What they were read by.
        ask: Asks the pictures about them.
    """
    shares = (points + 0.5) / sizes[rows["image"].to_numpy()]
    checks: dict[str, Callable[[], Iterator[AmbiguousReadingsError]]] = {
        "quarter": lambda: _doubt_quarter(rows, shares, sizes),
        "observers": lambda: _doubt_observers(rows, shares, sizes),
        "pictures": lambda: doubt_pictures(ask(), f"{len(rows):,} rows"),
    }
    for name, check in checks.items():
        if name not in reading.confirmed and (doubts := list(check())):
            return doubts
    return []


def _doubt_quarter(
    rows: pl.DataFrame, shares: NDArray[np.float64], sizes: Points
) -> Iterator[AmbiguousReadingsError]:
    """Doubt what positions mean if nearly all are in one quarter, of all, of a person, or of images of one size.

    Example: pixels of images that were shown at half of their size.
    """
    placed = rows.select("image", "owner", "observer", y=shares[:, 0], x=shares[:, 1])
    height, width = sizes[rows["image"].to_numpy()].T
    placed = placed.with_columns(size=pl.format("images of {} x {} pixels", pl.Series(height), pl.Series(width)))
    for column, what in (
        ("", "nearly all fixations"),
        ("owner", "fixations of"),
        ("observer", "fixations of"),
        ("size", "fixations of"),
    ):
        by = pl.col(column).cast(pl.String) if column else pl.lit("").alias("")
        bounds = [
            pl.col(axis).quantile(edge).alias(f"{axis} {edge}") for axis in "yx" for edge in (RARE, 1 - RARE)
        ]
        groups = placed.group_by(by).agg(pl.len(), *bounds, images=pl.col("image").n_unique()).drop_nulls()
        is_in_half = [(pl.col(f"{axis} {1 - RARE}") < 0.5) | (pl.col(f"{axis} {RARE}") > 0.5) for axis in "yx"]
        odd = groups.filter((pl.col("len") >= ENOUGH) & (pl.col("images") > 2) & is_in_half[0] & is_in_half[1])
        if not len(odd):
            continue
        n = int(odd["len"].sum())
        who = f"{what} {some(sorted(odd[column]))}" if column else what
        yield doubt(
            f"{who} ({n:,} of {len(rows):,}) are in one quarter of the images",
            ("they are in another unit or of images of another size", f"{n:,} rows", CORRECT),
            ("people looked at this quarter alone", f"{n:,} rows", confirming("quarter")),
        )
        return


def _doubt_observers(
    rows: pl.DataFrame, shares: NDArray[np.float64], sizes: Points
) -> Iterator[AmbiguousReadingsError]:
    """Doubt the positions of people who look at the same images as others do, if these were read otherwise.

    Example: x and y of one person are exchanged.
    """
    if not rows["observer"].count():
        return
    names, (numbers, _) = rows["observer"].cast(pl.String).unique().sort(), observer_numbers(rows)
    images = rows["image"].to_numpy()
    chosen = np.unique(images)
    chosen = chosen[:: 1 + (len(chosen) - 1) // MOST_COMPARED]
    seen = [(shares[images == each], numbers[images == each], sizes[each][1] / sizes[each][0]) for each in chosen]
    found = [
        (names[observer], reading)
        for observer, reading in witness.odd_observers(seen).items()
        if reading is not None and reading.displacement >= FAR
    ]
    if not found:
        return
    is_odd = rows["observer"].cast(pl.String).is_in([name for name, _ in found])
    yield doubt(
        f"the fixations of {some([name for name, _ in found])} look {found[0][1]}, by those of the others",
        ("they are in another unit, or from another screen", f"{int(is_odd.sum()):,} rows", CORRECT),
        ("they looked elsewhere than others", f"{len(rows):,} rows", confirming("observers")),
    )


def doubt_pictures(testimony: Testimony, of_what: str) -> Iterator[AmbiguousReadingsError]:
    """Doubt what positions or maps mean if the maps of a model agree much better with another reading.

    `of_what` is the data in doubt, such as `288 rows`.
    """
    if testimony.verdict is Verdict.CONTRADICTS:
        yield doubt(
            testimony.text.rstrip("."),
            ("they mean something else", of_what, f"{CORRECT} (see {READING})"),
            ("they mean what is said, and people looked so", of_what, confirming("pictures")),
        )
