"""Split one's own images into training and validation: by a column, by folders or by a shuffle."""

import dataclasses
from collections.abc import Sequence

import polars as pl

from trainer.artifacts import SPLITS, TEST
from trainer.config import FetchConfig
from trainer.data import layout
from trainer.data.gaze import Size
from trainer.data.layout import Item
from trainer.data.recordings.chosen import Source
from trainer.data.roles import SPLIT_LABELS, folder_word
from trainer.datasets import Dataset
from trainer.errors import UserError


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


def column_labels(
    rows: pl.DataFrame, items: Sequence[Item], sources: Sequence[Source], config: FetchConfig
) -> list[str] | None:
    """The split of each image by the column of splits; None if there is none that may be used."""
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
            raise UserError(f"{name} has rows without a split in {sources[0].origin}; write train, val or test")
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
        unlabelled = [item for item, label in zip(found.items, found.labels, strict=True) if label != TEST]
        ordered = sorted(unlabelled, key=lambda item: item.name)
        train, valid = layout.split_indices([item.name for item in ordered], row)
        return {"train": [ordered[index] for index in train], "valid": [ordered[index] for index in valid]}
    for item, label in zip(found.items, found.labels, strict=True):
        if not label:
            raise UserError(
                f"{item.stimulus.path} is neither in train/ nor in val/, which split {source}; move it"
            )
    pairs = sorted(zip(found.items, found.labels, strict=True), key=lambda pair: pair[0].name)
    return {name: [item for item, label in pairs if label == name] for name in SPLITS}


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
