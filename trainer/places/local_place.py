"""Files and folders of this machine as places."""

import os
import pathlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO

from trainer.errors import ContentError, NotFoundError, PlaceError
from trainer.io import MOUNT, checksum, local_path, remove_leftovers, replacing, room_bytes
from trainer.places.abstract_place import Stored
from trainer.places.bucket_place import BucketPlace
from trainer.places.buckets import REMOTE
from trainer.places.file_names import ARCHIVES, SourceObject, archive_suffix, check_name, is_junk

WORKERS = 8
"""Files that are read at a time for their checksums."""


class LocalPlace(Stored):
    """A folder or a file of this machine, also below the mount of Cloud Storage."""

    @property
    def is_local(self) -> bool:
        return True

    @property
    def is_shared(self) -> bool:
        return self.text.startswith(f"{MOUNT}/")

    @property
    def unmounted(self) -> Stored:
        return BucketPlace(REMOTE + self.text.removeprefix(f"{MOUNT}/")) if self.is_shared else self

    @property
    def identity(self) -> str:
        return str(pathlib.Path(self.text).absolute())

    @property
    def mounted(self) -> pathlib.Path:
        return pathlib.Path(self.text)

    def objects(self) -> list[SourceObject]:
        paths = paths_at(local_path(self.text))
        with ThreadPoolExecutor(WORKERS) as pool:
            checksums = list(pool.map(checksum, paths.values()))
        sizes = [file.stat().st_size for file in paths.values()]
        found = [SourceObject(*facts) for facts in zip(paths, sizes, checksums, strict=True)]
        return sorted(found, key=lambda entry: entry.name)

    def local(self, objects: list[SourceObject], folder: pathlib.Path) -> pathlib.Path:
        path = local_path(self.text)
        return path.parent if path.is_file() else path

    def check_files(self) -> None:
        paths_at(local_path(self.text))

    def names(self) -> list[str]:
        folder = pathlib.Path(self.text)
        return [path.name for path in folder.iterdir()] if folder.is_dir() else []

    def open(self, name: str) -> IO[bytes]:
        return pathlib.Path(self.text, name).open("rb")

    def content(self, name: str) -> bytes | None:
        with self._explained("read", name):
            try:
                return pathlib.Path(self.text, name).read_bytes()
            except FileNotFoundError:
                return None

    def write(self, name: str, write: Callable[[IO[bytes]], object]) -> None:
        with (
            self._explained("write", name),
            replacing(self.path(name)) as partial,
            partial.open("wb") as file,
        ):
            write(file)

    def remove(self, name: str) -> None:
        with self._explained("remove", name):
            pathlib.Path(self.text, name).unlink(missing_ok=True)

    def room_bytes(self) -> float:
        return room_bytes(pathlib.Path(self.text))

    def remove_leftovers(self) -> None:
        remove_leftovers(pathlib.Path(self.text))

    @contextmanager
    def _explained(self, verb: str, name: str) -> Iterator[None]:
        """Turn the `OSError` of a file into a `UserError`."""
        try:
            yield
        except OSError as error:
            raise PlaceError(f"cannot {verb} {self.path(name)}: {error.strerror or error}") from None


def paths_at(path: pathlib.Path) -> dict[str, pathlib.Path]:
    """The files of a folder by their names below it, or one archive, without hidden files. Links are followed.

    Example: `{"a/b.png": Path("/data/set/a/b.png")}` for `/data/set`.

    Raises:
        UserError: there are none, or one is no regular file.
        OSError: a folder cannot be read.
    """
    if not path.exists():
        raise NotFoundError(
            f"source {path} does not exist. Give a folder, an archive, a gs:// address, or `sample`"
        )
    if path.is_dir():
        paths = dict(_walk(path))
    elif archive_suffix(path.name):
        paths = {path.name: path}
    else:
        raise ContentError(f"source {path} is neither a folder nor an archive ({', '.join(ARCHIVES)})")
    if not paths:
        raise ContentError(f"source {path} is an empty folder. Put the dataset's archives or folders into it")
    return paths


def _walk(folder: pathlib.Path) -> Iterator[tuple[str, pathlib.Path]]:
    """The files below a folder: their names, and their paths."""

    def fail(error: OSError) -> None:
        raise error

    for parent, folders, names in os.walk(folder, onerror=fail, followlinks=True):
        folders[:] = [name for name in folders if not is_junk(name)]
        for path in (pathlib.Path(parent, name) for name in names if not is_junk(name)):
            if not path.is_file():
                raise ContentError(f"{path} is no regular file, or a link to none. Remove it, or get its content")
            name = path.relative_to(folder).as_posix()
            check_name(name, str(folder))
            yield name, path
