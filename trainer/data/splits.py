"""The split of a dataset: which images are trained on, which validate, and which are only tested on.

A split method decides. `given` and `column` follow labels, of folders or of a column of a table. The others
draw 80% of the images for training, or the share of the reference:

- `shuffle` and `shuffle_per_category` are the seeded shuffles of the reference, so that its numbers can be
  compared. They depend on the number of images, so each added image moves others from one split to another.
- `hash` and `hash_by_folder` depend on the name of the image, without its suffix, or of its group alone.
  Whatever is added, removed or saved in another format, the other images stay where they are, and no image of
  a test set was ever trained on. Example: a.jpg, saved again as a.png, stays in its split.
"""

import dataclasses
import hashlib
import posixpath
import unicodedata
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from trainer.data.prepared_data import SPLITS, TEST
from trainer.data.source_layout import KINDS, Item
from trainer.datasets import HASH, HASH_BY_FOLDER, Dataset
from trainer.errors import ContentError, SettingError, check
from trainer.texts import some

SEED = 42

Split = dict[str, list[Item]]
"""Name of a split -> its images. TEST has the images that `test_share` keeps apart, if it does."""


@dataclasses.dataclass(frozen=True)
class SplitImages:
    """The images of a source, split, and how the source was understood."""

    split: Split
    row: Dataset
    """The dataset, with the split method and the blur in use."""
    notes: list[str]
    """Sentences for people."""
    reading: str = ""
    """How tables were read, as TOML (see `trainer.data.recordings.reading`). Empty without tables."""
    confirmed: Sequence[str] = ()
    """The checks that a person overrules (see `trainer.data.recordings.reading.CHECKS`)."""


def split_method_of(row: Dataset, n_images: int) -> str:
    """The split method: the dataset's, but `hash` if its number of images is not the published one."""
    is_complete = n_images == row.n_train + row.n_valid
    return HASH if row.split.startswith("shuffle") and not is_complete else row.split


def split_items(
    items: Sequence[Item],
    labels: Sequence[str],
    split_method: str,
    row: Dataset,
    source: str,
    test_share: float = 0.0,
) -> Split:
    """Split images for training and validation, and keep a share of the validation images apart, in any order.

    Example: with `hash` and a `test_share` of 0.5, about 80% train, 10% validate and 10% test.

    Args:
        items: The images.
        labels: The split that its folder or a column names for each image. Empty without one. Methods that do
            not follow them leave out the images labelled TEST.
        split_method: One that this module's docstring names.
        row: The dataset, for its share of images for training.
        source: Name of the source in messages.
        test_share: Share of the validation images that become the split TEST, at least 0 and below 1. A
            larger share has all images of a smaller one.

    Raises:
        UserError: the method follows labels, and an image has none.
    """
    ordered = sorted(zip(items, labels, strict=True), key=lambda pair: pair[0].name)
    if split_method in ("given", "column"):
        for item, label in ordered:
            if not label:
                raise ContentError(
                    f"{item.stimulus.path} is neither in train/ nor in val/, which split {source}. Move it"
                )
        split = {name: [item for item, label in ordered if label == name] for name in SPLITS}
        return keep_apart(split, row, test_share)
    drawn = [item for item, label in ordered if label != TEST]
    if split_method in (HASH, HASH_BY_FOLDER):  # whatever other images there are
        return _split_by_hash(drawn, row, test_share)
    indices = split_indices([item.name for item in drawn], split_method, row)
    return keep_apart(
        {name: [drawn[index] for index in each] for name, each in zip(SPLITS, indices, strict=True)},
        row,
        test_share,
    )


# === By hash ===


def hash_position(key: str) -> float:
    """Return the position, at least 0 and below 1, that the SHA-256 digest of a text gives to an image."""
    # Archives of macOS have accents behind their letters.
    digest = hashlib.sha256(unicodedata.normalize("NFC", key).encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64


def split_key_of(item: Item) -> str:
    """The hash of this text decides the split of an image: its group's text, or its name without its suffix."""
    return item.split_key or without_suffix(item.name)


def without_suffix(name: str) -> str:
    """Return the name of an image whatever the format of its file. Example: `face/a` for face/a.png."""
    return posixpath.splitext(name)[0]


def position_of(item: Item) -> float:
    """Return the `hash_position` of an image, by its group if it has one."""
    return hash_position(split_key_of(item))


def _split_by_hash(items: Sequence[Item], row: Dataset, test_share: float) -> Split:
    """Cut the positions into training, validation and test: no share moves an image across another's edge."""
    share, whole = row.train_share
    train_edge = share / whole
    test_edge = 1 - (1 - train_edge) * test_share
    split: Split = {name: [] for name in (*SPLITS, TEST)}
    for item in items:
        here = position_of(item)
        split["train" if here < train_edge else "valid" if here < test_edge else TEST].append(item)
    if not test_share:
        del split[TEST]
    return split


# === By the shuffle of the reference ===


def split_indices(names: Sequence[str], split_method: str, row: Dataset) -> tuple[list[int], list[int]]:
    """Indices of the training and of the validation images among the sorted `names`, in shuffled order.

    `shuffle` shuffles all of them. `shuffle_per_category` shuffles each folder with the same seed (Kroner et
    al., data.py: `np.random.RandomState(42)`).
    """
    train: list[int] = []
    valid: list[int] = []
    for group in _shuffled(names, split_method):
        share, whole = row.train_share
        n_train = len(group) * share // whole
        train += group[:n_train]
        valid += group[n_train:]
    return train, valid


def _shuffled(names: Sequence[str], split_method: str) -> Iterator[list[int]]:
    """Shuffled indices of the sorted `names`: one seeded shuffle for all of them, or one for each folder."""
    groups: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        folder = name.rpartition("/")[0] if split_method == "shuffle_per_category" else ""
        groups.setdefault(folder, []).append(index)
    for group in groups.values():
        order = np.arange(len(group))
        np.random.RandomState(SEED).shuffle(order)
        yield [group[rank] for rank in order]


def keep_apart(split: Split, row: Dataset, test_share: float) -> Split:
    """Make a share of the validation images the split TEST, if it is not 0. All images keep their order.

    With the reference's number of images, they are the first of the sorted names in the order of its shuffle, and
    of each category as many as of any other. Otherwise the hash of each name decides, so that others may be added.
    """
    items = split["valid"]
    if not test_share:
        return split
    if sum(map(len, split.values())) == row.n_train + row.n_valid:
        names = sorted(item.name for item in items)
        ranked = [
            ((rank + 0.5) / len(group), index)
            for group in _shuffled(names, row.split)
            for rank, index in enumerate(group)
        ]
        chosen = {names[index] for _, index in sorted(ranked)[: round(len(names) * test_share)]}
    else:
        chosen = {item.name for item in items if position_of(item) >= 1 - test_share}
    return {
        **split,
        "valid": [item for item in items if item.name not in chosen],
        TEST: [item for item in items if item.name in chosen],
    }


def kept_apart_text(items: Mapping[str, Sequence[Item]], test_share: float) -> str:
    """A sentence about the images that `keep_apart` chose."""
    names, n_valid = sorted(item.name for item in items[TEST]), _counts(items)["valid"]
    return (
        f"{len(names):,} of {n_valid:,} validation images are kept apart as a test set (test_share "
        f"{test_share:g}): {some(names)}."
    )


def check_kept_apart(items: Mapping[str, Sequence[Item]], source: str, test_share: float) -> None:
    """Raise `UserError` if a share of the validation images has none of them, or leaves none."""
    n_test, n_valid = len(items.get(TEST, ())), len(items["valid"])
    check(
        not test_share or (n_test > 0 and n_valid > 0),
        f"{source} has {n_test + n_valid} validation images, of which test_share {test_share:g} keeps {n_test} "
        f"apart as a test set and leaves {n_valid}. Both need one: set another share, or add images",
        SettingError,
    )


def _counts(items: Mapping[str, Sequence[Item]]) -> dict[str, int]:
    """Number of images of each split, before anything is kept apart."""
    return {"train": len(items["train"]), "valid": len(items["valid"]) + len(items.get(TEST, ()))}


def check_counts(
    items: Mapping[str, Sequence[Item]], row: Dataset, source: str, allow_partial_data: bool, is_test_set: bool
) -> None:
    """Raise `UserError` if a split that is used is empty, or the dataset is incomplete and may not be.

    Images that are kept apart count as validation images. A test set of a given split uses these alone.
    """
    counts, complete = _counts(items), {"train": row.n_train, "valid": row.n_valid}
    used = ("valid",) if is_test_set and row.split == "given" else SPLITS
    text = f"{source} has " + " and ".join(f"{counts[split]} {KINDS[split]}" for split in used) + " images"
    if not all(counts[split] for split in used):
        remedy = ", move or label some as train or val, or use split=shuffle" if row.any_count else ""
        raise ContentError(f"{text}. Add images{remedy}")
    if any(counts[split] != complete[split] for split in used) and not (row.any_count or allow_partial_data):
        expected = " and ".join(str(complete[split]) for split in used)
        raise ContentError(f"{text}, the complete dataset has {expected}. Add the rest, or set allow_partial_data")


def only_tested(items: Split, row: Dataset) -> Split:
    """Choose a test set's images, sorted by name. They are the first of these that there are:

    - the share kept apart,
    - the validation images, if the source has a split of its own,
    - all images.
    """
    tested = items["valid"] if row.split == "given" else [*items["train"], *items["valid"]]
    tested = items.get(TEST, tested)
    return {TEST: sorted(tested, key=lambda item: item.name)}


def expected_counts(
    row: Dataset, published: Mapping[str, int], usable: Mapping[str, int], test_share: float, is_test_set: bool
) -> dict[str, int]:
    """Number of images in each split of a complete dataset, or of a complete test set as `only_tested` makes it.

    Example: with a `test_share` of 0.5, osie has 500 for training and 100 for validation.

    Args:
        row: The dataset. With any number of images it is complete, and `usable` counts.
        published: Number of training and of validation images, before any are kept apart.
        usable: Number of images of this source in each split that can be used.
        test_share: Share of the validation images that is kept apart.
        is_test_set: Whether the images are only tested on.
    """
    counts = dict(usable)
    if not row.any_count:
        n_test = round(published["valid"] * test_share)
        counts = {**published, "valid": published["valid"] - n_test} | ({TEST: n_test} if n_test else {})
    if not is_test_set:
        return {name: counts[name] for name in SPLITS}
    tested = counts["valid"] if row.split == "given" else sum(counts.values())
    return {TEST: counts.get(TEST, tested)}


def limited(items: Sequence[Item], max_examples: int) -> list[Item]:
    """At most `max_examples` of the items (0: all), chosen by a seeded permutation, in their order."""
    if not 0 < max_examples < len(items):
        return list(items)
    chosen = np.random.RandomState(SEED).permutation(len(items))[:max_examples]
    return [items[index] for index in sorted(chosen)]
