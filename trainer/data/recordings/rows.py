"""From tables of fixations to the fixations of each image, and what was left out on the way."""

import dataclasses
import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from trainer.data.gaze import Points, inside
from trainer.data.recordings import columns
from trainer.data.recordings.chosen import Source
from trainer.data.recordings.names import ImageNames
from trainer.data.recordings.positions import Frame
from trainer.data.recordings.table import MISSING, Table, Texts
from trainer.errors import UserError, some

Ints = NDArray[np.integer[Any]]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
SHARED = ("observer", "trial", "fixation", "split")
"""Columns of texts whose labels the tables share."""
OWNER = "owner"
"""The code of a row's table, by `Source.owner`."""
NEARLY_ALL = 0.9
"""More than this share of fixations within images says that a screen is right."""
MEASURED = ("time", "duration")
"""Columns of numbers that are left unread if they hold anything else."""


@dataclasses.dataclass
class Rows:
    """Rows of fixations: arrays of the same length, and the labels of their codes."""

    image: Ints
    """Position of the image."""
    x: Floats
    y: Floats
    codes: dict[str, Ints]
    """Each of SHARED, and OWNER -> position in `labels`, -1 for an empty cell."""
    numbers: dict[str, Floats]
    """Each of MEASURED; NaN for an empty cell."""
    labels: dict[str, list[str]]

    def __len__(self) -> int:
        return len(self.x)

    def where(self, kept: Mask) -> "Rows":
        """The rows of a mask."""
        if kept.all():
            return self
        return Rows(
            self.image[kept],
            self.x[kept],
            self.y[kept],
            {role: values[kept] for role, values in self.codes.items()},
            {role: values[kept] for role, values in self.numbers.items()},
            self.labels,
        )

    @classmethod
    def joined(cls, parts: Sequence["Rows"], labels: dict[str, list[str]]) -> "Rows":
        """The rows of several tables."""
        if len(parts) == 1:
            return dataclasses.replace(parts[0], labels=labels)
        return cls(
            np.concatenate([part.image for part in parts]),
            np.concatenate([part.x for part in parts]),
            np.concatenate([part.y for part in parts]),
            {role: np.concatenate([part.codes[role] for part in parts]) for role in (*SHARED, OWNER)},
            {role: np.concatenate([part.numbers[role] for part in parts]) for role in MEASURED},
            labels,
        )


@dataclasses.dataclass
class LeftOut:
    """Rows that were left out."""

    rows: dict[str, int] = dataclasses.field(default_factory=dict)
    """The reason -> their number, in the order in which they were found."""
    unknown: dict[str, int] = dataclasses.field(default_factory=dict)
    """The name of an image that is not there -> the number of its rows."""
    hint: str = ""
    """A sentence on what would leave fewer rows out."""

    def add(self, reason: str, count: int | np.integer[Any]) -> None:
        """Add rows left out for a reason."""
        if count:
            self.rows[reason] = self.rows.get(reason, 0) + int(count)

    def add_unknown(self) -> None:
        """Add the rows of `unknown` as one reason."""
        if self.unknown:
            labels = some([repr(label[:60]) for label in self.unknown])
            self.add(f"of images that are not there ({labels})", sum(self.unknown.values()))

    @property
    def text(self) -> str:
        """The reasons with their numbers."""
        return "; ".join(f"{count:,} {reason}" for reason, count in self.rows.items())


# === Read ===


def read_rows(sources: Sequence[Source], names: ImageNames, left_out: LeftOut) -> Rows:
    """The rows of all tables that hold a fixation of an image; the others are counted in `left_out`.

    Raises:
        UserError: a cell cannot be read, or no row is left.
    """
    shared: dict[str, dict[str, int]] = {role: {} for role in (*SHARED, OWNER)}
    parts = [_read_one(source, names, shared, left_out) for source in sources]
    rows = Rows.joined(parts, {role: list(codes) for role, codes in shared.items()})
    left_out.add_unknown()
    if not len(rows):
        what = f"{sources[0].table.origin} has" if len(sources) == 1 else f"the {len(sources)} tables have"
        why = f": {left_out.text}" if left_out.rows else ", only a header"
        hint = f"; the source has images such as {names.example}" if left_out.unknown else ""
        raise UserError(
            f"{what} no row that can be used{why}{hint}; correct the table, or name other columns with `columns`"
        )
    return rows


def _read_one(source: Source, names: ImageNames, shared: dict[str, dict[str, int]], left_out: LeftOut) -> Rows:
    index, table = source.columns.index, source.table
    measured = [role for role in MEASURED if role in index and _is_numeric(table, index[role])]
    labelled = [role for role in (*SHARED, "valid", "event", "image") if role in index]
    values, ragged = table.read(
        [index[role] for role in ("x", "y", *measured)], [index[role] for role in labelled]
    )
    left_out.add("with more or fewer cells than the header", ragged)
    x, y = (cast("Floats", values[index[role]]) for role in ("x", "y"))
    texts = {role: cast("Texts", values[index[role]]) for role in labelled}
    image: Ints = np.full(len(x), source.image or 0, np.int32)
    if source.image is None:
        found = names.find_all(texts["image"].labels, table.origin)
        image = np.array([*map(_found, found), -1], np.int32)[texts["image"].codes]
    kept = _usable(source, x, y, texts, image, left_out)
    codes = {role: np.full(kept.sum(), -1, np.int32) for role in SHARED}
    for role in SHARED:
        if role in texts:
            same = _same_texts(texts[role])
            codes[role] = _coded(same, functools.partial(_number_of, shared[role]))[kept]
    owner = shared[OWNER].setdefault(source.owner, len(shared[OWNER]))  # may be empty
    codes[OWNER] = np.full(kept.sum(), owner, np.int32)
    nothing = np.full(kept.sum(), np.nan)
    return Rows(
        image[kept],
        x[kept],
        y[kept],
        codes,
        {role: cast("Floats", values[index[role]])[kept] if role in measured else nothing for role in MEASURED},
        {},
    )


def _usable(source: Source, x: Floats, y: Floats, texts: dict[str, Texts], image: Ints, left_out: LeftOut) -> Mask:
    """Which rows are a fixation of an image; the others are counted."""
    kept = np.ones(len(x), bool)

    def keep(which: Mask, reason: str) -> None:
        left_out.add(reason, np.count_nonzero(kept & ~which))
        np.logical_and(kept, which, out=kept)

    names = source.names
    if "event" in texts:
        is_fixation = _mask(texts["event"], lambda label: label.strip().lower().startswith(columns.FIXATION_EVENT))
        if is_fixation.any():  # else the column is about something else
            keep(is_fixation, f"that are no fixations (column {names['event']!r})")
    if "valid" in texts:
        words = {label.strip().lower() for label in texts["valid"].labels}
        if words <= {*columns.TRUE, *columns.FALSE}:
            valid = _mask(texts["valid"], lambda label: label.strip().lower() in columns.TRUE)
            keep(valid, f"that are not valid (column {names['valid']!r})")
    keep(~(np.isnan(x) | np.isnan(y)), "without a position")
    keep(np.isfinite(x) & np.isfinite(y), "with an infinite position")
    if source.image is None:
        column = texts["image"]
        keep(column.codes >= 0, "without the name of an image")
        counts = np.bincount(column.codes[kept & (image < 0)], minlength=len(column.labels))
        for position in np.flatnonzero(counts):
            label = column.labels[position]
            left_out.unknown[label] = left_out.unknown.get(label, 0) + int(counts[position])
        np.logical_and(kept, image >= 0, out=kept)
    return kept


def _same_texts(texts: Texts) -> Texts:
    """The column without blanks around its labels and, if all are numbers, without decimals of zero."""
    labels = [label.strip() for label in texts.labels]
    if all(re.fullmatch(r"[+-]?\d+([.,]\d+)?", label) for label in labels if label):
        labels = [re.sub(r"[.,]0+$", "", label) for label in labels]
    return Texts(texts.codes, labels)


def _number_of(numbers: dict[str, int], label: str) -> int:
    """The number of a label; -1 for an empty one."""
    return numbers.setdefault(label, len(numbers)) if label else -1


def _coded(texts: Texts, code: Callable[[str], int]) -> Ints:
    """The number of each row's label, -1 for an empty cell."""
    return np.array([*map(code, texts.labels), -1], np.int32)[texts.codes]


def _mask(texts: Texts, holds: Callable[[str], bool]) -> Mask:
    return np.array([*map(holds, texts.labels), False], bool)[texts.codes]


def _found(position: int | None) -> int:
    return -1 if position is None else position


def _is_numeric(table: Table, position: int) -> bool:
    cells = [row[position].strip() for row in table.sample if position < len(row)]
    try:
        return all(cell in MISSING or float(cell.replace(",", ".")) is not None for cell in cells)
    except ValueError:
        return False


# === Count each fixation once ===


def once(rows: Rows, left_out: LeftOut) -> Rows:
    """The rows without repetitions, in their order.

    Of rows with the same content one is left. Of rows of one observer, trial and image the last is left if they
    have the same time and number of a fixation, or if they follow one another with the same number: software that
    writes a row for each sample of the gaze repeats the fixation to which it belongs, and its position is final in
    the last row. The same number elsewhere in a table is another fixation, because numbers may begin again. Times
    that differ nowhere within a trial are those of trials, and tell nothing.
    """
    number, time = rows.codes["fixation"], rows.numbers["time"]
    observer = np.where(rows.codes["observer"] >= 0, rows.codes["observer"], -2 - rows.codes[OWNER])
    whose = _hash(rows.image, observer, rows.codes["trial"])
    content = (_bits(rows.x), _bits(rows.y), _bits(time), _bits(rows.numbers["duration"]), number)
    kept = _last(_hash(whose, *content))
    left_out.add("that repeat another row in all columns", len(rows) - kept.sum())
    rows, whose, number, time = rows.where(kept), whose[kept], number[kept], time[kept]
    # Times are those of one observer only if observers are told apart, by a column or by the tables' numbers.
    has_time = ~np.isnan(time) & ((rows.codes["observer"] >= 0) | (number >= 0))
    has_time &= _differ_within(whose[has_time], rows.where(has_time))
    alone = _hash(np.arange(len(rows)), np.full(len(rows), -3))
    kept = _last(np.where(has_time, _hash(whose, number, _bits(time)), alone))
    marks = np.where(number >= 0, _hash(whose, number), alone)[kept]
    is_last = np.append(marks[1:] != marks[:-1], np.ones(min(len(marks), 1), bool))
    kept[kept] = is_last
    left_out.add(
        "that repeat a fixation (the same observer, trial and image, and time or number), of which the last is "
        "counted",
        len(rows) - kept.sum(),
    )
    return rows.where(kept)


def _differ_within(whose: NDArray[np.uint64], rows: Rows) -> bool:
    """Whether some trial has two times, or none has two positions; `whose` has one number for each trial."""
    n_trials = len(np.unique(whose))
    has_times = len(np.unique(_hash(whose, _bits(rows.numbers["time"])))) > n_trials
    return has_times or len(np.unique(_hash(whose, _bits(rows.x), _bits(rows.y)))) == n_trials


def _bits(values: Floats) -> Ints:
    return np.ascontiguousarray(values).view(np.int64)


def _hash(*columns: Ints | NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One number for each row's values, by the finaliser of SplitMix64; equal rows have equal numbers."""
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        mixed = mixed * np.uint64(0x9E3779B97F4A7C15) + column.astype(np.uint64)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return mixed


def _last(hashes: NDArray[np.uint64]) -> Mask:
    """Which rows are the last of their number."""
    _, first = np.unique(hashes[::-1], return_index=True)
    kept = np.zeros(len(hashes), bool)
    kept[len(hashes) - 1 - first] = True
    return kept


# === Move to pixels ===


def placed(rows: Rows, frame: Frame, sizes: Points, left_out: LeftOut) -> tuple[Rows, Points]:
    """The rows inside of their images (see `gaze.inside`), and their (n, 2) pixels (y, x); the others are counted.

    Args:
        rows: the rows.
        frame: what their positions mean.
        sizes: (images, 2) of (height, width), pixels.
        left_out: counts the rows outside. Its hint says so if exchanged x and y explain them.

    Raises:
        UserError: most positions are outside.
    """
    own = sizes[rows.image]
    points, is_inside = _pixels(rows, frame, own)
    n_outside = len(rows) - len(points)
    exchanged = _exchanged(rows, frame, own, n_outside)
    if 2 * n_outside > len(rows):
        remedy = "set coordinates, or screen_size and image_on_screen"
        if frame.is_set:
            remedy = "correct screen_size or image_on_screen"
        if frame.screen and np.mean(_pixels(rows, frame.swapped, own)[1]) > NEARLY_ALL:
            width, height = frame.screen
            remedy = f"did you swap the sides of screen_size? Write height x width: {height}x{width}"
        elif exchanged:
            remedy = exchanged
        raise UserError(
            f"{n_outside:,} of {len(rows):,} fixations are outside of their images, taken as {frame.text}: x is "
            f"{rows.x.min():.4g} to {rows.x.max():.4g}, y is {rows.y.min():.4g} to {rows.y.max():.4g}, the "
            f"largest image is {sizes[:, 0].max()} x {sizes[:, 1].max()} pixels (height x width); {remedy}"
        )
    share = n_outside / len(rows)
    percent = f"{share:.0%}" if share >= 0.01 else "less than 1%"
    left_out.add(f"of {len(rows):,} outside of their images ({percent})", n_outside)
    left_out.hint = exchanged
    return rows.where(is_inside), points


def _exchanged(rows: Rows, frame: Frame, sizes: Points, n_outside: int) -> str:
    """What to do if nearly all rows outside would be inside with x and y exchanged, and no others outside."""
    if not n_outside:
        return ""
    points, _ = _pixels(dataclasses.replace(rows, x=rows.y, y=rows.x), frame, sizes)
    still_outside = len(rows) - len(points)
    if still_outside > (1 - NEARLY_ALL) * n_outside:
        return ""
    return (
        f"{still_outside:,} would be outside if x and y were exchanged; if they are, exchange the columns with "
        "`columns`, as x=NAME,y=NAME"
    )


def _pixels(rows: Rows, frame: Frame, sizes: Points) -> tuple[Points, Mask]:
    """The pixels (y, x) of the rows inside of their images of `sizes`, and which rows these are."""
    return inside(np.stack(frame.pixels(rows.x, rows.y, sizes), axis=1), sizes)
