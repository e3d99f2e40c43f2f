"""Which image the name in a cell of a table, or the name of a table, means. Example: `house/a.png`."""

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence

from trainer.errors import AmbiguousError
from trainer.pictures import SUFFIXES

MOST_FOLDERS = 100
"""Folders of a path by which an image is found. A cell of a table may have a million slashes."""


class ImageNames:
    """Find the image that a cell of a table names: by its path, the end of its path, or its name without a suffix.

    Example: `face/a.png`, `a.png` and `a` all name the image stimuli/face/a.png. A number also names the
    image with this number if only one image has it. Example: 7 and 7.0 name 07.png.

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
            UserError: several images have this name.
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
            return (self._by_number.get(_as_number(label), [])[:1] if is_number(label) else []), math.inf
        candidates = self._by_name[name]
        exact = [image for image in candidates if _plain(self.paths[image]) == _plain(label)]
        is_whole = name.count("/") == max(end.count("/") for end in ends)
        return exact or candidates, math.inf if is_whole else name.count("/") + 1

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


def _plain(path: str) -> str:
    # Archives of macOS have accents behind their letters.
    return unicodedata.normalize("NFC", path).strip().replace("\\", "/").removeprefix("./").lower()


def _ends(path: str) -> list[str]:
    """All names by which a path may be found, the longest first, at most MOST_FOLDERS folders deep.

    Example: `a/b.png` gives `a/b.png`, `b.png`, `a/b` and `b`.
    """
    path = _plain(path)
    stem = next((path[: -len(suffix)] for suffix in SUFFIXES if path.endswith(suffix)), path)
    parts = [text.lstrip("/").split("/") for text in (path, stem)]
    last = [each[-MOST_FOLDERS - 1 :] for each in parts]
    return [end for each in last for depth in range(len(each)) if (end := "/".join(each[depth:]))]
