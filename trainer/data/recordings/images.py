"""The images among one's own files: their maps and fixations, their splits, and their names in tables.

The split is told by a column, by folders, or by a shuffle.
"""

import dataclasses
import math
import os
import posixpath
import unicodedata
from collections.abc import Iterable, Sequence

import polars as pl

from trainer.artifacts import SPLITS, TEST
from trainer.config import FetchConfig
from trainer.data import layout
from trainer.data.layout import IMAGE_SUFFIXES, MOST_IMAGE_BYTES, ROLES, SPLIT_LABELS, Item, Size, folder_word
from trainer.datasets import Dataset
from trainer.errors import UserError, some
from trainer.picture import open_header, orientation_of
from trainer.progress import Tracker, map_ahead, open_pool
from trainer.sources import Member

MAX_WORKERS = 32


@dataclasses.dataclass(frozen=True)
class Picture:
    """What is read of an image before it is prepared."""

    size: Size
    is_turned: bool
    """Whether viewers turn it, by its EXIF orientation."""


@dataclasses.dataclass
class Usable:
    """The images that can be used."""

    items: list[Item]
    labels: list[str]
    """The split of each item: of its folder or of a column; empty if neither tells."""
    pictures: list[Picture]
    n_fixations: list[int]
    """Number of fixations of each item; empty if tables have none."""


# === Find the images ===


@dataclasses.dataclass(frozen=True)
class LabelledImages:
    """The images of a source."""

    items: list[Item]
    """With their own files of maps and fixations, if there are any."""
    labels: list[str]
    """The split of each item by its folder; empty without one."""
    by_folder: bool
    """Whether folders split the training from the validation."""
    for_tests: list[str] = dataclasses.field(default_factory=list)
    """Paths of the images in test/ that are left out of the items; to train on the others, they need no maps."""
    notes: list[str] = dataclasses.field(default_factory=list)
    """Sentences for people."""


def find_images(
    members: Sequence[Member], row: Dataset, source: str, split: str, is_all_tested: bool
) -> LabelledImages:
    """Find the images among the files of a source, and the files of their maps and fixations.

    Args:
        members: the files, without tables.
        row: the row of the dataset `custom`.
        source: its name in messages.
        split: `FetchConfig.split`.
        is_all_tested: only images in test/ are used, if there are any.

    Raises:
        UserError: there is no image, or a map has no counterpart (see `layout`).
    """
    roles = [folder_word(member.path, ROLES) for member in members]
    pictures = [
        (member, role)
        for member, role in zip(members, roles, strict=True)
        if member.path.lower().endswith(IMAGE_SUFFIXES)
    ]
    if "map" in roles or "fixations" in roles:
        paths = [member.path for member, role in pictures if role == "stimulus"]
        return _with_maps(members, paths, dataclasses.replace(row, split=split), source, is_all_tested)
    if not pictures:
        raise UserError(
            f"{source} has no image ({', '.join(IMAGE_SUFFIXES)}) among its files; put the images there"
        )
    paths = [member.path for member, _ in pictures]
    # Names without the folders that all images share, so that an archive gives the same names as its folder.
    shared = posixpath.commonpath([posixpath.dirname(path) for path in paths])
    items = [Item(member.path[len(shared) :].lstrip("/"), member, None, None) for member, _ in pictures]
    return LabelledImages(items, *folder_labels(paths, split))


def _with_maps(
    members: Sequence[Member], paths: Sequence[str], row: Dataset, source: str, is_all_tested: bool
) -> LabelledImages:
    """The images at `paths` with their files of maps and fixations, split by the setting in `row.split`."""
    labels, by_folder = folder_labels(paths, row.split)
    for_tests = [path for path, label in zip(paths, labels, strict=True) if label == TEST]
    if for_tests:  # only the images that are used need maps
        members = [member for member in members if (label_of(member.path) == TEST) == is_all_tested]
    by_folder = by_folder and not (for_tests and is_all_tested)
    found = layout.find_items(members, dataclasses.replace(row, split="given" if by_folder else "shuffle"), source)
    pairs = [(item, split if by_folder else "") for split, items in found.items.items() for item in items]
    pairs.sort(key=lambda pair: (pair[0].name, pair[1]))
    items = [item for item, _ in pairs]
    if for_tests and is_all_tested:
        return LabelledImages(items, [TEST] * len(items), by_folder, notes=found.notes)
    return LabelledImages(items, [label for _, label in pairs], by_folder, for_tests, found.notes)


def has_maps(items: Sequence[Item]) -> bool:
    """Whether the images have maps or fixations in files of their own."""
    return items[0].map is not None or items[0].fixations is not None


def check_maps(items: Sequence[Item], source: str) -> None:
    """Raise `UserError` unless the images have maps or fixations in files of their own."""
    if not has_maps(items):
        raise UserError(
            f"{source} has {len(items):,} images, but nothing that tells where people looked: put a table of "
            "fixations (.csv, .tsv, .txt or .parquet) beside them; or the images into a folder named stimuli, and "
            "their maps into one named maps, or fixations"
        )


def read_pictures(members: Sequence[Member]) -> list[Picture]:
    """Read the headers of image files, in their order; raises `UserError` for a file that is no image."""
    n_threads = min(os.cpu_count() or 1, MAX_WORKERS)
    pictures = []
    with Tracker("read images", len(members), "images") as tracker, open_pool(n_threads) as pool:
        for picture in map_ahead(
            pool, lambda index: _read_picture(members[index]), range(len(members)), 4 * n_threads
        ):
            pictures.append(picture)
            tracker.advance()
    return pictures


def _read_picture(member: Member) -> Picture:
    data = member.content(MOST_IMAGE_BYTES)
    try:
        picture = open_header(data)
        is_turned = orientation_of(picture) != 1
    except (OSError, ValueError, SyntaxError):
        raise UserError(f"{member.origin} does not decode as an image; export it again") from None
    return Picture((picture.height, picture.width), is_turned)


def turned_text(found: Usable) -> list[str]:
    """A list with a sentence about images that viewers turn; empty without such an image."""
    turned = [
        item.stimulus.path for item, picture in zip(found.items, found.pictures, strict=True) if picture.is_turned
    ]
    if not turned:
        return []
    return [
        f"Images with an orientation tag, by which viewers turn them: {len(turned):,} ({some(turned)}). They are "
        "read without it, so fixations on the turned image are misplaced."
    ]


# === Splits ===


def folder_labels(paths: Sequence[str], split: str) -> tuple[list[str], bool]:
    """The split of each image by its folders, and whether folders divide training from validation images.

    Args:
        paths: of all images.
        split: `FetchConfig.split`. With `auto`, a folder test/ counts if there are images outside of it, and the
            folders train/ and val/ if there are both.
    """
    labels = [label_of(path) for path in paths]
    if split == "folders" or (split == "auto" and set(SPLITS) <= set(labels)):
        return labels, True
    has_tests = split == "auto" and set(labels) != {TEST}
    return [label if label == TEST and has_tests else "" for label in labels], False


def label_of(path: str) -> str:
    """The split that the deepest folder of a path names; empty if none does."""
    return folder_word(path, SPLIT_LABELS)


def check_column(config: FetchConfig, by_column: bool) -> None:
    """Raise `UserError` if the setting asks for a column of splits, and there is none."""
    if config.split == "column" and not by_column:
        raise UserError(
            "split is column, but no table has a column of splits; name it with `columns`, such as split=NAME, or "
            "set split to folders or shuffle"
        )


def column_labels(rows: pl.DataFrame, items: Sequence[Item], origin: str, config: FetchConfig) -> list[str] | None:
    """The split of each image by the column of splits; None if there is none that may be used.

    Args:
        rows: of all tables, with the position of their image in `items`.
        items: the images.
        origin: the name of the tables in messages.
        config: the settings.
    """
    if config.split not in ("auto", "column"):
        return None
    pairs = rows.select("image", pl.col("split").cast(pl.String)).unique().sort("image", "split").rows()
    unknown = sorted({word for _, word in pairs if word and word.lower() not in SPLIT_LABELS})
    if all(word is None for _, word in pairs) or (config.split == "auto" and unknown):
        check_column(config, by_column=False)  # perhaps a column about something else
        return None
    if unknown:
        raise UserError(f"the column of splits has {unknown[0]!r}; write train, val or test")
    labels = [""] * len(items)
    for image, word in pairs:
        name = items[image].stimulus.path
        if word is None:
            raise UserError(f"{name} has rows without a split in {origin}; write train, val or test")
        label = SPLIT_LABELS[word.lower()]
        if labels[image] not in ("", label):
            raise UserError(
                f"{name} is in two splits by the tables, {labels[image]} and {label}; all rows of an image must "
                "be in one"
            )
        labels[image] = label
    return labels


def split_items(found: Usable, split: str, row: Dataset, source: str) -> dict[str, list[Item]]:
    """The training and the validation images. A shuffle depends on the names of the images, not on their order."""
    if split == "shuffle":
        pairs = zip(found.items, found.labels, strict=True)
        return layout.split_shuffled((item for item, label in pairs if label != TEST), row)
    for item, label in zip(found.items, found.labels, strict=True):
        if not label:
            raise UserError(
                f"{item.stimulus.path} is neither in train/ nor in val/, which split {source}; move it"
            )
    ordered = sorted(zip(found.items, found.labels, strict=True), key=lambda pair: pair[0].name)
    return {name: [item for item, label in ordered if label == name] for name in SPLITS}


def tested_items(found: Usable, split: str, source: str) -> tuple[dict[str, list[Item]], list[str]]:
    """The images of a test set, as validation images, and sentences about their choice.

    The images labelled test are chosen; without any, those labelled validation; without any, all.

    Raises:
        UserError: `split`, the setting of the training set, says that images are labelled, but none is labelled
            test.
    """
    label = next((name for name in (TEST, "valid") if name in found.labels), "")
    if label == "valid" and split in ("folders", "column"):
        raise UserError(
            f"split is {split}, but no image of {source} is labelled test: label some, or set test_share, such as "
            "0.5, to keep a part of the validation images apart"
        )
    pairs = zip(found.items, found.labels, strict=True)
    chosen = [item for item, own in pairs if own == label or not label]
    texts = {
        TEST: ["Tested on the images labelled test."],
        "valid": ["Tested on the validation images, because none is labelled test."],
    }
    return {"train": [], "valid": sorted(chosen, key=lambda item: item.name)}, texts.get(label, [])


def split_text(split: str) -> str:
    """A sentence for people about a split."""
    return {
        "given": "Split by the folders train and val.",
        "column": "Split by a column of the tables.",
        "shuffle": "Split by a seeded shuffle: 80% for training, 20% for validation.",
    }[split]


# === Names of images in tables ===


class ImageNames:
    """Find the image that a cell of a table names: by its path, the end of its path, or its name without a suffix.

    Args:
        paths: the paths of the images below the source. Results are positions in this list.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths
        self._by_name: dict[str, list[int]] = {}
        for position, path in enumerate(paths):
            whole = _plain(path)
            for name in {*_ends(whole), *_ends(_stem(whole))}:
                self._by_name.setdefault(name, []).append(position)

    def find(self, label: str, origin: str) -> int | None:
        """The image that `label` names, whatever the case of its letters; None if there is none.

        Raises:
            UserError: several images have this name.
        """
        return self.find_all([label], origin)[0]

    def find_all(self, labels: Sequence[str], origin: str) -> list[int | None]:
        """The image that each label of a table names; None for a label without an image.

        A label that is longer than what it shares with the path of an image names none if another label names
        that image better: face/a.png is not house/a.png where the table has house/a.png too.
        """
        matches = [self._match(_plain(label)) for label in labels]
        best: dict[int, float] = {}
        for found, shared in matches:
            if len(found) == 1:
                best[found[0]] = max(best.get(found[0], 0), shared)
        images: list[int | None] = []
        for label, (found, shared) in zip(labels, matches, strict=True):
            if all(best.get(image, 0) > shared for image in found):
                images.append(None)
                continue
            if len(found) > 1:
                first, second = (self._paths[image] for image in found[:2])
                raise UserError(
                    f"{origin} has rows of {_plain(label)!r}, which may be {first} or {second}; write their paths "
                    "below the source into the table, or rename one of them"
                )
            images.append(found[0])
        return images

    def _match(self, label: str) -> tuple[list[int], float]:
        """The images that a label may mean, and how many parts of their paths it has; infinity for all."""
        whole = label.lstrip("/")
        for name in (*_ends(label), *_ends(_stem(label))):
            found = self._by_name.get(name)
            if found is None:
                continue
            if len(found) > 1:
                found = [each for each in found if _plain(self._paths[each]) == label] or found
            return found, math.inf if name in (whole, _stem(whole)) else name.count("/") + 1
        return [], 0

    @property
    def only(self) -> int | None:
        """The only image; None if there are several."""
        return 0 if len(self._paths) == 1 else None

    def only_in(self, folder: str) -> int | None:
        """The only image directly in a folder; None if there is none, or if there are several."""
        found = [position for position, path in enumerate(self._paths) if path.rpartition("/")[0] == folder]
        return found[0] if len(found) == 1 else None

    @property
    def example(self) -> str:
        """The path of the first image."""
        return self._paths[0]

    def count(self, labels: Iterable[str]) -> int:
        """Count the labels that name one or more images."""
        names = [[*_ends(_plain(label)), *_ends(_stem(_plain(label)))] for label in labels]
        return sum(any(name in self._by_name for name in ends) for ends in names)


def _plain(path: str) -> str:
    # Archives of macOS have accents behind their letters.
    path = unicodedata.normalize("NFC", path)
    return path.strip().replace("\\", "/").removeprefix("./").lower()


def _stem(path: str) -> str:
    return next((path[: -len(suffix)] for suffix in IMAGE_SUFFIXES if path.endswith(suffix)), path)


def _ends(path: str) -> list[str]:
    """The path and what is left of it after each of its folders, the longest first; none is empty."""
    parts = path.split("/")
    ends = ("/".join(parts[depth:]) for depth in range(len(parts)))
    return [end for end in ends if end]
