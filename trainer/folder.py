"""One flat folder of files that are written whole, on a local path (`/gcs/...` too) or on Cloud Storage (`gs://`)."""

import io
import os
import pathlib
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

from trainer import storage
from trainer.errors import UserError
from trainer.files import replacing

PROBE = ".writable"
LEFTOVERS = ".partial-*"
"""What `replacing` leaves of a write that was killed."""


class Folder:
    """Names, and the bytes behind them. Every method raises `UserError` for what the user can put right."""

    def __init__(self, address: str | os.PathLike[str]) -> None:
        self.address = os.fspath(address).rstrip("/")
        self._remote = storage.is_remote(self.address)

    def path(self, name: str) -> str:
        """The full path or address of a file."""
        return f"{self.address}/{name}"

    def prepare(self) -> None:
        """See that files can be written and removed here, and remove what writes that were cut off have left.

        Nobody else may be writing here.
        """
        self.write(PROBE, lambda file: None)
        self.remove(PROBE)
        if not self._remote:  # an object is there when it is whole
            for path in pathlib.Path(self.address).glob(LEFTOVERS):
                path.unlink()

    def names(self) -> list[str]:
        """The names of the files; none where there is no folder."""
        if not self._remote:
            folder = pathlib.Path(self.address)
            return [path.name for path in folder.iterdir()] if folder.is_dir() else []
        bucket, path = storage.split(self.address)
        root = f"{path}/" if path else ""
        with storage.explained(self.address):
            blobs = storage.client().list_blobs(bucket, prefix=root, delimiter="/", retry=storage.retry())
            return [blob.name.removeprefix(root) for blob in blobs]

    def read(self, name: str) -> IO[bytes]:
        """The file, open; `FileNotFoundError` where there is none.

        From Cloud Storage it is loaded into memory, and what arrives is compared with the object's checksum.
        """
        if not self._remote:
            try:
                return pathlib.Path(self.address, name).open("rb")
            except PermissionError:
                raise UserError(f"may not read {self.path(name)}; give yourself the right to (chmod)") from None
        from google.api_core.exceptions import NotFound

        with storage.explained(self.path(name)):
            try:
                return io.BytesIO(self._blob(name).download_as_bytes(checksum="crc32c", retry=storage.retry()))
            except NotFound:
                raise FileNotFoundError(self.path(name)) from None

    def write(self, name: str, write: Callable[[IO[bytes]], None]) -> None:
        """Put a file in place of any of that name: the whole of what `write` writes into it, or nothing.

        For Cloud Storage it is put together in memory.
        """
        if self._remote:
            content = io.BytesIO()
            write(content)
            with storage.explained(self.path(name), write=True):
                options = {"rewind": True, "checksum": "crc32c", "retry": storage.retry()}
                self._blob(name, write=True).upload_from_file(content, **options)
            return
        try:
            with replacing(self.path(name)) as partial, partial.open("wb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())  # else a full network disk, or a lost machine, goes unnoticed
        except OSError as error:
            raise UserError(f"cannot write {self.path(name)}: {error.strerror or error}") from None

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        if not self._remote:
            try:
                pathlib.Path(self.address, name).unlink(missing_ok=True)
            except OSError as error:
                raise UserError(f"cannot remove {self.path(name)}: {error.strerror}") from None
            return
        from google.api_core.exceptions import NotFound

        with storage.explained(self.path(name), write=True), suppress(NotFound):
            self._blob(name, write=True).delete(retry=storage.retry())

    def _blob(self, name: str, write: bool = False) -> Any:
        bucket, path = storage.split(self.address)
        return storage.client(write).bucket(bucket).blob(f"{path}/{name}" if path else name)
