"""Find which files of a source belong together, and split the images into training and validation.

One rule for all datasets: the folder of a file, at any depth, tells what it holds. In an archive without such
folders, the archive's own name tells it:

| folder or archive              | holds                                                       |
|--------------------------------|-------------------------------------------------------------|
| `stimuli`, `images`            | stimuli                                                     |
| `saliency`, `maps`             | maps                                                        |
| `fixation`, `fixations`        | fixations: `.mat` files, or images of the fixated pixels;   |
|                                | these images are the maps if there are no others            |

Files of one image have the same path below that folder, apart from their suffixes.
"""

import pathlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trainer.artifacts import SPLITS, TEST
from trainer.data.gaze import Fixations
from trainer.data.sources import Member
from trainer.datasets import Dataset
from trainer.errors import UserError

ROLES = {
    "stimuli": "stimulus",
    "images": "stimulus",
    "saliency": "map",
    "maps": "map",
    "fixationmaps": "map",
    "fixation": "fixations",
    "fixations": "fixations",
    "fixationlocs": "fixations",
}
"""Folder name -> what it holds; `fixationmaps` and `fixationlocs` are CAT2000's."""
SPLIT_FOLDERS = {"train": "train", "val": "valid", "valid": "valid", "test": "test"}
IGNORED = "output"
"""CAT2000 has folders of this name with images made from its stimuli."""
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".gif")
POINTS = ".mat"
SEED = 42


@dataclass(frozen=True)
class Item:
    """The files of one image."""

    name: str
    """Path of the stimulus below its folder (and below train/ or val/ if the split is given)."""
    stimulus: Member
    map: Member | None
    """Density or points; None if there are only `fixations`."""
    fixations: Member | Fixations | None
    """A `.mat` file or an image, or a part of a file of many images, if there is one in addition to the map."""


@dataclass(frozen=True)
class _Place:
    """What a path says about a file."""

    role: str
    split: str
    name: str
    key: str


def find_items(members: Sequence[Member], row: Dataset, source: str) -> dict[str, list[Item]]:
    """The images of each split: sorted by name if the split is given, else in the order of the seeded shuffle.

    Raises:
        UserError: a file has no counterpart, two files have the same name, or there are no stimuli or no maps.
    """
    files: dict[str, dict[str, tuple[str, Member]]] = {role: {} for role in ROLES.values()}
    for member in members:
        place = _place(member.path, row)
        if place is None or place.split == "test":
            continue
        first = files[place.role].setdefault(place.key, (place.name, member))
        if first[1] is not member:
            raise UserError(
                f"two files with the same name: {first[1].origin} and {member.origin} would both be the "
                f"{place.role} of {place.key!r}; remove one of them"
            )
    stimuli, maps, fixations = files["stimulus"], files["map"], files["fixations"]
    if not maps:
        maps = {key: file for key, file in fixations.items() if not file[0].lower().endswith(POINTS)}
        fixations = {key: file for key, file in fixations.items() if key not in maps}
    _check_pairs(stimuli, maps, fixations, source, members)
    items = {
        key: Item(name, stimulus, _member(maps, key), _member(fixations, key))
        for key, (name, stimulus) in stimuli.items()
    }
    if row.split == "given":
        return {split: _in_split(items, split) for split in SPLITS}
    ordered = sorted(items.values(), key=lambda item: item.name)
    train, valid = split_indices([item.name for item in ordered], row)
    return {"train": [ordered[index] for index in train], "valid": [ordered[index] for index in valid]}


def _member(files: dict[str, tuple[str, Member]], key: str) -> Member | None:
    return files[key][1] if key in files else None


def _in_split(items: dict[str, Item], split: str) -> list[Item]:
    return sorted((item for key, item in items.items() if key.startswith(f"{split}/")), key=lambda item: item.name)


def _place(path: str, row: Dataset) -> _Place | None:
    """What the file at `path` is; None if it is none of the roles."""
    *folders, file = path.split("/")
    depth = max((i for i, folder in enumerate(folders) if folder.lower() in ROLES), default=None)
    if depth is None:
        return None
    role = ROLES[folders[depth].lower()]
    below = folders[depth + 1 :]
    suffix = pathlib.PurePosixPath(file).suffix
    kinds = (*IMAGE_SUFFIXES, POINTS) if role == "fixations" else IMAGE_SUFFIXES
    if suffix.lower() not in kinds or IGNORED in (folder.lower() for folder in below):
        return None
    split = ""
    if row.split == "given":
        labels = [SPLIT_FOLDERS[folder.lower()] for folder in folders if folder.lower() in SPLIT_FOLDERS]
        if not labels:
            raise UserError(f"{path} is neither in train/ nor in val/, which split this dataset; move it")
        split = labels[-1]
        below = [folder for folder in below if SPLIT_FOLDERS.get(folder.lower()) != split]
    stem = file[: len(file) - len(suffix)]
    if role != "stimulus":
        stem = stem.removesuffix(row.map_suffix)
        stem = stem.removesuffix(row.fixation_suffix) if role == "fixations" else stem
    key = "/".join([*([split] if split else []), *below, stem])
    return _Place(role, split, "/".join([*below, file]), key)


def _check_pairs(
    stimuli: Collection[str],
    maps: Collection[str],
    fixations: Collection[str],
    source: str,
    members: Sequence[Member],
) -> None:
    if not stimuli:
        example = f", such as {members[0].path}" if members else ""
        raise UserError(
            f"{source} has no stimuli: none of its {len(members)} files{example} is an image in a folder or "
            "archive named stimuli or images"
        )
    if not maps and not fixations:
        raise UserError(
            f"{source} has {len(stimuli)} images but no maps: put them into a folder or archive named saliency, "
            "maps, fixation or fixations"
        )
    for what, keys in (("map", maps), ("fixations file", fixations)):
        if not keys:
            continue
        incomplete, orphans = sorted(set(stimuli) - set(keys)), sorted(set(keys) - set(stimuli))
        if incomplete:
            raise UserError(f"image without a {what}: {_some(incomplete)}; add the {what} or remove the image")
        if orphans:
            raise UserError(f"{what} without an image: {_some(orphans)}; add the image or remove the {what}")


def _some(keys: Sequence[str]) -> str:
    more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
    return ", ".join(repr(key) for key in keys[:3]) + more


# === Splits ===


def split_indices(names: Sequence[str], row: Dataset) -> tuple[list[int], list[int]]:
    """Indices of the training and of the validation images among the sorted `names`, in shuffled order.

    `shuffle` shuffles all of them; `shuffle_per_category` shuffles each folder with the same seed (Kroner et al.,
    data.py: `np.random.RandomState(42)`). The share for training is the row's, for any number of images.
    """
    groups: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        folder = name.rpartition("/")[0] if row.split == "shuffle_per_category" else ""
        groups.setdefault(folder, []).append(index)
    train: list[int] = []
    valid: list[int] = []
    for group in groups.values():
        order = np.arange(len(group))
        np.random.RandomState(SEED).shuffle(order)
        n_train = len(group) * row.n_train // (row.n_train + row.n_valid)
        train += [group[position] for position in order[:n_train]]
        valid += [group[position] for position in order[n_train:]]
    return train, valid


def check_counts(items: dict[str, list[Item]], row: Dataset, source: str, allow_partial_data: bool) -> None:
    """Raise `UserError` if a split is empty or, unless partial data is allowed, has not the row's size."""
    n_train, n_valid = len(items["train"]), len(items["valid"])
    counts = f"{source} has {n_train} training and {n_valid} validation images"
    if not n_train or not n_valid:
        raise UserError(f"{counts}; both are needed: add images")
    if (n_train, n_valid) != (row.n_train, row.n_valid) and not allow_partial_data:
        raise UserError(
            f"{counts}, the complete dataset has {row.n_train} and {row.n_valid}; add the rest, or set "
            "allow_partial_data to train on these"
        )


def only_tested(items: dict[str, list[Item]], row: Dataset) -> dict[str, list[Item]]:
    """The images of a test set, sorted by name: the validation images of a given split, else all images."""
    tested = items["valid"] if row.split == "given" else [*items["train"], *items["valid"]]
    return {TEST: sorted(tested, key=lambda item: item.name)}


def tested_count(counts: Mapping[str, int], row: Dataset) -> int:
    """The number of images of `only_tested` for a dataset with so many images in each split."""
    return counts["valid"] if row.split == "given" else sum(counts.values())


def check_test_count(items: dict[str, list[Item]], row: Dataset, source: str, allow_partial_data: bool) -> None:
    """The same as `check_counts` for a test set."""
    count, expected = len(items[TEST]), tested_count({"train": row.n_train, "valid": row.n_valid}, row)
    if not count:
        raise UserError(f"{source} has no images to test on: a set with a given split is tested on those in val/")
    if count != expected and not allow_partial_data:
        raise UserError(
            f"{source} has {count} test images, the complete dataset has {expected}; add the rest, or set "
            "allow_partial_data to test on these"
        )


def limited(items: Sequence[Item], max_examples: int) -> list[Item]:
    """At most `max_examples` of the items (0: all), chosen by a seeded permutation, in their order."""
    if not 0 < max_examples < len(items):
        return list(items)
    chosen = np.random.RandomState(SEED).permutation(len(items))[:max_examples]
    return [items[index] for index in sorted(chosen)]
