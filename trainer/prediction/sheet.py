"""Writes contact sheets: pages of thumbnails, each written as soon as it is full."""

import io
import os
import pathlib
from typing import Self

from PIL import Image

from trainer.errors import UserError
from trainer.files import replacing
from trainer.picture import Pixels
from trainer.prediction.render import Map, draw_contact_sheet

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
PER_PAGE = 60


class Sheet:
    """Collects thumbnails; a context manager that writes the last page on success.

    Args:
        path: the file. If the images need several pages, `-1`, `-2` and so on are added to its stem.
        count: largest number of images.

    Attributes:
        paths: the files for `count` images; with fewer images, the last ones are not written.
        written: the files written so far.
        note: what the head of each page says below its title, such as the model; may be set before the first page.

    Raises:
        UserError: the file's suffix is not an image's.
    """

    def __init__(self, path: str | os.PathLike[str], count: int) -> None:
        path = pathlib.Path(path)
        if path.suffix.lower() not in SUFFIXES:
            raise UserError(f"--contact-sheet {path} must end in {', '.join(SUFFIXES)}")
        pages = -(-count // PER_PAGE)
        numbers = [f"-{page:0{len(str(pages))}d}" for page in range(1, pages + 1)] if pages > 1 else [""]
        self.paths = [path.with_stem(path.stem + number) for number in numbers]
        self.note = ""
        self._entries: list[tuple[str, Pixels, Map]] = []
        self.written: list[pathlib.Path] = []

    def __enter__(self) -> Self:
        return self

    def add(self, name: str, image: Pixels, map: Map) -> None:
        """Add an image (h, w, 3) and its map (h, w), as small as `draw_contact_sheet` takes them."""
        self._entries.append((name, image, map))
        if len(self._entries) == PER_PAGE:
            self._write()

    def _write(self) -> None:
        page, pages = len(self.written), len(self.paths)
        path = self.paths[page]
        title = f"Predicted attention{f', page {page + 1} of {pages}' if pages > 1 else ''}"
        with replacing(path) as partial:
            content = io.BytesIO()  # Pillow does not notice if a full disk takes a part of its last write
            Image.fromarray(draw_contact_sheet(self._entries, title, self.note)).save(
                content, Image.registered_extensions()[path.suffix.lower()], quality=90
            )
            partial.write_bytes(content.getbuffer())
        self.written.append(path)
        self._entries.clear()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._entries:
            self._write()
