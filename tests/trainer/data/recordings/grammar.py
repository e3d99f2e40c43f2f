"""Recordings drawn by a grammar, with a known truth, and a judge of how they are read.

A case is a folder as people have it: pictures, and tables of one of many forms, with names, units, texts and
damage that were seen in the wild. The judge reads it as `fetch` does and says whether all fixations are where they
should be (`right`), whether the user was asked (`asked`), or neither (`wrong`). Where questions offer answers, the
judge gives them in turn: one way must lead to the truth, else the case is `wrong` too.

    python -m tests.trainer.data.recordings.grammar --cases 1000 --seed 0
    python -m tests.trainer.data.recordings.grammar --only 17 --keep /tmp/case
"""

import argparse
import collections
import concurrent.futures
import contextlib
import csv
import dataclasses
import functools
import io
import itertools
import math
import multiprocessing
import pathlib
import re
import tempfile
import tomllib
import traceback
from collections.abc import Callable, Sequence

import pytest

from tests.patches import replace
from tests.trainer.data.recordings.known_exports import EXPORTS, Table, Text
from tests.trainer.data.recordings.recorded import understand
from tests.trainer.data.recordings.study import NAMES, NUMBERED, SIZES, Draw, Fixation, Study, draw_study
from trainer.data import propose_reading
from trainer.data.recordings import pictures
from trainer.data.recordings.questions import AmbiguousReadingsError
from trainer.data.recordings.reading import READING
from trainer.data.settings import FetchConfig
from trainer.errors import UserError

RIGHT, ASKED, WRONG = "right", "asked", "wrong"
TOLERANCE_PX = 1
"""How far a pixel may be from the true one, by the rounding of written numbers."""
MOST_WAYS = 8
"""So many questions of one case are answered."""
SETTINGS = ("columns", "coordinates", "screen_size", "image_on_screen")
N_PROCESSES = 2
UNKNOWN = None
"""The observer of fixations where no file tells people apart."""
LARGEST = (10**6, 10**6)
"""(h, w) in which all fixations of a picture lie, since they were placed by its own size."""


@dataclasses.dataclass
class Case:
    """A case on disk."""

    seed: int
    choices: dict[str, str]
    """Axis -> choice."""
    doubts: list[str]
    """Why an expert would ask; empty if the case is clear."""
    truth: dict | None
    """Path of a picture -> its fixations (x, y, observer), pixels; None if it must be asked about."""

    @property
    def text(self) -> str:
        """The choices."""
        return ", ".join(f"{axis}={choice}" for axis, choice in self.choices.items())


@dataclasses.dataclass
class Judgement:
    """How a case was read."""

    case: Case
    verdict: str
    detail: str
    """What was wrong, or asked."""
    has_observers: bool = False
    """Whether observers were told apart."""


@dataclasses.dataclass
class Row:
    """A row of a table before it is written."""

    fixation: Fixation
    x: float | None
    y: float | None
    kind: str = "fixation"
    """fixation, saccade, blink, or lost."""
    picture: str = ""
    """What the table calls the picture, if it is another name than usual."""
    code: tuple[str, str] | None = None
    """The cells of x and y, if they are no position."""


# === Axes of tables of one's own ===

FORMS = {
    "one table": 10,
    "for each person": 3,
    "for each picture": 2,
    "for each picture, with a prefix": 1,
    "person/picture": 1,
    "picture/person": 1,
    "person_picture": 0.7,
    "group/picture": 1,
    "FixaTons": 0.7,
    "two tables of different people": 1,
    "two laboratories with equal labels": 0.5,
}
BY_PICTURE = (
    *("for each picture", "for each picture, with a prefix", "person/picture", "picture/person"),
    *("person_picture", "group/picture", "FixaTons"),
)
"""Forms whose paths name the picture."""
IMAGE_COLUMNS = {
    **dict.fromkeys(("image", "stimulus", "picture", "Image_Name", "filename"), 2),
    **dict.fromkeys(("pic", "photo", "stim", "img", "scene", "Bild", "image_id", "trial_image"), 1),
    **dict.fromkeys(("searcharray", "item", "material", "condition"), 0.5),
}
STRANGE_IMAGE_COLUMNS = ("searcharray", "item", "material", "condition")
"""Names that say nothing about pictures."""
OBSERVER_COLUMNS = {
    **dict.fromkeys(("participant", "subject", "observer", "participant_id"), 2),
    **dict.fromkeys(("ppn", "subj", "sub", "vp", "subjectnum", "pid", "Versuchsperson", "user"), 1),
    "none": 2,
}
POSITION_COLUMNS = {
    "x,y": 6,
    "X,Y": 1,
    "fix_x,fix_y": 1,
    "FixX,FixY": 0.5,
    "xpos,ypos": 0.5,
    "x_position,y_position": 0.5,
    "mean_x,mean_y": 0.5,
    "fixation_x,fixation_y": 0.5,
}
NUMBER_COLUMNS = {
    "none": 5,
    **dict.fromkeys(("fixation_index", "fixation", "fix_number", "CURRENT_FIX_INDEX", "nr", "Idx"), 1),
}
ZERO_BASED = ("Idx",)
"""Numbers of fixations from 0."""
INDEX_COLUMNS = {"none": 6, "pandas": 1.5, "R": 1, "Unnamed: 0": 0.5, "idx": 0.5, "row": 0.5, "id": 0.5}
"""Columns that number the rows."""
DECOYS = (
    *("trial", "block", "response", "age", "condition_nr", "presentation_order", "pupil", "correct", "rt"),
    *("prime", "correct_answer", "group", "session"),
)
UNITS = {
    "px": 10,
    "[px]": 1,
    "_px": 0.5,
    "fraction": 2,
    "[norm]": 0.7,
    "percent": 1,
    "[%]": 0.7,
    "thousandths": 0.7,
    "px from the centre, y up": 0.7,
    "PsychoPy norm": 0.7,
    "PsychoPy height": 0.7,
}
UNCLEAR_UNITS = ("percent", "thousandths", "px from the centre, y up", "PsychoPy norm", "PsychoPy height")
CENTRED = UNCLEAR_UNITS[2:]
TEXTS = {
    "commas": Text(),
    "BOM, CRLF": Text(encoding="utf-8-sig", newline="\r\n"),
    "semicolons, decimal commas": Text(";", ","),
    "tabs": Text("\t"),
    "tabs, decimal commas": Text("\t", ","),
    "utf-16": Text("\t", encoding="utf-16"),
    "latin-1": Text(";", encoding="latin-1"),
    "blanks after commas": Text(blank=" "),
    "all quoted": Text(quotes=csv.QUOTE_ALL),
    "no header": Text(has_header=False),
}
TEXT_WEIGHTS = dict(zip(TEXTS, (8, 1, 2, 2, 1, 1, 1, 1, 1, 0.4), strict=True))
DAMAGES = {
    "none": 12,
    "-1/-1": 1,
    "0/0": 1,
    "9999/9999": 0.7,
    "NaN": 0.7,
    "saccade rows": 1.5,
    "blink rows": 0.7,
    "samples with numbers": 1,
    "samples": 0.7,
    "flag 1": 0.7,
    "flag 0/1": 0.7,
    "zeros lost": 1,
    ".0": 0.7,
    " (1)": 0.7,
    "_v2": 0.7,
    "practice pictures": 0.7,
    "a picture without fixations": 0.7,
    "half of the pictures without fixations": 0.5,
    "a third of the pictures lost": 0.7,
    "areas of interest": 1,
    "clicks": 1,
    "equal backup": 1,
    "corrected backup": 1,
    "exported twice": 1,
}
OF_NAMES = ("zeros lost", ".0", " (1)", "_v2", "practice pictures")
"""What happens to the names of pictures in the rows of tables."""
UNREADABLE = ("samples", "_v2", "half of the pictures without fixations", "a third of the pictures lost")
"""What must be asked about."""
BESIDE = ("none", "areas of interest", "equal backup", "exported twice")
"""What may lie beside the export of a known program."""
LABEL_COLUMNS = ("type", "label", "event", "name", "event_type", "eye_event", "category")
LABELS = (
    {"fixation": "fixation", "saccade": "saccade", "blink": "blink"},
    {"fixation": "FIXA", "saccade": "SACC", "blink": "BLINK"},
    {"fixation": "Fixation", "saccade": "Saccade", "blink": "Blink"},
    {"fixation": "EFIX", "saccade": "ESACC", "blink": "EBLINK"},
)
"""Kind of a row -> its label."""
Cell = tuple[str, Callable[[Row, int], str]]
"""A column: its name, and what writes its cell of a row (its position in the table is the number)."""


# === Make a case ===


def make(seed: int, folder: pathlib.Path, forced: dict[str, str] | None = None) -> Case:
    """Draw a case and write it into a folder."""
    draw = Draw(seed, forced)
    exports = {name: export.weight for name, export in EXPORTS.items()}
    columns = draw.pick("columns", {"own": 1.2 * sum(exports.values()), **exports})
    if columns == "own":
        study, tables, has_observers, is_readable = _own(draw)
    else:
        export = EXPORTS[columns]
        study = draw_study(draw, export.names, export.sizes, most_pictures=16, most_people=6)
        tables, has_observers, is_readable = export.write(draw, study), True, not export.is_of_camera
        damage = draw.pick("damage", {name: DAMAGES[name] for name in BESIDE})
        tables += _beside(damage, tables, draw, study)
    truth = None
    if is_readable:
        truth = study.truth()
        if not has_observers:
            truth = {path: [(x, y, UNKNOWN) for x, y, _ in each] for path, each in truth.items()}
    study.write_pictures(folder, seed)
    for table in tables:
        (folder / table.path).parent.mkdir(parents=True, exist_ok=True)
        (folder / table.path).write_bytes(table.content())
    return Case(seed, draw.choices, draw.doubts, truth)


def _own(draw: Draw) -> tuple[Study, list[Table], bool, bool]:
    """A study in tables of one's own, whether these tell people apart, and whether they can be read at all."""
    form = draw.pick("form", FORMS)
    many = form in ("person/picture", "picture/person", "person_picture", "FixaTons")
    names = {name: weight for name, weight in NAMES.items() if form not in BY_PICTURE or "folders" not in name}
    if form == "for each picture, with a prefix":
        names = {name: names[name] for name in NUMBERED}
    damages = {name: weight for name, weight in DAMAGES.items() if form not in BY_PICTURE or name not in OF_NAMES}
    damage = draw.pick("damage", damages)
    if damage in ("zeros lost", ".0"):
        only = "01.png" if damage == "zeros lost" else "1.png"
        names = {only: 1}
    looks = draw.pick("looks", {"everywhere": 20, "upper right": 1, "upper left": 1})
    draw.ask("all look at one corner", looks == "upper left")
    study = draw_study(
        draw, names, SIZES, 10 if many else 20 if form in BY_PICTURE else 30, 4 if many else 8, looks
    )
    if damage.endswith("without fixations"):
        n_without = len(study.paths) // 2 if damage.startswith("half") else 1
        draw.ask("many pictures without fixations", n_without > 1)
        if len(study.paths) > 10 * n_without or n_without > 1:
            study.fixations = [each for each in study.fixations if each.picture >= n_without]
    if form == "two laboratories with equal labels":
        draw.ask("the same labels of people in two tables")
        half = len(study.people) // 2
        study.people = study.people[:half] + study.people[: len(study.people) - half]
    columns = _Columns(draw, study, form, damage)
    if (
        columns.tells_people
        and draw.pick("places", {"all different": 3, "some the same for two people": 1}) != "all different"
    ):
        _share_places(draw, study)
    rows = _damaged(damage, [Row(each, each.x, each.y) for each in study.fixations], draw, study)
    if damage not in ("samples", "samples with numbers"):
        order = draw.pick("order of rows", {"person": 3, "picture": 1.5, "picture, then number": 0.5})
        if order != "person":
            by_number = order != "picture"
            rows.sort(
                key=lambda row: (row.fixation.picture, by_number and row.fixation.number, row.fixation.person)
            )
    tables = _tables(draw, study, form, rows, columns)
    tables += _beside(damage, tables, draw, study, columns.position_names[0])
    if damage == "a third of the pictures lost":
        draw.ask("many rows of pictures that are not there")
        study.n_lost = len(study.paths) // 3
    return study, tables, columns.tells_people, damage not in UNREADABLE


def _share_places(draw: Draw, study: Study) -> None:
    """Let people look where another one looked, in one fixation of 30."""
    by_picture = collections.defaultdict(list)
    copied = set()
    for index, each in enumerate(study.fixations):
        others = [other for other in by_picture[each.picture] if other.person != each.person]
        if others and draw.chance(1 / 30):
            other = draw.any_of(others)
            if other not in copied:
                study.fixations[index] = each._replace(x=other.x, y=other.y)
                copied.add(other)
        by_picture[each.picture].append(each)


class _Columns:
    """The columns of a table of one's own: names, and what writes a cell of each."""

    def __init__(self, draw: Draw, study: Study, form: str, damage: str) -> None:
        self.draw, self.study = draw, study
        text = draw.pick("text", TEXT_WEIGHTS)
        if text == "latin-1" and draw.choices["names"] != "umlauts":
            draw.choices["text"] = text = "commas"
        if text == "blanks after commas" and "blanks" in draw.choices["names"]:
            draw.choices["text"] = text = "commas"
        self.text = TEXTS[text]
        draw.ask("no header", text == "no header")
        self.has_image = form not in BY_PICTURE
        unit = draw.pick("unit", UNITS)
        if damage == "0/0" and unit in CENTRED:
            draw.choices["unit"] = unit = "px"
        draw.ask(f"unit not told: {unit}", unit in UNCLEAR_UNITS)
        cells: list[Cell] = []
        if self.has_image:
            cells.append(self._image(damage))
        observer = draw.pick("observer's column", OBSERVER_COLUMNS)
        by_path = ("for each person", "person/picture", "picture/person", "person_picture", "FixaTons")
        self.tells_people = observer != "none" or form in by_path
        if form.startswith("two") and observer == "none":
            observer, self.tells_people = "participant", True
            draw.choices["observer's column"] = observer
        if form == "FixaTons":
            observer = draw.choices["observer's column"] = "none"
        if observer != "none":
            cells.append((observer, lambda row, _: study.people[row.fixation.person]))
        cells += self._positions(unit)
        cells += self._optional(damage, form)
        order = draw.pick("order of columns", {"usual": 2, "shuffled": 1, "positions first": 1})
        if order == "shuffled":
            cells = [cells[index] for index in draw.random.permutation(len(cells))]
        elif order == "positions first":
            cells.sort(key=lambda cell: cell[0] not in self.position_names)
        self.cells = [*self._index(), *cells]

    @property
    def header(self) -> list[str]:
        return [name for name, _ in self.cells]

    def written(self, rows: Sequence[Row]) -> list[list[str]]:
        """The cells of rows."""
        return [[cell(row, index) for _, cell in self.cells] for index, row in enumerate(rows)]

    def _image(self, damage: str) -> Cell:
        draw, study = self.draw, self.study
        name = draw.pick("image's column", IMAGE_COLUMNS)
        is_text = draw.choices["names"] not in NUMBERED
        styles = {"name": 3, "stem": 1.5, "path": 1, "path of Windows": 0.5}
        if damage in OF_NAMES[:4]:
            styles = {"stem": 1}
        style = draw.pick("image's cells", styles)
        written = {
            "name": study.cells,
            "stem": study.stems,
            "path": study.paths,
            "path of Windows": ["C:\\study\\" + path.replace("/", "\\") for path in study.paths],
        }[style]
        if damage == "zeros lost":
            written = [cell.lstrip("0") for cell in written]
        elif damage == ".0":
            written = [f"{cell}.0" for cell in written]
        is_number = style == "stem" and not is_text
        draw.ask(
            "numbers name pictures in a column with a strange name", is_number and name in STRANGE_IMAGE_COLUMNS
        )
        self.image_name, self.images = name, written
        return name, lambda row, _: row.picture or written[row.fixation.picture]

    def _positions(self, unit: str) -> list[Cell]:
        draw, study = self.draw, self.study
        header = draw.pick("positions' columns", POSITION_COLUMNS)
        suffix = {"[px]": " [px]", "_px": "_px", "[norm]": " [norm]", "[%]": " [%]"}.get(unit, "")
        self.position_names = [name + suffix for name in header.split(",")]
        digits = {"px": draw.any_of((0, 1, 2)), "[px]": 1, "_px": 1, "percent": 2, "[%]": 2, "thousandths": 0}
        n_digits = digits.get(unit, 1 if "px" in unit else 4)
        draw.choices["decimals"] = str(n_digits)

        def cell(row: Row, axis: int) -> str:
            if row.code:
                return row.code[axis].replace(".", self.text.decimal)
            value = (row.x, row.y)[axis]
            if value is None:
                return ""
            return self.text.number(_in_unit(value, axis, study.sizes[row.fixation.picture], unit), n_digits)

        x, y = self.position_names
        return [(x, lambda row, _: cell(row, 0)), (y, lambda row, _: cell(row, 1))]

    def _optional(self, damage: str, form: str) -> list[Cell]:
        draw = self.draw
        cells: list[Cell] = []
        number = draw.pick("number's column", NUMBER_COLUMNS)
        if damage == "samples with numbers" and number in ("none", "nr"):
            number = draw.choices["number's column"] = "fixation_index"
        if form in ("group/picture", "for each picture, with a prefix") and number == "none":
            number = draw.choices["number's column"] = "Idx"  # the people begin with 0 again
        if damage in ("samples", "flag 1", "flag 0/1", "saccade rows", "blink rows"):
            number = draw.choices["number's column"] = "none"
        if number != "none":
            first = 0 if number in ZERO_BASED else 1
            cells.append((number, lambda row, _: str(row.fixation.number - 1 + first)))
        if damage.startswith("flag"):
            cells.append(("fixation", lambda row, _: str(int(row.kind == "fixation"))))
            draw.ask("a column that may say which rows are fixations", damage == "flag 0/1")
        if damage in ("saccade rows", "blink rows"):
            words = draw.any_of(LABELS)
            name = draw.pick("label's column", dict.fromkeys(LABEL_COLUMNS, 1))
            cells.append((name, lambda row, _: words[row.kind]))
        if damage == "samples":
            draw.ask("samples of the gaze, not fixations")
            cells.append(("time", lambda row, _: str(row.fixation.start_ms)))
        elif draw.chance(0.6):
            name = draw.any_of(("duration", "dur", "duration_ms", "Fixation Duration"))
            cells.append((name, lambda row, _: str(row.fixation.duration_ms)))
            if draw.chance(0.4):
                cells.append(
                    (draw.any_of(("start", "onset", "t_start")), lambda row, _: str(row.fixation.start_ms))
                )
        n_decoys = draw.integer(0, 3)
        decoys = sorted(draw.random.choice(DECOYS, n_decoys, replace=False).tolist())
        naming = [decoy for decoy in decoys if decoy in ("prime", "correct_answer")]
        if not self.has_image or damage in OF_NAMES or "number" in damage:
            decoys = [decoy for decoy in decoys if decoy not in naming]
        elif naming:
            draw.ask("two columns name pictures", self.image_name in (*STRANGE_IMAGE_COLUMNS, "trial_image"))
        draw.choices["other columns"] = " ".join(decoys) or "none"
        return cells + [(decoy, self._decoy(decoy)) for decoy in decoys]

    def _decoy(self, name: str) -> Callable[[Row, int], str]:
        draw, study = self.draw, self.study
        n = len(study.paths)
        of_picture = [draw.integer(0, n - 1) for _ in range(n)]
        of_person = [draw.integer(19, 60) for _ in study.people]
        choose = {
            "trial": lambda row: str(row.fixation.trial),
            "presentation_order": lambda row: str(row.fixation.trial),
            "block": lambda row: str(1 + row.fixation.trial * 3 // (n + 1)),
            "response": lambda row: ("yes", "no")[of_picture[row.fixation.picture] % 2],
            "age": lambda row: str(of_person[row.fixation.person]),
            "condition_nr": lambda row: str(1 + row.fixation.picture % 4),
            "pupil": lambda row: str(900 + 7 * row.fixation.number),
            "correct": lambda row: str(of_picture[row.fixation.picture] % 2),
            "rt": lambda row: str(1200 + 31 * row.fixation.trial),
            "group": lambda row: ("control", "patient")[row.fixation.person % 2],
            "session": lambda row: "1",
            "prime": lambda row: self.images[of_picture[row.fixation.picture]],
            "correct_answer": lambda row: self.images[of_picture[row.fixation.picture]],
        }[name]
        return lambda row, _: choose(row)

    def _index(self) -> list[Cell]:
        kind = self.draw.pick("index column", INDEX_COLUMNS)
        if kind == "none":
            return []
        first = 1 if kind in ("R", "row") else 0
        return [({"pandas": "", "R": ""}.get(kind, kind), lambda _, index: str(index + first))]


def _in_unit(value: float, axis: int, size: tuple[int, int], unit: str) -> float:
    """A pixel of one axis (0 for x) in a unit."""
    length, sign = size[axis], (1, -1)[axis]
    from_centre = sign * (value - length / 2)
    return {
        "fraction": value / length,
        "[norm]": value / length,
        "percent": 100 * value / length,
        "[%]": 100 * value / length,
        "thousandths": 1000 * value / length,
        "px from the centre, y up": from_centre,
        "PsychoPy norm": 2 * from_centre / length,
        "PsychoPy height": from_centre / size[1],
    }.get(unit, value)


def _damaged(damage: str, rows: list[Row], draw: Draw, study: Study) -> list[Row]:
    """The rows with what spoils them."""
    codes = {"-1/-1": ("-1", "-1"), "0/0": ("0", "0"), "9999/9999": ("9999", "9999"), "NaN": ("NaN", "NaN")}
    if damage in codes:
        share = draw.random.uniform(0.03, 0.12)
        return _numbered(_with_rows(rows, lambda row: _after(row, "lost", codes[damage]), share, draw))
    if damage in ("saccade rows", "flag 0/1"):
        return _with_rows(rows, lambda row: _moved(_after(row, "saccade", None), draw), 1, draw)
    if damage == "blink rows":
        code = draw.any_of((("0", "0"), ("", "")))
        return _with_rows(rows, lambda row: _after(row, "blink", code), 0.1, draw)
    if damage == "samples with numbers":
        return [row for row in rows for _ in range(3)]
    if damage == "samples":
        return [sample for row in rows for sample in _samples(row, draw)]
    if damage == " (1)":
        draw.ask("half of the rows name pictures that are not there")
        return [dataclasses.replace(row, picture=_other_name(row, study, " (1)")) for row in rows]
    if damage == "_v2":
        draw.ask("half of the rows name pictures that are not there")
        return [dataclasses.replace(row, picture=_other_name(row, study, "_v2")) for row in rows]
    if damage == "practice pictures":
        practice = [dataclasses.replace(row, picture="practice_3.png") for row in rows if row.fixation.trial == 1]
        return practice[: max(1, len(rows) // 40)] + rows
    return rows


def _with_rows(rows: list[Row], make_row: Callable[[Row], Row], share: float, draw: Draw) -> list[Row]:
    """The rows, a share of them followed by another row."""
    return [each for row in rows for each in ([row, make_row(row)] if draw.chance(share) else [row])]


def _after(row: Row, kind: str, code: tuple[str, str] | None) -> Row:
    """A row of what happens after a fixation."""
    own = row.fixation
    after = own._replace(start_ms=own.start_ms + own.duration_ms, duration_ms=20)
    return dataclasses.replace(row, fixation=after, kind=kind, code=code)


def _moved(row: Row, draw: Draw) -> Row:
    """A row at a place near its own."""
    x, y = (abs(value + draw.random.normal(0, 40)) for value in (row.x, row.y))
    return dataclasses.replace(row, x=x, y=y)


def _numbered(rows: list[Row]) -> list[Row]:
    """The rows of each trial, numbered again."""
    counts: collections.Counter[tuple[int, int]] = collections.Counter()
    for row in rows:
        own = row.fixation.person, row.fixation.picture
        counts[own] += 1
        row.fixation = row.fixation._replace(number=counts[own])
    return rows


def _samples(row: Row, draw: Draw) -> list[Row]:
    """Samples of the gaze every 34 ms."""
    times = range(row.fixation.start_ms, row.fixation.start_ms + row.fixation.duration_ms, 34)
    return [
        Row(row.fixation._replace(start_ms=time), row.x + draw.integer(-4, 4), row.y + draw.integer(-4, 4))
        for time in times
    ]


def _other_name(row: Row, study: Study, suffix: str) -> str:
    """The picture's name with a suffix in every second trial; else empty."""
    return study.stems[row.fixation.picture] + suffix if row.fixation.trial % 2 else ""


# === Tables and paths ===


def _tables(draw: Draw, study: Study, form: str, rows: list[Row], columns: _Columns) -> list[Table]:
    """The tables of a form."""
    suffix = "tsv" if columns.text.delimiter == "\t" else "csv"
    folder = draw.pick("tables' folder", {"": 2, "data/": 1, "gaze/": 0.5})
    prefix = draw.any_of(("scanpath_", "fix_", "stimulus_"))
    half = len(study.people) // 2
    group = ("ASD", "TD") if draw.chance(0.5) else ("patients", "control")
    pieces = {
        "one table": lambda each: draw.choices.setdefault(
            "file", draw.any_of(("fixations", "data", "results_final"))
        ),
        "for each person": lambda each: study.people[each.person],
        "for each picture": lambda each: study.stems[each.picture],
        "for each picture, with a prefix": lambda each: f"{prefix}{study.stems[each.picture]}",
        "person/picture": lambda each: f"{study.people[each.person]}/{study.stems[each.picture]}",
        "picture/person": lambda each: f"{study.stems[each.picture]}/{study.people[each.person]}",
        "person_picture": lambda each: f"{study.people[each.person]}_{study.stems[each.picture]}",
        "group/picture": lambda each: f"{group[each.person >= half]}/{study.stems[each.picture]}",
        "FixaTons": lambda each: f"SCANPATHS/{study.stems[each.picture]}/{study.people[each.person]}",
        "two tables of different people": lambda each: f"session{1 + (each.person >= half)}",
        "two laboratories with equal labels": lambda each: f"lab {'AB'[each.person >= half]}",
    }
    is_number = draw.choices["names"] in NUMBERED
    people_are_numbers = draw.choices["people's labels"] not in ("S01", "first names")
    alike = is_number and people_are_numbers
    draw.ask("files named by two numbers", form == "person_picture" and alike)
    draw.ask(
        "files and folders named by numbers, as many of each",
        form in ("person/picture", "picture/person", "FixaTons")
        and alike
        and len(study.people) == len(study.paths),
    )
    by_path = collections.defaultdict(list)
    for row in rows:
        by_path[pieces[form](row.fixation)].append(row)
    if form in ("one table", "FixaTons"):
        folder = "" if form == "FixaTons" else folder
    suffix = "txt" if form == "for each picture, with a prefix" else suffix
    return [
        Table(f"{folder}{path}.{suffix}", columns.header, columns.written(own), columns.text)
        for path, own in by_path.items()
    ]


def _beside(damage: str, tables: Sequence[Table], draw: Draw, study: Study, x_name: str = "") -> list[Table]:
    """Tables that lie beside those of fixations. `x_name` is the name of their column x."""
    cells = study.cells
    if damage == "areas of interest":
        rows = [
            [cells[index], name, str(draw.integer(20, 200)), str(draw.integer(20, 150)), "180", "60"]
            for index in range(len(cells))
            for name in ("logo", "price", "button")
        ]
        return [Table("aois.csv", ["image", "aoi", "x", "y", "width", "height"], rows)]
    if damage == "clicks":
        draw.ask("another table of positions: clicks")
        sizes = study.sizes
        rows = [
            [person, cells[index], str(draw.integer(5, sizes[index][0] - 5)), str(draw.integer(5, 290)), "left"]
            for person in study.people
            for index in range(len(cells))
        ]
        return [Table("clicks.csv", ["participant", "image", "x", "y", "button"], rows)]
    if damage == "equal backup":
        return [dataclasses.replace(table, path=f"old/{table.path}") for table in tables]
    if damage == "corrected backup":
        draw.ask("two versions of a table")
        return [_shifted(table, x_name) for table in tables]
    if damage == "exported twice":
        return [dataclasses.replace(table, path=" (1).".join(table.path.rsplit(".", 1))) for table in tables]
    return []


def _shifted(table: Table, x_name: str) -> Table:
    """A table as it was before a correction: its x have other numbers."""
    column = table.header.index(x_name)
    rows = [list(row) for row in table.rows]
    for row in rows:
        text = row[column].replace(",", ".")
        if text:
            row[column] = table.text.number(float(text) * 0.95, len(text.partition(".")[2]))
    return dataclasses.replace(table, path=f"old/{table.path}", rows=rows)


# === Judge ===


def without_maps(patch: pytest.MonkeyPatch) -> None:
    """Let the pictures of recordings say nothing, as long as the patch holds.

    The maps of grey blocks prove nothing: they take a second for each picture, and their judgement some more.
    """
    for name in ("MOST_ASKED", "ENOUGH_ASKED"):
        replace(patch, pictures, name, 0)


def judge(case: Case, folder: pathlib.Path, is_whole: bool = False) -> Judgement:
    """Read a case as `fetch` does, and compare it with the truth.

    Args:
        case: the case.
        folder: where it is.
        is_whole: whether to prepare it, and to read what was prepared.
    """
    try:
        found = _read_shards(folder) if is_whole else _read(folder)
    except AmbiguousReadingsError as error:
        return _judge_answers(case, folder, error)
    except UserError as error:
        is_about_reading = f"{READING} does not" in str(error)  # nobody has written one
        return Judgement(case, WRONG if is_about_reading else ASKED, str(error))
    except Exception:
        return Judgement(case, WRONG, f"not a UserError: {traceback.format_exc()}")
    has_observers = any(observer is not UNKNOWN for each in found.values() for _, _, observer in each)
    problem = compare(found, case.truth)
    return Judgement(case, WRONG if problem else RIGHT, problem, has_observers)


def _judge_answers(case: Case, folder: pathlib.Path, question: AmbiguousReadingsError) -> Judgement:
    """Give the answers that questions offer, the likeliest first, until one way leads to the truth.

    A way ends where an error or an option tells what to do with the files. If no way ends so, and none leads to
    the truth, the case is wrong.
    """
    asked = Judgement(case, ASKED, str(question))
    if case.truth is None:
        return asked
    ways: collections.deque[tuple[dict[str, str], AmbiguousReadingsError]] = collections.deque([({}, question)])
    problems = []
    names_cause = False
    for _ in range(MOST_WAYS):
        if not ways:
            break
        settings, question = ways.popleft()
        for option in question.readings:
            answer = _answer(option.setting, settings)
            try:
                if answer is None:
                    names_cause |= "NAME" not in option.setting and not option.setting.startswith(f"in {READING}")
                    found = _read_settled(folder, settings, question, option.setting)
                else:
                    found = _read(folder, **answer)
            except AmbiguousReadingsError as error:
                if answer is not None:
                    ways.append((answer, error))
                continue
            except UserError:
                names_cause = True
                continue
            problem = compare(found, case.truth) if found is not None else "no answer"
            if not problem:
                return asked
            problems.append(f"{option.setting}: {problem}")
    if names_cause:
        return asked
    return Judgement(case, WRONG, f"no answer leads to the truth: {'. '.join(problems)}. Asked: {question}")


def _answer(line: str, settings: dict[str, str]) -> dict[str, str] | None:
    """The settings with those of an option's line. None if it is no setting, or would change nothing."""
    pairs = [part.split("=", 1) for part in line.split()]
    if any(len(pair) < 2 or pair[0] not in SETTINGS for pair in pairs) or re.search(r"NAME|NUMBER", line):
        return None
    answer = {**settings, **dict(pairs)}
    return None if answer == settings else answer


def _read_settled(
    folder: pathlib.Path, settings: dict[str, str], question: AmbiguousReadingsError, line: str
) -> dict | None:
    """What is read by the proposed reading after an option's line, and the true first option of each other doubt.

    None if the line is no line of a reading.
    """
    proposal = propose_reading(FetchConfig("custom", str(folder), **settings))
    reading = proposal.reading
    if match := re.fullmatch(rf"in {re.escape(READING)}: (?:\[(\w+)\] )?(\S+|\".*?\") = (.*)", line):
        table, key, value = match.groups()
        ((key, value),) = tomllib.loads(f"{key} = {value}").items()
        if table:
            others = {name: values for name, values in reading.others.items() if name != key}
            reading = dataclasses.replace(reading, fixations={**reading.fixations, key: value}, others=others)
        else:
            reading = dataclasses.replace(reading, **{key: [*getattr(reading, key), *value]})
    elif "no line observer" in line:
        columns = dict(reading.columns)
        ignored = [*reading.ignored, columns.pop("observer")]
        reading = dataclasses.replace(reading, columns=columns, ignored=ignored)
    elif "ignored" not in line:
        return None
    path = folder / READING
    path.write_text(reading.text, encoding="utf-8")
    try:
        return _read(folder)
    finally:
        path.unlink()


def _read(folder: pathlib.Path, **settings: str) -> dict:
    """Path of a picture -> its fixations (x, y, observer) as they are found, before pictures are prepared."""
    items = understand(folder, split="shuffle", **settings)[0]
    gazes = {item.stimulus.path: item.fixations.read(LARGEST) for each in items.values() for item in each}
    return {path: _with_observers(gaze.points, gaze.observers) for path, gaze in gazes.items()}


def _read_shards(folder: pathlib.Path) -> dict:
    """Path of a picture -> its fixations (x, y, observer) in the prepared dataset."""
    from trainer.data import fetch, tfrecords  # with TensorFlow, which takes long

    prepared = folder.parent / "prepared"
    with contextlib.redirect_stdout(io.StringIO()):
        manifest = fetch.fetch_dataset(FetchConfig("custom", str(folder), "48x64", split="shuffle"), prepared)
    paths = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file()]
    found = {}
    for split in manifest.counts:
        for example in tfrecords.read_examples(prepared, split):
            (path,) = (path for path in paths if f"/{path}".endswith(f"/{example.name}"))
            observers = example.observers if len(example.observers) else None
            found[path] = _with_observers(example.fixations, observers)
    return found


def _with_observers(points, observers) -> list[tuple[int, int, int | None]]:
    """(x, y, observer) of points (y, x)."""
    whose = [UNKNOWN] * len(points) if observers is None else observers.tolist()
    return [(int(x), int(y), who) for (y, x), who in zip(points, whose, strict=True)]


def compare(found: dict, truth: dict | None) -> str:
    """What is wrong with the fixations (x, y, observer) of each picture; empty if nothing is."""
    if truth is None:
        return "read what nobody can read"
    pixels = {path: [(math.floor(x), math.floor(y), who) for x, y, who in each] for path, each in truth.items()}
    wrong = [path for path in pixels if not equal(found.get(path, []), pixels[path])]
    extra = found.keys() - pixels.keys()
    if wrong or extra:
        n_found, n_true = (sum(map(len, each.values())) for each in (found, pixels))
        return (
            f"{len(wrong)} of {len(pixels)} pictures have other fixations, {len(extra)} have some that should "
            f"have none; {n_found} fixations for {n_true}"
        )
    return _observers_problem(found, pixels)


def _observers_problem(found: dict, truth: dict) -> str:
    """What is wrong with the observers of fixations that are where they should be; empty if nothing is."""
    own = _of_observers(found)
    if own.keys() == {UNKNOWN}:
        return ""
    people = _of_observers(truth)
    if len(own) != len(people) or UNKNOWN in people:
        n_people = "people who are not told apart" if UNKNOWN in people else f"{len(people)} people"
        return f"{len(own)} observers for {n_people}"
    left = dict(people)
    for points in own.values():
        same = [who for who, others in left.items() if equal(points, others)]
        if not same:
            return f"{len(own)} observers, but one has the fixations of several people, or a part of one's"
        del left[same[0]]
    return ""


def _of_observers(fixations: dict) -> dict:
    """Observer -> (x, y) of all fixations, those of each picture moved far from those of others."""
    points = collections.defaultdict(list)
    for index, path in enumerate(sorted(fixations)):
        for x, y, who in fixations[path]:
            points[who].append((x + 10_000 * index, y, who))
    return points


def equal(found: Sequence, truth: Sequence) -> bool:
    """Whether two lists of (x, y, ...) are the same in some order, up to `TOLERANCE_PX` on each axis."""
    if len(found) != len(truth):
        return False
    cells = collections.defaultdict(list)
    for index, (x, y, *_) in enumerate(truth):
        cells[x, y].append(index)
    steps = sorted(
        itertools.product(range(-TOLERANCE_PX, TOLERANCE_PX + 1), repeat=2), key=lambda step: sum(map(abs, step))
    )
    near = [[each for dx, dy in steps for each in cells.get((x + dx, y + dy), ())] for x, y, *_ in found]
    owner: dict[int, int] = {}

    def assign(index: int, seen: set[int]) -> bool:
        for each in near[index]:
            if each not in seen:
                seen.add(each)
                if each not in owner or assign(owner[each], seen):
                    owner[each] = index
                    return True
        return False

    return all(assign(index, set()) for index in range(len(found)))


# === Command ===


def run(seed: int, forced: dict[str, str] | None = None, is_whole: bool = False) -> Judgement:
    """Make and judge one case in a folder of its own (see `make` and `judge`)."""
    with tempfile.TemporaryDirectory(prefix="grammar-") as parent, pytest.MonkeyPatch.context() as patch:
        without_maps(patch)
        folder = pathlib.Path(parent) / "set"
        folder.mkdir()
        return judge(make(seed, folder, forced), folder, is_whole)


def table_of(judgements: Sequence[Judgement]) -> str:
    """The number of verdicts for each choice of each axis."""
    groups = collections.defaultdict(list)
    for each in judgements:
        groups["all", ""].append(each)
        for axis, choice in each.case.choices.items():
            for part in choice.split() if axis == "other columns" else [choice]:
                groups[axis, part].append(each)
    lines = [f"{'':48}{RIGHT:>7}{ASKED:>7}{WRONG:>7}{'clear':>8}{'asked of clear':>16}{'no observers':>14}"]
    axes = list(dict.fromkeys(axis for axis, _ in groups))
    for axis, choice in sorted(groups, key=lambda key: (axes.index(key[0]), -len(groups[key]))):
        own = groups[axis, choice]
        counts = collections.Counter(each.verdict for each in own)
        clear = [each for each in own if not each.case.doubts]
        asked = sum(each.verdict == ASKED for each in clear)
        share = f"{asked} ({asked / len(clear):.0%})" if clear else "-"
        without = sum(each.verdict == RIGHT and not each.has_observers for each in own)
        lines.append(
            f"{f'{axis}: {choice}' if choice else axis:48}{counts[RIGHT]:7}{counts[ASKED]:7}{counts[WRONG]:7}"
            f"{len(clear):8}{share:>16}{without:14}"
        )
    return "\n".join(lines)


def main() -> None:
    """Judge cases and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first case")
    parser.add_argument("--only", type=int, help="judge one case, with this seed")
    parser.add_argument(
        "--keep", type=pathlib.Path, help="with --only: write it into this folder and leave it there"
    )
    parser.add_argument("--set", action="append", default=[], metavar="AXIS=CHOICE", help="force a choice")
    parser.add_argument("--whole", action="store_true", help="prepare each case, and judge what was prepared")
    parser.add_argument("--asked", action="store_true", help="list the clear cases that were asked about, too")
    arguments = parser.parse_args()
    forced = dict(each.split("=", 1) for each in arguments.set)
    if arguments.only is not None:
        seeds = [arguments.only]
    else:
        seeds = list(range(arguments.seed, arguments.seed + arguments.cases))
    if arguments.keep:
        arguments.keep.mkdir(parents=True)
        with pytest.MonkeyPatch.context() as patch:
            without_maps(patch)
            judgements = [judge(make(seeds[0], arguments.keep, forced), arguments.keep)]
    else:
        context = multiprocessing.get_context("spawn")
        with concurrent.futures.ProcessPoolExecutor(N_PROCESSES, context) as pool:
            judgements = list(
                pool.map(functools.partial(run, forced=forced, is_whole=arguments.whole), seeds, chunksize=4)
            )
    if arguments.only is None:
        print(table_of(judgements))
    for each in judgements:
        is_clear = not each.case.doubts
        wanted = each.verdict == WRONG or (arguments.asked and is_clear and each.verdict == ASKED)
        if wanted or arguments.only is not None:
            doubts = "clear" if is_clear else "; ".join(each.case.doubts)
            print(f"\n{each.case.seed} {each.verdict} ({doubts}): {each.detail}\n  {each.case.text}")


if __name__ == "__main__":
    main()
