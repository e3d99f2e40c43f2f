"""Flat folders, here or on Cloud Storage, whose files are written completely or not at all."""

import io
import math
import os
import pathlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from trainer.errors import UserError
from trainer.io import files
from trainer.io.buckets import (
    MissingError,
    is_remote,
    list_blobs,
    read_object,
    remove_object,
    split,
    storage_client,
    write_object,
)
from trainer.io.files import room_bytes

PROBE = ".writable"
"""Name of the file by which `Folder.check_writable` tries a folder."""


class Folder:
    """The files of a flat folder, each written completely or not at all.

    Every method raises `UserError` for what the user can correct.
    """

    def __init__(self, address: str | os.PathLike[str]) -> None:
        self.address = os.fspath(address).rstrip("/")
        self._remote = is_remote(self.address)

    def path(self, name: str) -> str:
        """The full path or address of a file."""
        return f"{self.address}/{name}"

    def check_writable(self, probe: str = PROBE) -> None:
        """Check that files can be written and removed here, with one of the name `probe`."""
        self.write(probe, lambda file: None)
        self.remove(probe)

    def room_bytes(self) -> float:
        """How much can be written to the existing folder, see `room_bytes`; infinite on Cloud Storage."""
        return math.inf if self._remote else room_bytes(pathlib.Path(self.address))

    def remove_leftovers(self) -> None:
        """Remove the leftovers of interrupted writes. No other process may be writing here."""
        if not self._remote:  # an object exists only once it is complete
            files.remove_leftovers(pathlib.Path(self.address))

    def names(self) -> list[str]:
        """The names of the files; empty if the folder does not exist."""
        if not self._remote:
            folder = pathlib.Path(self.address)
            return [path.name for path in folder.iterdir()] if folder.is_dir() else []
        path = split(self.address)[1]
        root = f"{path}/" if path else ""
        return [blob.name.removeprefix(root) for blob in list_blobs(self.address, root, delimiter="/")]

    def read(self, name: str) -> IO[bytes]:
        """Open a file; raises `FileNotFoundError` if it does not exist.

        From Cloud Storage it is loaded into memory, and its checksum is verified.
        """
        if not self._remote:
            return pathlib.Path(self.address, name).open("rb")
        try:
            return io.BytesIO(read_object(self.path(name)))
        except MissingError:
            raise FileNotFoundError(self.path(name)) from None

    def write(self, name: str, write: Callable[[IO[bytes]], object]) -> None:
        """Write a file, replacing any of that name: either everything that `write` writes into it, or nothing.

        For Cloud Storage the content is collected in memory.
        """
        if self._remote:
            content = io.BytesIO()
            write(content)
            write_object(self.path(name), content.getvalue(), storage_client(write=True))
            return
        with self._local("write", name), files.replacing(self.path(name)) as partial, partial.open("wb") as file:
            write(file)

    @contextmanager
    def _local(self, verb: str, name: str) -> Iterator[None]:
        """Turn the `OSError` of a local file into a `UserError`."""
        try:
            yield
        except OSError as error:
            raise UserError(f"cannot {verb} {self.path(name)}: {error.strerror or error}") from None

    def content(self, name: str) -> bytes | None:
        """The content of a small file; None if it does not exist."""
        with self._local("read", name):
            try:
                with self.read(name) as file:
                    return file.read()
            except FileNotFoundError:
                return None

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        if self._remote:
            remove_object(self.path(name), storage_client(write=True))
            return
        with self._local("remove", name):
            pathlib.Path(self.address, name).unlink(missing_ok=True)
