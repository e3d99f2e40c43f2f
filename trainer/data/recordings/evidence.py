"""What the rows of tables tell about themselves: events and flags, samples of the gaze, eyes, people, repetitions.

Each finding proves a part of a reading, or is a doubt about it that only a person can settle.
"""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from trainer.data.recordings.columns import (
    COUNTING,
    EVENT_COLUMNS,
    FALSE,
    HARMLESS,
    ROLES,
    TRUE,
    VALID_OF_EXPORTS,
    is_about_positions,
    is_usual_place,
    plain,
)
from trainer.data.recordings.image_names import folded
from trainer.data.recordings.image_readings import ImageReading
from trainer.data.recordings.questions import AmbiguousReadingsError, Option
from trainer.data.recordings.reading import FILE, NUMBER_AND_TIME, READING, Reading, written
from trainer.data.recordings.rows import ENOUGH, OFTEN, OTHER_UNIT, RARE
from trainer.data.recordings.tables import Source
from trainer.errors import AmbiguousError
from trainer.texts import some

FIXATION = r"(whole )?e?s?fix(a|ations?|ation \w{1,2}|j)?( ?[lr])?"
OTHER_EVENT = (
    r"(whole )?e?s?sacc?(ades?)?( ?[lr])?|[es]?blinks?( ?[lr])?|unclassified|unknown( ?eye ?movement)?|gaps?|pso"
    r"|noise|post[ -]?saccadic oscillations?|glissades?|(smooth )?pursuits?|sp|eyes ?not ?found|undefined|lost"
    r"|none|other|artifacts?"
)
"""The words of columns of events, folded: fixations, and what else eyes do. They are those of EyeLink, SMI, Tobii,
Pupil Labs, pymovements and I2MC."""
OTHER_TABLE = r"(?<![a-z])(sacc|saccades?|blinks?|clicks?|mouse|cursor|samples?|pursuits?)(?![a-z])[^/]*$"
"""Words in the names of tables of something else than fixations, folded."""
PEAK = "peak velocity"
"""A column that saccades have, and fixations do not, as `plain` returns it."""
EYES = ({"l", "left", "links", "os", "gauche", "izq"}, {"r", "right", "rechts", "od", "droit", "der"})
"""Words for the two eyes, folded."""
FEW = 12
"""A column of events has at most so many values. Data of eye trackers have up to eight kinds of them."""
SHORT_STEP_S = 0.1
"""Fixations follow one another at longer steps on average, and samples of the gaze at shorter ones: people make 3
to 4 fixations a second, and the slowest webcam in use has 15 samples."""
NEAR = 0.1
"""Rows are at nearly one place below this share of the range of all positions. Two eyes are."""
FEWEST_ALIKE = 5
"""Fewer rows of a table or a person tell nothing about their unit."""
SEVERAL = 0.03
"""Share of the fixations at one edge, at 0, or where the one before is, from which they are something else."""
TURNS = 1.25
"""Events take turns if they change more often, on average over the images and people that have both."""


def doubt(question: str, *options: tuple[str, str, str]) -> AmbiguousReadingsError:
    """A doubt, with options of text, rows, and what chooses it."""
    return AmbiguousReadingsError(question, [Option(text, setting, rows) for text, rows, setting in options])


def line(column: str, values: Sequence[str], all_values: Iterable[str]) -> str:
    """The lines of `reading.toml` that name the values of fixations. Example: `[fixations] event = ["EFIX"]`."""
    others = [value for value in all_values if value not in values]
    rest = f", [others] {written(column)} = {written(others)}" if others else ""
    return f"in {READING}: [fixations] {written(column)} = {written([*values])}{rest}"


def share(mask: pl.Series) -> float:
    """The share of the values of a mask that are true. 0 without any."""
    return float(mask.fill_null(value=False).to_numpy().mean()) if len(mask) else 0.0


# === Which rows are fixations ===


def columns_that_tell(source: Source, named: Mapping[str, str]) -> set[int]:
    """The positions of the columns that may tell which rows count or what positions mean.

    They have words of events or eyes, few values, one word, or are about positions.

    A column that `named` calls `event` is the only one of events.
    """
    columns, head = source.columns, source.head
    held = {position for role, position in columns.index.items() if role not in ("trial", "event", "fixation")}
    found, events = set(), set()
    for position, name in enumerate(head.header):
        cells = {folded(cell) for cell in head.cells(position)}
        n_values = len(cells) + any(position < len(row) and not row[position].strip() for row in head.sample)
        has_events = any(re.fullmatch(f"{FIXATION}|{OTHER_EVENT}", cell) for cell in cells)
        may_tell = has_events or _is_eyes(cells) or 1 < n_values <= FEW or is_about_positions(name, cells)
        may_tell |= n_values == 1 and all(map(_is_word, cells))
        if name and cells and position not in held and may_tell:
            found.add(position)
        if has_events:
            events.add(position)
    if "event" in named:
        own = {columns.index["event"]} if "event" in columns.index else set()
        return found - events | own
    return found


def _is_eyes(cells: Iterable[str]) -> bool:
    return {folded(cell) for cell in cells} <= EYES[0] | EYES[1]


@dataclasses.dataclass
class Filters:
    """The values of columns that tell which rows are fixations."""

    fixations: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    others: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    roles: set[str] = dataclasses.field(default_factory=set)
    """Roles of columns that are used as filters alone."""
    asked: set[str] = dataclasses.field(default_factory=set)
    """Names of columns that a doubt is about."""

    @classmethod
    def of(
        cls,
        form: Sequence[Source],
        image: ImageReading,
        named: Mapping[str, str],
        most: float,
        doubts: list[AmbiguousReadingsError],
    ) -> "Filters":
        """The filters of tables of one form. What is not proven is added to `doubts`.

        `most` is the share of rows up to which a flag without a known meaning may leave rows out.
        """
        filters = cls()
        rows = _rows_of(form, image)
        for name in dict.fromkeys(name for source in form for name in source.told):
            if f"#{name}" in rows.columns:
                filters._add_event(name, rows, named, form[0].origin, doubts)
        for role in ("valid", "invalid", "fixation", "eye"):
            if role in rows.columns:
                filters._add_flag(role, rows, form, named, most, doubts)
        columns = form[0].columns
        if not (columns.unit and (columns.on or columns.is_mapped)):  # all columns of an export are known
            doubts += filters._doubt_others(rows, form, image.name)
            doubts += _doubt_places(form[0], len(rows))
        filters._forget_others(form)
        return filters

    def _forget_others(self, form: Sequence[Source]) -> None:
        """Forget columns of one value, if rows of other images have another one."""
        for name in [each for each in self.fixations if each not in self.others]:
            roles = {source.names[role]: role for source in form for role in source.names}
            columns = [(source, source.told.get(name, roles.get(name, ""))) for source in form]
            values = {
                value
                for source, column in columns
                if column in source.rows.columns
                for value in source.rows[column].drop_nulls().cast(pl.String).unique()
            }
            if values - {*self.fixations[name]}:
                del self.fixations[name]

    def _doubt_others(
        self, rows: pl.DataFrame, form: Sequence[Source], image: str
    ) -> list[AmbiguousReadingsError]:
        """Doubt that columns do not matter that are about positions, or differ between the rows of an image.

        Such a column may say which rows count, how often, or that positions differ in what they are. Examples:
        `excluded` with TRUE and FALSE, `weight` with 1 to 3, `scale` with 0.5 in all rows.
        """
        known = {
            *self.fixations,
            *self.asked,
            image,
            *(form[0].names.get(role, "") for role in ("fixation", "trial", "event")),
        }
        harmless = {*HARMLESS, *ROLES["fixation"], *ROLES["trial"]}  # such as a second number of fixations
        shown = []
        for column in (each for each in rows.columns if each[:1] == "#" and each[1:] not in known):
            name, values = column[1:], rows[column].unique(maintain_order=True).cast(pl.String).to_list()
            if is_about_positions(name, [value or "" for value in values]):
                shown.append(f"{name!r} ({some([str(value) for value in values])})")
                self.asked.add(name)
            elif plain(name)[0] in harmless:
                continue
            elif len(values) == 1 and values[0] is not None and _is_word(values[0]):
                self.fixations[name] = values  # another value is asked about, once it occurs
            elif 1 < len(values) <= min(FEW, len(rows) // 2) and _may_tell(rows, column, name):
                shown.append(repr(name))
                self.asked.add(name)
        if not shown:
            return []
        return [
            doubt(
                f"what the columns {some(shown)} of {form[0].origin} hold is not known: one may say which rows "
                "count, or that positions differ in what they are",
                ("none matters", f"{len(rows):,} rows", f"in {READING}: add them to ignored"),
                ("one says which rows count", "fewer rows", f'in {READING}: [fixations] NAME = ["VALUE"]'),
            )
        ]

    def _add_event(
        self,
        name: str,
        rows: pl.DataFrame,
        named: Mapping[str, str],
        origin: str,
        doubts: list[AmbiguousReadingsError],
    ) -> None:
        column = f"#{name}"
        counts = dict(rows[column].drop_nulls().cast(pl.String).value_counts(sort=True).rows())
        fixations = [value for value in counts if re.fullmatch(FIXATION, folded(value))]
        others = [value for value in counts if re.fullmatch(OTHER_EVENT, folded(value))]
        unknown = [value for value in counts if value not in fixations and value not in others]
        is_named = named.get("event", "").lower() == name.lower()
        if len(fixations) == len(counts):  # another value is asked about, once it occurs
            self.fixations |= {name: fixations} if fixations else {}
            return
        if len(counts) < 2 and not others and not is_named:
            return
        words = set(map(folded, counts))
        if words <= EYES[0] | EYES[1]:
            self._add_eyes(name, column, rows, doubts)
            return
        is_event = bool(fixations) or is_named or plain(name)[0] in EVENT_COLUMNS
        if not is_event:
            return
        if is_named and fixations:
            self.fixations[name], self.others[name] = fixations, [*others, *unknown]
            return
        if not unknown and (not others or not fixations or _alternates(rows, column, fixations)):
            if others:
                self.fixations[name], self.others[name] = fixations, others
            return
        if len(counts) < 2 or len(counts) > FEW or not (_varies(rows, column) or fixations):
            return
        question = f"the column {name!r} of {origin} may tell which rows are fixations"
        self.asked.add(name)
        doubts.append(_about_values(question, name, counts, len(rows)))
        if fixations:
            self.fixations[name], self.others[name] = fixations, [*others, *unknown]

    def _add_flag(
        self,
        role: str,
        rows: pl.DataFrame,
        form: Sequence[Source],
        named: Mapping[str, str],
        most: float,
        doubts: list[AmbiguousReadingsError],
    ) -> None:
        name = form[0].names[role]
        counts = dict(rows[role].drop_nulls().cast(pl.String).value_counts(sort=True).rows())
        if role == "eye":
            if len(counts) > 1:
                self._add_eyes(name, role, rows, doubts)
            self.fixations |= {name: list(counts)} if len(counts) == 1 else {}
            return
        if role == "fixation" and not (set(map(str.lower, counts)) <= {*TRUE, *FALSE} and plain(name)[0] == role):
            negative = [value for value in counts if re.match(r"-\d", value)]
            if negative and len(negative) < len(counts):
                self.others[name] = negative
            return
        self.roles.add(role)
        kept = FALSE if role == "invalid" else TRUE
        fixations = [value for value in counts if value.lower() in kept]
        others = [value for value in counts if value not in fixations]
        if not others:
            self.fixations |= {name: fixations} if fixations else {}
            return
        is_flag = set(map(str.lower, counts)) <= {*TRUE, *FALSE}
        n_lost = sum(counts[value] for value in others)
        is_known = plain(name)[0] in VALID_OF_EXPORTS or role in named or role == "invalid"
        if is_flag and (is_known or n_lost <= most * len(rows)):
            self.fixations[name], self.others[name] = fixations, others
            return
        question = (
            f"the column {name!r} of {form[0].origin} may tell which rows are valid, and not with which value"
        )
        self.asked.add(name)
        doubts.append(_about_values(question, name, counts, len(rows)))

    def _add_eyes(self, name: str, column: str, rows: pl.DataFrame, doubts: list[AmbiguousReadingsError]) -> None:
        """Doubt whether rows are of both eyes, if the rows of a person and an image are."""
        groups = rows.group_by("image", "owner", *({"observer", "trial"} & {*rows.columns})).agg(
            pl.col(column).drop_nulls().n_unique().alias("eyes")
        )
        if share(groups["eyes"] > 1) <= OFTEN:
            return
        counts = dict(rows[column].drop_nulls().cast(pl.String).value_counts(sort=True).rows())
        options = [
            (f"only rows with {value!r} count", f"{n:,} of {len(rows):,} rows", line(name, [value], counts))
            for value, n in list(counts.items())[:FEW]
        ]
        if "observer" not in rows.columns:
            options.append(
                ("several people were tracked, each on one eye", f"{len(rows):,} rows", "columns=observer=NAME")
            )
        doubts.append(
            doubt(f"rows of one image are of both eyes (column {name!r}), which would count twice", *options)
        )
        self.fixations[name] = [next(iter(counts))]
        self.others[name] = list(counts)[1:]


def _doubt_places(source: Source, n_rows: int) -> Iterator[AmbiguousReadingsError]:
    """Doubt what positions mean if the names of their columns say something unusual. Example: `y_from_bottom`."""
    unknown = [source.names[role] for role in "xy" if not is_usual_place(role, source.names[role])]
    if unknown and not source.columns.mapped:
        shown = some([repr(name) for name in unknown])
        yield doubt(
            f"the names of the columns {shown} of {source.origin} say that positions are something else than "
            "pixels of the image from its upper left corner",
            ("they are x and y as usual", f"{n_rows:,} rows", f"in {READING}: nothing else"),
            ("they are something else", "no row", "convert them, or name other columns with `columns`"),
        )


def _is_word(value: str) -> bool:
    """Whether a value is a word or a flag, and no date, number or name that differs between sessions.

    Examples: `right`, `eye tracker` and 1, but not 3, `2026-11-28` and `run2`.
    """
    return value.lower() in {*TRUE, *FALSE} or re.fullmatch(r"[^\W\d_]+([ _-][^\W\d_]+)*", value) is not None


def _may_tell(rows: pl.DataFrame, column: str, name: str) -> bool:
    """Whether a column may say which rows count: by its name, or as the rows of an image differ in it.

    A column that numbers rows does not.
    """
    if _counts(rows, column):
        return False
    differs = rows.group_by("image").agg(pl.col(column).n_unique())[column] > 1
    return bool(differs.any()) or bool({*plain(name)[0].split()} & COUNTING)


def _counts(rows: pl.DataFrame, column: str) -> bool:
    """Whether a column numbers the rows of a person and an image: its values are whole, and rise."""
    numbers = pl.col(column).cast(pl.Float64, strict=False)
    groups = rows.group_by("image", "owner", *({"observer", "trial"} & {*rows.columns}), maintain_order=True).agg(
        is_count=((numbers.diff() > 0).all() & (numbers % 1 == 0).all() & numbers.is_not_null().all())
    )
    return share(groups["is_count"]) > 1 - OFTEN


def _about_values(question: str, name: str, counts: Mapping[str, int], n_rows: int) -> AmbiguousReadingsError:
    """A doubt about a column, with its values and how many rows have each."""
    values = list(counts.items())[:FEW]
    return doubt(
        question,
        *(
            (f"only rows with {value!r} count", f"{n:,} of {n_rows:,} rows", line(name, [value], counts))
            for value, n in values
        ),
        ("all rows count, and mean the same", f"{n_rows:,} rows", f"in {READING}: add {name} to ignored"),
    )


def _rows_of(form: Sequence[Source], image: ImageReading) -> pl.DataFrame:
    """The rows of tables of one form, with their images, columns that tell, and roles that all tables have."""
    parts = []
    for number, (source, images) in enumerate(zip(form, image.images, strict=True)):
        told = {column: f"#{name}" for name, column in source.told.items()}
        rows = source.rows.rename(told).with_columns(image=images, owner=pl.lit(number))
        roles = [
            role for role in ("observer", "trial", "valid", "invalid", "fixation", "eye") if role in rows.columns
        ]
        texts = [pl.col(name).cast(pl.String) for name in [*roles, *told.values()]]
        parts.append(rows.select("image", "owner", "x", "y", *texts).filter(pl.col("image") >= 0))
    return pl.concat(parts, how="diagonal")


def _alternates(rows: pl.DataFrame, column: str, fixations: Sequence[str]) -> bool:
    """Whether fixations and other events take turns within the rows of a person and an image, as those of eyes do.

    The phases and the tasks of an experiment, and tables that are sorted by events, change once or never.
    """
    group = ["image", "owner", *({"observer", "trial"} & {*rows.columns})]
    is_fixation = pl.col(column).is_in([*fixations])
    turns = rows.group_by(group, maintain_order=True).agg(n=(is_fixation != is_fixation.shift(1)).sum())
    of_both = turns.filter(pl.col("n") > 0)["n"].to_numpy()
    return len(of_both) > 0 and float(of_both.mean()) > TURNS


def _varies(rows: pl.DataFrame, column: str) -> bool:
    """Whether values differ within the rows of a person and an image. The conditions of trials do not."""
    groups = rows.group_by("image", "owner", *({"observer", "trial"} & {*rows.columns})).agg(
        pl.col(column).n_unique().alias("values")
    )
    return share(groups["values"] > 1) > OFTEN


# === Rows that were read ===


def doubts_of_rows(rows: pl.DataFrame, reading: Reading, tables: Sequence[str]) -> list[AmbiguousReadingsError]:
    """The doubts about rows that were read by a reading, without those that it confirms.

    Args:
        rows: Rows of fixations, each once.
        reading: What they were read by.
        tables: Names of the tables.
    """
    if rows.is_empty():
        return []
    origin = some(tables)
    unused = some([repr(name[:40]) for name in reading.ignored]) or "none"
    found = {
        "units": doubt_units(rows),
        "frequent": doubt_frequent(rows, reading),
        # Rows of events, and samples with one number that have become one row, are no samples.
        "samples": [] if _has_events(reading) or reading.repeated else doubt_samples(rows, origin),
        "durations": doubt_durations(rows),
        "twins": doubt_twins(rows, unused),
        "people": doubt_people(rows, unused) if reading.columns.get("observer", FILE) != FILE else [],
        "names": doubt_names(rows, reading, tables),
    }
    return [each for name, doubts in found.items() if name not in reading.confirmed for each in doubts]


def _has_events(reading: Reading) -> bool:
    """Whether a reading tells fixations from other events, and not by flags alone."""
    return any(not {*map(str.lower, values)} <= {*TRUE, *FALSE} for values in reading.fixations.values())


def confirming(name: str) -> str:
    """The line of `reading.toml` that overrules a check of rows."""
    return f"in {READING}: confirmed = {written([name])}"


def doubt_names(rows: pl.DataFrame, reading: Reading, tables: Sequence[str]) -> list[AmbiguousReadingsError]:
    """Doubt that rows are fixations if names or values say something else, or a column is of saccades alone.

    Examples: `saccades.csv`, the value `mouse` in all rows of `device`, and a table with the column
    `peak_velocity` and none of events.
    """
    odd = [name for name in tables if re.search(OTHER_TABLE, folded(name)) and "fix" not in folded(name)]
    odd += [each for each in map(" ".join, reading.fixations.values()) if re.search(OTHER_TABLE, folded(each))]
    peaks = [name for name in reading.ignored if plain(name)[0] == PEAK and not reading.fixations]
    if not odd and not peaks:
        return []
    what = f"by the name {some(odd)}" if odd else f"by the column {peaks[0]!r} of {some(tables)}"
    return [
        doubt(
            f"rows may be something else than fixations, {what}",
            ("they are no fixations", f"{len(rows):,} rows", "remove the tables"),
            ("they are fixations", f"{len(rows):,} rows", confirming("names")),
        )
    ]


def doubt_durations(rows: pl.DataFrame) -> list[AmbiguousReadingsError]:
    """Doubt that rows are fixations on the image if they took no time, or began before it was shown.

    Programs write 0, -1 or nothing as the duration of what is no fixation.
    """
    has_none = rows["duration"].is_null() & (rows["duration"].count() > OFTEN * len(rows))
    for is_odd, what, most in (
        (rows["duration"] <= 0, "have a duration of 0 or less", RARE),
        (has_none, "have no duration, and others have", OFTEN),
        (rows["time"] < 0, "have a time below 0", RARE),
    ):
        n_odd = int(is_odd.sum())
        if n_odd > most * len(rows):
            return [
                doubt(
                    f"{n_odd:,} of {len(rows):,} rows {what}",
                    ("they are no fixations on the image", f"{n_odd:,} rows", "remove them"),
                    ("they are fixations on it", f"{len(rows):,} rows", confirming("durations")),
                )
            ]
    return []


def doubt_units(rows: pl.DataFrame) -> list[AmbiguousReadingsError]:
    """Doubt that all positions have one unit, if some are much smaller or larger than others.

    Examples:
        - A tenth of all positions are below 1, and others go up to 800.
        - The person P02 has x from 0 to 1, among others with pixels.
        - All fixations of P02 on one image are below 1.
    """
    is_centered = share((rows["x"] < 0) | (rows["y"] < 0)) > OFTEN  # then many are near 0
    extent = rows.select(pl.max_horizontal(pl.col("x").abs(), pl.col("y").abs())).to_series()
    usual = float(np.quantile(extent.to_numpy(), 1 - OFTEN))
    n_small = int((extent * OTHER_UNIT < usual).sum())
    if not is_centered and len(rows) >= ENOUGH and n_small > OFTEN * len(rows):
        what = f"{n_small:,} of {len(rows):,} positions are below {usual / OTHER_UNIT:.3g}"
        return [_other_unit(what, n_small, usual, len(rows))]
    for axis in "xy":
        sizes = rows.select("owner", "observer", "image", size=pl.col(axis).abs())
        for columns, what in ((["owner"], "the table"), (["observer"], "the person"), (["image"], "image number")):
            named = [pl.col(name).cast(pl.String) for name in columns]
            groups = sizes.drop_nulls(columns).group_by(named).agg(pl.len(), pl.col("size").quantile(1 - OFTEN))
            groups = groups.filter(pl.col("len") >= FEWEST_ALIKE).sort(columns)
            middle = float(np.median(groups["size"].to_numpy())) if len(groups) > 1 else 0.0
            odd = groups.filter((pl.col("size") * OTHER_UNIT < middle) | (pl.col("size") > OTHER_UNIT * middle))
            if middle and len(odd):
                largest = float(odd["size"][0])
                text = f"{axis} of {what} {some(odd[columns[0]].to_list())} goes up to {largest:.3g}"
                return [_other_unit(text, int(odd["len"].sum()), middle, len(rows))]
    on_image = rows.drop_nulls("observer").group_by("image", "observer")
    trials = on_image.agg(pl.len(), low=pl.min_horizontal("x", "y").min(), high=pl.max_horizontal("x", "y").max())
    odd = trials.filter((pl.col("len") > 2) & (pl.col("low") >= 0) & (pl.col("high") <= 1))
    if len(odd) and usual > OTHER_UNIT:
        people = some(odd["observer"].cast(pl.String).unique().sort().to_list())
        text = f"all positions of {people} on {len(odd):,} images are 0 to 1"
        return [_other_unit(text, int(odd["len"].sum()), usual, len(rows))]
    return []


def _other_unit(what: str, n_odd: int, usual: float, n_rows: int) -> AmbiguousReadingsError:
    return doubt(
        f"{what}, and others go up to {usual:.3g}",
        ("they are in another unit", f"{n_odd:,} rows", "convert them, and prepare again"),
        ("all are in one unit", f"{n_rows:,} rows", confirming("units")),
    )


def doubt_samples(rows: pl.DataFrame, origin: str) -> list[AmbiguousReadingsError]:
    """Doubt that rows are fixations, if they follow one another as samples or summaries do.

    - Samples have a median step below `SHORT_STEP_S`, or equal steps and no durations that differ.
    - Without times and durations, samples are near to the next.
    - Of summaries, a person has one row for each image. So have tables with a column for each fixation.
    """
    group = ("image", "observer", "owner", "trial")
    counts = rows.drop_nulls("observer").group_by("image", "observer").len()
    if len(counts) >= ENOUGH and share(counts["len"] == 1) > 1 - OFTEN:
        return [_no_fixations(f"{origin} has one row of nearly every observer and image, as a summary has", rows)]
    durations = rows["duration"].drop_nulls().to_numpy()
    differ = len(durations) > 0 and durations.std() > OFTEN * durations.mean()
    diffs = pl.col("time").sort().diff().over(*group, mapping_strategy="explode")
    steps = rows.drop_nulls("time").select(diffs).drop_nulls().to_series()
    if len(steps) >= ENOUGH and share(steps > 0) > OFTEN:  # rows of two eyes are at one time
        positive = steps.filter(steps > 0).to_numpy()
        step = float(np.median(positive))
        seconds = step / 1000.0 ** np.ceil(np.log(step / 2) / np.log(1000))  # s, ms, us or ns
        about = f"the rows of {origin} are single samples of the gaze, by their times:"
        if seconds < SHORT_STEP_S:
            return [_no_fixations(f"{about} half of them begin within {step:.3g} of the one before", rows)]
        low, high = np.quantile(positive, (OFTEN, 1 - OFTEN))
        if not differ and high - low < OFTEN * step:
            return [_no_fixations(f"{about} all steps are {step:.3g}", rows)]
        return []
    if differ:
        return []
    following = [pl.col(name).shift(-1).over(*group[:3]).alias(f"next {name}") for name in "xy"]
    pairs = rows.with_columns(following).drop_nulls(["next x", "next y"])
    if len(pairs) < ENOUGH:
        return []
    x, y, next_x, next_y = (pairs[name].to_numpy() for name in ("x", "y", "next x", "next y"))
    order = np.random.default_rng(0).permutation(len(x))
    near, any_two = (np.median(np.hypot(x - a, y - b)) for a, b in ((next_x, next_y), (x[order], y[order])))
    if near < NEAR * any_two:
        text = f"half of the rows of {origin} are within {near:.3g} of the next, any two {any_two:.3g} apart"
        return [_no_fixations(f"{text}: single samples of the gaze are", rows)]
    return []


def _no_fixations(question: str, rows: pl.DataFrame) -> AmbiguousReadingsError:
    return doubt(
        question,
        ("they are no fixations", "no row", "export one row for each fixation"),
        ("they are fixations", f"{len(rows):,} rows", confirming("samples")),
    )


def doubt_frequent(rows: pl.DataFrame, reading: Reading) -> list[AmbiguousReadingsError]:
    """Doubt that frequent exact positions are where people looked, if others hardly repeat.

    Examples:
        - (960, 540) in 5% of the rows.
        - x is 0, or the largest one, in 5% of the rows.
        - Some rows have the position of the row before.
        - x and y are equal.
    """
    spots = rows.select("image", "observer", "owner", "x", "y").unique()
    counts = spots.group_by("x", "y").agg(pl.len(), pl.col("image").n_unique().alias("images")).sort("x", "y")
    usual = float(np.median(counts["len"].to_numpy())) if len(counts) else 0.0
    is_frequent = (pl.col("len") > max(4 * usual, RARE * len(spots))) & (pl.col("images") > 2)
    frequent, others = counts.filter(is_frequent), counts.filter(~is_frequent)
    if len(frequent) and others["len"].sum() <= 2 * len(others):
        found = [[x, y] for x, y, *_ in frequent.rows()]
        text = " and ".join(f"x {x:g}, y {y:g}" for x, y in found)
        n_rows = int(frequent["len"].sum())
        return [
            doubt(
                f"{n_rows:,} fixations are exactly at {text}, and others hardly repeat",
                ("the gaze was lost there", f"{n_rows:,} rows", f"in {READING}: lost = {found}"),
                ("people looked there", f"{n_rows:,} rows", confirming("frequent")),
            )
        ]
    for axis in "xy":
        counts = rows[axis].value_counts().sort(axis)
        usual = float(np.median(counts["count"].to_numpy())) if len(counts) > 1 else 0.0
        for value in (0.0, -1.0, float(counts[axis][0]), float(counts[axis][-1])):
            n = int((rows[axis] == value).sum())
            least = FEWEST_ALIKE if value in (0, -1) else ENOUGH
            if n < least or n <= max(4 * usual, SEVERAL * len(rows)):
                continue
            return [
                doubt(
                    f"{n:,} of {len(rows):,} fixations are exactly at {axis} {value:g}",
                    ("the gaze was lost there", f"{n:,} rows", "remove them"),
                    ("people looked there", f"{n:,} rows", confirming("frequent")),
                )
            ]
    same = pl.all_horizontal(pl.col(name) == pl.col(name).shift(1) for name in ("x", "y", "image", "owner"))
    n_same = int(rows.select(same.fill_null(value=False)).to_series().sum())
    if n_same >= FEWEST_ALIKE and n_same > SEVERAL * len(rows) and not reading.repeated:
        return [
            doubt(
                f"{n_same:,} of {len(rows):,} fixations are exactly where the one before is",
                ("each of them is one fixation, or lost gaze", f"{n_same:,} rows", "remove the others"),
                ("people looked there again", f"{n_same:,} rows", confirming("frequent")),
            )
        ]
    n_equal = int((rows["x"] == rows["y"]).sum())
    if n_equal >= ENOUGH and n_equal > OFTEN * len(rows):
        return [
            doubt(
                f"x is y in {n_equal:,} of {len(rows):,} fixations",
                ("one of them is a copy", f"{n_equal:,} rows", "correct the tables"),
                ("people looked along a line", f"{len(rows):,} rows", confirming("frequent")),
            )
        ]
    return []


# === Eyes and people ===


def doubt_twins(rows: pl.DataFrame, unused: str) -> list[AmbiguousReadingsError]:
    """Doubt about rows at one time of a person and an image: two eyes at nearly one place, else two people."""
    group = ["image", "observer", "owner", "trial", "time"]
    timed = rows.drop_nulls("time")
    if not len(timed):
        return []
    ranges = [float(np.ptp(timed[axis].to_numpy())) for axis in "xy"]
    limit = NEAR * max(ranges)
    twins = timed.group_by(group).agg(
        pl.len(), *((pl.col(a).max() - pl.col(a).min()).alias(f"span {a}") for a in "xy")
    )
    starts = timed.select("image", "observer", "owner", "trial", "time").unique()
    alone = starts.group_by("image", "observer", "owner", "trial").len()
    if float(np.median(alone["len"].to_numpy())) <= 1:  # the time of a trial
        return []
    several = twins.filter(pl.col("len") > 1)
    n_rows = int(several["len"].sum())
    if n_rows <= OFTEN * len(timed):
        return []
    is_near = several.filter((pl.col("span x") <= limit) & (pl.col("span y") <= limit))
    if 2 * len(is_near) > len(several):
        text = (
            f"{n_rows:,} of {len(rows):,} rows of one person are at one time and nearly one place, as of both eyes"
        )
        return [
            doubt(
                text,
                (
                    "only rows of one eye count",
                    f"{n_rows // 2:,} rows",
                    f"remove the others, or name them in [others] of {READING}",
                ),
                ("all of them count", f"{n_rows:,} rows", confirming("twins")),
                (
                    "they are of several people",
                    f"{n_rows:,} rows",
                    f"columns=observer=NAME (unused columns: {unused})",
                ),
            )
        ]
    text = (
        f"{n_rows:,} of {len(rows):,} rows are at one time and at different places, so they are of several people"
    )
    return [
        doubt(
            text,
            (
                "a column tells people apart",
                f"{n_rows:,} rows",
                f"columns=observer=NAME (unused columns: {unused})",
            ),
        )
    ]


def doubt_people(rows: pl.DataFrame, unused: str) -> list[AmbiguousReadingsError]:
    """Doubt that a name is one person: numbers or times begin again, or several tables of an image have it."""
    if copied := _copied_people(rows):
        question = f"observers have the same fixations ({some(copied)})"
    elif begins_again(rows, "observer"):
        question = (
            "numbers or times of fixations begin again within an observer and an image: several people, or trials"
        )
    else:
        tables = rows.group_by("image", "observer").agg(pl.col("owner").n_unique())
        if share(tables["owner"] > 1) <= OFTEN:
            return []
        owners = some(rows["owner"].cast(pl.String).unique().sort().to_list())
        question = f"several tables have fixations of the same observers on the same images ({owners})"
    names = f"{rows['observer'].n_unique():,} names"
    return [
        doubt(
            question,
            ("different people have one name", names, "give each person one name that nobody else has"),
            ("one person saw images again", names, f"columns=trial=NAME (unused columns: {unused})"),
            (
                "it does not matter who looked",
                names,
                f"in {READING}: no line observer",
            ),
            ("one person looked, and numbers begin again", names, confirming("people")),
        )
    ]


def _copied_people(rows: pl.DataFrame) -> list[str]:
    """The names of people who have nearly all of their exact fixations in common with another one."""
    keys = rows.drop_nulls("observer").select(
        pl.col("observer").cast(pl.String), position=pl.struct("image", "x", "y").hash()
    )
    keys = keys.unique()
    shared = keys.filter(pl.col("position").is_duplicated()).group_by("observer").len()
    counts = keys.group_by("observer").agg(n_all=pl.len()).join(shared, on="observer")
    odd = counts.filter((pl.col("n_all") >= ENOUGH) & (pl.col("len") > (1 - OFTEN) * pl.col("n_all")))
    return odd["observer"].sort().to_list()


def begins_again(rows: pl.DataFrame, people: str) -> bool:
    """Whether numbers or times of fixations begin again within an image and a person, who is told by a column.

    Example: the numbers 1, 2, 3, 1, 2 of one image in one table may be of two people.
    """
    for role in ("time", "fixation"):
        if not rows[role].count():
            continue
        steps = pl.col(role).cast(pl.String).cast(pl.Float64, strict=False).diff()
        kinds = {"falls": steps < 0, "rises": steps > 0}
        groups = rows.group_by("image", people, "trial", maintain_order=True).agg(
            **{n: k.sum() for n, k in kinds.items()}
        )
        is_count = groups["rises"].sum() > groups["falls"].sum()
        if is_count and share(groups["falls"] > 0) > OFTEN:
            return True
    return False


# === Repetitions ===


def repeats(rows: pl.DataFrame, repeated: str) -> bool:
    """Whether rows that share the number of a fixation, in the sense of `Reading.repeated`, are of one fixation.

    Raises:
        AmbiguousError: most are, and some are at different places.
    """
    numbered = ("image", "observer", "owner", "trial", "fixation")
    own = rows.drop_nulls("fixation")
    if repeated == NUMBER_AND_TIME:
        own = own.drop_nulls("time")
        group = own.select(*numbered, "time").hash_rows() if len(own) else None
    else:
        is_other = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in numbered)
        group = own.select(is_other.fill_null(value=True).cum_sum()).to_series() if len(own) else None
    if group is None:
        return False
    limit = NEAR * max(float(np.ptp(np.quantile(own[axis].to_numpy(), (0.01, 0.99)))) for axis in "xy")
    spans = (
        own.select("x", "y", group=group)
        .group_by("group")
        .agg(pl.len(), *((pl.col(axis).max() - pl.col(axis).min() > limit).alias(axis) for axis in "xy"))
    )
    several = spans.filter(pl.col("len") > 1)
    if not len(several):
        return False
    apart = share(several["x"] | several["y"])
    if apart > 0.5:  # the number is of something else
        return False
    if apart > OFTEN:
        raise AmbiguousError(
            f"rows with one number of a fixation follow one another, and {apart:.0%} of these numbers have "
            "several positions: the number counts something else, or an observer's column is missing. Name "
            "the columns, such as columns=observer=NAME or columns=fixation=NAME"
        )
    return True
