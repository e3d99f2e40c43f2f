"""List the files of a local source: plain files alone, in folders that may be links, with their checksums."""

import os
import pathlib
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

from trainer.artifacts import SourceObject
from trainer.errors import UserError
from trainer.names import ARCHIVES, check_name, is_archive, is_junk
from trainer.text import printable, shown

WORKERS = 8
"""Threads that read files for their checksums."""
MOST_FOLDERS = 100
"""Folders in folders of a source; more are no dataset."""


def local_path(source: str) -> pathlib.Path:
    """The path that a local source names; `~user` of an unknown user is an ordinary name, as in shells."""
    with suppress(RuntimeError):
        return pathlib.Path(source).expanduser()
    return pathlib.Path(source)


def list_local(path: pathlib.Path) -> list[SourceObject]:
    """The files of a folder, with their names below it, or one archive; raises `UserError` as `paths_at`."""
    paths = paths_at(path)
    with _readable(), ThreadPoolExecutor(WORKERS) as pool:
        checksums = list(pool.map(checksum, paths.values()))
        sizes = [file.stat().st_size for file in paths.values()]
    return [SourceObject(*facts) for facts in zip(paths, sizes, checksums, strict=True)]


def paths_at(path: pathlib.Path) -> dict[str, pathlib.Path]:
    """The files of a folder, by their names below it, or one archive; hidden files are left out.

    Raises:
        UserError: there are none, one is no plain file or cannot be read, or a folder is there twice by a link.
    """
    try:
        exists = path.exists()
    except OSError as error:
        raise UserError(
            f"source {shown(str(path))} cannot be read ({error.strerror}); give a folder, an archive, a gs:// "
            "address, or `sample`"
        ) from None
    if not exists:
        parts = str(path).split()
        if len(parts) > 1 and all(local_path(part).exists() for part in parts):
            raise UserError(
                f"source {shown(str(path))} is several paths: only addresses can be listed; put the files "
                "into one folder"
            )
        raise UserError(
            f"source {shown(str(path))} does not exist; give a folder, an archive, a gs:// address, or `sample`"
        )
    if not path.is_dir() and not (path.is_file() and is_archive(path.name)):
        raise UserError(
            f"source {printable(str(path))} is neither a folder nor an archive ({', '.join(ARCHIVES)}); put a "
            "table and its images into one folder, and give the folder"
        )
    paths = {path.name: path} if path.is_file() else dict(_walk(path))
    if not paths:
        raise UserError(
            f"source {printable(str(path))} is an empty folder; put the dataset's archives or folders into it"
        )
    return paths


@contextmanager
def _readable() -> Iterator[None]:
    """Translate `OSError` of a local file to `UserError`."""
    try:
        yield
    except PermissionError as error:
        name = printable(str(error.filename))
        raise UserError(f"no permission to read {name}; change its permissions (chmod, chown)") from None
    except OSError as error:
        name = printable(str(error.filename))
        raise UserError(f"cannot read {name} ({error.strerror}); it was changed or removed") from None


def _walk(folder: pathlib.Path) -> Iterator[tuple[str, pathlib.Path]]:
    """The files below a folder: their names, and their paths.

    Raises:
        UserError: one is no plain file, a folder is there twice by a link, or something cannot be read.
    """

    def fail(error: OSError) -> None:
        raise error

    seen: dict[tuple[int, int], str] = {}
    # Links are followed, because the folders of a dataset may lie on several disks.
    with _readable():
        for parent, folders, names in os.walk(folder, onerror=fail, followlinks=True):
            relative = pathlib.Path(parent).relative_to(folder).as_posix()
            _check_folder(folder, relative, seen)
            folders[:] = [name for name in folders if not is_junk(name)]
            for name in names:
                if not is_junk(name):
                    path = pathlib.Path(parent, name)
                    _check_file(path)
                    key = path.relative_to(folder).as_posix()
                    check_name(key, str(folder), "rename it")
                    yield key, path


def _check_folder(root: pathlib.Path, relative: str, seen: dict[tuple[int, int], str]) -> None:
    status = (root / relative).stat()
    # A loop of links has no end, and a few links to one another lead to it in more ways than can be listed.
    first = seen.setdefault((status.st_dev, status.st_ino), relative)
    if first != relative:
        places = " and ".join(printable(str(root / each)) for each in (first, relative))
        raise UserError(f"by a link the source has one folder at two places, {places}; remove the link")
    if relative.count("/") >= MOST_FOLDERS:
        raise UserError(
            f"source {printable(str(root))} has more than {MOST_FOLDERS} folders in one another; move the files up"
        )


def _check_file(path: pathlib.Path) -> None:
    """Raise `UserError` unless a path leads to a plain file: reading others may never end."""
    name = printable(str(path))
    try:
        status = path.stat()
    except OSError as error:
        if not path.is_symlink():
            raise
        raise UserError(
            f"{name} is a link that leads to no file ({error.strerror}); get its content (such as with `datalad "
            "get` or `git annex get`), or remove it"
        ) from None
    if not stat.S_ISREG(status.st_mode):
        raise UserError(f"{name} is a pipe, a socket or a device; remove it from the source")


def checksum(path: pathlib.Path) -> str:
    """CRC32C of the file, 8 hex digits, as Cloud Storage computes it."""
    import google_crc32c  # here, so that settings can be read without any package

    crc: Any = google_crc32c.Checksum()  # type: ignore[no-untyped-call]
    with path.open("rb") as file:
        while chunk := file.read(2**20):
            crc.update(chunk)
    return str(crc.digest().hex())
