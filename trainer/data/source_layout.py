"""The images of a source: which of its files belong together, and their fixations.

What a file holds (its role) is told by the first of these that applies:
- the rules of its dataset's authors,
- the deepest folder with a name of `ROLES`,
- the archive's own name, in an archive without such folders.

Files of one image have the same path below that folder, apart from their suffixes. Example:
`stimuli/face/a.jpg` and `maps/face/a.png`.
"""

import functools
import itertools
import pathlib
import posixpath
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.data.bad_images import BadImages
from trainer.data.prepared_data import TEST
from trainer.data.recordings.image_names import folded_path
from trainer.data.recordings.unread import about_unread
from trainer.datasets import Dataset, FileRule
from trainer.errors import ContentError
from trainer.machine import call_untrusted
from trainer.pictures import PICTURE_SUFFIXES
from trainer.places import Member
from trainer.texts import some

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
"""Folder name -> what it holds. `fixationmaps` and `fixationlocs` are from CAT2000. In a published dataset
without maps, pictures of fixated pixels are its maps."""
SPLIT_LABELS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation"), "valid"),
    **dict.fromkeys(("test", "testing"), TEST),
}
"""Names of folders, and values of a column of splits, in lower case -> split."""
OF_ALL = "fixations of all images"
"""Role of files with the fixations of many images."""
SPLIT = "split"
"""Role of a table with the split of each image."""
IGNORED = "output"
"""CAT2000 has folders of this name with images made from its stimuli."""
POINTS = ".mat"
MAX_PIXELS = 180_000_000
"""Pixels of the largest image that is decoded."""
MOST_IMAGE_BYTES = 720_000_000
"""Size of the largest file of an image: 4 bytes for each pixel of the largest one that is decoded."""
FIXATION_VARIABLES = ("gaze", "fixLocs", "s", "fixations")
"""The variables that are read of a MATLAB file with the fixations of one image."""
MOST_VARIABLES = 8
"""Number of variables of a MATLAB file that a message names."""
MATLAB_7_3 = b"MATLAB 7.3 MAT-file"
"""The first bytes of a file that MATLAB saves with -v7.3."""
MATLAB, MATLAB_REMEDY = "trainer.data.matlab", "download or export it again"
"""The module that reads MATLAB files, in the worker alone, and the end of messages about them."""
UEYES = "trainer.data.ueyes"
"""The module that reads UEyes' tables, in the worker alone."""
MOST_TABLE_BYTES = 2**28
"""Size of the largest file of fixations that is read. The authors' files have some 10 MB."""
MAP_WORDS = re.compile("saliency|heat|density|fixmap|maps", re.IGNORECASE)
"""In the name of a folder that seems to hold maps."""
MAX_POINT_SHARE = 0.02
"""Fixated pixels are less than this share of an image. A map with more is a density."""
TRIED = 10
"""Number of files by which a common affix of their names is found."""
MARGIN_PX = 1
"""How far outside of its image a fixation may be to count for the pixel at the border: eye trackers, and those who
convert their files, count from 0 or from 1, and round."""
KINDS = {"train": "training", "valid": "validation", TEST: "test"}
"""Split -> the adjective for its images."""


# === Images and fixations ===


@dataclass(frozen=True)
class Gaze:
    """The fixations of one image."""

    points: Points
    """(n, 2) of (y, x) in pixels of the image, with repeats."""
    observers: NDArray[np.int64] | None
    """(n,): the observer of each point, counted from 0. None if observers are not told apart."""
    n_outside: int = 0
    """Fixations that the source has, but that are outside of the image."""
    n_blinks: int = 0
    """Fixations without a number as position (NaN). Eye trackers write blinks so."""
    is_pictured: bool = False
    """Whether a picture marks the fixated pixels, which shows no repeats."""
    has_known_observers: bool = False
    """Whether a number is the same person in all images of the source, and not only in this one."""

    @classmethod
    def inside(cls, points: NDArray[Any], observers: NDArray[np.int64] | None, size: Size) -> "Gaze":
        """Keep the points (n, 2), any numbers, that are in an image of `size`, and count the others."""
        values = np.asarray(points, np.float64)
        pixels, is_inside = inside(values, np.array(size))
        kept = None if observers is None else observers[is_inside]
        n_blinks = int(np.count_nonzero(np.isnan(values).any(axis=1)))
        return cls(pixels, kept, len(values) - len(pixels) - n_blinks, n_blinks)


def inside(points: NDArray[np.float64], sizes: NDArray[np.int64]) -> tuple[Points, NDArray[np.bool_]]:
    """The pixels of the points in their image, or less than `MARGIN_PX` outside, then at its border.

    Example: x = -0.5 becomes 0, and x = -1.5 is outside.

    Args:
        points: (n, 2) of (y, x), pixels counted from 0. They may be any numbers, also NaN.
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
    """The fixations of one image, from a source with one file for many images."""

    origin: str
    """Their name in messages."""
    points: NDArray[np.float64]
    """(n, 2) of (y, x), pixels of the image counted from 0. NaN for a blink."""
    observers: NDArray[np.int64] | None
    """(n,): the observer of each point, counted from 0. None if observers are not told apart."""
    size: Size | None = None
    """(h, w) of the image as their file states it, pixels. None if it states none."""
    has_known_observers: bool = False
    """As `Gaze.has_known_observers`."""

    def read(self, size: Size) -> Gaze:
        """The fixations in an image of this (h, w). Raises `ContentError` if their file states another size."""
        if self.size and not fits(self.size, size):
            raise ContentError(
                f"{self.origin} are of an image of {self.size[0]} x {self.size[1]} pixels (height x width), but "
                f"its image is {size[0]} x {size[1]}. Take the images as the authors publish them"
            )
        return replace(
            Gaze.inside(self.points, self.observers, size), has_known_observers=self.has_known_observers
        )


def fits(stated: tuple[float, float], size: Size) -> bool:
    """Whether the size (h, w) that a file states is the size of the image.

    Rounding may change a side by one pixel.

    Example: 600 x 799.6 fits 600 x 800.
    """
    return all(abs(side - actual) <= 1 for side, actual in zip(stated, size, strict=True))


@dataclass(frozen=True)
class Item:
    """The files of one image."""

    name: str
    """Path of the stimulus below its folder (and below train/ or val/ if the split is given)."""
    stimulus: Member
    map: Member | None
    """Density or points. None if there are only `fixations`."""
    fixations: Member | Fixations | None
    """A `.mat` file or an image, or a part of a file of many images, if there is one in addition to the map."""
    split_key: str = ""
    """The hash of this text decides whether the image is trained on or validates. All images of a group have
    one. If it is empty, it is the name without its suffix."""
    group: str = ""
    """Name of the images that belong together, such as the pages of a site or the frames of a film: they are in
    one split wherever it is drawn by hash, and are one unit of every interval. Empty for an image of its own."""
    picture: str = ""
    """Path of the first copy of the same picture. It is its own if there is no other, and empty if unknown."""
    hash: str = ""
    """`trainer.data.copies.hash_of` the picture. Empty if it has none, or if it is unknown."""

    @property
    def members(self) -> list[Member]:
        """Its own files."""
        return [each for each in (self.stimulus, self.map, self.fixations) if isinstance(each, Member)]


@dataclass(frozen=True)
class Images:
    """The images of a source."""

    items: list[Item]
    labels: list[str]
    """The split of each image by its folder. Empty if folders do not tell."""
    notes: list[str]
    """How the source was read, and what was left out, in sentences for people."""


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
    """`FileRule.reader`: if it is set, the file holds the fixations of many images."""


# === Find the images ===


Assigned = list[tuple[FileRole, Member]]
"""Files of a source with their roles."""
Files = dict[str, tuple[str, Member]]
"""Key of an image -> name and content of its file."""


def find_items(members: Sequence[Member], row: Dataset, source: str, bad: BadImages) -> Images:
    """Find the images of a source with the files of their maps and fixations.

    An image is put aside into `bad` if a file of it is missing, or if two files have the same name.

    Raises:
        UserError: too many images are put aside, there are no stimuli or no maps, or a file with the fixations of
            all images cannot be read.
    """
    assigned, notes = assign_roles(members, row)
    if row.any_count:
        for role in ("map", "fixations"):
            assigned, about_names = _with_equal_names(assigned, role)
            assigned, about_affix = _without_affix(assigned, role)
            notes += about_names + about_affix
    files, ambiguous = _by_role(assigned, bad)
    stimuli, maps = files["stimulus"], files["map"]
    if row.any_count and stimuli and (of_no_image := _of_no_image(stimuli, files["fixations"])):
        if not maps:
            raise ContentError(about_matlab(of_no_image))
        notes.append(f"Files of fixations, left out: {about_matlab(of_no_image)}.")
        files["fixations"] = {}
    fixations: Mapping[str, Member | Fixations] = {key: member for key, (_, member) in files["fixations"].items()}
    if sets := {key: member for key, (_, member) in files[OF_ALL].items()}:
        reader = next(file.reader for file, _ in assigned if file.reader)
        of_all = read_logs(sets.values()) if reader == "ueyes" else read_matlab_set(reader, sets)
        fixations = {key: each for key, each in of_all.items() if key in stimuli}
        if left_out := len(of_all) - len(fixations):
            counts = f"{left_out} of {len(of_all)}"
            notes.append(f"The fixations of images that the source does not have are left out ({counts}).")
    with_role = {member.path for _, member in assigned}
    about_others = about_unread(member.path for member in members if member.path not in with_role)
    _check_some(stimuli, maps, fixations, row, source, about_others)
    for _, (_, first) in itertools.islice(files["fixations"].items(), 1):
        if first.path.lower().endswith(POINTS):
            _read_matlab_file(first)  # the others are like it, and preparing the images takes long
    splits = {file.key: file.split for file, _ in assigned}
    unlisted = set()
    for _, table in files[SPLIT].values():
        splits |= call_untrusted(f"{UEYES}.read_splits", table.content(MOST_TABLE_BYTES), file=table.origin)
        unlisted = {key for key in stimuli if not splits.get(key)}
        for key in sorted(unlisted):
            bad.add(key, f"{key!r} is not in {table.origin}, which splits the images: remove the image")
    bad.n_images = max(len(stimuli), len(maps), len(fixations))
    unusable = ambiguous | unlisted | _unpaired(stimuli, maps, fixations, bad)
    bad.check()
    used = {key: file for key, file in stimuli.items() if key not in unusable}
    items = [
        Item(name, stimulus, maps[key][1] if maps else None, fixations.get(key))
        for key, (name, stimulus) in used.items()
    ]
    return Images(items, [splits[key] for key in used], notes)


def _by_role(assigned: Assigned, bad: BadImages) -> tuple[dict[str, Files], set[str]]:
    """The files of each role, and the keys of images with two files of one role, which are put aside.

    Files with the fixations of many images have the role OF_ALL.
    """
    files: dict[str, Files] = {role: {} for role in (*ROLES.values(), OF_ALL, SPLIT)}
    ambiguous = set()
    for file, member in assigned:
        role = OF_ALL if file.reader and file.role == "fixations" else file.role
        _, first = files[role].setdefault(file.key, (file.name, member))
        if first is not member:
            ambiguous.add(file.key)
            bad.add(
                file.name,
                f"two files with the same name: {first.origin} and {member.origin} would both be the {role} of "
                f"{file.key!r}. Remove one of them",
            )
    return files, ambiguous


def _of_no_image(stimuli: Collection[str], fixations: Files) -> list[Member]:
    """The files of fixations, if all are MATLAB's and none of them has the name of an image. Else none."""
    members = [member for _, member in fixations.values()]
    is_matlab = all(member.path.lower().endswith(POINTS) for member in members)
    return members if is_matlab and not set(stimuli).intersection(fixations) else []


def about_matlab(members: Sequence[Member]) -> str:
    """What the first of MATLAB files holds that have no image's name, and what to give, without a full stop.

    Example: `no image has the name of all.mat. It has the variables gaze (1 x 40 struct). Write one table ...`.

    Raises:
        ContentError: the file is damaged or too large.
    """
    first, names = members[0], some([member.origin for member in members])
    content = first.content(MOST_TABLE_BYTES)
    variables = call_untrusted(f"{MATLAB}.list_variables", content, file=first.origin, remedy=MATLAB_REMEDY)
    held = some(variables, MOST_VARIABLES) or "(none)"
    return (
        f"no image has the name of {names}. {'The first has' if members[1:] else 'It has'} the variables {held}. "
        "Write one table of all fixations (image,x,y), or one .mat for each image, with its name and a variable "
        f"named {' or '.join(FIXATION_VARIABLES)}"
    )


def _check_some(
    stimuli: Collection[str],
    maps: Collection[str],
    fixations: Collection[str],
    row: Dataset,
    source: str,
    about_others: str,
) -> None:
    """Raise `UserError` if there are no images, or neither maps nor fixations.

    `about_others` is what `about_unread` says of the files without a role.
    """
    archives = ", ".join(archive.name for archive in row.archives)
    authors = f", or give all archives of its authors ({archives})" if row.files else ""
    if not stimuli:
        raise ContentError(f"{source} has no stimuli: put images into a folder or archive named stimuli{authors}")
    if not maps and not fixations:
        raise ContentError(
            f"{source} has {len(stimuli)} images but no maps: put them into a folder or archive named maps, or "
            f"fixations into one named fixations{authors}{about_others and f'. {about_others}'}"
        )


def _unpaired(
    stimuli: Mapping[str, object], maps: Mapping[str, object], fixations: Mapping[str, object], bad: BadImages
) -> set[str]:
    """The keys of images and of maps without a counterpart, which are put aside.

    An image and a map that both have none may be of one image under two names, and count once.
    """
    unpaired: set[str] = set()
    for what, keys in (("map", maps), ("fixations file", fixations)):
        incomplete = sorted(set(stimuli) - set(keys)) if keys else []
        orphans = sorted(set(keys) - set(stimuli))
        others = f" (without an image: {some(list(map(repr, orphans)))})" if orphans else ""
        for key in incomplete:
            bad.add(key, f"image without a {what}: {key!r}{others}. Add it, or remove the image")
        for key in orphans[len(incomplete) :]:
            bad.add(key, f"{what} without an image: {key!r}. Add the image, or remove the {what}")
        unpaired.update(incomplete, orphans)
    return unpaired


def read_matlab(member: Member, size: Size) -> Gaze:
    """The fixations of one image of `size` (h, w), from a MATLAB file (see `trainer.data.matlab.read_one`).

    Raises:
        UserError: the file is damaged, has another form, or is of an image of another size.
    """
    content = member.origin, _read_matlab_file(member)
    gaze: Gaze = call_untrusted(f"{MATLAB}.read_one", *content, size, file=member.origin, remedy=MATLAB_REMEDY)
    return gaze


def _read_matlab_file(member: Member) -> bytes:
    """The content of a MATLAB file of one image. Raises `ContentError` if it was saved with -v7.3."""
    content = member.content(MOST_TABLE_BYTES)
    if content.startswith(MATLAB_7_3):
        raise ContentError(
            f"{member.origin} is a file of MATLAB 7.3, which is not read. Save it with -v7, the fixations in a "
            f"variable named {' or '.join(FIXATION_VARIABLES)}"
        )
    return content


def read_matlab_set(reader: str, files: Mapping[str, Member]) -> dict[str, Fixations]:
    """The fixations of all images of a dataset, by their names (see `trainer.data.matlab.read_set`).

    Raises:
        UserError: a file is damaged, has another form, or refers to other files.
    """
    contents = {name: (member.origin, member.content(MOST_TABLE_BYTES)) for name, member in files.items()}
    origin = " and ".join(member.origin for member in files.values())
    fixations: dict[str, Fixations] = call_untrusted(
        f"{MATLAB}.read_set", reader, contents, file=origin, remedy=MATLAB_REMEDY
    )
    return fixations


def read_logs(logs: Iterable[Member]) -> dict[str, Fixations]:
    """The fixations of all images of UEyes, by name, from the log of each person (see `trainer.data.ueyes`).

    Raises:
        ContentError: a log cannot be read.
    """
    observers: dict[str, list[Fixations]] = {}
    for log in logs:
        content = log.origin, log.content(MOST_TABLE_BYTES)
        for name, fixations in call_untrusted(f"{UEYES}.read_log", *content, file=log.origin).items():
            observers.setdefault(name, []).append(fixations)
    return {
        name: replace(
            each[0],
            origin=f"{each[0].origin} and {len(each) - 1} others",
            points=np.concatenate([own.points for own in each]),
            observers=np.repeat(np.arange(len(each)), [len(own.points) for own in each]),
        )
        for name, each in observers.items()
    }


# === What a file holds ===


def assign_roles(members: Sequence[Member], row: Dataset) -> tuple[Assigned, list[str]]:
    """The role of each member, and sentences about the choice. Members without a role are left out.

    The authors' rules decide if there is a file of each of their roles. Images of the split `test` are left
    out.
    """
    assigned = [(file, member) for member in members if (file := _by_rule(member.path, row.files))]
    if row.files and {file.role for file, _ in assigned} == {rule.role for rule in row.files}:
        notes = ["The files are in the form in which the dataset's authors publish them."]
        used = {member.path for _, member in assigned}
        if others := [member.path for member in members if member.path not in used]:
            notes.append(f"Files that the dataset does not use, left out: {len(others)} ({some(others)}).")
        return assigned, notes
    assigned = [(file, member) for member in members if (file := _by_folder(member.path, row))]
    # Some authors publish densities in folders of this name. In one's own, such an image is a mistake.
    if not row.any_count and not any(file.role == "map" for file, _ in assigned):
        assigned = [(_as_map(file), member) for file, member in assigned]
    return assigned, []


def _as_map(file: FileRole) -> FileRole:
    is_picture = file.role == "fixations" and not file.name.lower().endswith(POINTS)
    return replace(file, role="map") if is_picture else file


# === Names of maps ===


def _with_equal_names(assigned: Assigned, role: str) -> tuple[Assigned, list[str]]:
    """Name files of a role after their images where names are equal, but not the same (see `folded`).

    Files and images with the same name come first. A file stays as it is if several images that are left have a
    name equal to its own, or several files do. A sentence says what is renamed. Example: `P01.png` is the map of
    p01.jpg.
    """
    images = {file.key for file, _ in assigned if file.role == "stimulus"}
    keys = {file.key for file, _ in assigned if file.role == role}
    left = _by_equal_name(images - keys)
    renamed = {
        files[0]: left[name][0]
        for name, files in _by_equal_name(keys - images).items()
        if len(files) == len(left.get(name, [])) == 1
    }
    if not renamed:
        return assigned, []
    assigned = [
        (replace(file, key=renamed.get(file.key, file.key)) if file.role == role else file, member)
        for file, member in assigned
    ]
    what = "maps" if role == "map" else "files of fixations"
    return assigned, [
        f"Names of {what} that differ from the names of their images by case, the form of letters or blanks "
        f"alone: {len(renamed):,} ({some(sorted(renamed))})."
    ]


def _by_equal_name(keys: Iterable[str]) -> dict[str, list[str]]:
    """The `folded_path` of keys -> the keys that have it."""
    names: dict[str, list[str]] = {}
    for key in keys:
        names.setdefault(folded_path(key), []).append(key)
    return names


def _without_affix(assigned: Assigned, role: str) -> tuple[Assigned, list[str]]:
    """Name files of a role after their images, without what all their stems have before or behind the image's.

    It is cut off if that pairs more than half of the files, and less than half already have the names of
    images. A sentence says so. Example: `a_heatmap.png` is the map of a.jpg if the others end in `_heatmap`
    too. One file beside several images has nothing in common with others.
    """
    images = {file.key for file, _ in assigned if file.role == "stimulus"}
    keys = [file.key for file, _ in assigned if file.role == role]
    if 2 * len(images.intersection(keys)) >= len(keys) or len(keys) == 1 < len(images):
        return assigned, []
    # The affixes of a few files, since the first ones may be of no image.
    affixes = {affix for key in keys[:TRIED] for affix in _affixes(key, images)}
    n_paired = {affix: len({_stripped(key, *affix) for key in keys} & images) for affix in affixes}
    # Of affixes that pair as many, such as `map_` and `map_1` of `map_11`, the shortest.
    affix = max(sorted(affixes), key=lambda each: (n_paired[each], -len("".join(each))), default=("", ""))
    if 2 * n_paired.get(affix, 0) <= len(keys):
        return assigned, []
    renamed = [
        (replace(file, key=_stripped(file.key, *affix)) if file.role == role else file, member)
        for file, member in assigned
    ]
    named = " and ".join(
        f"{text!r} {where}" for text, where in zip(affix, ("before", "behind"), strict=True) if text
    )
    what = "maps" if role == "map" else "files of fixations"
    return renamed, [f"The names of {what} have {named} the names of their images ({n_paired[affix]:,})."]


def _affixes(key: str, images: Collection[str]) -> set[tuple[str, str]]:
    """What may stand before and behind the stem of an image in the stem of a file in the same folder."""
    folder, stem = posixpath.split(key)
    stems = [posixpath.basename(image) for image in images if posixpath.dirname(image) == folder]
    return {
        (stem[: match.start()], stem[match.end() :])
        for each in stems
        for match in re.finditer(re.escape(each), stem)
    }


def _stripped(key: str, before: str, behind: str) -> str:
    """The key without an affix of its stem. It stays as it is if it does not have both parts.

    Example: `face/map_a` without `map_` is `face/a`.
    """
    folder, stem = posixpath.split(key)
    if not (stem.startswith(before) and stem.endswith(behind) and len(stem) > len(before + behind)):
        return key
    return posixpath.join(folder, stem[len(before) : len(stem) - len(behind)])


def about_map_folders(paths: Collection[str]) -> str:
    """The end of a sentence about the folders of images that seem to hold maps. Empty without such a folder."""
    folders = {posixpath.dirname(path) for path in paths}
    alike = sorted(
        folder for folder in folders if MAP_WORDS.search(folder) and not folder_word(f"{folder}/", ROLES)
    )
    return (
        f". {some(alike)} {'look' if alike[1:] else 'looks'} like maps: move one folder into maps/"
        if alike
        else ""
    )


# === The authors' form ===


@functools.cache
def _pattern(rule: FileRule) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", rule.path)
    texts = [f"(?P<{part}>[^/]+)" if number % 2 else re.escape(part) for number, part in enumerate(parts)]
    return re.compile(f"(?:.*/)?{''.join(texts)}", re.IGNORECASE | re.DOTALL)


def _by_rule(path: str, rules: Sequence[FileRule]) -> FileRole | None:
    for rule in rules:
        match = _pattern(rule).fullmatch(path)
        if match is None:
            continue
        file = path.rpartition("/")[2]
        if rule.reader:
            return FileRole(rule.role, "", file, file.lower(), rule.reader)
        parts = match.groupdict()
        split = SPLIT_LABELS.get(parts["split"].lower(), TEST) if "split" in parts else ""
        if split == TEST:
            continue
        folder = [parts["folder"]] if "folder" in parts else []
        # In lower case: of UEyes, who compared exact names missed the maps of two images, and who used a Mac none.
        key = "/".join([*([split] if split else []), *folder, parts["name"]]).lower()
        return FileRole(rule.role, split, "/".join([*folder, file]), key)
    return None


# === Folders ===


def folder_word(path: str, words: Mapping[str, str]) -> str:
    """What the deepest folder with a name in `words` stands for. Empty without such a folder.

    Example: by `ROLES`, a/maps/train/1.png is in a folder of maps.
    """
    folders = [folder.lower() for folder in path.split("/")[:-1]]
    return next((words[folder] for folder in reversed(folders) if folder in words), "")


def role_of(path: str) -> str:
    """What a file holds by its folder, a value of `ROLES`. Empty if files with its suffix are not read there.

    Example: `fixations` for fixations/a.mat, and nothing for fixations/a.edf and for maps/readme.txt.
    """
    role = folder_word(path, ROLES)
    suffixes = (*PICTURE_SUFFIXES, POINTS) if role == "fixations" else PICTURE_SUFFIXES
    return role if pathlib.PurePosixPath(path).suffix.lower() in suffixes else ""


def _by_folder(path: str, row: Dataset) -> FileRole | None:
    """The role of the file at `path`. None if it has none."""
    *folders, file = path.split("/")
    depth = max((i for i, folder in enumerate(folders) if folder.lower() in ROLES), default=None)
    if depth is None:
        return None
    role = role_of(path)
    below = folders[depth + 1 :]
    suffix = pathlib.PurePosixPath(file).suffix
    if not role or IGNORED in (folder.lower() for folder in below):
        return None
    split = ""
    if row.split == "given":
        split = folder_word(path, SPLIT_LABELS)
        if split == TEST:
            return None
        below = [folder for folder in below if SPLIT_LABELS.get(folder.lower()) != split]
    stem = file[: len(file) - len(suffix)]
    if role != "stimulus":
        stem = stem.removesuffix(row.map_suffix)
        stem = stem.removesuffix(row.fixation_suffix) if role == "fixations" else stem
    key = "/".join([*([split] if split else []), *below, stem])
    return FileRole(role, split, "/".join([*below, file]), key)
