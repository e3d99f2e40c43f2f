"""The dataset `custom`: find its images, with their maps, files of fixations, or tables of fixations.

Beside tables, images lie in any folders. Without tables, the names of folders tell what a file is (see
`source_layout`). A column, folders, or hashes of names decide the split. How the data was read is printed,
and returned in sentences (see `Report`).
"""

import collections
import dataclasses
import os
import pathlib
import posixpath
import tempfile
from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from trainer.data import source_layout, splits
from trainer.data.bad_images import BadImages
from trainer.data.copies import with_copies
from trainer.data.prepared_data import SPLITS, TEST
from trainer.data.recordings import fixations
from trainer.data.recordings.fixations import Found, LeftOut, find_fixations
from trainer.data.recordings.image_names import ImageNames
from trainer.data.recordings.readings import AmbiguousReadingsError, choose_geometry
from trainer.data.recordings.tables import Source, is_table, open_tables
from trainer.data.settings import FetchConfig, parse_columns
from trainer.data.source_layout import (
    KINDS,
    MAX_PIXELS,
    MOST_IMAGE_BYTES,
    ROLES,
    SPLIT_LABELS,
    Fixations,
    Gaze,
    Item,
    Points,
    Size,
    folder_word,
)
from trainer.data.splits import SplitImages
from trainer.datasets import HASH, HASH_BY_FOLDER, Dataset
from trainer.errors import AmbiguousError, ContentError, SettingError, UserError, check
from trainer.machine import Tracker, map_ahead, open_pool
from trainer.pictures import PICTURE_SUFFIXES, SUFFIXES, Picture, read_picture
from trainer.places import Member
from trainer.texts import some, visible

BLUR_SHARE = 1 / 30
"""Default blur, as a share of the longer side of the median image. One degree of visual angle is 1/29 of it in
MIT1003 (35 of 1024 px) and 1/33 in OSIE (24 of 800 px)."""
MAX_BLUR_SHARE = 1 / 2
"""Blur above this share of the longer side of the median image is refused."""
MAX_WORKERS = 32
MOST_OUTSIDE = 0.5
"""Largest share of positions outside of their images where the settings, or the tables, say what positions
mean."""
FEW_OBSERVERS = 3
"""Tables of fewer people count as observers only if times of fixations show that each table is of one person."""
MOST_EVIDENCE = 100_000
"""Number of fixations that tell the unit of all."""
SHOWN_FORMS = 5
SHOWN_COLUMNS = 8


@dataclasses.dataclass
class Usable:
    """The images that can be used."""

    items: list[Item]
    labels: list[str]
    """The split of each item, by its folder or a column. Empty if neither tells."""
    sizes: list[Size]
    """(h, w) of each item's upright picture."""
    n_fixations: list[int]
    """Number of fixations of each item. Empty if tables have none."""


def find_recordings(
    members: Sequence[Member],
    row: Dataset,
    source: str,
    config: FetchConfig,
    bad: BadImages,
    is_test_set: bool = False,
) -> SplitImages:
    """Find the images, their maps and fixations, and split them. Print how the data was read.

    Images that cannot be used are put aside into `bad`. For a test set without a `test_share`, `tested_items`
    chooses the images. With a `test_share` they are split like a training set.

    Raises:
        UserError: see `source_layout`, `tables` and `fixations`. Also: an image is in both splits, or there
            are images for tests and a `test_share` too.
    """
    is_all_tested, training_split = is_test_set and not config.test_share, config.split
    if is_all_tested:  # the user wrote this setting for the training sets
        config = dataclasses.replace(config, split="auto")
    others = [member for member in members if not is_table(member.path)]
    images = find_images(others, row, source, config.split, bad, is_all_tested)
    report = Report(remarks=images.notes)
    tables = [each for each in members if is_table(each.path)]
    try:
        usable, by_column = _usable(tables, images, source, config, report, bad)
    except AmbiguousReadingsError as error:
        paths = {path for reading in error.readings for path in reading.fixations}
        members = [item.stimulus for item in images.items if item.stimulus.path in paths]
        error.pictures = {each.path: read_picture(each.content(MOST_IMAGE_BYTES), each.origin) for each in members}
        raise
    if config.split == "column" and not by_column:
        raise SettingError(
            "split is column, but no table has a column of splits. Name it with `columns`, such as split=NAME, or "
            "set split to folders or hash"
        )
    drawn = HASH if config.split in ("auto", "folders", "column") else config.split
    split = "column" if by_column else "given" if images.by_folder else drawn
    used = dataclasses.replace(row, split=split, blur_sigma_px=_blur_px(config, usable.sizes))
    pairs = zip(usable.items, usable.labels, strict=True)
    for_tests = images.for_tests or [item.stimulus.path for item, label in pairs if label == TEST]
    check(
        not (for_tests and config.test_share),
        f"{len(for_tests):,} images of {source} are labelled test, and test_share is {config.test_share:g}. Leave "
        "test_share out to test on these images, or set split=hash, which ignores the labels",
        SettingError,
    )
    folders = {item.stimulus.path.rpartition("/")[0] for item in usable.items}
    method = "" if is_all_tested and len(folders) == 1 else training_split if is_all_tested else split
    usable.items, about_copies = with_copies([with_split_key(item, method) for item in usable.items])
    if is_all_tested:
        used = dataclasses.replace(used, split="given")
        items, about_split = tested_items(usable, training_split, source)
    else:
        share = config.test_share
        items = splits.split_items(usable.items, usable.labels, split, used, source, share)
        about_split = [SPLIT_TEXTS[split]]
        if for_tests:
            about_split.insert(0, f"Images for tests, left out: {len(for_tests):,} ({some(for_tests)}).")
    in_use = splits.only_tested(items, used) if is_test_set else {name: items[name] for name in SPLITS}
    report.count(in_use, usable)
    if usable.items[0].map is None:
        report.remarks.append(_about_blur(config, used.blur_sigma_px))
    report.remarks += about_copies
    report.remarks += about_split
    if TEST in items:
        report.remarks.append(splits.kept_apart_text(items, config.test_share))
    sentences = report.sentences()
    print("\n".join(["How the data was read:", *(visible(f"- {sentence}") for sentence in sentences)]))
    return SplitImages(items, used, sentences)


# === Find the images ===


@dataclasses.dataclass(frozen=True)
class LabelledImages:
    """The images of a source."""

    items: list[Item]
    """With their own files of maps and fixations, if there are any."""
    labels: list[str]
    """The split of each item by its folder. Empty without one."""
    by_folder: bool
    """Whether folders split the training from the validation."""
    for_tests: list[str] = dataclasses.field(default_factory=list)
    """Paths of the images in test/ that are left out of the items. They need no maps, since the others are
    trained on."""
    notes: list[str] = dataclasses.field(default_factory=list)
    """Sentences for people."""


def find_images(
    members: Sequence[Member], row: Dataset, source: str, split: str, bad: BadImages, is_all_tested: bool
) -> LabelledImages:
    """Find the images among the files of a source, without tables, and the files of their maps and fixations.

    `split` is the setting. With `is_all_tested`, only images in test/ are used, if there are any.

    Raises:
        UserError: there is no image, or too many have no counterpart (see `source_layout`).
    """
    roles = [folder_word(member.path, ROLES) for member in members]
    pictures = [
        (member, role)
        for member, role in zip(members, roles, strict=True)
        if member.path.lower().endswith(PICTURE_SUFFIXES)
    ]
    if "map" in roles or "fixations" in roles:
        paths = [member.path for member, role in pictures if role == "stimulus"]
        return _with_maps(members, paths, row, source, split, bad, is_all_tested)
    if not pictures:
        raise ContentError(f"{source} has no image ({', '.join(SUFFIXES)}) among its files. Put the images there")
    paths = [member.path for member, _ in pictures]
    # Names without the folders that all images share, so that an archive gives the same names as its folder.
    shared = posixpath.commonpath([posixpath.dirname(path) for path in paths])
    items = [Item(member.path[len(shared) :].lstrip("/"), member, None, None) for member, _ in pictures]
    bad.n_images = len(items)
    return LabelledImages(items, *folder_labels(paths, split))


def _with_maps(
    members: Sequence[Member],
    paths: Sequence[str],
    row: Dataset,
    source: str,
    split: str,
    bad: BadImages,
    is_all_tested: bool,
) -> LabelledImages:
    """The images at `paths` with their files of maps and fixations."""
    labels, by_folder = folder_labels(paths, split)
    for_tests = [path for path, label in zip(paths, labels, strict=True) if label == TEST]
    if for_tests:  # only the images that are used need maps
        members = [each for each in members if (_label_of(each.path) == TEST) == is_all_tested]
    by_folder = by_folder and not (for_tests and is_all_tested)
    row = dataclasses.replace(row, split="given" if by_folder else HASH)
    images = source_layout.find_items(members, row, source, bad)
    if for_tests and is_all_tested:
        return LabelledImages(images.items, [TEST] * len(images.items), by_folder, notes=images.notes)
    return LabelledImages(images.items, images.labels, by_folder, for_tests, images.notes)


def folder_labels(paths: Sequence[str], split: str) -> tuple[list[str], bool]:
    """The split of each image by its folders, and whether folders divide training from validation images.

    With the setting `auto`:
    - A folder test/ counts if there are images outside of it.
    - The folders train/ and val/ count if there are both.

    Example: a/train/1.png is `train` if another image is below val/.
    """
    labels = [_label_of(path) for path in paths]
    if split == "folders" or (split == "auto" and set(SPLITS) <= set(labels)):
        return labels, True
    has_tests = split == "auto" and set(labels) != {TEST}
    return [label if label == TEST and has_tests else "" for label in labels], False


def _label_of(path: str) -> str:
    """The split that the deepest folder of a path names, or empty. Example: `train` for a/training/1.png."""
    return folder_word(path, SPLIT_LABELS)


def _read_pictures(items: Sequence[Item], indices: Sequence[int], bad: BadImages) -> dict[int, Size]:
    """The upright (h, w) of the images at these positions. Files that are no images are put aside."""
    n_threads = min(os.cpu_count() or 1, MAX_WORKERS)
    pictures = {}
    with Tracker("read images", len(indices), "images") as tracker, open_pool(n_threads) as pool:
        read = map_ahead(pool, lambda index: _read_size(items[index].stimulus), indices, 4 * n_threads)
        for index, picture in zip(indices, read, strict=True):
            if isinstance(picture, ContentError):
                bad.add(items[index].name, picture)
                bad.check()
            else:
                pictures[index] = picture
            tracker.advance()
    return pictures


def _read_size(member: Member) -> Size | ContentError:
    try:
        return Picture(member.content(MOST_IMAGE_BYTES), member.origin, MAX_PIXELS).size
    except ContentError as error:
        return error


# === Fixations ===


def _usable(
    tables: Sequence[Member],
    images: LabelledImages,
    source: str,
    config: FetchConfig,
    report: "Report",
    bad: BadImages,
) -> tuple[Usable, bool]:
    """The images with known maps or fixations, and whether a column of tables tells the splits.

    Raises:
        UserError: nothing tells where people looked, or two kinds of files do.
    """
    items, named = images.items, parse_columns(config.columns)
    names = ImageNames([item.stimulus.path for item in items])
    has_maps = items[0].map is not None or items[0].fixations is not None
    map_folders = "" if has_maps else source_layout.about_map_folders([item.stimulus.path for item in items])
    try:
        with tempfile.TemporaryDirectory(prefix="tables-") as unpacked:
            opened, report.other_tables = open_tables(tables, named, not has_maps, pathlib.Path(unpacked))
            found = find_fixations(opened, names, config, not has_maps, report.left_out)
    except UserError as error:
        if not map_folders:
            raise
        raise ContentError(f"{error}{map_folders}") from None
    if found is not None:
        if items[0].fixations is not None:
            raise AmbiguousError(
                f"there are fixations of {items[0].name} in {items[0].fixations.origin}, and in the table "
                f"{found.sources[0].origin}. Remove one of the two kinds"
            )
        report.add(found)
        return _with_fixations(images, found, names, config, report, bad)
    report.other_tables = [*report.other_tables, *(source.origin for source in opened)]
    if not has_maps:
        raise ContentError(
            f"{source} has {len(items):,} images, but nothing that tells where people looked: put a table of "
            "fixations (.csv, .tsv, .txt or .parquet) beside them, or the images into a folder named stimuli, and "
            f"their maps into one named maps, or fixations{map_folders}"
        )
    if named:
        raise SettingError(f"columns is {config.columns!r}, but {source} has no table of fixations. Leave it out")
    pictures = _read_pictures(items, range(len(items)), bad)
    labels = [images.labels[index] for index in pictures]
    return Usable([items[index] for index in pictures], labels, list(pictures.values()), []), False


def _with_fixations(
    images: LabelledImages,
    found: Found,
    names: ImageNames,
    config: FetchConfig,
    report: "Report",
    bad: BadImages,
) -> tuple[Usable, bool]:
    """The images that have fixations in the tables, and whether a column of these tells the splits."""
    items, sources, left_out, rows = images.items, report.sources, report.left_out, found.rows
    pictures = _read_pictures(items, sorted({*rows["image"].unique().to_list()} - {-1}), bad)
    fixations.check_lost(found, names, len(bad.reasons), config)
    if unknown := found.unknown.total():
        shown = some([repr(label[:60]) for label in found.unknown])
        left_out[f"of images that are not there ({shown})"] += unknown
    rows = rows.filter(pl.col("image").is_in(list(pictures)))
    sizes = np.zeros((len(items), 2), np.int64)
    sizes[list(pictures)] = list(pictures.values())
    some_rows = rows.gather_every(1 + len(rows) // MOST_EVIDENCE)
    geometry, report.positions = choose_geometry(
        config,
        [source.columns for source in sources],
        fixations.positions_of(some_rows, sizes),
        [names.paths[image] for image in some_rows["image"]],
    )
    is_told = geometry.is_set or config.coordinates != "auto"
    most_outside = max(MOST_OUTSIDE if is_told else 0, config.max_lost_share)
    rows, points, report.hint = fixations.placed(rows, geometry, sizes, left_out, most_outside)
    by_column = column_labels(rows, items, sources[0].origin, config)
    labels = by_column or images.labels
    items = with_groups(items, rows, sources[0].origin)
    observers = _observers(rows, report)
    report.first = _about_first(rows, points, items)
    gazes = _by_image(rows["image"].to_numpy(), points, observers)
    unused = [item for image, item in enumerate(items) if image not in gazes and item.name not in bad.reasons]
    without = [item.stimulus.path for item in unused]
    if without:
        report.remarks.append(f"Images without a fixation, left out: {len(without):,} ({some(without)}).")
    usable = Usable(
        [_with_gaze(items[image], gaze) for image, gaze in gazes.items()],
        [labels[image] for image in gazes],
        [pictures[image] for image in gazes],
        [len(gaze.points) for gaze in gazes.values()],
    )
    return usable, by_column is not None


def _with_gaze(item: Item, gaze: Gaze) -> Item:
    return dataclasses.replace(item, fixations=Fixations(f"the fixations of {item.name}", lambda _size: gaze))


def _by_image(images: NDArray[np.int32], points: Points, observers: NDArray[np.int64] | None) -> dict[int, Gaze]:
    """The fixations of each image, in the order of the rows."""
    order = np.argsort(images, kind="stable")
    numbers, starts = np.unique(images[order], return_index=True)
    parts = np.split(order, starts[1:])
    return {
        int(number): (
            Gaze(points[part], None)
            if observers is None
            else Gaze(points[part], observers[part], has_known_observers=True)
        )
        for number, part in zip(numbers, parts, strict=True)
    }


def _observers(rows: pl.DataFrame, report: "Report") -> NDArray[np.int64] | None:
    """The observer of each row, counted from 0 by the order of names. None if observers are not told apart.

    Without a column of observers, each table is one observer if some image is in more than one table.
    Example: the tables p1.csv, p2.csv and p3.csv, all with rows of a.png.
    """
    column = "observer"
    if not any("observer" in source.columns.index for source in report.sources):
        column = "owner"
        pairs = rows.select("image", column).unique()
        if pairs["image"].n_unique() == len(pairs) or not fixations.is_one_person_each(rows):
            return None
        if pairs[column].n_unique() < FEW_OBSERVERS and not rows["time"].count():
            report.remarks.append(
                "Two tables, or two folders of them, may be two people or two groups, so observers are not told "
                "apart."
            )
            return None
        owners = rows[column].cast(pl.String).unique().sort().to_list()
        if fixations.is_grid(owners):
            report.remarks.append(
                f"Names of tables differ in two ways ({some(owners)}), as by people and sessions, so observers "
                "are not told apart."
            )
            return None
        report.remarks.append(f"Without a column of observers, names of tables tell them: {some(owners)}.")
    elif (several := fixations.share_in_several_tables(rows)) > fixations.MAX_SEVERAL:
        report.remarks.append(
            f"Several tables have the same observer's fixations on the same image ({several:.0%} of these): "
            "perhaps different people have one name, so observers are not told apart."
        )
        return None
    if n_unknown := rows[column].null_count():
        report.remarks.append(f"{n_unknown:,} fixations have no observer, so observers are not told apart.")
        return None
    names = rows[column].unique().cast(pl.String).sort()
    report.n_observers = len(names)
    numbers = rows[column].cast(pl.String).cast(pl.Enum(names)).to_physical()
    return numbers.cast(pl.Int64).to_numpy()


def _about_first(rows: pl.DataFrame, points: Points, items: Sequence[Item]) -> str:
    image, x, y, observer = rows.select("image", "x", "y", "observer").row(0)
    by = f" by {observer}" if observer else ""
    return (
        f"The first fixation{by} is at x {x:g}, y {y:g} of {items[image].stimulus.path}: pixel {points[0][1]} "
        f"from the left, {points[0][0]} from the top."
    )


# === Splits ===


SPLIT_TEXTS = {
    "given": "Split by the folders train and val.",
    "column": "Split by a column of the tables.",
    HASH: "Split by hashes of the images' names: about 80% for training, 20% for validation.",
    HASH_BY_FOLDER: "Split by hashes of the folders' names: about 80% for training, 20% for validation.",
    "shuffle": "Split by a seeded shuffle: 80% for training, 20% for validation.",
}


def column_labels(rows: pl.DataFrame, items: Sequence[Item], origin: str, config: FetchConfig) -> list[str] | None:
    """The split of each of `items` by the column of splits in all rows. None if no column may be used.

    Example: a cell may hold train, val or test. A column `split` with the values A and B is ignored by
    `auto`.
    """
    pairs = rows.select("image", pl.col("split").cast(pl.String)).unique().sort("image", "split").rows()
    words = {word for _, word in pairs if word}
    unknown = sorted(word for word in words if word.lower() not in SPLIT_LABELS)
    if config.split not in ("auto", "column") or not words or (config.split == "auto" and unknown):
        return None  # perhaps a column about something else
    if unknown:
        raise ContentError(f"the column of splits has {unknown[0]!r}. Write train, val or test")
    labels = [""] * len(items)
    for image, word in pairs:
        name = items[image].stimulus.path
        if word is None:
            raise ContentError(f"{name} has rows without a split in {origin}. Write train, val or test")
        label = SPLIT_LABELS[word.lower()]
        if labels[image] not in ("", label):
            raise ContentError(
                f"{name} is in two splits by the tables, {labels[image]} and {label}. All rows of an image must "
                "be in one"
            )
        labels[image] = label
    return labels


def with_split_key(item: Item, split_method: str) -> Item:
    """Give an image its `Item.split_key`: the name of its group, or its own name without the suffix.

    The own name has one folder. Example: `face/a` for study/face/a.png. It depends on no other image, unlike
    `Item.name`, since this lacks the folders that all images share. With HASH_BY_FOLDER, the folder is the
    group of an image without a group in the tables.
    """
    folder, _, _ = item.stimulus.path.rpartition("/")
    own = splits.without_suffix("/".join(item.stimulus.path.split("/")[-2:]))
    group = item.group or (folder if split_method == HASH_BY_FOLDER else "")
    return dataclasses.replace(item, split_key=group or own, group=group)


def with_groups(items: Sequence[Item], rows: pl.DataFrame, origin: str) -> list[Item]:
    """Give each image the group that the column `group` of the tables names, if there is one.

    Raises:
        UserError: the rows of an image name two groups.
    """
    named = rows.select("image", pl.col("group").cast(pl.String)).drop_nulls().unique().sort("image", "group")
    groups: dict[int, str] = {}
    for image, group in named.rows():
        if groups.setdefault(image, group) != group:
            raise ContentError(
                f"{items[image].stimulus.path} is in two groups by {origin}, {groups[image]} and {group}. All "
                "rows of an image must name one"
            )
    return [dataclasses.replace(item, group=groups.get(image, "")) for image, item in enumerate(items)]


def tested_items(usable: Usable, split: str, source: str) -> tuple[dict[str, list[Item]], list[str]]:
    """The images of a test set, as validation images, and sentences about their choice.

    They are the first of these that there are:
    - the images labelled test,
    - the images labelled validation,
    - all images.

    Raises:
        UserError: `split`, the setting of the training set, says that images are labelled, but none is
            labelled test.
    """
    label = next((name for name in (TEST, "valid") if name in usable.labels), "")
    if label == "valid" and split in ("folders", "column"):
        raise SettingError(
            f"split is {split}, but no image of {source} is labelled test: label some, or set test_share, such as "
            "0.5, to keep a part of the validation images apart"
        )
    pairs = zip(usable.items, usable.labels, strict=True)
    chosen = [item for item, own in pairs if own == label or not label]
    texts = {
        TEST: ["Tested on the images labelled test."],
        "valid": ["Tested on the validation images, because none is labelled test."],
    }
    return {"train": [], "valid": sorted(chosen, key=lambda item: item.name)}, texts.get(label, [])


# === Blur ===


def _blur_px(config: FetchConfig, sizes: Sequence[Size]) -> float:
    longer = float(np.median([max(size) for size in sizes]))
    blur_px = config.blur_px or config.pixels_per_degree
    if blur_px > MAX_BLUR_SHARE * longer:
        name = "blur_px" if config.blur_px else "pixels_per_degree"
        raise SettingError(
            f"{name} is {blur_px:g}, but the longer side of the median image has only {longer:g} pixels. Set "
            f"{name} to the pixels of one degree of visual angle (350 may be 35.0 without its point)"
        )
    return blur_px or max(1.0, round(BLUR_SHARE * longer, 1))


def _about_blur(config: FetchConfig, blur_px: float) -> str:
    why = "1/30 of the median image's longer side, unless blur_px or pixels_per_degree is set"
    if config.blur_px:
        why = "blur_px"
    elif config.pixels_per_degree:
        why = "one degree of visual angle"
    return f"Fixations become a density with a Gaussian of sigma {blur_px:g} pixels ({why})."


# === Report ===


@dataclasses.dataclass
class Report:
    """How the data was read, and what was left out and why."""

    sources: Sequence[Source] = ()
    other_tables: Sequence[str] = ()
    """Tables without fixations."""
    how: str = ""
    """A sentence about what names the images, if it is no column."""
    positions: Sequence[str] = ()
    """Sentences on what positions mean, and why they were taken so."""
    first: str = ""
    """A sentence about the first fixation."""
    n_fixations: int = 0
    n_observers: int = 0
    """0 if observers are not told apart."""
    n_images: dict[str, int] = dataclasses.field(default_factory=dict)
    left_out: LeftOut = dataclasses.field(default_factory=collections.Counter)
    hint: str = ""
    """What would leave fewer rows out."""
    remarks: list[str] = dataclasses.field(default_factory=list)
    """Further sentences for people."""

    def add(self, found: Found) -> None:
        """Add how the tables were read."""
        self.sources = found.sources
        self.how = found.how
        self.other_tables = [*self.other_tables, *found.others]
        self.remarks += found.notes

    def count(self, items: dict[str, list[Item]], usable: Usable) -> None:
        """Count the images that are used, and their fixations."""
        self.n_images = {name: len(each) for name, each in items.items()}
        in_use = {id(item) for each in items.values() for item in each}
        counts = zip(usable.items, usable.n_fixations, strict=False)
        self.n_fixations = sum(count for item, count in counts if id(item) in in_use)

    def sentences(self) -> list[str]:
        """The sentences of the report, which depend on the data and the settings alone."""
        notes = [*self._forms(), *self._unused()]
        if self.other_tables:
            notes.append(f"Tables without fixations, left out: {some(self.other_tables)}.")
        notes += filter(None, (*self.positions, self.first))
        counted = "Images: " + ", ".join(f"{count:,} {KINDS[name]}" for name, count in self.n_images.items())
        if self.n_fixations:
            who = f"Observers: {self.n_observers:,}" if self.n_observers else "Observers are not told apart"
            counted += f". Fixations: {self.n_fixations:,}. {who}"
        notes.append(f"{counted}.")
        if self.left_out.total():
            notes.append(f"Rows left out: {fixations.left_out_text(self.left_out)}.")
        if self.hint:
            notes.append(f"{self.hint}.")
        return notes + self.remarks

    def _forms(self) -> list[str]:
        """A sentence for each form of tables: a few of their names, and what their columns hold.

        Example: `p1.csv (commas): x is 'fix_x', y is 'fix_y'.`
        """
        origins = collections.defaultdict[str, list[str]](list)
        for source in self.sources:
            columns = ", ".join(f"{role} is {name!r}" for role, name in source.names.items())
            origins[f"({source.head.form}): {columns}."].append(source.origin)
        forms = [f"{some(names)} {form}" for form, names in list(origins.items())[:SHOWN_FORMS]]
        return [*forms, self.how] if self.how else forms

    def _unused(self) -> list[str]:
        names = list(dict.fromkeys(name for source in self.sources for name in source.unused))
        if not names:
            return []
        shown = some([repr(name[:40]) for name in names], SHOWN_COLUMNS)
        is_told = self.n_observers or any("observer" in source.columns.index for source in self.sources)
        hint = "" if is_told else " If one tells observers apart, name it with `columns`: observer=NAME."
        return [f"Columns that were not used: {shown}.{hint}"]
