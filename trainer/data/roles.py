"""What a file of a source holds, by its path: by the rules of its dataset's authors, or else by its folder.

The folder of a file, at any depth, tells what it holds. In an archive without such folders, the archive's own name
tells it:

| folder or archive              | holds                                                       |
|--------------------------------|-------------------------------------------------------------|
| `stimuli`, `images`            | stimuli                                                     |
| `saliency`, `maps`             | maps                                                        |
| `fixation`, `fixations`        | fixations: `.mat` files, or images of the fixated pixels;   |
|                                | in a published dataset without maps, these images are maps  |

Files of one image have the same path below that folder, apart from their suffixes.
"""

import dataclasses
import functools
import pathlib
import re
from collections.abc import Mapping, Sequence

from trainer.datasets import Dataset, Rule
from trainer.errors import UserError
from trainer.sources import Member

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
TEST = "test"
SPLIT_LABELS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation"), "valid"),
    **dict.fromkeys(("test", "testing"), TEST),
}
"""Names of folders, and values of a column of splits, in lower case -> split."""
IGNORED = "output"
"""CAT2000 has folders of this name with images made from its stimuli."""
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".gif")
POINTS = ".mat"
MOST_IMAGE_BYTES = 720_000_000
"""Size of the largest file of an image: 4 bytes for each pixel of the largest one that is decoded."""


@dataclasses.dataclass(frozen=True)
class Place:
    """What a path says about a file."""

    role: str
    split: str
    name: str
    """Path of the file below its folder (and below train/ or val/ if the split is given)."""
    key: str
    """Equal for all files of an image."""
    reader: str = ""
    """`Rule.reader`: if it is set, the file holds the fixations of many images."""


Placed = list[tuple[Place, Member]]


def place_all(members: Sequence[Member], row: Dataset) -> tuple[Placed, list[str]]:
    """What each member holds, without those that hold nothing of the dataset, and sentences about the choice.

    It is the authors' form if there is a file of each of its roles. Images of the split `test` are left out.
    """
    placed = [(place, member) for member in members if (place := _by_rule(member.path, row.form))]
    if row.form and {place.role for place, _ in placed} == {rule.role for rule in row.form}:
        used = {member.path for _, member in placed}
        return placed, _about_others([member.path for member in members if member.path not in used])
    placed = [(place, member) for member in members if (place := _by_folder(member.path, row))]
    # Some authors publish densities in folders of this name; in one's own, such an image is a mistake.
    if not row.any_count and not any(place.role == "map" for place, _ in placed):
        placed = [(_as_map(place), member) for place, member in placed]
    return placed, []


def _as_map(place: Place) -> Place:
    is_picture = place.role == "fixations" and not place.name.lower().endswith(POINTS)
    return dataclasses.replace(place, role="map") if is_picture else place


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


def _by_rule(path: str, rules: Sequence[Rule]) -> Place | None:
    for rule in rules:
        match = _pattern(rule).fullmatch(path)
        if match is None:
            continue
        file = path.rpartition("/")[2]
        if rule.reader:
            return Place(rule.role, "", file, file.lower(), rule.reader)
        found = match.groupdict()
        split = SPLIT_LABELS.get(found["split"].lower(), TEST) if "split" in found else ""
        if split == TEST:
            continue
        folder = [found["folder"]] if "folder" in found else []
        key = "/".join([*([split] if split else []), *folder, found["name"]])
        return Place(rule.role, split, "/".join([*folder, file]), key)
    return None


# === Folders ===


def folder_word(path: str, words: Mapping[str, str]) -> str:
    """What the deepest folder of a file with a name in `words` stands for; empty without such a folder."""
    folders = [folder.lower() for folder in path.split("/")[:-1]]
    return next((words[folder] for folder in reversed(folders) if folder in words), "")


def _by_folder(path: str, row: Dataset) -> Place | None:
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
    return Place(role, split, "/".join([*below, file]), key)
