"""The images of a source, one after another, so that a listing of ten million needs no memory.

A source is a folder, a `gs://` folder, or a text file with an address in each line. An archive is unpacked first
(`trainer.batch.job`).
"""

import os
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

from trainer.batch.settings import Sizes
from trainer.errors import AmbiguousError, ContentError, NotFoundError, check
from trainer.io import local_path
from trainer.pictures import SUFFIXES
from trainer.places import BucketPlace, Stored, is_junk, stored_at
from trainer.texts import printable

LIST = ".txt"
"""Ending of a text file of addresses."""
ASSUMED_BYTES = 10**6
"""Size of an image whose listing does not say it: an address in a text file that is not of this machine."""
SCHEME = "://"


class Listed(NamedTuple):
    """An image of a source."""

    key: str
    """Its path below the source, with `/`. Results are named after it. No two images have the same."""
    address: str
    """Path or address, such as `gs://bucket/photos/a/x.jpg`."""
    size_bytes: int
    problem: str = ""
    """Why it cannot be predicted, if its name says so. Key and address are shown with escapes then."""


def list_images(source: str) -> Iterator[Listed]:
    """List the images of a source, sorted by key within each folder, or in the order of a text file.

    Args:
        source: one of these.

            - a folder of this machine, with its subfolders
            - a `gs://` folder
            - a text file. Each line has the address of an image: a path, which may be relative to the file, or
              `gs://`, `https://` or `http://`. The key is the path as it stands there, or the address without its
              scheme. Another key may follow after a tab. Empty lines and those that begin with `#` are left out.

            In folders, hidden files and files without an image's suffix are left out.

    Raises:
        UserError: there is no such source, it has no images, or a key stands twice in a text file.
    """
    place = stored_at(source)
    if isinstance(place, BucketPlace) and not source.endswith(LIST):
        found = _in_bucket(place)
    elif source.endswith(LIST):
        found = _in_list(source)
    else:
        found = _in_folder(local_path(source))
    empty = True
    for image in found:
        empty = False
        yield _checked(image, place)
    endings = ", ".join(SUFFIXES)
    check(
        not empty,
        f"{printable(source)} has no images. In a folder, their names must end in {endings}",
        NotFoundError,
    )


def _checked(image: Listed, source: Stored) -> Listed:
    """The image, with its problem if no result can be named after its key, such as one that is not UTF-8."""
    try:
        source.check_below(image.key)
    except ContentError as error:
        return Listed(printable(image.key), printable(image.address), image.size_bytes, str(error))
    return image


def measure_source(source: str) -> Sizes:
    """Count the images of a source and their bytes. Raises `UserError` as `list_images`."""
    images = n_bytes = 0
    for image in list_images(source):
        images, n_bytes = images + 1, n_bytes + image.size_bytes
    return Sizes(images, n_bytes)


def _in_folder(root: pathlib.Path) -> Iterator[Listed]:
    check(
        root.is_dir(),
        f"{printable(str(root))} is no folder. Give a folder, an archive, gs:// or a {LIST} file of addresses",
        NotFoundError,
    )
    visited: set[str] = set()
    for parent, folders, names in os.walk(root, onerror=_raise, followlinks=True):
        place = os.path.realpath(parent)
        if place in visited:  # a link can form a cycle
            folders.clear()
            continue
        visited.add(place)
        folders[:] = sorted(name for name in folders if not is_junk(name))
        for name in sorted(names):
            if name.lower().endswith(SUFFIXES) and not is_junk(name):
                path = pathlib.Path(parent, name)
                size = path.stat().st_size if path.exists() else 0  # reading says what is wrong with it
                yield Listed(path.relative_to(root).as_posix(), str(path.absolute()), size)


def _raise(error: OSError) -> None:
    raise NotFoundError(f"cannot read {printable(str(error.filename))}: {error.strerror}") from None


def _in_bucket(place: BucketPlace) -> Iterator[Listed]:
    root = place.text.rstrip("/") + "/"
    for name, size_bytes in place.with_text(root).each_object():
        key = f"gs://{place.bucket}/{name}".removeprefix(root)
        if key.lower().endswith(SUFFIXES) and not is_junk(key):
            yield Listed(key, root + key, size_bytes)


def _in_list(source: str) -> Iterator[Listed]:
    place = stored_at(source)
    content = place.parent.content(place.name) if "/" in source else stored_at(".").content(source)
    check(content is not None, f"there is no file {printable(source)}", NotFoundError)
    assert content is not None
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise ContentError(f"{printable(source)} is not text in UTF-8. Save it again as UTF-8") from None
    seen: dict[str, int] = {}
    folder = pathlib.Path(source).parent if place.is_local else None
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        address, _, key = line.strip().partition("\t")
        key = key.strip() or address.partition(SCHEME)[2] or address.lstrip("/")
        size = ASSUMED_BYTES
        if SCHEME not in address:
            check(
                folder is not None,
                f"line {number} of {printable(source)} is {printable(address)}, a path of a machine. In a list on "
                "Cloud Storage, write addresses: gs://, https://",
                ContentError,
            )
            assert folder is not None
            path = (folder / local_path(address)).absolute()
            address, size = str(path), path.stat().st_size if path.is_file() else 0
        check(
            key not in seen,
            f"lines {seen.get(key)} and {number} of {printable(source)} have the same key {printable(key)}, so "
            "one result would overwrite the other. Write another key after a tab in one of them",
            AmbiguousError,
        )
        seen[key] = number
        yield Listed(key, address, size)
