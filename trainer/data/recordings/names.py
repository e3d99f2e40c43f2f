"""Find the image that a cell of a table names: by its path, the end of its path, or its name without a suffix."""

import math
import unicodedata
from collections.abc import Iterable, Sequence

from trainer.data.roles import IMAGE_SUFFIXES
from trainer.errors import UserError


class ImageNames:
    """Finds the images of a source by their names.

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
