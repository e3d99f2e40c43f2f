"""From tables of positions to the fixations of each image, and what was left out on the way.

Rows of fixations are a frame with the columns of `COLUMNS`.
"""

import collections
import dataclasses
import itertools
import math
import posixpath
import re
from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from trainer.data.recordings.columns import AREA, MEDIA, ROLES, ImageNames, is_number, is_usual, plain
from trainer.data.recordings.geometry import Geometry, Positions
from trainer.data.recordings.image_readings import (
    FILE,
    FOLDER,
    NUMBER,
    ImageReading,
    choose_image,
    image_readings,
    part_of,
)
from trainer.data.recordings.readings import DRAWN_FIXATIONS, DRAWN_IMAGES, AmbiguousReadingsError, Reading
from trainer.data.recordings.tables import NUMBERS, Head, Source, read_table, shown_columns
from trainer.data.settings import FetchConfig, parse_columns
from trainer.data.source_layout import Points
from trainer.errors import AmbiguousError, ContentError, UserError
from trainer.texts import some

LABELS = ("observer", "trial", "fixation", "eye", "split", "group", "owner")
"""Columns of names. `owner` is the path of the row's table, without what names the image (see `_owner`)."""
COLUMNS = {
    "image": pl.Int32(),
    **dict.fromkeys(NUMBERS, pl.Float64()),
    **dict.fromkeys(LABELS, pl.Categorical()),
}
"""Columns of rows of fixations: the position of the image (-1 for one that is not there), numbers and labels.
They are null for an empty cell."""
NEARLY_ALL = 0.9
"""Two shares. Exchanged x and y are named as a cause if they explain this share of the fixations outside of
their images. A table is a copy of another one if that has this share of its rows."""
FIXATION = r"(whole )?e?fi[xj]"
NO_FIXATION = r"(whole )?e?sa[ck]|e?blink|unclassified|gap$"
"""Beginnings of the names of fixations, and of other events, in a column of events, in lower case."""
MANY_CHANGES = 0.2
"""Share of the rows of a column of events at which fixations begin or end."""
EVENT_TYPES = ("eye movement type", "gazeeventtype", "event type")
"""Names of columns of events that hold nothing else."""
TRUE, FALSE = ("1", "1.0", "true", "yes", "valid"), ("0", "0.0", "false", "no", "invalid", "not mapped")
"""Values of a column that says whether a row is valid, in lower case."""
LOST = ((0.0, 0.0), (-1.0, -1.0))
"""Positions (x, y) that many programs write where they lost the gaze."""
CENTERED_SHARE = 0.2
"""Share of negative x from which on positions are from the centre, which 0, 0 then is."""
LOST_SHARE = 0.01
"""One exact position of more fixations than this share stands for something else where others hardly repeat."""
MIN_FOR_LOST, MIN_LOST, MOST_CODES = 50, 4, 3
"""With fewer positions, nothing is known about how often others repeat. A position that occurs less often, or
one of more such positions, is there by chance."""
SAME_PLACE = 0.1
"""Share of the range of positions within which two rows may be of one fixation, and of the numbers of fixations
that may have rows farther apart."""
BY_CHANCE = 0.05
"""Share of the rows that may be equal by chance. Example: rows of two people whom no column tells apart."""
MAX_SEVERAL = 0.1
"""Largest share of images on which several people may have one name."""
MOSTLY = 0.25
"""Share of the numbers with rows farther apart from which on rows of one number are different fixations."""
MIN_ALIKE = 10
"""Fewer fixations of two tables may rise and fall together by chance."""
MOST_OF_SAMPLES = 0.5
"""Fewer numbered rows are left than this share of them if each row was a sample of the gaze."""
SAMPLE_STEP = 0.1
"""Single samples of the gaze are nearer to the next than this share of the distance between any two."""
MIN_FOR_SAMPLES = 20
ALIKE = 0.1
"""Durations are as equal as durations of samples up to this standard deviation, divided by their mean."""
LeftOut = collections.Counter[str]
"""The reason why rows are left out -> their number, in the order in which they were found."""


@dataclasses.dataclass
class Found:
    """The fixations of all tables, and how they were found."""

    rows: pl.DataFrame
    sources: list[Source]
    """The tables of fixations."""
    others: list[str]
    """Names of the tables that hold none."""
    how: str
    """A sentence about what names the image of each row. Empty if a column names it."""
    unknown: LeftOut = dataclasses.field(default_factory=collections.Counter)
    """Names of images that are not there -> number of rows."""
    notes: list[str] = dataclasses.field(default_factory=list)


def find_fixations(
    sources: Sequence[Source], names: ImageNames, config: FetchConfig, needed: bool, left_out: LeftOut
) -> Found | None:
    """The fixations of tables of positions, or None if no table has any.

    Rows that are no fixations are counted in `left_out`. `needed` says that nothing else tells where people
    looked.

    Raises:
        AmbiguousReadingsError: it is not clear which tables hold fixations, or what names the image of each row.
        UserError: a cell cannot be read, no row is left, or positions are of a scene camera or single samples.
    """
    named = parse_columns(config.columns)
    kept, others = _without_areas(sources)
    if not kept:
        if needed and sources:
            raise ContentError(
                f"{sources[0].origin} has areas of interest ({shown_columns(sources[0].head.header)}), but no "
                "fixations. Export these"
            )
        return None
    unmapped = [source for source in kept if source.columns.scene_camera]
    if len(unmapped) == len(kept):
        raise ContentError(
            f"{kept[0].origin} has positions on the pictures of a scene camera (its column "
            f"{kept[0].columns.scene_camera!r}), not on an image. Export fixations that are mapped to the image, "
            "or name columns of positions on the image with `columns`, such as x=NAME,y=NAME"
        )
    others += [source.origin for source in unmapped]
    tables = [each for source in kept if not source.columns.scene_camera for each in _expanded(source)]
    lost: LeftOut = collections.Counter()
    for source in tables:
        _read(source, names, named, lost)
    forms: dict[object, list[Source]] = {}
    for source in tables:
        forms.setdefault(source.form, []).append(source)
    chosen: list[tuple[list[Source], ImageReading]] = []
    for form in forms.values():
        readings = image_readings(form, names, named.get("image", ""))
        reading = choose_image(readings, form, len(names.paths), config)
        if isinstance(reading, list):
            raise _ambiguous_image(form, reading, names, config)
        if reading is not None and (reading.n_used or needed):
            chosen.append((form, reading))
        else:
            others += [source.origin for source in form]
    if not chosen:
        if not needed:
            return None
        raise _unusable(tables, lost, names)
    used = [each for each in chosen if each[1].n_used] or chosen[:1]
    others += [source.origin for form, _ in chosen if all(form is not each for each, _ in used) for source in form]
    if len(used) > 1:
        raise _ambiguous_form(used, names, config)
    form, reading = used[0]
    if not needed and "x" not in named and not _is_of_people(form):
        raise AmbiguousError(
            f"there are maps, and {form[0].origin} has positions that may be something else than fixations, since "
            "no column tells who looked, when or how long. Remove the table, or name its columns, such as "
            f"columns={_with_named(config, x=form[0].names['x'], y=form[0].names['y'])}"
        )
    left_out.update(lost)
    return _found(form, reading, others, names, named, left_out)


def _found(
    form: list[Source],
    reading: ImageReading,
    others: list[str],
    names: ImageNames,
    named: dict[str, str],
    left_out: LeftOut,
) -> Found:
    how = "" if reading.part is None and reading.name not in (FILE, FOLDER) else f"In them, {reading.text}."
    found = Found(pl.DataFrame(), form, others, how)
    word, unlabelled = plain(reading.name)[0], 0
    parts = []
    for source, images in zip(form, reading.images, strict=True):
        if not how and word not in source.labels:
            found.others.append(source.origin)
            continue
        if not how:
            source.columns.index["image"] = int(source.labels[word][1:])
            images = _exact(source.rows[source.labels[word]], names, source.origin)
        labels = (
            source.rows[source.labels[word]].cast(pl.String) if not how else pl.Series(["/".join(source.parts)])
        )
        if (images < 0).any():
            found.unknown.update((labels.filter(images < 0) if not how else labels).to_list())
        unlabelled += images.null_count()
        owner = pl.lit(_owner(source.parts, reading.part), pl.Categorical())
        rows = source.rows.with_columns(image=images, owner=owner).filter(images.is_not_null())
        absent = [pl.lit(None, kind).alias(role) for role, kind in COLUMNS.items() if role not in rows.columns]
        parts.append(rows.with_columns(absent).select(*COLUMNS))
        source.rows = source.rows.clear()
    left_out["without the name of an image"] += unlabelled
    rows = pl.concat(parts)
    rows = rows if rows.is_empty() else _without_lost(rows, left_out)
    if rows.is_empty():
        raise _without_rows(form, left_out)
    _check_one_eye(rows, form[0])
    rows = once(rows, left_out)
    found.rows = _without_copies(rows, found, left_out)
    _check_fixations(found, named)
    return found


def _exact(labels: pl.Series, names: ImageNames, origin: str) -> pl.Series:
    """The image of each label (see `ImageNames.find_all`): -1 if there is none, null for an empty cell."""
    texts = labels.cast(pl.String)
    unique = texts.drop_nulls().unique(maintain_order=True).to_list()
    images = [-1 if image is None else image for image in names.find_all(unique, origin)]
    return texts.replace_strict(unique, images, default=None, return_dtype=pl.Int32)


# === Which tables ===


def _without_areas(sources: Sequence[Source]) -> tuple[list[Source], list[str]]:
    """Separate the tables of areas of interest from the others.

    Returns the others, and the names of the separated ones.

    Example: a table with the columns name, x, y, width and height has areas of interest, if no column tells
    who looked or when.
    """
    areas = [
        source
        for source in sources
        if not source.columns.index.keys() & {"observer", "duration", "time", "fixation"}
        and any({*pair} <= {plain(name)[0] for name in source.head.header} for pair in AREA)
    ]
    return [each for each in sources if each not in areas], [source.origin for source in areas]


def _expanded(source: Source) -> Iterator[Source]:
    """Make a table for each image that the header names.

    A header without names of images leaves the table as it is.

    Example: the column `Mapped fixation X [page]` is about the image page.
    """
    if not source.columns.mapped:
        yield source
    for image, x, y in source.columns.mapped:
        columns = dataclasses.replace(source.columns, index={**source.columns.index, "x": x, "y": y})
        yield dataclasses.replace(source, columns=columns, parts=(*source.parts, image))


def _is_of_people(form: Sequence[Source]) -> bool:
    """Whether columns tell who looked, when or how long, or belong to a known export.

    Example: `FPOGX` of Gazepoint.
    """
    columns = form[0].columns
    return bool(columns.index.keys() & {"observer", "duration", "time"} or (columns.unit and columns.on))


def _with_named(config: FetchConfig, **named: str) -> str:
    """The setting `columns` with further names. Example: `image=stimulus,x=gx,y=gy`."""
    return ",".join(f"{role}={name}" for role, name in {**parse_columns(config.columns), **named}.items())


def _ambiguous_form(
    forms: Sequence[tuple[list[Source], ImageReading]], names: ImageNames, config: FetchConfig
) -> AmbiguousReadingsError:
    readings = []
    for form, image in forms:
        others = {name for each, _ in forms if each is not form for name in each[0].head.header}
        own = form[0].names
        named = {role: own[role] for role in ("x", "y") if own[role] not in others}
        named = named if len(named) == 2 else {}
        if not named:
            named = dict([(r, n) for r, n in own.items() if n not in others and r in ROLES and r not in MEDIA][:1])
        setting = f"columns={_with_named(config, **named)}" if named else "remove the other tables"
        what = f"{some([source.origin for source in form])} ({', '.join(own.values())})"
        readings.append(_image_reading(form, image, names, what, setting))
    return AmbiguousReadingsError(
        "tables of several forms have positions, and only one may hold the fixations", readings
    )


def _ambiguous_image(
    form: Sequence[Source], readings: Sequence[ImageReading], names: ImageNames, config: FetchConfig
) -> AmbiguousReadingsError:
    question = f"what names the image of each row of {form[0].origin} is not clear"
    if all(reading.rank == NUMBER for reading in readings):
        question = f"{form[0].origin} names the image of each row by numbers alone, which may count anything"
    return AmbiguousReadingsError(
        question,
        [
            _image_reading(form, each, names, each.text, f"columns={_with_named(config, image=each.name)}")
            for each in readings
        ],
    )


def _image_reading(
    form: Sequence[Source], reading: ImageReading, names: ImageNames, text: str, setting: str
) -> Reading:
    n_rows = sum(len(source.rows) for source in form)
    positions: dict[str, list[tuple[float, float]]] = {}
    for source, images in zip(form, reading.images, strict=True):
        for image, x, y in zip(images, source.rows["x"], source.rows["y"], strict=True):
            if (
                image is not None
                and image >= 0
                and (names.paths[image] in positions or len(positions) < DRAWN_IMAGES)
            ):
                positions.setdefault(names.paths[image], []).append((y, x))
    fixations = {image: np.array(own[:DRAWN_FIXATIONS]) for image, own in positions.items()}
    rows = f"{reading.n_used:,} of {n_rows:,} rows, on {reading.n_images:,} of {len(names.paths):,} images"
    return Reading(text, setting, rows, fixations)


def _unusable(tables: Sequence[Source], lost: LeftOut, names: ImageNames) -> UserError:
    if all(source.rows.is_empty() for source in tables):
        return _without_rows(tables, lost)
    return ContentError(
        f"{tables[0].origin} has no column that names the image of each row, or it is named for something else. "
        f"Its columns are {shown_columns(tables[0].head.header)}. Name it with `columns`, such as image=NAME, or "
        f"give the table the name of its image. The source has images such as {names.paths[0]}"
    )


def _without_rows(tables: Sequence[Source], left_out: LeftOut) -> UserError:
    what = f"{tables[0].origin} has" if len(tables) == 1 else f"the {len(tables)} tables have"
    why = f": {left_out_text(left_out)}" if left_out.total() else ", only a header"
    return ContentError(
        f"{what} no row that can be used{why}. Correct the table, or name other columns with `columns`"
    )


# === Read ===


def _read(source: Source, names: ImageNames, named: dict[str, str], left_out: LeftOut) -> None:
    """Read the rows of a table that may be fixations, with all columns that may name an image."""
    columns, head = source.columns, source.head
    words = [plain(name)[0] for name in head.header]
    if named.get("image", "@")[0] != "@":
        labels = {columns.index["image"]}
    else:
        columns.index.pop("image", None)
        held = {role: position for role, position in columns.index.items() if role != "trial"}
        taken = {*held.values(), *(each for _, *pair in columns.mapped for each in pair)}
        labels = {
            position
            for position, word in enumerate(words)
            if position not in taken and (is_usual(word) or (word and names.named_by(head.cells(position))))
        }
    columns.index.pop("image", None)
    if "event" not in named:
        event = next((each for each in range(len(words)) if _is_event(head, each)), None)
        if event is not None and event not in (columns.index.get("x"), columns.index.get("y")):
            columns.index["event"] = event
    index = {**columns.index, **{f"@{position}": position for position in sorted(labels)}}
    rows, n_ragged = read_table(source.path, source.origin, head, index)
    source.labels = {words[position]: f"@{position}" for position in sorted(labels, reverse=True)}
    left_out["with more cells than the header"] += n_ragged

    def keep(condition: pl.Expr, reason: str) -> None:
        nonlocal rows
        rows, n_dropped = _filtered(rows, rows.select(condition.fill_null(value=False)).to_series())
        left_out[reason] += n_dropped

    def values(role: str) -> list[str]:
        return rows[role].drop_nulls().unique(maintain_order=True).to_list() if role in rows.columns else []

    events = values("event")
    fixations = [each for each in events if re.match(FIXATION, each.lower())]
    if fixations or (events and all(re.match(NO_FIXATION, each.lower()) for each in events)):
        keep(pl.col("event").is_in(fixations), f"that are no fixations (column {source.names['event']!r})")
    elif len(events) > 1 and plain(source.names["event"])[0] in EVENT_TYPES:
        raise ContentError(
            f"{source.origin} has {some([repr(each[:40]) for each in events])} in its column "
            f"{source.names['event']!r}, and none begins with fix. Write fixation for those that are, or leave "
            "the other rows and the column out"
        )
    for role in ("valid", "fixation"):
        own = {each.lower() for each in values(role)}
        is_flag = own and own <= {*TRUE, *FALSE}
        if is_flag and (role == "valid" or plain(source.names[role])[0] == role):
            true = [each for each in values(role) if each.lower() in TRUE]
            what = "valid" if role == "valid" else "fixations"
            keep(pl.col(role).is_in(true), f"that are not {what} (column {source.names[role]!r})")
            rows = rows.drop(role)
    if (own := {each.lower() for each in values("invalid")}) and own <= {*TRUE, *FALSE}:
        false = [each for each in values("invalid") if each.lower() in FALSE]
        keep(pl.col("invalid").is_in(false), f"that are no fixations (column {source.names['invalid']!r})")
    if "fixation" in rows.columns:
        is_negative = pl.col("fixation").cast(pl.String).str.contains(r"^-\d").fill_null(value=False)
        if _share(rows.select(is_negative).to_series()) < 1:
            keep(~is_negative, f"that belong to no fixation (column {source.names['fixation']!r} is negative)")
    keep(pl.col("x").is_finite() & pl.col("y").is_finite(), "without a position")
    # Programs write 1 as 1.0 where a cell of the column is empty.
    texts = pl.col([role for role in LABELS if role in rows.columns]).cast(pl.String)
    source.rows = rows.with_columns(texts.str.replace(r"^(\d+)[.,]0+$", "${1}").cast(pl.Categorical))
    hashes = source.rows.with_columns(pl.selectors.categorical().cast(pl.String)).hash_rows()
    source.content = (*head.header, source.columns.index["x"], len(hashes), hashes.sum())


def _is_event(head: Head, position: int) -> bool:
    """Whether a column names events, some of them fixations and some not.

    The other events have a known name, such as saccade. Or they follow fixations within an image, which the
    tasks of trials do not.
    """
    cells = [row[position].strip().lower() for row in head.sample if position < len(row)]
    is_fixation = [re.match(FIXATION, cell) is not None for cell in cells]
    if not any(is_fixation) or all(is_fixation):
        return False
    n_changes = sum(one != two for one, two in itertools.pairwise(is_fixation))
    return any(re.match(NO_FIXATION, cell) for cell in cells) or (
        len(cells) >= MIN_FOR_SAMPLES and n_changes > MANY_CHANGES * len(cells)
    )


def left_out_text(left_out: LeftOut) -> str:
    """The reasons with their numbers. Example: `12 without a position`."""
    return ", and ".join(f"{count:,} {reason}" for reason, count in left_out.items() if count)


def _filtered(rows: pl.DataFrame, kept: pl.Series) -> tuple[pl.DataFrame, int]:
    """The rows of a mask, without a copy if these are all, and the number of the others."""
    if kept.all():
        return rows, 0
    filtered = rows.filter(kept)
    return filtered, len(rows) - len(filtered)


def _share(mask: pl.Series) -> float:
    """The share of the values of a mask that are true."""
    return float(mask.to_numpy().mean())


def _owner(path: tuple[str, ...], part: tuple[int, int, int] | None) -> str:
    """The path of a table without the part that names its image, and without suffixes such as `_fixations`.

    It may be the name of an observer with a table for each image. Example: p1/a_fixations.csv of the image a
    gives `p1/*`, for all tables of the observer p1.
    """
    names = list(path)
    if part is not None and part_of(path, part):
        depth, before, _ = part
        own, image = names[-1 - depth], part_of(path, part)
        begin = own.rindex(image) if before else 0
        names[-1 - depth] = f"{own[:begin]}*{own[begin + len(image) :]}"
    if kind := re.search(r"(?i)(all[ _-]?gaze|fixations?|fix)$", names[-1]):
        names[-1] = names[-1][: kind.start()].rstrip(" _-") or names[-1]
    return "/".join(names)


# === Count each fixation once ===


def _without_lost(rows: pl.DataFrame, left_out: LeftOut) -> pl.DataFrame:
    """The rows without positions that stand for lost gaze.

    - The positions of LOST, unless many positions are negative, since then (0, 0) is the centre.
    - A frequent exact position on several images, if others hardly repeat. Example: (960, 540) in 5% of the
      rows.
    """
    places = rows.select("image", "observer", "owner", "x", "y").unique()
    counts = places.group_by("x", "y").agg(pl.len(), pl.col("image").n_unique().alias("images"))
    is_centered = _share(rows.select((pl.col("x") < 0) & (pl.col("x") != -1)).to_series()) > CENTERED_SHARE
    is_frequent = (pl.col("len") > max(MIN_LOST, LOST_SHARE * len(places))) & (pl.col("images") > 2)
    frequent, others = counts.filter(is_frequent), counts.filter(~is_frequent)
    stands_out = len(places) >= MIN_FOR_LOST and others["len"].sum() < 2 * len(others)
    codes = {(x, y) for x, y, *_ in frequent.rows()} if stands_out and len(frequent) <= MOST_CODES else set()
    codes |= set() if is_centered else {*LOST}
    for x, y in sorted(codes):
        is_lost = rows.select((pl.col("x") == x) & (pl.col("y") == y)).to_series()
        left_out[f"at x {x:g}, y {y:g}, which stands for lost gaze"] += int(is_lost.sum())
        rows = rows.filter(~is_lost)
    return rows


def _check_one_eye(rows: pl.DataFrame, source: Source) -> None:
    """Raise `UserError` if rows are of both eyes, each with its own fixations of the same image."""
    eyes = pl.col("eye").cast(pl.String).str.to_lowercase().str.extract("^(l|r)(eft|ight)?$")
    groups = rows.group_by("image", "observer", "owner", "trial").agg(eyes.drop_nulls().n_unique().alias("eyes"))
    if _share(groups["eyes"] > 1) > MAX_SEVERAL:
        raise ContentError(
            f"{source.origin} has the fixations of both eyes (column {source.names['eye']!r}), which would count "
            "twice. Leave the rows of one eye"
        )


def once(rows: pl.DataFrame, left_out: LeftOut) -> pl.DataFrame:
    """The rows without repetitions, in their order.

    Of rows with the same content one is left. Software that writes a row for each sample of the gaze also
    repeats the fixation of the sample, and its position is final in the last row. So the last of several rows
    is left if:
    - they have one observer, one trial, one image and one number of a fixation,
    - their positions are nearly the same,
    - and they have one time, or follow one another.

    The same number elsewhere in a table is another fixation, because numbers may begin again. Example:
    fixation 1 of the next trial. The same number at other positions is another fixation too: no column may
    tell two people apart.

    Raises:
        UserError: some rows of one number have nearly the same position, and others do not.
    """
    if rows.is_empty():
        return rows
    numbered = ("image", "observer", "owner", "trial", "fixation")
    is_repeated = ~_hashes(rows, *numbered, *NUMBERS).is_last_distinct()
    if _share(is_repeated) < BY_CHANCE:  # then a repeat is certain only for one person at one time
        is_certain = pl.col("time").is_not_null() & pl.col("observer").is_not_null()
        is_repeated &= rows.select(is_certain).to_series()
    rows, n_dropped = _filtered(rows, ~is_repeated)
    left_out["that repeat another row in all columns"] += n_dropped
    n_before, n_numbered = len(rows), rows["fixation"].count()
    for by_time in (True, False):
        has_number = pl.col("fixation").is_not_null()
        if by_time:
            group, is_grouped = _hashes(rows, *numbered, "time"), has_number & pl.col("time").is_not_null()
        else:
            is_other = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in numbered)
            group, is_grouped = rows.select(is_other.fill_null(value=True).cum_sum()).to_series(), has_number
        grouped = rows.select(is_grouped).to_series()
        apart = _share_apart(rows.select("x", "y", group=group).filter(grouped))
        if apart is None or apart > MOSTLY:  # no repeats, or the number is of something else
            continue
        if apart > SAME_PLACE:
            raise ContentError(
                f"rows with one number of a fixation follow one another, and {apart:.0%} of these numbers have "
                "several positions: the number counts something else, or an observer's column is missing. Name "
                "the columns, such as columns=observer=NAME or columns=fixation=NAME"
            )
        rows, _ = _filtered(rows, group.is_last_distinct() | ~grouped)
    reason = (
        "that repeat a fixation (the same observer, trial, image, number and place), of which the last is counted"
    )
    left_out[reason] += n_before - len(rows)
    if rows["fixation"].count() < MOST_OF_SAMPLES * n_numbered:  # rows without a number are samples, too
        is_sample = pl.col("fixation").is_null() & pl.col("fixation").is_not_null().any().over(numbered[:3])
        rows, n_dropped = _filtered(rows, ~rows.select(is_sample).to_series())
        left_out["that belong to no fixation, between the samples of others"] += n_dropped
    return rows


def _share_apart(rows: pl.DataFrame) -> float | None:
    """The share of groups of rows with positions too far apart for one fixation.

    None if no group has several rows.
    """
    if rows.is_empty():
        return None
    limit = SAME_PLACE * max(float(np.ptp(np.quantile(rows[axis].to_numpy(), (0.01, 0.99)))) for axis in "xy")
    groups = rows.group_by("group").agg(
        pl.len(), *((pl.col(axis).max() - pl.col(axis).min() > limit).alias(axis) for axis in "xy")
    )
    several = groups.filter(pl.col("len") > 1)
    return _share(several["x"] | several["y"]) if len(several) else None


def _hashes(rows: pl.DataFrame, *names: str) -> pl.Series:
    """A number of 64 bits for each row, the same for rows that are equal in the columns `names`."""
    return rows.select(names).hash_rows()


def _without_copies(rows: pl.DataFrame, found: Found, left_out: LeftOut) -> pl.DataFrame:
    """The rows without the rows of tables that are copies of others.

    Raises:
        UserError: a table is like another one, but not equal. Example: one is the other before a correction.
    """
    n_rows = dict(rows.group_by("owner").len().rows())
    dropped: set[str] = set()
    for first, second in _equal_tables(rows, n_rows):
        if not {first, second} & dropped:
            dropped.add(first if n_rows[first] < n_rows[second] else second)
    rows_of = rows.filter(~pl.col("owner").is_in(sorted(dropped))) if dropped else rows
    for first, second in _alike_tables(rows_of):
        raise AmbiguousError(
            f"the tables of {first} and {second} have the same images and observers and nearly the same "
            "positions, but are not equal: one may be the other before a correction. Remove one of them"
        )
    if dropped:
        found.notes.append(f"Tables that are copies of others, left out: {some(sorted(dropped))}.")
        left_out["of tables that are copies of others"] += len(rows) - len(rows_of)
    return rows_of


def _equal_tables(rows: pl.DataFrame, n_rows: dict[str, int]) -> list[tuple[str, str]]:
    """The pairs of owners in which one has nearly all fixations of the other."""
    keys = rows.select("owner", position=_hashes(rows, "image", "observer", "x", "y")).unique()
    same = keys.join(keys, on="position", suffix=" 2").filter(
        pl.col("owner").to_physical() < pl.col("owner 2").to_physical()
    )
    counts = same.group_by("owner", "owner 2").len().sort("owner", "owner 2").rows()
    return [(one, two) for one, two, n in counts if n >= NEARLY_ALL * min(n_rows[one], n_rows[two])]


def _alike_tables(rows: pl.DataFrame) -> Iterator[tuple[str, str]]:
    """The pairs of owners with equally many fixations on each image, if their positions rise and fall together.

    Example: a table, and the same table after all x were moved by 5 pixels.
    """
    counts = rows.group_by("owner", "image", "observer").len()
    counts = counts.select("owner", form=_hashes(counts, "image", "observer", "len"))
    forms = counts.group_by("owner").agg(pl.col("form").sort()).group_by("form").agg("owner")["owner"].to_list()
    place = pl.int_range(pl.len()).over("owner", "image", "observer").alias("place")
    placed_rows = rows.with_columns(place).sort("image", "observer", "place")
    for owners in (each for each in forms if len(each) > 1):
        parts = {
            owner: placed_rows.filter(pl.col("owner") == owner).select("x", "y").to_numpy() for owner in owners
        }
        for first, second in itertools.combinations(owners, 2):
            if len(parts[first]) >= MIN_ALIKE and _correlation(parts[first], parts[second]) > NEARLY_ALL:
                yield first, second


def _correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The smaller one of the correlations of x and of y, (n, 2) each. It is 0 if a coordinate is constant."""
    if min(first.std(axis=0).min(), second.std(axis=0).min()) == 0:
        return 0.0
    return float(min(np.corrcoef(first[:, axis], second[:, axis])[0, 1] for axis in (0, 1)))


def _check_fixations(found: Found, named: dict[str, str]) -> None:
    """Raise `UserError` if rows are samples of the gaze, summaries of it, or of a second table like the first.

    - Samples are near to the next, and equally long if they have durations.
    - Of summaries, a person has one row for each image. So have tables with a column for each fixation.
      Example: the columns fix_1_x, fix_1_y, fix_2_x and fix_2_y.
    """
    rows, origin = found.rows, found.sources[0].origin
    if len(rows) < MIN_FOR_SAMPLES:
        return
    counts = rows.drop_nulls("observer").group_by("image", "observer").agg(pl.len(), pl.col("owner").n_unique())
    if len(counts) >= MIN_FOR_SAMPLES and "x" not in named and _share(counts["len"] == 1) > NEARLY_ALL:
        raise ContentError(
            f"{origin} has one row of nearly every observer and image, as a summary or a table with further "
            "columns of positions has. Export one row for each fixation, or name the columns, such as "
            f"columns=x={found.sources[0].names['x']},y={found.sources[0].names['y']}"
        )
    if len(counts) and _share(counts["owner"] > 1) > MOSTLY:
        raise AmbiguousError(
            "several tables have fixations of the same observers on the same images "
            f"({some([each.origin for each in found.sources])}): "
            "remove what is no table of fixations, or write another name for each person and session"
        )
    durations = rows["duration"].drop_nulls().to_numpy()
    if len(durations) and durations.std() > ALIKE * durations.mean():
        return
    following = [pl.col(name).shift(-1).over("image", "observer", "owner").alias(f"next {name}") for name in "xy"]
    pairs = rows.with_columns(following).drop_nulls(["next x", "next y"])
    if len(pairs) < MIN_FOR_SAMPLES:
        return
    x, y, next_x, next_y = (pairs[name].to_numpy() for name in ("x", "y", "next x", "next y"))
    order = np.random.default_rng(0).permutation(len(x))
    step, any_two = (np.median(np.hypot(x - a, y - b)) for a, b in ((next_x, next_y), (x[order], y[order])))
    if step < SAMPLE_STEP * any_two:
        raise ContentError(
            f"half of the rows of {found.sources[0].origin} are within {step:.3g} of the next, where any two are "
            f"{any_two:.3g} apart: they are single samples of the gaze. Export fixations, or name their "
            "durations, such as columns=duration=NAME"
        )


def share_in_several_tables(rows: pl.DataFrame) -> float:
    """The share of the pairs of an image and an observer that have rows in several tables."""
    tables = rows.group_by("image", "observer").agg(pl.col("owner").n_unique())
    return _share(tables["owner"] > 1)


def is_grid(owners: Sequence[str]) -> bool:
    """Whether names have several words that differ, and each word occurs with each of the others.

    Example: a_1, a_2, b_1 and b_2. The words may be people and sessions.
    """
    words = [re.split(r"[/_\-\s]+", owner) for owner in owners]
    if len({*map(len, words)}) > 1:
        return False
    numbers = [n for n in (len({*each}) for each in zip(*words, strict=True)) if n > 1]
    return len(numbers) > 1 and math.prod(numbers) == len(owners)


def is_one_person_each(rows: pl.DataFrame) -> bool:
    """Whether numbers or times of fixations do not begin again within an image and a table.

    Example: the numbers 1, 2, 3, 1, 2 of one image in one table may be of two people.
    """
    for role in ("time", "fixation"):
        if not rows[role].count():
            continue
        steps = pl.col(role).cast(pl.String).cast(pl.Float64, strict=False).diff()
        kinds = {"falls": steps < 0, "stays": steps == 0, "rises": steps > 0}
        groups = rows.group_by("image", "owner", maintain_order=True).agg(**{n: k.sum() for n, k in kinds.items()})
        is_count = groups["rises"].sum() > groups["falls"].sum()
        if is_count and _share(groups["falls"] + groups["stays"] > 0) > MAX_SEVERAL:
            return False
    return True


# === Move to pixels ===


def positions_of(rows: pl.DataFrame, sizes: Points) -> Positions:
    """The positions of rows. `sizes` has (height, width) of all images."""
    media = None
    if rows["media x"].count() > 0.5 * len(rows):
        order = ("media y", "media x", "media height", "media width")
        media = rows.select(pl.col(order).fill_null(float("nan"))).to_numpy()
    return Positions(rows["x"].to_numpy(), rows["y"].to_numpy(), sizes[rows["image"].to_numpy()], media)


def placed(
    rows: pl.DataFrame, geometry: Geometry, sizes: Points, left_out: LeftOut, most_outside: float
) -> tuple[pl.DataFrame, Points, str]:
    """Move the positions of rows to pixels, and leave out the rows outside of their images (see `Geometry.place`).

    The others are counted in `left_out`. `sizes` has (height, width) of all images.

    Returns:
        The rows inside, and their (n, 2) pixels (y, x). And a remedy if exchanged x and y explain the rows
            outside, else an empty text.

    Raises:
        UserError: a larger share than `most_outside` is outside.
    """
    positions = positions_of(rows, sizes)
    points, is_inside = geometry.place(positions)
    n_outside = len(rows) - len(points)
    exchanged = _exchanged(positions, geometry, n_outside)
    if n_outside > most_outside * len(rows):
        remedy = exchanged or (
            "Correct coordinates, or screen_size and image_on_screen, or raise max_lost_share if people looked so"
        )
        x, y = positions.x, positions.y
        raise ContentError(
            f"{n_outside:,} of {len(rows):,} fixations are outside of their images, taken as {geometry.text}: x "
            f"is {x.min():.4g} to {x.max():.4g}, y is {y.min():.4g} to {y.max():.4g}, the "
            f"largest image is {sizes[:, 0].max()} x {sizes[:, 1].max()} pixels (height x width). {remedy}"
        )
    share = n_outside / len(rows)
    percent = f"{share:.0%}" if share >= 0.01 else "less than 1%"
    left_out[f"of {len(rows):,} outside of their images ({percent})"] += n_outside
    return _filtered(rows, pl.Series(is_inside))[0], points, exchanged


def _exchanged(positions: Positions, geometry: Geometry, n_outside: int) -> str:
    """A remedy if exchanging x and y would bring nearly all rows inside of their images. Else empty."""
    if not n_outside:
        return ""
    still_outside = len(positions.x) - len(geometry.place(positions.exchanged())[0])
    if still_outside > (1 - NEARLY_ALL) * n_outside:
        return ""
    return (
        f"{still_outside:,} would be outside if x and y were exchanged. If they are, exchange the columns with "
        "`columns`, as x=NAME,y=NAME"
    )


# === What is lost ===


def check_lost(found: Found, names: ImageNames, n_bad: int, config: FetchConfig) -> None:
    """Check how much the names of images lose. `n_bad` images cannot be read.

    Raises:
        UserError: too large a share of rows names images that are not there, or too large a share of images
            has no fixation. Or numbers count images from another start. Example: rows of 0 to 9, and images
            1.png to 10.png.
    """
    most, rows = config.max_lost_share, found.rows["image"]
    n_unknown = int((rows < 0).sum())
    used = set(rows.unique().to_list())
    unused = [path for image, path in enumerate(names.paths) if image not in used]
    lost = []
    numbers = [*found.unknown, *(posixpath.splitext(posixpath.basename(path))[0] for path in unused)]
    if len(found.unknown) == len(unused) == 1 and all(map(is_number, numbers)):
        first, second = (float(number.strip().replace(",", ".")) for number in numbers)
        if abs(first - second) == len(names.paths):
            raise ContentError(
                f"{numbers[0]!r} is no image, and {unused[0]} has no fixation, as if numbers in the tables begin "
                f"at another one than those of images. Correct the numbers, or remove the rows of {numbers[0]!r}"
            )
    if n_unknown > most * len(rows):
        labels = some([repr(label[:60]) for label in found.unknown])
        lost.append(f"{n_unknown:,} of {len(rows):,} fixations are of images that are not there ({labels})")
    if len(unused) - n_bad > max(1 if most else 0, most * len(names.paths)):
        lost.append(f"{len(unused):,} of {len(names.paths):,} images have no fixation ({some(unused)})")
    if lost:
        cause = _likely_cause(found, names)
        raise ContentError(
            f"{' and '.join(lost)}: more than max_lost_share, {most:.0%}. {cause}Correct the names, name "
            "another column with `columns`, such as image=NAME, or raise max_lost_share"
        )


def _likely_cause(found: Found, names: ImageNames) -> str:
    """Why names of images are not found: they have a part too much, or another encoding.

    Empty if neither explains it.

    Example: `a_left.png may be a.png`.
    """
    for cut in (r"(?<![\s_\-.(])[\s_\-.(]+[^\s_\-.()]+\)?$", r"^[^\s_\-.()]+[\s_\-.]+"):
        shorter = {}
        for label in found.unknown:
            stem, dot, suffix = label.rpartition(".")
            stem, suffix = (stem, dot + suffix) if dot and not suffix.isdigit() else (label, "")
            shorter[label] = re.sub(cut, "", stem) + suffix
        if known := names.named_by(set(shorter.values())):
            label = next((label for label, text in shorter.items() if text in known), "")
            if label and sum(text in known for text in shorter.values()) >= len(shorter) / 2:
                return f"{label!r} may be {names.paths[known[shorter[label]]]}. "
    latin = [source.origin for source in found.sources if source.head.encoding == "latin-1"]
    if latin and any(not label.isascii() for label in found.unknown):
        return f"{latin[0]} is not UTF-8, so its names may be misread: save it as CSV UTF-8. "
    return ""
