"""A reading: what the tables of a recording mean, written down once, in the file `reading.toml` beside the data.

`fetch --propose` writes the file, a person confirms it by keeping it, and `fetch` reads by it literally
(`trainer.data.recordings.rows`). Data without the file are read by a reading that their columns or the pictures
prove (`trainer.data.recordings.proposal`).
"""

import dataclasses
import fnmatch
import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from trainer.data.recordings.columns import MEDIA
from trainer.data.recordings.geometry import Geometry
from trainer.data.recordings.image_names import folded
from trainer.data.settings import COORDINATES, FetchConfig, parse_screen_size
from trainer.errors import AmbiguousError, ContentError, check

READING = FetchConfig.READING
MOST_BYTES = 2**20
FILE, FOLDER, ONLY = "@file", "@folder", "@only"
"""Instead of a column: the name of the table, or of its folder, or the only image in this folder."""
ROLES = ("x", "y", "observer", "trial", "time", "duration", "fixation", "split", "group", *MEDIA)
"""What a column can hold."""
NUMBER, NUMBER_AND_TIME, POSITION = "number", "number and time", "position"
"""What rows of one fixation share: its number or exact position, if they follow one another, or its number and
time."""

CHECKS = (
    *("names", "samples", "twins", "people", "frequent", "units", "durations"),
    *("quarter", "observers", "pictures"),
)
"""Checks of what is read.

- Of rows: tables with names of something else, samples of the gaze, rows at one time, people who begin again, a
  frequent exact position, positions in a unit of their own, and durations of 0 or less.
- Of positions: all in one quarter of the images, people who look where nobody else does, and pictures whose maps
  agree with another reading.
"""

Values = Mapping[str, Sequence[str]]
"""Name of a column -> some of its values."""


@dataclasses.dataclass(frozen=True)
class Reading:
    """What the tables of a recording mean."""

    columns: Mapping[str, str]
    """What a column holds (of ROLES) -> its name. `observer` may be FILE: each table is of one person."""
    image: str
    """The column that names the image of each row, or FILE, FOLDER or ONLY."""
    unit: str
    """A unit of the setting `coordinates`, without auto."""
    upwards: bool = False
    """Whether y grows upwards."""
    screen: str = ""
    """Size of the screen, height x width in pixels. Empty if positions are on the image."""
    image_on_screen: str = "center"
    """As the setting of this name."""
    pixels_per_degree: float = 0.0
    part: tuple[int, int, int] = (0, 0, 0)
    """For FILE and FOLDER: how many folders above the table the name is, and how many of its words before and
    after the image's name are left out. Example: (0, 0, 1) for a_fixations.csv of the image a."""
    tables: Sequence[str] = ("*",)
    """Patterns of the tables' paths. Example: `*.csv`."""
    not_read: Sequence[str] = ()
    """Patterns of the paths of tables that are not read. They come before `tables`."""
    fixations: Values = dataclasses.field(default_factory=dict)
    """The values in rows of fixations. Example: {"event": ["EFIX"]}."""
    others: Values = dataclasses.field(default_factory=dict)
    """The values in rows of something else. Any further value is an error."""
    lost: Sequence[tuple[float, float]] = ()
    """Positions (x, y) that stand for lost gaze."""
    repeated: str = ""
    """NUMBER, NUMBER_AND_TIME or POSITION if a fixation has several rows, of which the last is final, or empty."""
    ignored: Sequence[str] = ()
    """Names of the columns that do not matter. Any further column is an error: it may say how others are read."""
    confirmed: Sequence[str] = ()
    """Checks of rows that a person overrules, of CHECKS. Example: `samples`, if fixations do have equal steps."""
    positions: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    """Name of an image -> the columns x and y of the positions on it. Empty for tables with one pair for all."""

    @property
    def geometry(self) -> Geometry:
        """How positions become pixels of their images."""
        return Geometry(
            self.unit,
            self.upwards,
            parse_screen_size(self.screen) if self.screen else None,
            self.image_on_screen,
            self.pixels_per_degree,
            uses_media="media x" in self.columns,
        )

    def reads(self, path: str) -> bool:
        """Whether the table at this path below the source is read.

        Raises:
            ContentError: neither `tables` nor `not_read` has it.
        """
        if _matches(path, self.not_read):
            return False
        check(
            _matches(path, self.tables),
            f"{READING} does not say whether {path} is read. Add it to `tables` or to `not_read`",
            ContentError,
        )
        return True

    @property
    def text(self) -> str:
        """The content of the file."""
        lines = ["# What the tables beside this file mean. `fetch` reads them literally so."]
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            default = field.default
            if not isinstance(value, Mapping) and (
                field.name in ("tables", "unit", "upwards") or value != default
            ):
                lines.append(f"{field.name} = {written(value)}")
        for name, about in TABLES.items():
            if values := getattr(self, name):
                lines += ["", f"# {about}", f"[{name}]"]
                lines += [f"{_key(key)} = {written(value)}" for key, value in values.items()]
        return "\n".join(lines) + "\n"

    @classmethod
    def parse(cls, content: bytes, origin: str) -> "Reading":
        """Read the content of the file. One that only has `confirmed` has no columns, and an empty `image`.

        Raises:
            ContentError: it is no TOML, or has an unknown, missing or wrong entry.
        """
        try:
            found = tomllib.loads(content.decode("utf-8-sig"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ContentError(
                f"{origin} is no TOML ({error}). Correct it, or write it again with --propose"
            ) from None
        for name, value in found.items():
            check(name in KINDS, f"{origin} has {name!r}, and may have {', '.join(KINDS)}", ContentError)
            check(
                KINDS[name](value),
                f"{origin} has {name} = {value!r}. Write it as --propose does",
                ContentError,
            )
        if found.keys() == {"confirmed"}:
            return cls({}, "", "pixels", confirmed=found["confirmed"])
        for name in ("columns", "image", "unit"):
            check(
                name in found,
                f"{origin} has no {name}. Write it, or write the file again with --propose",
                ContentError,
            )
        unknown = [role for role in found["columns"] if role not in ROLES]
        check(not unknown, f"{origin} has the columns {unknown}, and may have {', '.join(ROLES)}", ContentError)
        has_positions = "positions" in found or {"x", "y"} <= found["columns"].keys()
        check(has_positions, f"{origin} has no columns x and y. Name them below [columns]", ContentError)
        if doubts := found.pop("not_proven", []):
            raise AmbiguousError(
                f"{origin} says that this is not proven: {'. '.join(doubts)}. Correct the entries that are about "
                "it, and remove not_proven"
            )
        if "part" in found:
            found["part"] = tuple(found["part"])
        found["lost"] = [tuple(map(float, pair)) for pair in found.get("lost", [])]
        return cls(**found)


TABLES = {
    "columns": "What a column holds, and its name.",
    "positions": "The columns x and y of each image.",
    "fixations": "Rows of fixations have one of these values in a column.",
    "others": "Other rows have one of these.",
}


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_values(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_texts, value.values()))


def _are_numbers(value: object, n: int) -> bool:
    return isinstance(value, list) and len(value) == n and all(type(each) in (int, float) for each in value)


KINDS: dict[str, Any] = {
    "not_proven": _is_texts,
    "tables": _is_texts,
    "not_read": _is_texts,
    "ignored": _is_texts,
    "confirmed": lambda value: _is_texts(value) and set(value) <= {*CHECKS},
    "image": _is_text,
    "part": lambda value: _are_numbers(value, 3) and all(type(each) is int and each >= 0 for each in value),
    "unit": lambda value: value in COORDINATES[1:],
    "upwards": lambda value: isinstance(value, bool),
    "screen": lambda value: _is_text(value) and re.fullmatch(r"[1-9]\d{0,8}x[1-9]\d{0,8}", value),
    "image_on_screen": lambda value: (
        _is_text(value) and re.fullmatch(r"center|fit|-?\d{1,9},-?\d{1,9}(,[1-9]\d{0,8}x[1-9]\d{0,8})?", value)
    ),
    "pixels_per_degree": lambda value: type(value) in (int, float) and 0 < value < math.inf,
    "lost": lambda value: isinstance(value, list) and all(_are_numbers(pair, 2) for pair in value),
    "repeated": lambda value: value in ("", NUMBER, NUMBER_AND_TIME, POSITION),
    "columns": lambda value: isinstance(value, dict) and all(map(_is_text, value.values())),
    "positions": lambda value: _is_values(value) and all(len(pair) == 2 for pair in value.values()),
    "fixations": _is_values,
    "others": _is_values,
}
"""Entry of the file -> whether a value may be its."""


def _matches(path: str, patterns: Sequence[str]) -> bool:
    """Whether one of the patterns has a path, or is it. Example: `fix [1].csv` is its own path, and a pattern."""
    own = folded(path)
    return any(own == pattern or fnmatch.fnmatchcase(own, pattern) for pattern in map(folded, patterns))


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else written(name)


def written(value: object) -> str:
    """A value as TOML has it."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(written, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
