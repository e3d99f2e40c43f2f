"""A proposal: what tables and pictures most probably mean, and each doubt about it.

This is a tool that guesses. `fetch` reads by a proposal without a doubt: each of its parts is known by the columns
of an export, said by a person, or proven by the data. Otherwise doubts are asked, or written into `reading.toml`.
"""

import collections
import dataclasses
import functools
import itertools
import math
import pathlib
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from trainer.data.recordings import evidence, places
from trainer.data.recordings.columns import AREA, MEDIA, OF_SAMPLES, ROLES, is_usual, plain
from trainer.data.recordings.contradictions import doubts_of_positions
from trainer.data.recordings.geometry import Geometry
from trainer.data.recordings.image_names import ImageNames, folded
from trainer.data.recordings.image_readings import NUMBER, ImageReading, choose_image, image_readings
from trainer.data.recordings.questions import AmbiguousReadingsError, Option, drawn
from trainer.data.recordings.reading import (
    FILE,
    NUMBER as BY_NUMBER,
    NUMBER_AND_TIME,
    POSITION,
    READING,
    Reading,
    written,
)
from trainer.data.recordings.rows import ENOUGH, OFTEN, Recorded, once, positions_of, read_fixations
from trainer.data.recordings.tables import Source, Unread, open_tables, read_table, shown_columns
from trainer.data.settings import FetchConfig, parse_columns
from trainer.data.source_layout import Points
from trainer.errors import AmbiguousError, ContentError
from trainer.places import Member
from trainer.texts import some
from trainer.witness import Testimony

MOST_EVIDENCE = 100_000
"""Number of fixations that tell the meaning of all."""
LOST = ((0.0, 0.0), (-1.0, -1.0))
"""Positions (x, y) that many programs write where they lost the gaze."""


class Pictures(Protocol):
    """The pictures of a source."""

    def sizes(self, indices: Sequence[int]) -> Points:
        """(n, 2) of (height, width) of all pictures, 0 for those not among `indices` or that cannot be read."""

    def ask(self, rows: pl.DataFrame, geometry: Geometry) -> Testimony:
        """What the pictures say about rows of fixations under a geometry."""

    def ask_about(self, rows: pl.DataFrame, points: Points) -> Testimony:
        """What the pictures say about rows of fixations at `points` (n, 2) of (y, x), pixels, which are known."""


@dataclasses.dataclass
class Proposal:
    """What tables most probably mean."""

    reading: Reading
    doubts: list[AmbiguousReadingsError]
    notes: list[str]
    """Sentences for people: what proves the reading."""

    @property
    def text(self) -> str:
        """The content of `reading.toml`, with the doubts that a person has to settle."""
        if not self.doubts:
            return self.reading.text
        lines = ["# Correct the entries below that these are about, and remove not_proven.", "not_proven = ["]
        for doubt in self.doubts:
            options = [f"    # {option.text} ({option.rows}): {option.line}" for option in doubt.readings]
            lines += [*options, f"    {written(doubt.question)},"]
        return "\n".join([*lines, "]", "", self.reading.text])


def propose(
    members: Sequence[Member],
    names: ImageNames,
    config: FetchConfig,
    needed: bool,
    pictures: Pictures,
    unpacked: pathlib.Path,
    confirmed: Sequence[str] = (),
) -> Proposal | None:
    """Propose a reading of tables, or None if none has fixations.

    Args:
        members: The tables.
        names: The images.
        config: The settings, which are the word of a person.
        needed: Whether nothing else tells where people looked.
        pictures: Asked where nothing else proves what positions mean, and whether they contradict what does.
        unpacked: An existing folder, for the tables of archives.
        confirmed: The checks that a person overrules (see `Reading.confirmed`).

    Raises:
        UserError: a table cannot be read, or holds something else than fixations.
    """
    named = parse_columns(config.columns)
    opened, unread = open_tables(members, named, needed, unpacked)
    doubts: list[AmbiguousReadingsError] = []
    chosen = _chosen_form(opened, names, config, needed, doubts)
    if chosen is None:
        return None
    form, image = chosen
    read = {source.path for source in form}
    paths = {source.path: source.place for source in opened}
    not_read = [*(paths[path] for path in paths if path not in read), *(each.place for each in unread)]
    filters = evidence.Filters.of(form, image, named, config.max_lost_share, doubts)
    reading = _first_reading(form, image, filters, not_read, named)
    reading = dataclasses.replace(reading, confirmed=confirmed)
    people = {source.names["observer"] for source in form if "observer" in source.names}
    if people and "observer" not in reading.columns and any(_has_values([source], "observer") for source in form):
        question = f"tables name observers in different columns, or not all do ({some(sorted(people))})"
        doubts.append(
            evidence.doubt(question, ("nobody is told apart", "all rows", f"in {READING}: nothing else"))
        )
    if not needed and "x" not in named and not _is_of_people(form):
        raise AmbiguousError(
            f"there are maps, and {form[0].origin} has positions that may be something else than fixations, since "
            "no column tells who looked, when or how long. Remove the table, or name its columns, such as "
            + _with_named(config, x=form[0].names["x"], y=form[0].names["y"])
        )
    recorded = read_fixations(members, reading, names, unpacked)
    _doubt_unread(unread, recorded, names, config, doubts)
    reading, notes = _about_rows(reading, recorded, form, config, doubts)
    proposal = _with_meaning(reading, recorded, form, names, config, pictures, doubts, notes)
    ignored = [name for name in proposal.reading.ignored if name not in filters.asked]
    proposal.reading = dataclasses.replace(proposal.reading, ignored=ignored)  # a person has to name the others
    return proposal


def _first_reading(
    form: Sequence[Source],
    image: ImageReading,
    filters: "evidence.Filters",
    not_read: Sequence[str],
    named: dict[str, str],
) -> Reading:
    """The reading of a form of tables, before it is known what positions mean."""
    roles = ("x", "y", "observer", "trial", "time", "duration", "fixation", "split", "group", *MEDIA)
    common = {
        role: form[0].names[role]
        for role in roles
        if len({folded(source.names.get(role, "")) for source in form} - {""}) == 1
        and all(role in source.names for source in form)
        and role not in filters.roles
        and _has_values(form, role)
    }
    mapped = {picture: pair for source in form for picture, pair in source.mapped.items()}
    if mapped:
        common = {role: name for role, name in common.items() if role not in ("x", "y")}
    return Reading(
        columns=common,
        image=FILE if mapped else image.name,
        unit="pixels",
        part=image.part or (0, 0, 0),
        tables=_patterns([source.place for source in form], not_read),
        not_read=list(dict.fromkeys(not_read)),
        fixations=filters.fixations,
        others=filters.others,
        ignored=_ignored(form, [*common.values(), image.name, *filters.fixations, *filters.others], mapped),
        positions=mapped,
    )


def _has_values(form: Sequence[Source], role: str) -> bool:
    """Whether a column has a value in any table, or is one of positions.

    Programs also write the columns of things they do not know.
    """
    return role in ("x", "y") or any(
        role not in source.rows.columns or source.rows[role].count() for source in form
    )


def _ignored(form: Sequence[Source], used: Sequence[str], mapped: dict[str, list[str]]) -> list[str]:
    """The names of the columns that the reading does not use."""
    known = {folded(name) for name in (*used, *(each for pair in mapped.values() for each in pair))}
    names = dict.fromkeys(name for source in form for name in source.head.header if name)
    return [name for name in names if folded(name) not in known]


def _patterns(paths: Sequence[str], others: Sequence[str]) -> list[str]:
    """Patterns that have all these paths. Next week's tables are found by them too. Example: `*.csv`."""
    return list(dict.fromkeys(f"*{pathlib.PurePosixPath(path).suffix}" for path in paths))


# === Which tables, and what names the image ===


def _chosen_form(
    opened: Sequence[Source],
    names: ImageNames,
    config: FetchConfig,
    needed: bool,
    doubts: list[AmbiguousReadingsError],
) -> tuple[list[Source], ImageReading] | None:
    """The tables of fixations, and what names the image of their rows."""
    named = parse_columns(config.columns)
    kept = [source for source in opened if not _is_of_areas(source)]
    if not kept:
        if needed and opened:
            raise ContentError(
                f"{opened[0].origin} has areas of interest ({shown_columns(opened[0].head.header)}), but no "
                "fixations. Export these"
            )
        return None
    tables = [source for source in kept if not source.columns.scene_camera]
    if not tables:
        raise ContentError(
            f"{kept[0].origin} has positions on the pictures of a scene camera (its column "
            f"{kept[0].columns.scene_camera!r}), not on an image. Export fixations that are mapped to the image, "
            "or name columns of positions on the image with `columns`, such as x=NAME,y=NAME"
        )
    tables = [each for source in tables for each in source.expanded()]
    for source in tables:
        _load(source, names, named)
    forms: dict[object, list[Source]] = {}
    for source in tables:
        forms.setdefault(source.form, []).append(source)
    chosen: list[tuple[list[Source], ImageReading]] = []
    for form in forms.values():
        readings = image_readings(form, names, named.get("image", ""))
        found = choose_image(readings, form, len(names.paths), config)
        if isinstance(found, list):
            doubts.append(_ambiguous_image(form, found, names, config))
            found = found[0]
        if found is not None and (found.n_used or needed):
            chosen.append((form, found))
    if not chosen:
        if not needed:
            return None
        check_rows = sum(len(source.rows) for source in tables)
        raise ContentError(
            f"{tables[0].origin} has no column that names the image of each row, or it is named for something "
            f"else. Its columns are {shown_columns(tables[0].head.header)}. Name it with `columns`, such as "
            f"image=NAME, or give the table the name of its image, such as {names.paths[0]}"
            + ("" if check_rows else ". The tables have only a header")
        )
    used = [each for each in chosen if each[1].n_used] or chosen[:1]
    if len(used) > 1:
        doubts.append(_ambiguous_form(used, names, config))
    form, reading = max(used, key=lambda each: each[1].n_used)
    word = plain(reading.name)[0]
    if reading.part is None and reading.name[:1] != "@":
        form = [source for source in form if word in source.labels]
    return form, reading


def _is_of_areas(source: Source) -> bool:
    """Whether a table has areas of interest.

    Example: one with the columns name, x, y, width and height, if no column tells who looked or when.
    """
    words = {plain(name)[0] for name in source.head.header}
    is_timed = source.columns.index.keys() & {"observer", "duration", "time", "fixation"}
    return not is_timed and any({*pair} <= words for pair in AREA)


def _is_of_people(form: Sequence[Source]) -> bool:
    """Whether columns tell who looked, when or how long, or belong to a known export.

    Example: `FPOGX` of Gazepoint.
    """
    columns = form[0].columns
    return bool(columns.index.keys() & {"observer", "duration", "time"} or (columns.unit and columns.on))


def _load(source: Source, names: ImageNames, named: dict[str, str]) -> None:
    """Read the rows of a table that may be fixations, with columns that may name an image, an event or an eye."""
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
    columns.index.pop("event", None) if "event" not in named else None
    told = evidence.columns_that_tell(source, named)
    index = {
        **columns.index,
        **{f"@{position}": position for position in sorted(labels)},
        **{f"#{position}": position for position in sorted(told)},
    }
    rows, _ = read_table(source.path, source.origin, head, index)
    source.labels = {words[position]: f"@{position}" for position in sorted(labels, reverse=True)}
    source.told = {head.header[position]: f"#{position}" for position in sorted(told)}
    source.rows = rows.filter(pl.col("x").is_finite() & pl.col("y").is_finite())
    hashes = source.rows.with_columns(pl.selectors.categorical().cast(pl.String)).hash_rows()
    source.content = (*head.header, source.columns.index["x"], len(hashes), hashes.sum())


def _with_named(config: FetchConfig, **named: str) -> str:
    """The setting `columns` with further names. Example: `columns=image=stimulus,x=gx,y=gy`."""
    pairs = ",".join(f"{role}={name}" for role, name in {**parse_columns(config.columns), **named}.items())
    return f"columns={shlex.quote(pairs)}"


def _ambiguous_form(
    forms: Sequence[tuple[list[Source], ImageReading]], names: ImageNames, config: FetchConfig
) -> AmbiguousReadingsError:
    options = []
    for form, image in forms:
        others = {name for each, _ in forms if each is not form for name in each[0].head.header}
        own = form[0].names
        named = {role: own[role] for role in ("x", "y") if own[role] not in others}
        named = named if len(named) == 2 else {}
        if not named:
            named = dict([(r, n) for r, n in own.items() if n not in others and r in ROLES and r not in MEDIA][:1])
        setting = _with_named(config, **named) if named else "remove the other tables"
        what = f"{some([source.origin for source in form])} ({', '.join(own.values())})"
        options.append(_image_option(form, image, names, what, setting))
    return AmbiguousReadingsError(
        "tables of several forms have positions, and only one may hold the fixations", options
    )


def _ambiguous_image(
    form: Sequence[Source], readings: Sequence[ImageReading], names: ImageNames, config: FetchConfig
) -> AmbiguousReadingsError:
    question = f"what names the image of each row of {form[0].origin} is not clear"
    if all(reading.rank == NUMBER for reading in readings):
        question = f"{form[0].origin} names the image of each row by numbers alone, which may count anything"
    return AmbiguousReadingsError(
        question,
        [_image_option(form, each, names, each.text, _with_named(config, image=each.name)) for each in readings],
    )


def _image_option(
    form: Sequence[Source], reading: ImageReading, names: ImageNames, text: str, setting: str
) -> Option:
    n_rows = sum(len(source.rows) for source in form)
    images = pl.concat([images.fill_null(-1) for images in reading.images])
    points = pl.concat([source.rows.select("y", "x") for source in form]).filter(images >= 0).to_numpy()
    fixations = drawn(points, [names.paths[image] for image in images.filter(images >= 0)])
    rows = f"{reading.n_used:,} of {n_rows:,} rows, on {reading.n_images:,} of {len(names.paths):,} images"
    return Option(text, setting, rows, fixations)


def _doubt_unread(
    unread: Sequence[Unread],
    recorded: Recorded,
    names: ImageNames,
    config: FetchConfig,
    doubts: list[AmbiguousReadingsError],
) -> None:
    """Doubt that tables may be left out that look like data, if they have too many rows."""
    data = [each for each in unread if each.looks_like_data(names)]
    n_rows = sum(each.n_rows for each in data)
    if n_rows <= config.max_lost_share * (n_rows + recorded.n_rows):
        return
    text = f"{some([each.origin for each in data])}, which look like data, are not read ({data[0].why})"
    doubts.append(
        AmbiguousReadingsError(
            f"tables with {n_rows:,} of {n_rows + recorded.n_rows:,} rows are not read",
            [Option(text, f"correct or remove them, or name them in not_read of {READING}", f"{n_rows:,} rows")],
        )
    )


# === Lost gaze, repetitions, people ===


def _about_rows(
    reading: Reading,
    recorded: Recorded,
    form: Sequence[Source],
    config: FetchConfig,
    doubts: list[AmbiguousReadingsError],
) -> tuple[Reading, list[str]]:
    """What the rows tell about lost gaze, repetitions, samples, eyes and people."""
    rows = recorded.rows
    notes: list[str] = []
    is_centered = evidence.share((rows["x"] < 0) & (rows["x"] != -1)) > config.max_lost_share
    lost = [] if is_centered and not ((rows["x"] == -1) & (rows["y"] == -1)).any() else [*LOST]
    lost = [
        (x, y) for x, y in lost if ((rows["x"] == x) & (rows["y"] == y)).any() and not (is_centered and x == 0)
    ]
    for x, y in lost:
        rows = rows.filter(~((pl.col("x") == x) & (pl.col("y") == y)))
    reading = dataclasses.replace(reading, lost=lost)
    if rows.is_empty():
        return reading, notes
    reading = _with_repeated(reading, rows)
    rows = once(rows, reading, collections.Counter())
    reading, dropped = _without_copies(reading, rows, recorded)
    if dropped:
        notes.append(f"Tables that are copies of others, left out: {some(dropped)}.")
        rows = rows.filter(~pl.col("owner").cast(pl.String).is_in(dropped))
    reading, said = _with_observers(reading, rows)
    doubts += evidence.doubts_of_rows(rows, reading, [source.origin for source in form])
    return reading, [*notes, *said]


def _with_repeated(reading: Reading, rows: pl.DataFrame) -> Reading:
    """The reading with what rows of one fixation share, if most numbers of fixations are at one place alone.

    Samples of an export that have the point of their fixation, and no number, share this point.
    """
    if "fixation" not in reading.columns and plain(reading.columns.get("x", ""))[0] in OF_SAMPLES:
        return dataclasses.replace(reading, repeated=POSITION)
    repeated = next((each for each in (NUMBER_AND_TIME, BY_NUMBER) if evidence.repeats(rows, each)), "")
    return dataclasses.replace(reading, repeated=repeated)


def _without_copies(reading: Reading, rows: pl.DataFrame, recorded: Recorded) -> tuple[Reading, list[str]]:
    """The reading without tables that are copies of others, and the owners of these.

    Raises:
        AmbiguousError: a table is like another one, but not equal. Example: one is the other before a correction.
    """
    n_rows = dict(rows.select(pl.col("owner").cast(pl.String)).group_by("owner").len().rows())
    dropped: list[str] = []
    for first, second in _equal_tables(rows, n_rows):
        if not {first, second} & {*dropped}:
            dropped.append(first if n_rows[first] < n_rows[second] else second)
    for first, second in _alike_tables(rows.filter(~pl.col("owner").cast(pl.String).is_in(dropped))):
        raise AmbiguousError(
            f"the tables of {first} and {second} have the same images and observers and nearly the same "
            "positions, but are not equal: one may be the other before a correction. Remove one of them"
        )
    paths = [path for owner in dropped for path in recorded.paths[owner]]
    return dataclasses.replace(reading, not_read=[*reading.not_read, *paths]), dropped


def _hashes(rows: pl.DataFrame, *names: str) -> pl.Series:
    """A number of 64 bits for each row, the same for rows that are equal in the columns `names`."""
    return rows.select(names).hash_rows()


def _equal_tables(rows: pl.DataFrame, n_rows: dict[str, int]) -> list[tuple[str, str]]:
    """The pairs of owners in which one has nearly all fixations of the other."""
    owner = pl.col("owner").cast(pl.String)
    keys = rows.select(owner, position=_hashes(rows, "image", "observer", "x", "y")).unique()
    same = keys.join(keys, on="position", suffix=" 2").filter(pl.col("owner") < pl.col("owner 2"))
    counts = same.group_by("owner", "owner 2").len().sort("owner", "owner 2").rows()
    return [(one, two) for one, two, n in counts if n >= (1 - OFTEN) * min(n_rows[one], n_rows[two])]


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
            if len(parts[first]) >= ENOUGH and _correlation(parts[first], parts[second]) > 1 - OFTEN:
                yield first, second


def _correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The smaller one of the correlations of x and of y, (n, 2) each. It is 0 if a coordinate is constant."""
    if min(first.std(axis=0).min(), second.std(axis=0).min()) == 0:
        return 0.0
    return float(min(np.corrcoef(first[:, axis], second[:, axis])[0, 1] for axis in (0, 1)))


def _with_observers(reading: Reading, rows: pl.DataFrame) -> tuple[Reading, list[str]]:
    """The reading with who the observers are, and sentences about it.

    Without a column of observers, each table is one observer if some image is in more than one table, and nothing
    shows that a table is of several people. Example: the tables p1.csv, p2.csv and p3.csv, all with rows of a.png.
    """
    if "observer" in reading.columns:
        return reading, []
    pairs = rows.select("image", "owner").unique()
    if pairs["image"].n_unique() == len(pairs) or evidence.begins_again(rows, "owner"):
        return reading, []
    owners = rows["owner"].cast(pl.String).unique().sort().to_list()
    if len(owners) == 2 and not rows["time"].count():
        return reading, [
            "Two tables, or two folders of them, may be two people or two groups, so observers are not told apart."
        ]
    if _is_grid(owners):
        return reading, [
            f"Names of tables differ in two ways ({some(owners)}), as by people and sessions, so observers are "
            "not told apart."
        ]
    told = dataclasses.replace(reading, columns={**reading.columns, "observer": FILE})
    return told, [f"Without a column of observers, names of tables tell them: {some(owners)}."]


def _is_grid(owners: Sequence[str]) -> bool:
    """Whether names have several words that differ, and each word occurs with each of the others.

    Example: a_1, a_2, b_1 and b_2. The words may be people and sessions.
    """
    words = [re.split(r"[/_\-\s]+", owner) for owner in owners]
    if len({*map(len, words)}) > 1:
        return False
    numbers = [n for n in (len({*each}) for each in zip(*words, strict=True)) if n > 1]
    return len(numbers) > 1 and math.prod(numbers) == len(owners)


# === What positions mean ===


def _with_meaning(
    reading: Reading,
    recorded: Recorded,
    form: Sequence[Source],
    names: ImageNames,
    config: FetchConfig,
    pictures: Pictures,
    doubts: list[AmbiguousReadingsError],
    notes: list[str],
) -> Proposal:
    """The proposal, with what positions mean. The pictures are not asked while something else is in doubt."""
    rows = recorded.rows
    for x, y in reading.lost:
        rows = rows.filter(~((pl.col("x") == x) & (pl.col("y") == y)))
    sizes = pictures.sizes([image for image in rows["image"].unique().sort().to_list() if image >= 0])
    is_known = pl.Series(sizes[rows["image"].to_numpy()].all(axis=1)) & (rows["image"] >= 0)
    rows = rows.filter(is_known)
    if rows.is_empty():
        return Proposal(reading, doubts, notes)
    rows = rows.gather_every(1 + len(rows) // MOST_EVIDENCE)
    ask: places.Asked = functools.partial(pictures.ask, rows)
    meaning = places.meaning_of(
        config,
        [source.columns for source in form],
        positions_of(rows, sizes),
        [names.paths[image] for image in rows["image"]],
        ask if not doubts else None,
    )
    geometry = meaning.geometry
    if meaning.doubt is not None:
        doubts.append(meaning.doubt)
    unused = {} if geometry.uses_media else {role: name for role, name in reading.columns.items() if role in MEDIA}
    reading = dataclasses.replace(
        reading,
        columns={role: name for role, name in reading.columns.items() if role not in unused},
        ignored=[*reading.ignored, *unused.values()],
        unit=geometry.unit,
        upwards=geometry.upwards,
        screen="x".join(map(str, geometry.screen)) if geometry.screen else "",
        image_on_screen=geometry.image_on_screen,
        pixels_per_degree=geometry.pixels_per_degree,
    )
    points, is_inside = geometry.place(positions_of(rows, sizes))
    rows = rows.filter(pl.Series(is_inside))
    if not doubts and len(rows):
        ask_about = functools.partial(pictures.ask_about, rows, points)
        doubts += doubts_of_positions(rows, points, sizes, reading, ask_about)
    about = f"Positions were taken as {geometry.text} ({meaning.why})."
    return Proposal(reading, doubts, [about, *notes] if meaning.why else notes)
