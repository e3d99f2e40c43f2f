"""A contact sheet as files: so many images on a page, written as soon as it is full."""

import os
import pathlib
from typing import Self

from PIL import Image

from trainer.artifacts import replacing
from trainer.errors import UserError
from trainer.prediction.picture import Pixels
from trainer.prediction.render import contact_sheet
from trainer.prediction.restore import Map

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
PER_PAGE = 60
THUMBNAIL_PX = 240


class Sheet:
    """Collects thumbnails; a context manager that writes the last page on success.

    Args:
        path: the file, if all images fit on one page; else pages get `-1`, `-2` behind its stem.
        count: how many images there are at most.

    Raises:
        UserError: if the file's name does not end as a picture's does.
    """

    def __init__(self, path: str | os.PathLike[str], count: int) -> None:
        self._path = pathlib.Path(path)
        if self._path.suffix.lower() not in SUFFIXES:
            raise UserError(f"--contact-sheet {path} does not end with {', '.join(SUFFIXES)}; name a picture")
        self._pages = -(-count // PER_PAGE)
        self._entries: list[tuple[str, Pixels, Map]] = []
        self.written: list[pathlib.Path] = []

    def __enter__(self) -> Self:
        return self

    def add(self, name: str, image: Pixels, map: Map) -> None:
        """Add an image (h, w, 3) and its map (h, w), both small."""
        self._entries.append((name, image, map))
        if len(self._entries) == PER_PAGE:
            self._write()

    def _write(self) -> None:
        number = f"-{len(self.written) + 1:0{len(str(self._pages))}d}" if self._pages > 1 else ""
        path = self._path.with_stem(self._path.stem + number)
        with replacing(path) as partial:
            Image.fromarray(contact_sheet(self._entries, THUMBNAIL_PX)).save(partial, quality=90)
        self.written.append(path)
        self._entries.clear()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._entries:
            self._write()
