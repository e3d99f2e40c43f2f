"""Read and write the files of a flat folder, local or on Cloud Storage, each completely or not at all."""

import io
import os
import pathlib
from collections.abc import Callable
from contextlib import suppress
from typing import IO

from trainer import files, generations, storage
from trainer.errors import UserError
from trainer.generations import ChangedError

PROBE = ".writable"


class Folder:
    """Reads and writes files by their names. Every method raises `UserError` for what the user can correct."""

    def __init__(self, address: str | os.PathLike[str]) -> None:
        self.address = os.fspath(address).rstrip("/")
        self._remote = storage.is_remote(self.address)

    def path(self, name: str) -> str:
        """The full path or address of a file."""
        return f"{self.address}/{name}"

    def check_writable(self, probe: str = PROBE) -> None:
        """Check that files can be written and removed here, with one of the name `probe`."""
        self.write(probe, lambda file: None)
        self.remove(probe)

    def remove_leftovers(self) -> None:
        """Remove the leftovers of interrupted writes. No other process may be writing here."""
        if not self._remote:  # an object exists only once it is complete
            for path in pathlib.Path(self.address).glob(f"{files.PARTIAL}*"):
                files.remove(path)

    def names(self) -> list[str]:
        """The names of the files; empty if the folder does not exist."""
        if not self._remote:
            folder = pathlib.Path(self.address)
            return [path.name for path in folder.iterdir()] if folder.is_dir() else []
        path = storage.split(self.address)[1]
        root = f"{path}/" if path else ""
        return [blob.name.removeprefix(root) for blob in storage.list_blobs(self.address, root, delimiter="/")]

    def read(self, name: str) -> IO[bytes]:
        """Open a file; raises `FileNotFoundError` if it does not exist.

        From Cloud Storage it is loaded into memory, and its checksum is verified.
        """
        if not self._remote:
            try:
                return pathlib.Path(self.address, name).open("rb")
            except PermissionError:
                raise UserError(f"no permission to read {self.path(name)}; change it with chmod") from None
        try:
            return io.BytesIO(storage.read_object(self.path(name)))
        except storage.MissingError:
            raise FileNotFoundError(self.path(name)) from None

    def write(self, name: str, write: Callable[[IO[bytes]], object]) -> None:
        """Write a file, replacing any of that name: either everything that `write` writes into it, or nothing.

        For Cloud Storage the content is collected in memory.
        """
        if self._remote:
            content = io.BytesIO()
            write(content)
            storage.write_object(self.path(name), content, storage.client(write=True))
            return
        try:
            with files.replacing(self.path(name)) as partial, partial.open("wb") as file:
                write(file)
        except OSError as error:
            raise UserError(f"cannot write {self.path(name)}: {error.strerror or error}") from None

    def content(self, name: str) -> bytes | None:
        """The content of a small file; None if it does not exist."""
        try:
            with self.read(name) as file:
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UserError(f"cannot read {self.path(name)}: {error.strerror or error}") from None

    def swap(self, name: str, old: bytes | None, new: bytes | None) -> bool:
        """Replace the content of a small file if it is `old`; None stands for no file. Returns whether it was.

        On Cloud Storage no other writer can come in between. In a local folder this holds for the creation of a
        file; else the last writer wins, and it alone reads its own content afterwards.
        """
        if self._remote:
            return self._swap_object(name, old, new)
        if old is None:
            assert new is not None
            return self._create(name, new)
        if self.content(name) != old:
            return False
        if new is None:
            self.remove(name)
        else:
            self.write(name, lambda file: file.write(new))
        return self.content(name) == new

    def _create(self, name: str, content: bytes) -> bool:
        path = pathlib.Path(self.address, name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                file.write(content)
        except FileExistsError:
            return False
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror or error}") from None
        return True

    def _swap_object(self, name: str, old: bytes | None, new: bytes | None) -> bool:
        path, client = self.path(name), storage.client(write=True)
        content, generation = generations.read(path, client)
        if (content if generation else None) != old:
            return False
        try:
            if new is None:
                generations.remove(path, generation, client)
            else:
                generations.replace(path, new, generation, client)
        except ChangedError:
            return False
        return True

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        if not self._remote:
            try:
                pathlib.Path(self.address, name).unlink(missing_ok=True)
            except OSError as error:
                raise UserError(f"cannot remove {self.path(name)}: {error.strerror}") from None
            return
        with suppress(storage.MissingError), storage.explained(self.path(name), write=True):
            storage.blob_at(self.path(name), storage.client(write=True)).delete(retry=storage.retry())
