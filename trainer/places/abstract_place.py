"""What may be done with a place: the abstract classes of `trainer.places.places`."""

import abc
import dataclasses
import pathlib
import secrets
from collections.abc import Callable
from typing import IO, Self

from trainer.io import folder_for_now
from trainer.places.file_names import SourceObject, check_path

PROBE = ".writable"
"""Begin of the name of the file by which `Stored.check_writable` tries a folder."""


@dataclasses.dataclass(frozen=True)
class Place:
    """Where something is, as a user wrote it. `trainer.places.places.place_of` makes one of a text."""

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def shown(self) -> str:
        """The place for messages and records, without what may be a key."""
        return self.text

    @property
    def bucket(self) -> str:
        """Name of the bucket that has it, such as `runs` for `gs://runs/x`. Empty for a place elsewhere."""
        return ""

    @property
    def host(self) -> str:
        """Who keeps it, such as `Cloud Storage` or `zenodo.org`. Empty for a place of this machine."""
        return ""

    @property
    def is_shared(self) -> bool:
        """Whether each machine of Vertex AI can reach it, such as `gs://bucket/x` or `/gcs/bucket/x`."""
        return True

    @property
    def is_download(self) -> bool:
        """Whether it is one archive that is downloaded as a whole before it is read."""
        return False

    def check(self, allow_http: bool = False) -> None:
        """Raise `UserError` if the text says that nothing can be fetched from here. No server is asked."""

    def check_files(self) -> None:
        """Raise `UserError` if it is of this machine and has no files. None is read."""


class Stored(Place, abc.ABC):
    """A place with files: a folder, or one file. A file in a folder has a name, such as `1/saved_model.pb`.

    Every method raises `UserError` for what the user can correct.
    """

    @property
    def name(self) -> str:
        """The last part of the path. Example: `1` for `gs://bucket/models/1/`."""
        return self.text.rstrip("/").rpartition("/")[2]

    @property
    @abc.abstractmethod
    def is_local(self) -> bool:
        """Whether it is a path of this machine."""

    @property
    @abc.abstractmethod
    def mounted(self) -> pathlib.Path:
        """Its path on machines of Vertex AI. Example: `/gcs/bucket/models` for `gs://bucket/models`."""

    @property
    def is_mounted(self) -> bool:
        """Whether this machine has its bucket at `mounted`, too."""
        return False

    @property
    @abc.abstractmethod
    def identity(self) -> str:
        """The absolute path or the address, by which two ways to write one place are told to be one."""

    @property
    def unmounted(self) -> "Stored":
        """The same place without the mount. Example: `gs://bucket/models` for `/gcs/bucket/models`.

        The mount has no locks for two machines. It shows a file of another machine as it was a minute ago, on some
        machines forever (gcsfuse 3.11.4, cfg/params.yaml: metadata-cache.ttl-secs).
        """
        return self

    def with_text(self, text: str) -> Self:
        """Another place of the same kind, with the same connection."""
        return dataclasses.replace(self, text=text)

    def join(self, name: str) -> Self:
        """A place below this folder. Example: `join("1")` of `gs://bucket/models` is `gs://bucket/models/1`."""
        return self.with_text(self.path(name))

    @property
    def parent(self) -> Self:
        """The folder that this is in. Example: `gs://bucket/models` for `gs://bucket/models/1`."""
        return self.with_text(self.text.rstrip("/").rpartition("/")[0])

    def path(self, name: str) -> str:
        """The full path or address of a file in this folder. Example: `gs://b/x/a.json` for `a.json` in `gs://b/x/`."""
        return f"{self.text.rstrip('/')}/{name}"

    def check_below(self, name: str) -> None:
        """Raise `ContentError` for a name by which no file below this folder can be written, such as `../a`."""
        check_path(name, self.shown)

    # === As a source of data ===

    @abc.abstractmethod
    def objects(self) -> list[SourceObject]:
        """The files of a folder by their names below it, or one archive, sorted by name, without hidden files.

        On Cloud Storage only the listing is read. Local files are read for their checksums.

        Raises:
            UserError: there is nothing, or it may not be read.
        """

    @abc.abstractmethod
    def local(self, objects: list[SourceObject], folder: pathlib.Path) -> pathlib.Path:
        """The folder of this machine that has the files of a listing: `folder` if they are downloaded to it."""

    def local_for_now(self, objects: list[SourceObject]) -> pathlib.Path:
        """As `local`, in a new folder that is removed when this process ends."""
        return self.local(objects, folder_for_now())

    # === As a flat folder of files, each written completely or not at all ===

    @abc.abstractmethod
    def names(self) -> list[str]:
        """The names of the files. There are none if the folder does not exist."""

    @abc.abstractmethod
    def open(self, name: str) -> IO[bytes]:
        """Open a file.

        From Cloud Storage it is loaded into memory, and its checksum is verified.

        Raises:
            FileNotFoundError: it does not exist.
        """

    @abc.abstractmethod
    def content(self, name: str) -> bytes | None:
        """The content of a small file, or None if it does not exist."""

    @abc.abstractmethod
    def write(self, name: str, write: Callable[[IO[bytes]], object]) -> None:
        """Write a file, replacing any of that name: either everything that `write` writes into it, or nothing.

        For Cloud Storage the content is collected in memory.
        """

    @abc.abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file if it exists."""

    @abc.abstractmethod
    def room_bytes(self) -> float:
        """How much can be written to the existing folder, as `files.room_bytes`. Infinite on Cloud Storage."""

    def remove_leftovers(self) -> None:
        """Remove the leftovers of interrupted writes. No other process may be writing here."""

    def check_writable(self) -> None:
        """Check that files can be written and removed here. Another process may do so at the same time."""
        probe = f"{PROBE}-{secrets.token_hex(4)}"
        self.write(probe, lambda file: None)
        self.remove(probe)
