"""From tables to the fixations of each image, by a reading that is followed literally (`reading.Reading`).

What contradicts the reading is an error. Each row that is not used is counted by its reason, and too many of one
reason are an error too.

Rows of fixations are a frame with the columns of `COLUMNS`.
"""

import collections
import dataclasses
import pathlib
import re
from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from trainer.data.recordings.columns import FALSE, TRUE, VALID_OF_EXPORTS, find_columns, plain
from trainer.data.recordings.geometry import Geometry, Positions
from trainer.data.recordings.image_names import ImageNames, folded
from trainer.data.recordings.paths import owner_of, part_of
from trainer.data.recordings.reading import FILE, FOLDER, NUMBER_AND_TIME, ONLY, POSITION, READING, Reading
from trainer.data.recordings.tables import NUMBERS, Head, parts_of, read_head, read_table, shown_columns, stored
from trainer.data.source_layout import Points
from trainer.errors import ContentError, check
from trainer.places import Member
from trainer.texts import some

LABELS = ("observer", "trial", "fixation", "split", "group", "owner")
"""Columns of names. `owner` is the path of the row's table, without what names the image (see `owner_of`)."""
COLUMNS = {
    "image": pl.Int32(),
    **dict.fromkeys(NUMBERS, pl.Float64()),
    **dict.fromkeys(LABELS, pl.Categorical()),
}
"""Columns of rows of fixations: the position of the image (-1 for one that is not there), numbers and labels.
They are null for an empty cell."""
ENOUGH = 20
"""Fewer fixations may be at one place of all images."""
MOST_OUTSIDE = 0.25
"""Largest share of the fixations of one person, table or image outside of the images, and of all where people are
known to have seen what is beside them. Of Neon's mapped fixations 3 of 25 are, and with a false size of the screen
32% to 42%."""
OFTEN = 0.1
"""A larger share of rows, or of groups of rows, contradicts a reading. It is the default of max_lost_share."""
RARE = 0.01
"""A smaller share of rows contradicts nothing. More of them at one exact position, where others hardly repeat,
stand for something else."""
OTHER_UNIT = 20
"""Positions in one unit do not differ by this factor. Fractions and pixels of 160 or more do."""
WITHOUT_POSITION = "without a position"
EQUAL = "that repeat another row in all columns"
REPEATED = "that repeat a fixation, of which the last row is counted"
LOST = "which stands for lost gaze"
TOLD = (WITHOUT_POSITION, EQUAL, REPEATED)
"""Reasons that are no loss of fixations, however many rows they have."""
LeftOut = collections.Counter[str]
"""The reason why rows are left out -> their number, in the order in which they were found."""


@dataclasses.dataclass
class Recorded:
    """The fixations of all tables, and what was left out."""

    rows: pl.DataFrame
    tables: list[tuple[str, Head]]
    """Name and head of each table that was read."""
    not_read: list[str]
    """Names of the others."""
    left_out: LeftOut
    unknown: LeftOut
    """Names of images that are not there -> number of rows."""
    n_rows: int
    """Number of rows of all tables, without the rows that the reading says are no fixations."""
    notes: list[str] = dataclasses.field(default_factory=list)
    is_mapped: bool = False
    """Whether software mapped positions to the images, so that some of them are beside these."""
    paths: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    """Owner in `rows` -> the paths of its tables."""

    def check(self, most: float) -> None:
        """Check what is left out.

        Raises:
            ContentError: a larger share than `most` of the rows is left out for one reason, or no row is of an
                image that is there.
        """
        named = some([repr(label[:60]) for label in self.unknown])
        check(
            bool((self.rows["image"] >= 0).any()),
            f"none of {len(self.rows):,} fixations is of an image that is there ({named}). Correct the names, or "
            "name another column with `columns`, such as image=NAME",
            ContentError,
        )
        for reason, count in self.left_out.items():
            check(
                count <= most * self.n_rows or reason in TOLD or LOST in reason,
                f"{count:,} of {self.n_rows:,} rows are left out: {reason}. That is more than max_lost_share, "
                f"{most:.0%}. Correct the tables, raise it, or write {READING} (fetch --propose) and correct that",
                ContentError,
            )


def read_fixations(
    members: Sequence[Member], reading: Reading, names: ImageNames, unpacked: pathlib.Path
) -> Recorded:
    """The fixations of tables.

    Args:
        members: The tables.
        reading: What they mean.
        names: The images.
        unpacked: An existing folder, for the tables of archives.

    Raises:
        ContentError: a table contradicts the reading, cannot be read, or no row is left.
    """
    found = Recorded(pl.DataFrame(), [], [], collections.Counter(), collections.Counter(), 0)
    parts = [
        _of_table(member, reading, names, unpacked, found) for member in _read_members(members, reading, found)
    ]
    check(
        bool(parts),
        f"{READING} reads no table. Put tables beside it, or write it again with --propose",
        ContentError,
    )
    rows = _with_people(pl.concat(parts), reading, found)
    for x, y in reading.lost:
        is_lost = (pl.col("x") == x) & (pl.col("y") == y)
        rows = _kept(rows, ~is_lost, f"at x {x:g}, y {y:g}, {LOST}", found.left_out)
    found.rows = once(rows, reading, found.left_out)
    if found.rows.is_empty():
        why = f": {left_out_text(found.left_out)}" if found.left_out.total() else ", only a header"
        raise ContentError(
            f"{some([origin for origin, _ in found.tables])} has no row that can be used{why}. Correct the table, "
            "or name other columns with `columns`"
        )
    return found


def _read_members(members: Sequence[Member], reading: Reading, found: Recorded) -> Iterator[Member]:
    for member in members:
        if reading.reads(member.path):
            yield member
        else:
            found.not_read.append(member.origin)


def _of_table(
    member: Member, reading: Reading, names: ImageNames, unpacked: pathlib.Path, found: Recorded
) -> pl.DataFrame:
    """The rows of fixations of one table."""
    path = stored(member, unpacked)
    pairs = reading.positions or {"": [reading.columns["x"], reading.columns["y"]]}
    first = dict(zip("xy", next(iter(pairs.values())), strict=True))
    head = read_head(path, member.origin, first)
    found.tables.append((member.origin, head))
    exact = {name: number for number, name in reversed(list(enumerate(head.header)))}
    place = {folded(name): number for name, number in reversed(exact.items())}
    _check_columns(head, reading, member.origin)
    found.is_mapped |= find_columns(head.header, first).is_mapped

    def position(column: str) -> int:
        number = exact.get(column, place.get(folded(column)))
        if number is None:
            raise ContentError(
                f"{member.origin} has no column {column!r}. Its columns are {shown_columns(head.header)}. Correct "
                f"the table, or name another column (with `columns`, or in {READING})"
            )
        return number

    roles = {role: position(name) for role, name in reading.columns.items() if name != FILE}
    filters = {name: position(name) for name in dict.fromkeys([*reading.fixations, *reading.others])}
    by_column = reading.image not in (FILE, FOLDER, ONLY)
    parts = []
    for image, (x, y) in pairs.items():
        index = {**roles, "x": position(x), "y": position(y), **{f"#{name}": at for name, at in filters.items()}}
        if by_column and not image:
            index["label"] = position(reading.image)
        rows, n_ragged = read_table(path, member.origin, head, index)
        found.left_out["with more cells than the header"] += n_ragged
        rows = _fixations_only(rows, reading, member.origin, found)
        found.n_rows += len(rows) + n_ragged
        rows = _kept(rows, pl.col("x").is_finite() & pl.col("y").is_finite(), WITHOUT_POSITION, found.left_out)
        label = image or part_of(parts_of(member.path), reading.part)
        labels = (
            rows["label"].cast(pl.String) if "label" in index else pl.Series([label]).new_from_index(0, len(rows))
        )
        only = names.only_in(member.path.rpartition("/")[0]) if reading.image == ONLY else None
        if only is None:
            rows = rows.with_columns(image=_images(labels, names, member.origin, found))
        else:
            rows = rows.with_columns(image=pl.lit(only, pl.Int32()))
        owner = owner_of(
            parts_of(member.path), reading.part if reading.image in (FILE, FOLDER) and not image else None
        )
        rows = rows.with_columns(owner=pl.lit(owner, pl.Categorical()))
        found.paths.setdefault(owner, []).append(member.path)
        rows = _kept(rows, pl.col("image").is_not_null(), "without the name of an image", found.left_out)
        absent = [pl.lit(None, kind).alias(role) for role, kind in COLUMNS.items() if role not in rows.columns]
        parts.append(rows.with_columns(absent).select(*COLUMNS))
    return pl.concat(parts)


def _check_columns(head: Head, reading: Reading, origin: str) -> None:
    """Raise `ContentError` for a column that the reading does not know, or two of a name that it uses."""
    used = [name for name in reading.columns.values() if name != FILE]
    used += [
        reading.image,
        *reading.fixations,
        *reading.others,
        *(each for pair in reading.positions.values() for each in pair),
    ]
    used_names, ignored = {folded(name) for name in used}, {folded(name) for name in reading.ignored}
    counts = collections.Counter(name for name in head.header if name)
    for name in head.header:
        check(
            not name or folded(name) in used_names | ignored,
            f"{origin} has a column {name!r}, and {READING} does not say what it is. Add it to `ignored` there if "
            "it does not matter, or say what it holds",
            ContentError,
        )
        check(
            counts[name] < 2 or folded(name) not in used_names,
            f"{origin} has {counts[name]} columns named {name!r}. Give each a name of its own",
            ContentError,
        )


def _fixations_only(rows: pl.DataFrame, reading: Reading, origin: str, found: Recorded) -> pl.DataFrame:
    """The rows that the reading calls fixations."""
    for name in dict.fromkeys([*reading.fixations, *reading.others]):
        wanted, others = reading.fixations.get(name), reading.others.get(name, ())
        values = pl.col(f"#{name}").cast(pl.String)
        if wanted is not None:
            is_unknown = values.is_not_null() & ~values.is_in([*wanted, *others])
            unknown = rows.filter(is_unknown & pl.col("x").is_finite() & pl.col("y").is_finite())
            if len(unknown):
                raise ContentError(
                    f"{origin} has {unknown[f'#{name}'][0]!r} in its column {name!r} ({len(unknown):,} rows), and "
                    f"{READING} does not say what it is. Add it to [fixations] or to [others]"
                )
        is_fixation = values.is_in(wanted) if wanted is not None else ~values.is_in(others)
        n_before = len(rows)
        rows = rows.filter(is_fixation.fill_null(value=wanted is None))
        if n_dropped := n_before - len(rows):
            words = {value.lower() for value in (*(wanted or ()), *others)}
            is_flag = words <= {*TRUE, *FALSE} and plain(name)[0] not in VALID_OF_EXPORTS
            check(
                not is_flag or n_dropped < ENOUGH or 2 * n_dropped <= n_before,
                f"{n_dropped:,} of {n_before:,} rows of {origin} are no fixations, by the flags of its column "
                f"{name!r}: it may mean the opposite. Correct the table, or [fixations] in {READING}",
                ContentError,
            )
            found.notes.append(f"{n_dropped:,} rows of {origin} are no fixations, by its column {name!r}.")
    return rows.drop([column for column in rows.columns if column.startswith("#")])


def _images(labels: pl.Series, names: ImageNames, origin: str, found: Recorded) -> pl.Series:
    """The image of each label (see `ImageNames.find_all`): -1 if there is none, null for an empty cell."""
    unique = labels.drop_nulls().unique(maintain_order=True).to_list()
    images = [-1 if image is None else image for image in names.find_all(unique, origin)]
    numbers = labels.replace_strict(unique, images, default=None, return_dtype=pl.Int32)
    found.unknown.update(labels.filter(numbers == -1).to_list())
    return numbers


def _with_people(rows: pl.DataFrame, reading: Reading, found: Recorded) -> pl.DataFrame:
    """The rows with one name for each observer. Case, blanks and leading zeros make no two people of one."""
    texts = pl.col([role for role in LABELS if role != "owner"]).cast(pl.String)
    # Programs write 1 as 1.0 where a cell of the column is empty.
    rows = rows.with_columns(texts.str.replace(r"^(\d+)[.,]0+$", "${1}").cast(pl.Categorical))
    if reading.columns.get("observer") == FILE:
        return rows.with_columns(observer=pl.col("owner"))
    if "observer" not in reading.columns:
        return rows
    rows = _kept(rows, pl.col("observer").is_not_null(), "without an observer", found.left_out)
    labels = rows["observer"].cast(pl.String)
    names: dict[str, str] = {}
    people = {label: names.setdefault(_person(label), label) for label in labels.unique().sort().to_list()}
    alike = [f"{label!r} and {name!r}" for label, name in people.items() if label != name]
    if alike:
        found.notes.append(f"Names of observers that are taken for one: {some(alike)}.")
    return rows.with_columns(
        labels.replace_strict(people, return_dtype=pl.String).cast(pl.Categorical).alias("observer")
    )


def _person(label: str) -> str:
    """What names of one person share. Example: `S01`, `s01` and `S 1`, but not `1 1`, `11`, `1.5` and `1.05`."""
    joined = re.sub(r"(?<!\d) | (?!\d)", "", folded(label))
    return re.sub(r"(?<!\d)(?<!\d[.,])0+(?=\d)", "", joined)


def once(rows: pl.DataFrame, reading: Reading, left_out: LeftOut) -> pl.DataFrame:
    """The rows with each fixation once, in their order.

    - Equal rows of one person are one fixation, if they tell its time, duration or number.
    - Rows of one fixation are as `Reading.repeated` says, and the last one is final.
    """
    numbered = ["image", "observer", "owner", "trial", "fixation"]
    is_certain = pl.col("observer").is_not_null() & pl.any_horizontal(
        pl.col("time", "duration", "fixation").is_not_null()
    )
    n_all = len(rows)
    rows = rows.filter(~is_certain | pl.struct(*numbered, *NUMBERS).is_last_distinct())
    left_out[EQUAL] += n_all - len(rows)
    if reading.repeated == POSITION:
        n_all, place = len(rows), ("image", "observer", "owner", "trial", "x", "y")
        is_last = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(-1)) for name in place)
        rows = rows.filter(is_last.fill_null(value=True))
        left_out[REPEATED] += n_all - len(rows)
    elif reading.repeated:
        n_all, has_number = len(rows), pl.col("fixation").is_not_null()
        if reading.repeated == NUMBER_AND_TIME:
            is_last = pl.struct(*numbered, "time").is_last_distinct()
        else:
            following = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(-1)) for name in numbered)
            is_last = following.fill_null(value=True)
        # A row without a number is a sample between those of fixations, or a fixation of a table without numbers.
        is_sample = ~has_number & has_number.any().over(*numbered[:3])
        rows = rows.filter((is_last | ~has_number) & ~is_sample)
        left_out[REPEATED] += n_all - len(rows)
    return rows


def _kept(rows: pl.DataFrame, condition: pl.Expr, reason: str, left_out: LeftOut) -> pl.DataFrame:
    """The rows of a condition. The others are counted."""
    kept = rows.filter(condition.fill_null(value=False))
    left_out[reason] += len(rows) - len(kept)
    return kept


def left_out_text(left_out: LeftOut) -> str:
    """The reasons with their numbers. Example: `12 without a position`."""
    return ", and ".join(f"{count:,} {reason}" for reason, count in left_out.items() if count)


# === Positions ===


def positions_of(rows: pl.DataFrame, sizes: Points) -> Positions:
    """The positions of rows. `sizes` has (height, width) of all images."""
    media = None
    if rows["media x"].count() > 0.5 * len(rows):
        order = ("media y", "media x", "media height", "media width")
        media = rows.select(pl.col(order).fill_null(float("nan"))).to_numpy()
    return Positions(rows["x"].to_numpy(), rows["y"].to_numpy(), sizes[rows["image"].to_numpy()], media)


def placed(
    rows: pl.DataFrame, geometry: Geometry, sizes: Points, left_out: LeftOut, most_outside: float
) -> tuple[pl.DataFrame, Points]:
    """Move the positions of rows to pixels, and leave out the rows outside of their images (see `Geometry.place`).

    The others are counted in `left_out`. `sizes` has (height, width) of all images.

    Returns:
        The rows inside, and their (n, 2) pixels (y, x).

    Raises:
        ContentError: a larger share than `most_outside` is outside, or all are.
    """
    check(
        len(rows) > 0,
        "no fixation is of an image that can be read. Save the images again, or correct their names in tables",
        ContentError,
    )
    positions = positions_of(rows, sizes)
    points, is_inside = geometry.place(positions)
    n_outside = len(rows) - len(points)
    if n_outside > most_outside * len(rows) or not len(points):
        remedy = _exchanged(positions, geometry, n_outside) or (
            "Correct coordinates, or screen_size and image_on_screen, or raise max_lost_share if people looked so"
        )
        x, y = positions.x, positions.y
        raise ContentError(
            f"{n_outside:,} of {len(rows):,} fixations are outside of their images, taken as {geometry.text}: x "
            f"is {x.min():.4g} to {x.max():.4g}, y is {y.min():.4g} to {y.max():.4g}, the "
            f"largest image is {sizes[:, 0].max()} x {sizes[:, 1].max()} pixels (height x width). {remedy}"
        )
    _check_groups(rows.with_columns(is_outside=~pl.Series(is_inside)), geometry, max(MOST_OUTSIDE, most_outside))
    y, x = geometry.shares(positions)
    spans = [float(np.ptp(np.quantile(side, (0.05, 0.95)))) for side in (y, x)]
    check(
        len(rows) < ENOUGH or max(spans) > 1 / OTHER_UNIT,
        f"nearly all {len(rows):,} fixations are within {max(spans):.1%} of the sides of their images, taken as "
        f"{geometry.text}. They are in another unit: correct coordinates, or unit in {READING}",
        ContentError,
    )
    share = n_outside / len(rows)
    percent = f"{share:.0%}" if share >= 0.01 else "less than 1%"
    left_out[f"of {len(rows):,} outside of their images ({percent})"] += n_outside
    return rows.filter(pl.Series(is_inside)), points


def _check_groups(rows: pl.DataFrame, geometry: Geometry, most: float) -> None:
    """Check that no table, person or image has a larger share than `most` outside of the images.

    Example: one person sat at another screen. Images on a screen may have much beside them.
    """
    columns = ["owner", "observer", *([] if geometry.is_set else ["image"])]
    for column in columns:
        groups = (
            rows.drop_nulls(column)
            .group_by(pl.col(column).cast(pl.String))
            .agg(n=pl.len(), n_outside=pl.col("is_outside").sum())
        )
        odd = groups.filter((pl.col("n") >= ENOUGH) & (pl.col("n_outside") > most * pl.col("n"))).sort(column)
        if not len(odd):
            continue
        name, n, n_outside = odd.row(0)
        what = f"image number {name}" if column == "image" else name
        raise ContentError(
            f"{n_outside:,} of {n:,} fixations of {what} are outside of the images, and few of others are. "
            "Correct the positions, which may be from another screen or in another unit, or raise max_lost_share"
        )


def _exchanged(positions: Positions, geometry: Geometry, n_outside: int) -> str:
    """A remedy if exchanging x and y would bring nearly all rows inside of their images. Else empty."""
    still_outside = len(positions.x) - len(geometry.place(positions.exchanged())[0])
    if still_outside > OFTEN * n_outside:
        return ""
    return (
        f"{still_outside:,} would be outside if x and y were exchanged. If they are, exchange the columns with "
        "`columns`, as x=NAME,y=NAME"
    )


def observer_numbers(rows: pl.DataFrame) -> tuple[np.ndarray, int]:
    """The observer of each row, counted from 0 by the order of names, and the number of observers."""
    names = rows["observer"].unique().cast(pl.String).sort()
    numbers = rows["observer"].cast(pl.String).cast(pl.Enum(names)).to_physical()
    return numbers.cast(pl.Int64).to_numpy(), len(names)
