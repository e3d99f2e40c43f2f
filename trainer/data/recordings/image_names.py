"""Which image the name in a cell of a table, or the name of a table, means. Example: `house/a.png`."""

import functools
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence

from trainer.errors import AmbiguousError
from trainer.pictures import PICTURE_SUFFIXES

MOST_FOLDERS = 100
"""Folders of a path by which an image is found. A cell of a table may have a million slashes."""
ZERO_WIDTH = dict.fromkeys(map(ord, "\u200b\u2060\ufeff"))
"""Blanks without a width, which copying from web pages leaves, for `str.translate`."""
SAME_LETTERS = (
    *("<wide>", "<narrow>", "<small>", "<vertical>", "<noBreak>", "<compat>"),
    *("<initial>", "<medial>", "<final>", "<isolated>"),
)
"""Unicode's kinds of characters that are other shapes of the same letters, such as the ligature of f and i. The
other kinds are letters of their own. Example: x² is not x2 (`<super>`)."""


# === Equal names ===


def folded(name: str) -> str:
    """The form in which equal names of files or folders are the same text. `name` is one part of a path.

    Names are equal if they differ by nothing but:
    - case, also as in `Straße` and `STRASSE`
    - the Unicode form: accents of their own (archives of macOS) or not, letters of full width, ligatures
    - the kind and number of blanks between words, and blanks around them. An underscore is none

    Example: macOS writes U+202F before the PM of `Screenshot 1.05.09 PM.png`, and a spreadsheet a usual blank.
    """
    if not name.isascii():
        name = unicodedata.normalize("NFD", "".join(map(_usual_shape, name.translate(ZERO_WIDTH))))
    return " ".join(_composed(name.casefold()).split())


def folded_path(path: str) -> str:
    """A path with `/` in which each part is `folded`."""
    return "/".join(map(folded, path.split("/")))


@functools.cache
def _usual_shape(character: str) -> str:
    """The same letters as a character in their usual shape. Example: fi for the ligature U+FB01.

    A character whose usual shape would part a path or a word stays.
    """
    usual = unicodedata.normalize("NFKC", character)
    is_same = unicodedata.decomposition(character).startswith(SAME_LETTERS) and not set(usual) & {*"/\\ "}
    return usual if is_same else character


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


# === Images ===


class ImageNames:
    """Find the image that a cell of a table names: by its path, the end of its path, or its name without a suffix.

    Example: `face/a.png`, `a.png` and `a` all name the image stimuli/face/a.png, and so do names that are equal
    to these (see `folded`). A number also names the image with this number if only one image has it. Example: 7
    and 7.0 name 07.png.

    Args:
        paths: the paths of the images below the source. Results are positions in this list.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths
        self._by_name: dict[str, list[int]] = {}
        for position, path in enumerate(paths):
            for name in set(_ends(path)):
                self._by_name.setdefault(name, []).append(position)
        numbers: dict[str, list[int]] = {}
        for name, positions in self._by_name.items():
            if is_number(name):
                numbers.setdefault(_as_number(name), []).extend(positions)
        self._by_number = {name: positions for name, positions in numbers.items() if len(set(positions)) == 1}

    def find_all(self, labels: Sequence[str], origin: str) -> list[int | None]:
        """Find the image of each label in a table. The result is None for a label without an image.

        A label with folders may match by the end of its path alone, but only if no other label matches that
        image better. Example: face/a.png does not name house/a.png if the table also has house/a.png.

        Raises:
            AmbiguousError: several images have this name, and none has it exactly.
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
                first, second = _shown(*(self.paths[image] for image in candidates[:2]))
                raise AmbiguousError(
                    f"{origin} has rows of {label!r}, which may be {first} or {second}. Write their paths "
                    "below the source into the table, or rename one of them"
                )
        return images

    def _match(self, label: str) -> tuple[list[int], float]:
        """The images that a label may mean, and how many parts of their paths it matches.

        Infinity: it matches whole.
        """
        ends = _ends(label)
        name = next((end for end in ends if end in self._by_name), None)
        if name is None:
            number = folded(label)
            return (self._by_number.get(_as_number(number), [])[:1] if is_number(number) else []), math.inf
        is_whole = name.count("/") == max(end.count("/") for end in ends)
        images = self._closest(label, name, self._by_name[name])
        return images, math.inf if is_whole else name.count("/") + 1

    def _closest(self, label: str, name: str, candidates: list[int]) -> list[int]:
        """Of several images that all have a name, those that a label means.

        They are the images whose whole path it is, and whose names are written as it is. All candidates are
        returned if no image is both. Example: `a.png` is a.png beside house/a.png and beside A.png, but `A.png`
        may be either of a.png and house/A.png.
        """
        if len(candidates) == 1:
            return candidates
        parts = _parts(label, folded)
        whole = [image for image in candidates if _parts(self.paths[image], folded) == parts]
        written = (
            [image for image in candidates if end in _ends(self.paths[image], form)]
            for form in (str, _composed)
            for end in _ends(label, form)
            if end.count("/") == name.count("/")
        )
        closest = next(filter(None, written), candidates)
        return [image for image in closest if image in (whole or candidates)] or candidates

    def only_in(self, folder: str) -> int | None:
        """The only image directly in a folder, or else the only image of the source. None if there are several."""
        for paths in ([path for path in self.paths if path.rpartition("/")[0] == folder], self.paths):
            if len(paths) == 1:
                return self.paths.index(paths[0])
        return None

    def knows(self, label: str) -> bool:
        """Whether an image has this name, and not only its number."""
        return any(end in self._by_name for end in _ends(label))

    def named_by(self, labels: Iterable[str]) -> dict[str, int]:
        """The labels that name one image or more -> the first of these images."""
        matches = {label: self._match(label)[0] for label in labels}
        return {label: images[0] for label, images in matches.items() if images}


def is_number(label: str) -> bool:
    """Whether a label is a whole number. Programs also write it with zeros behind the point.

    Example: 7, 7.0 and 7,00.
    """
    return re.fullmatch(r"\s*\d+([.,]0+)?\s*", label) is not None


def _as_number(label: str) -> str:
    return re.split(r"[.,]", label.strip())[0].lstrip("0") or "0"


def _shown(first: str, second: str) -> tuple[str, str]:
    """Two paths for a message: as Python escapes them if they may look the same."""
    are_alike = _parts(first, folded) == _parts(second, folded)
    return (ascii(first), ascii(second)) if are_alike and first.lower() != second.lower() else (first, second)


def _parts(path: str, form: Callable[[str], str]) -> list[str]:
    """The folders of a path and its name, each in a form, the last MOST_FOLDERS + 1 of them."""
    parts = path.strip().replace("\\", "/").removeprefix("./").lstrip("/").split("/")
    return [form(part) for part in parts[-MOST_FOLDERS - 1 :]]


def _ends(path: str, form: Callable[[str], str] = folded) -> list[str]:
    """All names by which a path may be found, the longest first, at most MOST_FOLDERS folders deep.

    Example: `a/b.png` gives `a/b.png`, `b.png`, `a/b` and `b`.
    """
    *folders, name = _parts(path, form)
    stem = name
    if name.lower().endswith(PICTURE_SUFFIXES):
        stem = name[: name.rindex(".")].rstrip()
    both = [[*folders, each] for each in (name, stem)]
    return [end for parts in both for depth in range(len(parts)) if (end := "/".join(parts[depth:]))]
