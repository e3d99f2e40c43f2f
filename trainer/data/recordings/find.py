"""Find the images of the dataset `custom`, with their maps, files of fixations, or tables of fixations.

Beside tables, images lie in any folders; otherwise the names of folders tell what a file is (see `layout`). What
was understood is printed, and returned in sentences (see `Report`).
"""

import collections
import dataclasses
import pathlib
import sys
import tempfile
from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table as Grid

from trainer.artifacts import SPLITS, TEST
from trainer.config import FetchConfig, parse_columns
from trainer.data import layout
from trainer.data.layout import Fixations, Gaze, Images, Item, Points
from trainer.data.recordings import chosen, fixations, table
from trainer.data.recordings.chosen import Form, Source
from trainer.data.recordings.fixations import LeftOut
from trainer.data.recordings.images import (
    ImageNames,
    Picture,
    Usable,
    check_column,
    check_maps,
    column_labels,
    find_images,
    has_maps,
    read_pictures,
    split_items,
    split_text,
    tested_items,
    turned_text,
)
from trainer.datasets import Dataset
from trainer.errors import UserError, check, some, visible
from trainer.sources import Member

Numbers = NDArray[np.int64]

BLUR_SHARE = 1 / 30
"""Default blur, as a share of the longer side of the median image. One degree of visual angle is 1/29 of it in
MIT1003 (35 of 1024 px) and 1/33 in OSIE (24 of 800 px)."""
MAX_BLUR_SHARE = 1 / 2
"""Blur above this share of the longer side of the median image is refused."""
SHOWN_FORMS = 5
SHOWN_COLUMNS = 8
FIRST_ROWS = 5
LOG_WIDTH = 120
"""Length of printed lines where there is no terminal."""


def find_recordings(
    members: Sequence[Member], row: Dataset, source: str, config: FetchConfig, is_test_set: bool = False
) -> tuple[Images, Dataset]:
    """Find the images, their maps and fixations, and split them; print what was understood.

    Returns the images of each split, and the row with the split and the blur in use.

    Args:
        members: the files of the source.
        row: the row of the dataset `custom`.
        source: its name in messages.
        config: the settings.
        is_test_set: whether no image is trained on. The validation images are then chosen by
            `images.tested_items` or, with a `test_share`, split like a training set.

    Raises:
        UserError: see `layout`, `chosen` and `fixations`; or an image is in both splits; or there are images for
            tests and a `test_share` too.
    """
    is_all_tested, training_split = is_test_set and not config.test_share, config.split
    if is_all_tested:  # the setting is that of the training sets
        config = dataclasses.replace(config, split="auto")
    workbooks = [member for member in members if member.path.lower().endswith(table.EXCEL)]
    if workbooks:
        raise table.excel(workbooks[0].origin)
    listed = [member for member in members if table.is_table(member.path)]
    others = [member for member in members if not table.is_table(member.path)]
    report = Report()
    images = find_images(others, row, source, config.split, is_all_tested)
    report.remarks += images.notes
    items, labels = images.items, images.labels
    names = ImageNames([item.stimulus.path for item in items])
    named, found, by_column = parse_columns(config.columns), None, False
    if listed:
        with tempfile.TemporaryDirectory(prefix="tables-") as unpacked:
            report.sources, report.other_tables = chosen.open_tables(
                listed, named, names, needed=not has_maps(items), unpacked=pathlib.Path(unpacked)
            )
            if report.sources:
                found, by_column = _with_fixations(items, labels, names, config, report)
    if found is None:
        check_maps(items, source)
        if named:
            raise UserError(f"columns is {config.columns!r}, but {source} has no table of fixations; leave it out")
        found = Usable(items, labels, read_pictures([item.stimulus for item in items]), [])
        check_column(config, by_column=False)
    split = "column" if by_column else "given" if images.by_folder else "shuffle"
    labelled = [item.stimulus.path for item, label in zip(found.items, found.labels, strict=True) if label == TEST]
    for_tests = images.for_tests or labelled
    check(
        not (for_tests and config.test_share),
        f"{len(for_tests):,} images of {source} are labelled test, and test_share is {config.test_share:g}; leave "
        "test_share out to test on these images, or set split=shuffle, which ignores the labels",
    )
    if is_all_tested:
        chosen_items, split_texts = tested_items(found, training_split, source)
    else:
        chosen_items, split_texts = split_items(found, split, row, source), [split_text(split)]
        if for_tests:
            split_texts.insert(0, f"Images for tests, left out: {len(for_tests):,} ({some(for_tests)}).")
    chosen_items = layout.keep_apart(chosen_items, row, config.n_kept_apart(len(chosen_items["valid"])))
    used_items = layout.only_tested(chosen_items, row) if is_test_set else {s: chosen_items[s] for s in SPLITS}
    report.n_images = {name: len(each) for name, each in used_items.items()}
    in_use = {id(item) for each in used_items.values() for item in each}
    report.n_fixations = sum(
        count for item, count in zip(found.items, found.n_fixations, strict=False) if id(item) in in_use
    )
    report.remarks += turned_text(found)
    blur_sigma_px = _blur_px(config, found.pictures)
    if found.items[0].map is None:
        report.remarks.append(_blur_text(config, blur_sigma_px))
    report.remarks += split_texts
    if TEST in chosen_items:
        report.remarks.append(layout.kept_apart_text(chosen_items, config.test_share))
    report.show()
    used = dataclasses.replace(row, split="given" if is_all_tested else split, blur_sigma_px=blur_sigma_px)
    return Images(chosen_items, report.sentences()), used


# === Fixations of tables ===


def _with_fixations(
    items: list[Item],
    labels: list[str],
    names: ImageNames,
    config: FetchConfig,
    report: "Report",
) -> tuple[Usable, bool]:
    """The images that have fixations in the tables, and whether a column of these tells the splits."""
    sources = report.sources
    if items[0].fixations is not None:
        raise UserError(
            f"there are fixations of {items[0].name} in {items[0].fixations.origin}, and in the table "
            f"{sources[0].origin}; remove one of the two kinds"
        )
    left_out = report.left_out
    rows = fixations.once(fixations.read_rows(sources, names, left_out), left_out)
    geometry, report.positions = fixations.geometry_of(
        config, [source.columns for source in sources], rows["x"].to_numpy(), rows["y"].to_numpy()
    )
    report.remarks += fixations.on_screen_hint([source.columns for source in sources], geometry)
    used = np.unique(rows["image"].to_numpy())
    pictures = read_pictures([items[image].stimulus for image in used])
    sizes = np.zeros((len(items), 2), np.int64)
    sizes[used] = [picture.size for picture in pictures]
    rows, points = fixations.placed(rows, geometry, sizes, left_out)
    by_column = column_labels(rows, items, sources[0].origin, config)
    labels = labels if by_column is None else by_column
    observers, n_observers = _observers(rows, sources, report)
    gazes = _by_image(rows["image"].to_numpy(), points, observers)
    report.n_observers = n_observers
    report.first_rows = _first_rows(rows, points, items)
    without = [items[image].stimulus.path for image in range(len(items)) if image not in gazes]
    if without:
        report.remarks.append(f"Images without a fixation, left out: {len(without):,} ({some(without)}).")
    by_number = dict(zip(used.tolist(), pictures, strict=True))
    found = Usable(
        [
            dataclasses.replace(items[image], fixations=_fixations(items[image], gaze))
            for image, gaze in gazes.items()
        ],
        [labels[image] for image in gazes],
        [by_number[image] for image in gazes],
        [len(gaze.points) for gaze in gazes.values()],
    )
    return found, by_column is not None


def _fixations(item: Item, gaze: Gaze) -> Fixations:
    return Fixations(f"the fixations of {item.name}", lambda _size: gaze)


def _by_image(images: NDArray[np.int32], points: Points, observers: Numbers | None) -> dict[int, Gaze]:
    """The fixations of each image, in the order of the rows."""
    order = np.argsort(images, kind="stable")
    numbers, starts = np.unique(images[order], return_index=True)
    parts = np.split(order, starts[1:])
    return {
        int(number): Gaze(points[part], None if observers is None else observers[part])
        for number, part in zip(numbers, parts, strict=True)
    }


def _observers(rows: pl.DataFrame, sources: Sequence[Source], report: "Report") -> tuple[Numbers | None, int]:
    """The observer of each row, counted from 0 by the order of names, and their number; None if it is not known.

    Without a column of observers, each table is one observer if some image is in more than one table.
    """
    column = "observer"
    if not any("observer" in source.columns.index for source in sources):
        column = "owner"
        pairs = rows.select("image", column).unique()
        if pairs["image"].n_unique() == len(pairs):
            return None, 0
        report.remarks.append("Without a column of observers, each table was taken as one observer.")
    if n_unknown := rows[column].null_count():
        report.remarks.append(f"{n_unknown:,} fixations have no observer, so observers are not told apart.")
        return None, 0
    names = rows[column].unique().cast(pl.String).sort()
    numbers = rows[column].cast(pl.String).cast(pl.Enum(names)).to_physical()
    return numbers.cast(pl.Int64).to_numpy(), len(names)


def _first_rows(rows: pl.DataFrame, points: Points, items: Sequence[Item]) -> "list[FirstRow]":
    first = rows.head(FIRST_ROWS).select("image", "x", "y", pl.col("observer").cast(pl.String).fill_null(""))
    return [
        FirstRow(items[image].stimulus.path, x, y, (int(pixel[0]), int(pixel[1])), observer)
        for (image, x, y, observer), pixel in zip(first.rows(), points, strict=False)
    ]


# === Blur ===


def _blur_px(config: FetchConfig, pictures: Sequence[Picture]) -> float:
    longer = float(np.median([max(picture.size) for picture in pictures]))
    blur_px = config.blur_px or config.pixels_per_degree
    if blur_px > MAX_BLUR_SHARE * longer:
        name = "blur_px" if config.blur_px else "pixels_per_degree"
        raise UserError(
            f"{name} is {blur_px:g}, but the longer side of the median image has only {longer:g} pixels; set "
            f"{name} to the pixels of one degree of visual angle (350 may be 35.0 without its point)"
        )
    return blur_px or max(1.0, round(BLUR_SHARE * longer, 1))


def _blur_text(config: FetchConfig, blur_px: float) -> str:
    why = "1/30 of the median image's longer side; blur_px or pixels_per_degree set another"
    if config.blur_px:
        why = "blur_px"
    elif config.pixels_per_degree:
        why = "one degree of visual angle"
    return f"Fixations become a density with a Gaussian of sigma {blur_px:g} pixels ({why})."


# === Report ===


@dataclasses.dataclass(frozen=True)
class FirstRow:
    """A row of a table, for people."""

    image: str
    x: float
    y: float
    pixel: tuple[int, int]
    """(y, x) in the image."""
    observer: str


@dataclasses.dataclass
class Report:
    """What was understood, and what was left out and why."""

    sources: Sequence[Source] = ()
    other_tables: Sequence[str] = ()
    """Tables without fixations."""
    positions: str = ""
    """What positions mean, and why they were taken so."""
    first_rows: Sequence[FirstRow] = ()
    n_fixations: int = 0
    n_observers: int = 0
    """0 if observers are not told apart."""
    n_images: dict[str, int] = dataclasses.field(default_factory=dict)
    left_out: LeftOut = dataclasses.field(default_factory=LeftOut)
    remarks: list[str] = dataclasses.field(default_factory=list)
    """Further sentences for people."""

    def sentences(self) -> list[str]:
        """The sentences of the report, which depend on the data and the settings alone."""
        notes = [*self._forms(), *self._unused()]
        if self.other_tables:
            notes.append(f"Tables without fixations, left out: {some(self.other_tables)}.")
        if self.positions:
            notes.append(self.positions)
        for row in self.first_rows[:1]:
            by = f" by {row.observer}" if row.observer else ""
            notes.append(
                f"The first fixation{by} is at x {row.x:g}, y {row.y:g} of {row.image}: pixel {row.pixel[1]} from "
                f"the left, {row.pixel[0]} from the top."
            )
        titles = {"train": "training", "valid": "validation", "test": "test"}
        counted = "Images: " + ", ".join(f"{count:,} {titles[name]}" for name, count in self.n_images.items())
        if self.n_fixations:
            who = f"observers: {self.n_observers:,}" if self.n_observers else "observers are not told apart"
            counted += f"; fixations: {self.n_fixations:,}; {who}"
        notes.append(f"{counted}.")
        if self.left_out.rows:
            notes.append(f"Rows left out: {self.left_out.text}.")
        if self.left_out.hint:
            notes.append(f"{self.left_out.hint}.")
        return notes + self.remarks

    def _forms(self) -> list[str]:
        by_form = collections.defaultdict[Form, list[Source]](list)
        for source in self.sources:
            by_form[source.form].append(source)
        sentences = []
        for sources in list(by_form.values())[:SHOWN_FORMS]:
            first = sources[0]
            what = first.origin
            if len(sources) > 1:
                what = f"{len(sources):,} tables such as {what}"
            columns = ", ".join(f"{role} is {name!r}" for role, name in first.names.items())
            if first.image is not None:
                columns += "; the image is that of the table's name"
            sentences.append(f"{what} ({first.head.form}): {columns}.")
        if len(by_form) > SHOWN_FORMS:
            sentences.append(f"{len(by_form) - SHOWN_FORMS} more forms of tables.")
        return sentences

    def _unused(self) -> list[str]:
        names = list(dict.fromkeys(name for source in self.sources for name in source.unused))
        if not names:
            return []
        shown = some([repr(name[:40]) for name in names], SHOWN_COLUMNS)
        is_told = self.n_observers or any("observer" in source.columns.index for source in self.sources)
        hint = "" if is_told else " If one tells observers apart, name it with `columns`: observer=NAME."
        return [f"Columns that were not used: {shown}.{hint}"]

    def show(self) -> None:
        """Print the report."""
        width = None if sys.stdout.isatty() else LOG_WIDTH
        console = Console(file=sys.stdout, width=width, highlight=False, markup=False)
        console.print("What was understood:")
        for sentence in self.sentences():
            console.print(visible(f"- {sentence}"))
        if not self.first_rows:
            return
        rows = Grid(
            "image", "x", "y", "pixel from the left", "from the top", "observer", title="The first fixations"
        )
        rows.title_justify = "left"
        for row in self.first_rows:
            rows.add_row(row.image, f"{row.x:g}", f"{row.y:g}", *map(str, row.pixel[::-1]), visible(row.observer))
        console.print(rows)
