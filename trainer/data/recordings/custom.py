"""The dataset `custom`: find its images, with their maps, files of fixations, or tables of fixations.

Beside tables, images lie in any folders. Without tables, the names of folders tell what a file is (see
`source_layout`). A column, folders, or hashes of names decide the split. How the data was read is printed,
and returned in sentences (see `Report`).
"""

import collections
import dataclasses
import functools
import os
import pathlib
import posixpath
import re
import tempfile
from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from trainer.data import source_layout, splits
from trainer.data.bad_images import BadImages
from trainer.data.copies import with_copies
from trainer.data.prepared_data import SPLITS, TEST
from trainer.data.recordings.contradictions import doubts_of_positions
from trainer.data.recordings.evidence import doubts_of_rows
from trainer.data.recordings.geometry import Geometry
from trainer.data.recordings.image_names import ImageNames, folded, is_number
from trainer.data.recordings.pictures import PictureWitness
from trainer.data.recordings.proposal import Proposal, propose
from trainer.data.recordings.questions import AmbiguousReadingsError
from trainer.data.recordings.reading import FILE, MOST_BYTES, READING, Reading
from trainer.data.recordings.rows import (
    MOST_OUTSIDE,
    LeftOut,
    Recorded,
    left_out_text,
    observer_numbers,
    placed,
    positions_of,
    read_fixations,
)
from trainer.data.recordings.tables import Head, is_table
from trainer.data.recordings.unread import about_unread
from trainer.data.settings import FetchConfig, parse_columns
from trainer.data.source_layout import (
    KINDS,
    MAX_PIXELS,
    MOST_IMAGE_BYTES,
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
from trainer.errors import AmbiguousError, ConflictError, ContentError, SettingError, UserError, check
from trainer.machine import Tracker, map_ahead, open_pool
from trainer.pictures import PICTURE_SUFFIXES, SUFFIXES, Picture, Pixels, read_picture
from trainer.places import Member
from trainer.texts import some, visible
from trainer.witness import LEAST, Testimony, Verdict

BLUR_SHARE = 1 / 30
"""Default blur, as a share of the longer side of the median image. One degree of visual angle is 1/29 of it in
MIT1003 (35 of 1024 px) and 1/33 in OSIE (24 of 800 px)."""
MAX_BLUR_SHARE = 1 / 2
"""Blur above this share of the longer side of the median image is refused."""
MAX_WORKERS = 32
MOST_TABLES = 4
"""So many tables are asked about one by one, with a dozen pictures each. More are of one person each."""
MUCH = 3
"""Where all positions agree so many times more than what counts, a table that agrees less than that is odd."""
SAID_BY_READING = ("columns", "coordinates", "screen_size", "image_on_screen")
"""Settings that a reading replaces."""
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
    members, reading, confirmed = _with_reading(members, config)
    others = [member for member in members if not is_table(member.path)]
    images = find_images(others, row, source, config.split, bad, is_all_tested)
    report = Report(remarks=[*images.notes, *([f"{images.unread}."] if images.unread else [])])
    tables = [each for each in members if is_table(each.path)]
    try:
        usable, by_column = _usable(tables, images, source, config, report, bad, reading, confirmed)
    except AmbiguousReadingsError as error:
        error.pictures = _drawn_pictures(error, images.items)
        raise
    if config.split == "column" and not by_column:
        raise SettingError(
            "split is column, but no table has a column of splits. Name it, such as columns=split=NAME, or "
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
    return SplitImages(items, used, sentences, report.reading.text if report.reading else "", confirmed)


def propose_recordings(members: Sequence[Member], row: Dataset, source: str, config: FetchConfig) -> Proposal:
    """Propose how tables are read, with pictures for a page. Files of maps and fixations are not looked at.

    Raises:
        UserError: see `find_images` and `propose`. Also: there is a reading already, or no table of fixations.
    """
    members, reading, confirmed = _with_reading(members, config)
    check(reading is None, f"{source} has a {READING} already. Remove it to propose another one", ConflictError)
    others = [member for member in members if not is_table(member.path)]
    bad = BadImages()
    items = find_images(others, row, source, config.split, bad, is_all_tested=False).items
    pictures, names = _Pictures(items, bad), ImageNames([item.stimulus.path for item in items])
    tables = [each for each in members if is_table(each.path)]
    with tempfile.TemporaryDirectory(prefix="tables-") as unpacked:
        proposal = propose(tables, names, config, True, pictures, pathlib.Path(unpacked), confirmed)
    if proposal is None:
        raise ContentError(f"{source} has no table of fixations")
    for error in proposal.doubts:
        error.pictures = _drawn_pictures(error, items)
    return proposal


def _drawn_pictures(error: AmbiguousReadingsError, items: Sequence[Item]) -> dict[str, Pixels]:
    """The pictures on which a page draws the options of a question."""
    paths = {path for option in error.readings for path in option.fixations}
    members = [item.stimulus for item in items if item.stimulus.path in paths]
    return {each.path: read_picture(each.content(MOST_IMAGE_BYTES), each.origin) for each in members}


def _with_reading(
    members: Sequence[Member], config: FetchConfig
) -> tuple[list[Member], Reading | None, Sequence[str]]:
    """The other files, the reading among them if there is one, and the checks that a person overrules.

    Raises:
        UserError: the file is wrong, or settings say the same as it.
    """
    found = [member for member in members if posixpath.basename(member.path) == READING]
    if not found:
        return list(members), None, ()
    if len(found) > 1:
        raise AmbiguousError(f"there are {some([each.origin for each in found])}. Leave one of them")
    others = [each for each in members if each is not found[0]]
    reading = Reading.parse(found[0].content(MOST_BYTES), found[0].origin)
    if not reading.image:
        return others, None, reading.confirmed
    said = [name for name in SAID_BY_READING if getattr(config, name) != getattr(FetchConfig, name)]
    check(not said, f"{found[0].origin} says how tables are read. Leave {' and '.join(said)} out", SettingError)
    return others, reading, reading.confirmed


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
    unread: str = ""
    """What recordings in files are that are not read, without a full stop. Empty without any."""


def find_images(
    members: Sequence[Member], row: Dataset, source: str, split: str, bad: BadImages, is_all_tested: bool
) -> LabelledImages:
    """Find the images among the files of a source, without tables, and the files of their maps and fixations.

    `split` is the setting. With `is_all_tested`, only images in test/ are used, if there are any.

    Raises:
        UserError: there is no image, or too many have no counterpart (see `source_layout`).
    """
    roles = [source_layout.role_of(member.path) for member in members]
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
    by_path, by_folder = folder_labels(paths, split)
    others = [member for member in members if not member.path.lower().endswith(PICTURE_SUFFIXES)]
    unread = about_unread(member.path for member in others)
    return LabelledImages(items, by_path, by_folder, unread=unread)


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
    reading: Reading | None,
    confirmed: Sequence[str],
) -> tuple[Usable, bool]:
    """The images with known maps or fixations, and whether a column of tables tells the splits.

    Raises:
        UserError: nothing tells where people looked, or two kinds of files do.
    """
    items, named = images.items, parse_columns(config.columns)
    names = ImageNames([item.stimulus.path for item in items])
    has_maps = items[0].map is not None or items[0].fixations is not None
    map_folders = "" if has_maps else source_layout.about_map_folders([item.stimulus.path for item in items])
    pictures = _Pictures(items, bad)
    found = None
    try:
        with tempfile.TemporaryDirectory(prefix="tables-") as unpacked:
            folder = pathlib.Path(unpacked)
            if reading is None:
                proposal = propose(tables, names, config, not has_maps, pictures, folder, confirmed)
                if proposal is not None:
                    if proposal.doubts:
                        raise proposal.doubts[0]
                    reading, report.positions = proposal.reading, proposal.notes
            else:
                report.positions = [f"The tables were read as {READING} says."]
            if reading is not None:
                found = read_fixations(tables, reading, names, folder)
                if doubts := doubts_of_rows(found.rows, reading, [origin for origin, _ in found.tables]):
                    raise doubts[0]
    except UserError as error:
        if not map_folders:
            raise
        raise ContentError(f"{error}{map_folders}") from None
    if found is not None and reading is not None:
        if items[0].fixations is not None:
            raise AmbiguousError(
                f"there are fixations of {items[0].name} in {items[0].fixations.origin}, and in the table "
                f"{found.tables[0][0]}. Remove one of the two kinds"
            )
        report.add(found, reading)
        return _with_fixations(images, found, reading, names, config, report, pictures)
    report.other_tables = [table.origin for table in tables]
    if not has_maps:
        unread = f". {images.unread}" if images.unread else ""
        raise ContentError(
            f"{source} has {len(items):,} images, but nothing that tells where people looked: put a table of "
            "fixations (.csv, .tsv, .txt or .parquet) beside them, or the images into a folder named stimuli, and "
            f"their maps into one named maps, or fixations{map_folders}{unread}"
        )
    if named:
        raise SettingError(f"columns is {config.columns!r}, but {source} has no table of fixations. Leave it out")
    sizes = pictures.read(range(len(items)))
    labels = [images.labels[index] for index in sizes]
    return Usable([items[index] for index in sizes], labels, list(sizes.values()), []), False


class _Pictures:
    """The pictures of a source: their sizes, and what a model's maps of them say about positions."""

    def __init__(self, items: Sequence[Item], bad: BadImages) -> None:
        self.items = items
        self.bad = bad
        self._sizes: dict[int, Size] = {}
        self._read: set[int] = set()
        self._witness = PictureWitness([item.stimulus for item in items])

    def read(self, indices: Sequence[int]) -> dict[int, Size]:
        """The upright (h, w) of the pictures that can be read. The others are put aside."""
        new = [index for index in indices if index not in self._read]
        self._sizes |= _read_pictures(self.items, new, self.bad) if new else {}
        self._read |= {*new}
        return {index: self._sizes[index] for index in indices if index in self._sizes}

    def sizes(self, indices: Sequence[int]) -> Points:
        """(n, 2) of (height, width) of all pictures, 0 for those not among `indices` or that cannot be read."""
        sizes = np.zeros((len(self.items), 2), np.int64)
        found = self.read(indices)
        for index, size in found.items():
            sizes[index] = size
        return sizes

    def ask(self, rows: pl.DataFrame, geometry: Geometry) -> Testimony:
        """What the pictures say about rows of fixations under a geometry."""
        images = rows["image"].unique().sort().to_list()
        points, is_inside = geometry.place(positions_of(rows, self.sizes(images)))
        return self._witness.ask(rows.filter(pl.Series(is_inside))["image"].to_numpy(), points, self._sizes)

    def ask_about(self, rows: pl.DataFrame, points: Points) -> Testimony:
        """What the pictures say about rows of fixations at `points` (n, 2) of (y, x), pixels, which are known.

        If there are a few tables, each is asked about by itself too, since one may be from another week or place.
        """
        images, owners = rows["image"].to_numpy(), rows["owner"].cast(pl.String)
        testimony = self._witness.ask(images, points, self._sizes, is_said=True)
        names = owners.unique().sort().to_list()
        for name in names if 1 < len(names) <= MOST_TABLES else []:
            if testimony.verdict is Verdict.CONTRADICTS:
                break
            is_own = (owners == name).to_numpy()
            own = self._witness.ask(images[is_own], points[is_own], self._sizes, is_said=True)
            is_odd = own.n_images > 0 and own.agreement < LEAST and testimony.agreement > MUCH * LEAST
            if own.verdict is Verdict.CONTRADICTS or is_odd:
                testimony = dataclasses.replace(own, verdict=Verdict.CONTRADICTS, group=own.group or name)
        return testimony


def _with_fixations(
    images: LabelledImages,
    found: Recorded,
    reading: Reading,
    names: ImageNames,
    config: FetchConfig,
    report: "Report",
    pictures: _Pictures,
) -> tuple[Usable, bool]:
    """The images that have fixations in the tables, and whether a column of these tells the splits."""
    items, left_out, rows, bad = images.items, found.left_out, found.rows, pictures.bad
    known = [image for image in rows["image"].unique().sort().to_list() if image >= 0]
    sizes = pictures.read(known)
    check_lost(found, names, len(bad.reasons), config)
    found.check(config.max_lost_share)
    if unknown := found.unknown.total():
        shown = some([repr(label[:60]) for label in found.unknown])
        left_out[f"of images that are not there ({shown})"] += unknown
    rows = rows.filter(pl.col("image").is_in(list(sizes)))
    sees_more = reading.geometry.is_set or found.is_mapped
    most_outside = max(MOST_OUTSIDE if sees_more else 0, config.max_lost_share)
    rows, points = placed(rows, reading.geometry, pictures.sizes(known), left_out, most_outside)
    ask = functools.partial(pictures.ask_about, rows, points)
    for doubt in doubts_of_positions(rows, points, pictures.sizes(known), reading, ask):
        raise doubt
    origin = found.tables[0][0]
    by_column = column_labels(rows, items, origin, config)
    labels = by_column or images.labels
    items = with_groups(items, rows, origin)
    observers = None
    if "observer" in reading.columns:
        observers, report.n_observers = observer_numbers(rows)
    report.first = _about_first(rows, points, items)
    gazes = _by_image(rows["image"].to_numpy(), points, observers)
    unused = [item for image, item in enumerate(items) if image not in gazes and item.name not in bad.reasons]
    without = [item.stimulus.path for item in unused]
    if without:
        report.remarks.append(f"Images without a fixation, left out: {len(without):,} ({some(without)}).")
    usable = Usable(
        [_with_gaze(items[image], gaze) for image, gaze in gazes.items()],
        [labels[image] for image in gazes],
        [sizes[image] for image in gazes],
        [len(gaze.points) for gaze in gazes.values()],
    )
    return usable, by_column is not None


def _with_gaze(item: Item, gaze: Gaze) -> Item:
    fixations = Fixations(
        f"the fixations of {item.name}",
        gaze.points.astype(np.float64),
        gaze.observers,
        has_known_observers=gaze.has_known_observers,
    )
    return dataclasses.replace(item, fixations=fixations)


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


def _about_first(rows: pl.DataFrame, points: Points, items: Sequence[Item]) -> str:
    image, x, y, observer = rows.select("image", "x", "y", "observer").row(0)
    by = f" by {observer}" if observer else ""
    return (
        f"The first fixation{by} is at x {x:g}, y {y:g} of {items[image].stimulus.path}: pixel {points[0][1]} "
        f"from the left, {points[0][0]} from the top."
    )


# === What is lost ===


def check_lost(found: Recorded, names: ImageNames, n_bad: int, config: FetchConfig) -> None:
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


def _likely_cause(found: Recorded, names: ImageNames) -> str:
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
    latin = [origin for origin, head in found.tables if head.encoding == "latin-1"]
    if latin and any(not label.isascii() for label in found.unknown):
        return f"{latin[0]} is not UTF-8, so its names may be misread: save it as CSV UTF-8. "
    return ""


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

    tables: Sequence[tuple[str, Head]] = ()
    """Name and head of each table that was read."""
    reading: Reading | None = None
    other_tables: Sequence[str] = ()
    """Tables that were not read."""
    positions: Sequence[str] = ()
    """Sentences on what positions mean, and why they were taken so."""
    first: str = ""
    """A sentence about the first fixation."""
    n_fixations: int = 0
    n_observers: int = 0
    """0 if observers are not told apart."""
    n_images: dict[str, int] = dataclasses.field(default_factory=dict)
    left_out: LeftOut = dataclasses.field(default_factory=collections.Counter)
    remarks: list[str] = dataclasses.field(default_factory=list)
    """Further sentences for people."""

    def add(self, found: Recorded, reading: Reading) -> None:
        """Add how the tables were read."""
        self.tables, self.reading, self.left_out = found.tables, reading, found.left_out
        self.other_tables = found.not_read
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
            notes.append(f"Tables that were not read: {some(self.other_tables)}.")
        notes += filter(None, (*self.positions, self.first))
        counted = "Images: " + ", ".join(f"{count:,} {KINDS[name]}" for name, count in self.n_images.items())
        if self.n_fixations:
            who = f"Observers: {self.n_observers:,}" if self.n_observers else "Observers are not told apart"
            counted += f". Fixations: {self.n_fixations:,}. {who}"
        notes.append(f"{counted}.")
        if self.left_out.total():
            notes.append(f"Rows left out: {left_out_text(self.left_out)}.")
        return notes + self.remarks

    def _forms(self) -> list[str]:
        """A sentence for each form of tables: a few of their names, and what their columns hold.

        Example: `p1.csv (commas): x is 'fix_x', y is 'fix_y'.`
        """
        if self.reading is None:
            return []
        reading = self.reading
        columns = [f"{role} is {name!r}" for role, name in reading.columns.items() if name[:1] != "@"]
        columns += [f"image is {reading.image!r}"] if reading.image[:1] != "@" else []
        columns += [f"x and y of {image} are {pair}" for image, pair in reading.positions.items()]
        origins = collections.defaultdict[str, list[str]](list)
        for origin, head in self.tables:
            origins[f"({head.form}): {', '.join(columns)}."].append(origin)
        forms = [f"{some(names)} {form}" for form, names in list(origins.items())[:SHOWN_FORMS]]
        if reading.image[:1] == "@":
            forms.append(f"The {'name' if reading.image == FILE else 'folder'} of each table names its image.")
        return forms

    def _unused(self) -> list[str]:
        if self.reading is None:
            return []
        reading = self.reading
        used = {
            folded(name)
            for name in (*reading.columns.values(), reading.image, *reading.fixations, *reading.others)
        }
        used |= {folded(name) for pair in reading.positions.values() for name in pair}
        names = list(dict.fromkeys(name for _, head in self.tables for name in head.header if name))
        unused = [name for name in names if folded(name) not in used]
        if not unused:
            return []
        shown = some([repr(name[:40]) for name in unused], SHOWN_COLUMNS)
        hint = (
            ""
            if "observer" in reading.columns
            else " If one tells observers apart, name it with `columns`: observer=NAME."
        )
        return [f"Columns that were not used: {shown}.{hint}"]
