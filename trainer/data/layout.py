"""The images of a source: which of its files belong together, their fixations, and their splits.

What a file holds is told by the rules of its dataset's authors, or else by its folder, at any depth. In an archive
without such folders, the archive's own name tells it:

| folder or archive              | holds                                                       |
|--------------------------------|-------------------------------------------------------------|
| `stimuli`, `images`            | stimuli                                                     |
| `saliency`, `maps`             | maps                                                        |
| `fixation`, `fixations`        | fixations: `.mat` files, or images of the fixated pixels;   |
|                                | in a published dataset without maps, these images are maps  |

Files of one image have the same path below that folder, apart from their suffixes.
"""

import functools
import pathlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer import isolated
from trainer.artifacts import SPLITS, TEST
from trainer.datasets import Dataset, Rule
from trainer.errors import UserError, check, printable, some
from trainer.sources import Member
from trainer.storage import is_archive

Size = tuple[int, int]
Points = NDArray[np.int64]
"""(n, 2) of (y, x), pixels counted from 0."""
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
SPLIT_LABELS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation"), "valid"),
    **dict.fromkeys(("test", "testing"), TEST),
}
"""Names of folders, and values of a column of splits, in lower case -> split."""
OF_ALL = "fixations of all images"
"""Role of files with the fixations of many images."""
IGNORED = "output"
"""CAT2000 has folders of this name with images made from its stimuli."""
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".gif")
POINTS = ".mat"
MOST_IMAGE_BYTES = 720_000_000
"""Size of the largest file of an image: 4 bytes for each pixel of the largest one that is decoded."""
MATLAB, MATLAB_REMEDY = "trainer.data.matlab", "download or export it again"
"""The module that reads MATLAB files, in the worker alone, and the end of messages about them."""
MOST_MATLAB_BYTES = 2**28
"""Size of the largest MATLAB file that is read; those of the authors have some 10 MB."""
MAX_POINT_SHARE = 0.02
"""Fixated pixels are less than this share of an image; a map with more is a density."""
MARGIN_PX = 1
"""How far outside of its image a fixation may be to count for the pixel at the border: eye trackers, and those who
convert their files, count from 0 or from 1, and round."""
SEED = 42


# === Images and fixations ===


@dataclass(frozen=True)
class Gaze:
    """The fixations of one image."""

    points: Points
    """(n, 2) of (y, x) in pixels of the image, with repeats."""
    observers: NDArray[np.int64] | None
    """(n,): the observer of each point, counted from 0; None if observers are not told apart."""
    n_outside: int = 0
    """Fixations that the source has, but that are outside of the image."""
    n_blinks: int = 0
    """Fixations whose position is no number (NaN), as eye trackers write blinks."""
    is_pictured: bool = False
    """Whether a picture marks the fixated pixels, which shows no repeats."""

    @classmethod
    def inside(cls, points: NDArray[Any], observers: NDArray[np.int64] | None, size: Size) -> "Gaze":
        """Keep the points (n, 2), any numbers, that are in an image of `size`, and count the others."""
        values = np.asarray(points, np.float64)
        pixels, is_inside = inside(values, np.array(size))
        kept = None if observers is None else observers[is_inside]
        n_blinks = int(np.count_nonzero(np.isnan(values).any(axis=1)))
        return cls(pixels, kept, len(values) - len(pixels) - n_blinks, n_blinks)


def inside(points: NDArray[np.float64], sizes: NDArray[np.int64]) -> tuple[Points, NDArray[np.bool_]]:
    """The pixels of those points that are in their image, or less than `MARGIN_PX` outside: then at its border.

    Args:
        points: (n, 2) of (y, x), pixels counted from 0; any numbers, also NaN.
        sizes: (2,) or (n, 2) of (height, width).

    Returns:
        The pixels (m, 2), and (n,) which of the points they are of.
    """
    near = (points >= -MARGIN_PX) & (points < sizes + MARGIN_PX)  # False for NaN
    is_inside = near[:, 0] & near[:, 1]
    last = np.broadcast_to(sizes, points.shape)[is_inside] - 1
    return np.clip(np.floor(points[is_inside]).astype(np.int64), 0, last), is_inside


@dataclass(frozen=True)
class Fixations:
    """The fixations of one image, from a source that keeps those of many images in one file."""

    origin: str
    """Their name in messages."""
    read: Callable[[Size], Gaze]
    """The fixations in an image of this (h, w), in any thread while the source is open; raises `UserError`."""


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
class Images:
    """The images of a source."""

    items: dict[str, list[Item]]
    """Split -> its images, sorted by name if the split is given, else in the order of the seeded shuffle. TEST has
    what is kept apart, if anything is (see `keep_apart`)."""
    notes: list[str]
    """What was understood of the source, and what was left out; sentences for people."""


@dataclass(frozen=True)
class FileRole:
    """What a path says about a file."""

    role: str
    split: str
    name: str
    """Path of the file below its folder (and below train/ or val/ if the split is given)."""
    key: str
    """Equal for all files of an image."""
    reader: str = ""
    """`Rule.reader`: if it is set, the file holds the fixations of many images."""


# === Find the images ===


Assigned = list[tuple[FileRole, Member]]
"""Files of a source with their roles."""
Files = dict[str, tuple[str, Member]]
"""Key of an image -> name and content of its file."""


def find_items(members: Sequence[Member], row: Dataset, source: str) -> Images:
    """The images of each split.

    Raises:
        UserError: a file has no counterpart, two files have the same name, there are no stimuli or no maps, or a
            file with the fixations of all images cannot be read.
    """
    assigned, notes = assign_roles(members, row)
    files = _by_role(assigned)
    stimuli, maps = files["stimulus"], files["map"]
    fixations: Mapping[str, Member | Fixations] = {key: member for key, (_, member) in files["fixations"].items()}
    if sets := {key: member for key, (_, member) in files[OF_ALL].items()}:
        reader = next(file.reader for file, _ in assigned if file.reader)
        of_all = read_matlab_set(reader, sets)
        fixations = {key: each for key, each in of_all.items() if key in stimuli}
        if left_out := len(of_all) - len(fixations):
            counts = f"{left_out} of {len(of_all)}"
            notes.append(f"The fixations of images that the source does not have are left out ({counts}).")
    _check_pairs(stimuli, maps, fixations, row, source, members)
    items = {
        key: Item(name, stimulus, maps[key][1] if maps else None, fixations.get(key))
        for key, (name, stimulus) in stimuli.items()
    }
    return Images(_split(items, row), notes)


def _by_role(assigned: Assigned) -> dict[str, Files]:
    """The files of each role; those with the fixations of many images have the role OF_ALL."""
    files: dict[str, Files] = {role: {} for role in (*ROLES.values(), OF_ALL)}
    for file, member in assigned:
        role = OF_ALL if file.reader else file.role
        _, first = files[role].setdefault(file.key, (file.name, member))
        if first is not member:
            raise UserError(
                f"two files with the same name: {first.origin} and {member.origin} would both be the {role} of "
                f"{file.key!r}; remove one of them"
            )
    return files


def _split(items: dict[str, Item], row: Dataset) -> dict[str, list[Item]]:
    if row.split != "given":
        return split_shuffled(items.values(), row)
    ordered = sorted(items.items(), key=lambda pair: pair[1].name)
    return {split: [item for key, item in ordered if key.startswith(f"{split}/")] for split in SPLITS}


def _check_pairs(
    stimuli: Collection[str],
    maps: Collection[str],
    fixations: Collection[str],
    row: Dataset,
    source: str,
    members: Sequence[Member],
) -> None:
    nested = next((member.origin for member in members if is_archive(member.path)), "")
    inside = f"; {printable(nested)} is an archive in an archive, which is not opened: unpack it" if nested else ""
    archives, rules = (", ".join(each) for each in ([p.name for p in row.archives], [r.path for r in row.form]))
    authors = f"; or give all archives of its authors ({archives}), with files {rules}" if rules else ""
    if not stimuli:
        example = f", such as {members[0].path}" if members else ""
        raise UserError(
            f"{source} has no stimuli: none of its {len(members)} files{example} is an image in a folder or "
            f"archive named stimuli or images{authors}{inside}"
        )
    if not maps and not fixations:
        raise UserError(
            f"{source} has {len(stimuli)} images but no maps: put them into a folder or archive named saliency, "
            f"maps, fixation or fixations{authors}{inside}"
        )
    for what, keys in (("map", maps), ("fixations file", fixations)):
        if not keys:
            continue
        incomplete, orphans = (
            sorted(map(repr, each)) for each in (set(stimuli) - set(keys), set(keys) - set(stimuli))
        )
        if incomplete:
            raise UserError(f"image without a {what}: {some(incomplete)}; add the {what} or remove the image")
        if orphans:
            raise UserError(f"{what} without an image: {some(orphans)}; add the image or remove the {what}")


def read_matlab(member: Member, size: Size) -> Gaze:
    """The fixations of one image, from a MATLAB file of the forms that `trainer.data.matlab.read_one` reads.

    Args:
        member: the file.
        size: (h, w) of the image, pixels.

    Raises:
        UserError: the file is damaged, has another form, or is of an image of another size.
    """
    content = member.origin, member.content(MOST_MATLAB_BYTES)
    gaze: Gaze = isolated.call(f"{MATLAB}.read_one", *content, size, file=member.origin, remedy=MATLAB_REMEDY)
    return gaze


def read_matlab_set(reader: str, files: Mapping[str, Member]) -> dict[str, Fixations]:
    """The fixations of all images of a dataset, from its authors' MATLAB files.

    Args:
        reader: a name in `trainer.data.matlab.READERS`.
        files: name in lower case -> file.

    Returns:
        Name of an image without its ending -> its fixations.

    Raises:
        UserError: a file is damaged, has another form, or refers to other files.
    """
    contents = {name: (member.origin, member.content(MOST_MATLAB_BYTES)) for name, member in files.items()}
    origin = " and ".join(member.origin for member in files.values())
    found: dict[str, Fixations] = isolated.call(
        f"{MATLAB}.read_set", reader, contents, file=origin, remedy=MATLAB_REMEDY
    )
    return found


# === What a file holds ===


def assign_roles(members: Sequence[Member], row: Dataset) -> tuple[Assigned, list[str]]:
    """What each member holds, without those that hold nothing of the dataset, and sentences about the choice.

    It is the authors' form if there is a file of each of its roles. Images of the split `test` are left out.
    """
    assigned = [(file, member) for member in members if (file := _by_rule(member.path, row.form))]
    if row.form and {file.role for file, _ in assigned} == {rule.role for rule in row.form}:
        used = {member.path for _, member in assigned}
        return assigned, _about_others([member.path for member in members if member.path not in used])
    assigned = [(file, member) for member in members if (file := _by_folder(member.path, row))]
    # Some authors publish densities in folders of this name; in one's own, such an image is a mistake.
    if not row.any_count and not any(file.role == "map" for file, _ in assigned):
        assigned = [(_as_map(file), member) for file, member in assigned]
    return assigned, []


def _as_map(file: FileRole) -> FileRole:
    is_picture = file.role == "fixations" and not file.name.lower().endswith(POINTS)
    return replace(file, role="map") if is_picture else file


def _about_others(paths: Sequence[str]) -> list[str]:
    notes = ["The files are in the form in which the dataset's authors publish them."]
    if paths:
        verb = "file is" if len(paths) == 1 else "files are"
        notes.append(f"{len(paths)} other {verb} left out, which the dataset does not use, such as {paths[0]}.")
    return notes


# === The authors' form ===


@functools.cache
def _pattern(rule: Rule) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", rule.path)
    texts = [f"(?P<{part}>[^/]+)" if number % 2 else re.escape(part) for number, part in enumerate(parts)]
    return re.compile(f"(?:.*/)?{''.join(texts)}", re.IGNORECASE | re.DOTALL)


def _by_rule(path: str, rules: Sequence[Rule]) -> FileRole | None:
    for rule in rules:
        match = _pattern(rule).fullmatch(path)
        if match is None:
            continue
        file = path.rpartition("/")[2]
        if rule.reader:
            return FileRole(rule.role, "", file, file.lower(), rule.reader)
        found = match.groupdict()
        split = SPLIT_LABELS.get(found["split"].lower(), TEST) if "split" in found else ""
        if split == TEST:
            continue
        folder = [found["folder"]] if "folder" in found else []
        key = "/".join([*([split] if split else []), *folder, found["name"]])
        return FileRole(rule.role, split, "/".join([*folder, file]), key)
    return None


# === Folders ===


def folder_word(path: str, words: Mapping[str, str]) -> str:
    """What the deepest folder of a file with a name in `words` stands for; empty without such a folder."""
    folders = [folder.lower() for folder in path.split("/")[:-1]]
    return next((words[folder] for folder in reversed(folders) if folder in words), "")


def _by_folder(path: str, row: Dataset) -> FileRole | None:
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
        labels = [SPLIT_LABELS[folder.lower()] for folder in folders if folder.lower() in SPLIT_LABELS]
        if not labels:
            raise UserError(f"{path} is neither in train/ nor in val/, which split this dataset; move it")
        split = labels[-1]
        if split == TEST:
            return None
        below = [folder for folder in below if SPLIT_LABELS.get(folder.lower()) != split]
    stem = file[: len(file) - len(suffix)]
    if role != "stimulus":
        stem = stem.removesuffix(row.map_suffix)
        stem = stem.removesuffix(row.fixation_suffix) if role == "fixations" else stem
    key = "/".join([*([split] if split else []), *below, stem])
    return FileRole(role, split, "/".join([*below, file]), key)


# === Splits ===


def split_shuffled(items: Iterable[Item], row: Dataset) -> dict[str, list[Item]]:
    """The training and the validation images, by `split_indices`, whatever their order."""
    ordered = sorted(items, key=lambda item: item.name)
    indices = split_indices([item.name for item in ordered], row)
    return {split: [ordered[index] for index in each] for split, each in zip(SPLITS, indices, strict=True)}


def split_indices(names: Sequence[str], row: Dataset) -> tuple[list[int], list[int]]:
    """Indices of the training and of the validation images among the sorted `names`, in shuffled order.

    `shuffle` shuffles all of them; `shuffle_per_category` shuffles each folder with the same seed (Kroner et al.,
    data.py: `np.random.RandomState(42)`). The share for training is the row's, for any number of images.
    """
    train: list[int] = []
    valid: list[int] = []
    for group in _shuffled(names, row):
        share, whole = row.train_share
        n_train = len(group) * share // whole
        train += group[:n_train]
        valid += group[n_train:]
    return train, valid


def _shuffled(names: Sequence[str], row: Dataset) -> Iterator[list[int]]:
    """Indices of the sorted `names` in the order of the seeded shuffle: of all of them, or of each folder."""
    groups: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        folder = name.rpartition("/")[0] if row.split == "shuffle_per_category" else ""
        groups.setdefault(folder, []).append(index)
    for group in groups.values():
        order = np.arange(len(group))
        np.random.RandomState(SEED).shuffle(order)
        yield [group[position] for position in order]


def keep_apart(items: dict[str, list[Item]], row: Dataset, n_test: int) -> dict[str, list[Item]]:
    """The images of each split after `n_test` validation images became the split TEST; the same if it is 0.

    Their names decide: they are the first of the sorted names in the order of the seeded shuffle, and of each
    category as many as of any other. A larger share has all images of a smaller one. All keep their order.
    """
    if not n_test:
        return items
    names = sorted(item.name for item in items["valid"])
    ranked = [
        ((position + 0.5) / len(group), index)
        for group in _shuffled(names, row)
        for position, index in enumerate(group)
    ]
    chosen = {names[index] for _, index in sorted(ranked)[:n_test]}
    return {
        **items,
        "valid": [item for item in items["valid"] if item.name not in chosen],
        TEST: [item for item in items["valid"] if item.name in chosen],
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
        f"apart as a test set and leaves {n_valid}; both need one: set another share, or add images",
    )


def _counts(items: Mapping[str, Sequence[Item]]) -> dict[str, int]:
    """Number of images of each split of the whole dataset, of which nothing is kept apart."""
    return {"train": len(items["train"]), "valid": len(items["valid"]) + len(items.get(TEST, ()))}


def check_counts(items: dict[str, list[Item]], row: Dataset, source: str, allow_partial_data: bool) -> None:
    """Raise `UserError` if a split is empty or, unless partial data is allowed, has not the row's size.

    Images that are kept apart count as validation images.
    """
    n_train, n_valid = _counts(items).values()
    counts = f"{source} has {n_train} training and {n_valid} validation images"
    if not n_train or not n_valid:
        remedy = "add images"
        if row.any_count and row.split != "shuffle":
            missing = "val" if n_train else "train"
            remedy = f"put some into {missing}/" if row.split == "given" else f"label some as {missing}"
            remedy += ", or use split=shuffle"
        raise UserError(f"{counts}; both are needed: {remedy}")
    if (n_train, n_valid) != (row.n_train, row.n_valid) and not (row.any_count or allow_partial_data):
        raise UserError(
            f"{counts}, the complete dataset has {row.n_train} and {row.n_valid}; add the rest, or set "
            "allow_partial_data to train on these"
        )


def only_tested(items: dict[str, list[Item]], row: Dataset) -> dict[str, list[Item]]:
    """The images of a test set, sorted by name: what is kept apart, or if nothing is, the validation images of a
    given split, else all images.
    """
    tested = items["valid"] if row.split == "given" else [*items["train"], *items["valid"]]
    tested = items.get(TEST, tested)
    return {TEST: sorted(tested, key=lambda item: item.name)}


def tested_count(counts: Mapping[str, int], row: Dataset) -> int:
    """The number of images of `only_tested` for a dataset with so many images in each split."""
    if TEST in counts:
        return counts[TEST]
    return counts["valid"] if row.split == "given" else sum(counts.values())


def check_test_count(items: dict[str, list[Item]], row: Dataset, source: str, allow_partial_data: bool) -> None:
    """Raise `UserError` if a test set, or the images of which it is a share, lack images; see `check_counts`."""
    count, expected = (
        tested_count(counts, row) for counts in (_counts(items), {"train": row.n_train, "valid": row.n_valid})
    )
    kind = "test"
    if TEST in items:
        kind = "validation" if row.split == "given" else "training and validation"
    if not count:
        raise UserError(f"{source} has no images to test on: a set with a given split is tested on those in val/")
    if count != expected and not (row.any_count or allow_partial_data):
        raise UserError(
            f"{source} has {count} {kind} images, the complete dataset has {expected}; add the rest, or set "
            "allow_partial_data to test on these"
        )


def limited(items: Sequence[Item], max_examples: int) -> list[Item]:
    """At most `max_examples` of the items (0: all), chosen by a seeded permutation, in their order."""
    if not 0 < max_examples < len(items):
        return list(items)
    chosen = np.random.RandomState(SEED).permutation(len(items))[:max_examples]
    return [items[index] for index in sorted(chosen)]
