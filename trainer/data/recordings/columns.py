"""What the names in a table of fixations mean: those of its columns, and those of images in its cells.

The names of columns are facts about the exports of eye trackers (docs/data.md names the files that were read).
"""

import dataclasses
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

from trainer.data.source_layout import IMAGE_SUFFIXES
from trainer.errors import UserError

PIXELS, FRACTION, DEGREES = "pixels", "fraction", "degrees"
IMAGE, SCREEN = "image", "screen"
UNITS = {
    **dict.fromkeys(("px", "pix", "pixel", "pixels", "mcs px", "mcspx", "dacs px", "dacspx", "adcspx"), PIXELS),
    **dict.fromkeys(("norm", "normalized", "fraction", "mcs norm", "mcsnorm"), FRACTION),
    **dict.fromkeys(("deg", "degree", "degrees", "°"), DEGREES),
}
"""Unit in the name of a column -> unit of `coordinates`."""
ON = {
    **dict.fromkeys(("dacs px", "dacspx", "adcspx"), SCREEN),
    **dict.fromkeys(("mcs px", "mcspx", "mcs norm", "mcsnorm"), IMAGE),
}
"""Tobii's units -> what a position is measured on: the display area, or the medium."""


@dataclasses.dataclass(frozen=True)
class Pair:
    """The names of two columns, x and y, of positions of fixations."""

    x: str
    y: str
    unit: str = ""
    """PIXELS, FRACTION or DEGREES; empty if the name does not tell."""
    on: str = ""
    """SCREEN if these are positions on the screen, IMAGE if on the image; empty if the name does not tell."""
    upwards: bool = False
    """Whether y grows upwards."""


PAIRS = (
    Pair("current fix x", "current fix y", PIXELS, SCREEN),  # EyeLink Data Viewer
    Pair("fpogx", "fpogy", FRACTION, SCREEN),  # Gazepoint
    Pair("norm pos x", "norm pos y", FRACTION, IMAGE, upwards=True),  # Pupil Player, on a surface
    Pair("fixation x", "fixation y"),  # Pupil Cloud: [normalized] of a surface, [px] of a reference image
    Pair("fixation point x", "fixation point y", on=SCREEN),  # Tobii Pro Lab, after which its unit follows
    Pair("fixationpointx", "fixationpointy", on=SCREEN),  # Tobii Studio
    Pair("fixation position x", "fixation position y", PIXELS),  # SMI BeGaze
    Pair("location x", "location y", PIXELS),  # its text of events
    Pair("x coordinate", "y coordinate"),  # BIDS
    Pair("fix x", "fix y"),
    Pair("x", "y"),
)
"""Known pairs in the order of preference, with the names that `plain` returns."""

ROLES = {
    "image": (
        *("image", "image name", "image file", "stimulus", "stimulus name", "stim file", "picture"),
        *("presented stimulus name", "presented media name", "media name", "medianame", "filename", "file name"),
    ),
    "observer": (
        *("observer", "participant", "participant id", "participant name", "participantname"),
        *("subject", "subject id", "recording session label", "recording id", "recording name", "recordingname"),
    ),
    "trial": (
        *("trial", "trial id", "trial index", "recording name", "recordingname", "recording id", "section id"),
    ),
    "duration": (
        *("duration", "fixation duration", "gaze event duration", "gazeeventduration", "fpogd"),
        *("current fix duration", "event duration"),
    ),
    "time": (
        *("fpogs", "current fix start", "event start trial time", "fixation start", "start timestamp", "start"),
        *("onset", "time", "timestamp", "recording timestamp", "recordingtimestamp"),
    ),
    "fixation": (
        *("fixation id", "fixation index", "fixationindex", "fixation number", "fixation"),
        *("eye movement type index", "current fix index", "fpogid"),
    ),
    "valid": ("fpogv", "fixation detected on surface", "fixation detected in reference image", "on surf", "valid"),
    "event": ("eye movement type", "gazeeventtype", "category", "event type", "event", "trial type"),
    "split": ("split",),
    "group": (),  # by the setting alone: tables have groups of people, too
}
"""What a column holds -> its usual names in the order of preference, in the form that `plain` returns."""


def plain(name: str) -> tuple[str, str]:
    """Split a column's name into its words, in lower case, and its unit: `Fix_X [px]` is (fix x, px)."""
    name, unit = name.strip().lower(), ""
    if match := re.fullmatch(r"(.+?)\s*[\[(]([^\])]*)[\])]", name):
        name, unit = match[1], match[2].strip()
    words = re.sub(r"[\s_.\-]+", " ", name).strip()
    if not unit and (match := re.fullmatch(r"(.+) (px|pix|pixels|ms|norm|deg)", words)):
        words, unit = match[1], match[2]
    return words, unit


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns of one table."""

    index: dict[str, int]
    """What a column holds (a key of ROLES, x or y) -> its position in the table, from 0."""
    unit: str
    """PIXELS, FRACTION or DEGREES; empty if the names do not tell."""
    on: str
    """SCREEN or IMAGE; empty if the names do not tell."""
    unknown_unit: str
    """The unit of x or y in the header if it is not one of UNITS, such as mm; else empty."""
    upwards: bool
    """Whether y grows upwards."""

    @property
    def has_positions(self) -> bool:
        """Whether x and y were found."""
        return "x" in self.index and "y" in self.index


def find_columns(header: Sequence[str], named: Mapping[str, str]) -> Columns:
    """Find the columns of a table by their names. Of several with one name the first is taken.

    Args:
        header: the names of all columns.
        named: what a column holds -> the name that the user gives it. It comes before the usual names. For y, a
            minus before the name says that its values grow upwards.
    """
    exact = {name.strip().lower(): position for position, name in reversed(list(enumerate(header)))}
    words = [plain(name) for name in header]
    index, upwards = {}, False
    for role, name in named.items():
        name = name.lower()
        if role == "y" and name.startswith("-") and name not in exact:
            name, upwards = name[1:], True
        if name in exact:
            index[role] = exact[name]
    pair = Pair("", "")
    if "x" in named:
        x_and_y = [words[index[role]][0] for role in ("x", "y") if role in index]
        pair = next((each for each in PAIRS if [each.x, each.y] == x_and_y), pair)
    elif known := _find_pair(words):
        pair, index["x"], index["y"] = known
    units = [words[index[role]][1] for role in ("x", "y") if role in index]
    first = {word: position for position, (word, _) in reversed(list(enumerate(words)))}
    for role, names in ROLES.items():
        free = [first[name] for name in names if name in first and first[name] not in index.values()]
        if free and role not in named:
            index[role] = free[0]
    return Columns(
        index,
        unit=UNITS.get(units[0], pair.unit) if units else "",
        on=ON.get(units[0], pair.on) if units else "",
        unknown_unit=next((unit for unit in units if unit and unit not in UNITS), ""),
        upwards=upwards or pair.upwards,
    )


def _find_pair(words: Sequence[tuple[str, str]]) -> tuple[Pair, int, int] | None:
    """The preferred pair of positions and their columns. Of columns of one name, fractions come first."""
    positions = {word: position for position, word in reversed(list(enumerate(words)))}
    for pair in PAIRS:
        units = [unit for word, unit in words if word == pair.x and (pair.y, unit) in positions]
        if units:
            unit = min(units, key=lambda unit: UNITS.get(unit) != FRACTION)  # the first of several
            return pair, positions[pair.x, unit], positions[pair.y, unit]
    return None


# === Images ===


class ImageNames:
    """Find the image that a cell of a table names: by its path, the end of its path, or its name without a suffix.

    Args:
        paths: the paths of the images below the source. Results are positions in this list.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths
        self._by_name: dict[str, list[int]] = {}
        for position, path in enumerate(paths):
            for name in set(_ends(path)):
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
        matches = [self._match(label) for label in labels]
        best: dict[int, float] = {}
        for candidates, shared in matches:
            if len(candidates) == 1:
                best[candidates[0]] = max(best.get(candidates[0], 0), shared)
        images: list[int | None] = []
        for label, (candidates, shared) in zip(labels, matches, strict=True):
            if all(best.get(image, 0) > shared for image in candidates):
                images.append(None)
            elif len(candidates) == 1:
                images.append(candidates[0])
            else:
                first, second = (self.paths[image] for image in candidates[:2])
                raise UserError(
                    f"{origin} has rows of {label!r}, which may be {first} or {second}; write their paths "
                    "below the source into the table, or rename one of them"
                )
        return images

    def _match(self, label: str) -> tuple[list[int], float]:
        """The images that a label may mean, and how many parts of their paths it has; infinity for all."""
        ends = _ends(label)
        name = next((end for end in ends if end in self._by_name), None)
        if name is None:
            return [], 0
        candidates = self._by_name[name]
        exact = [image for image in candidates if _plain(self.paths[image]) == _plain(label)]
        is_whole = name.count("/") == max(end.count("/") for end in ends)
        return exact or candidates, math.inf if is_whole else name.count("/") + 1

    def only_in(self, folder: str) -> int | None:
        """The only image directly in a folder, or the only one at all; None if there are several."""
        for paths in ([path for path in self.paths if path.rpartition("/")[0] == folder], self.paths):
            if len(paths) == 1:
                return self.paths.index(paths[0])
        return None

    def count(self, labels: Iterable[str]) -> int:
        """Count the labels that name one or more images."""
        return sum(any(name in self._by_name for name in _ends(label)) for label in labels)


def _plain(path: str) -> str:
    # Archives of macOS have accents behind their letters.
    return unicodedata.normalize("NFC", path).strip().replace("\\", "/").removeprefix("./").lower()


def _ends(path: str) -> list[str]:
    """The path and its ends after each of its folders, the longest first, then these without a suffix."""
    path = _plain(path)
    stem = next((path[: -len(suffix)] for suffix in IMAGE_SUFFIXES if path.endswith(suffix)), path)
    parts = [text.lstrip("/").split("/") for text in (path, stem)]
    return [end for each in parts for depth in range(len(each)) if (end := "/".join(each[depth:]))]
