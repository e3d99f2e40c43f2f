"""Folders and objects on Cloud Storage as places: listed, downloaded, and written if they are unchanged."""

import collections
import dataclasses
import functools
import io
import math
import pathlib
import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, Self

from trainer.errors import ConflictError, ContentError, PlaceError, SettingError, check
from trainer.io import MOUNT, checksum, room_bytes
from trainer.machine import Tracker, map_ahead, open_pool
from trainer.places import buckets
from trainer.places.abstract_place import Stored
from trainer.places.buckets import REMOTE, WORKERS, MissingError, billed, explained, retry
from trainer.places.file_names import (
    SourceObject,
    archive_suffix,
    both_kinds,
    check_name,
    check_path,
    folders_of,
    is_junk,
)


class Connection:
    """Clients of Cloud Storage, made when they are first needed: finding the credentials takes time."""

    @functools.cached_property
    def reading(self) -> Any:
        return buckets.storage_client()

    @functools.cached_property
    def writing(self) -> Any:
        return buckets.storage_client(write=True)


@dataclasses.dataclass(frozen=True)
class BucketPlace(Stored):
    """A bucket, a folder in one, or an object. Example: `gs://bucket/models` or `gs://bucket/set.zip`."""

    connection: Connection | None = dataclasses.field(default=None, compare=False, repr=False)
    """Clients to use again. None for a new one in each call."""

    @classmethod
    def at(cls, address: str, what: str) -> Self:
        """The bucket, or the folder in one, at an address. Raises `SettingError` about `what` for another syntax.

        Example: `BucketPlace.at("gs://Runs", "registry")` raises an error about `registry`.
        """
        is_valid = re.fullmatch(rf"{REMOTE}[a-z0-9][a-z0-9._-]+(/.*)?", address) is not None
        check(is_valid, f"{what} is {address!r}. Write it as gs://BUCKET or gs://BUCKET/FOLDER", SettingError)
        return cls(address)

    def connected(self, connection: Connection | None = None) -> Self:
        """The same place with clients that it, and the places that are made of it, use again."""
        return dataclasses.replace(self, connection=connection or Connection())

    @property
    def _reading(self) -> Any:
        return (self.connection or Connection()).reading

    @property
    def _writing(self) -> Any:
        return (self.connection or Connection()).writing

    @property
    def bucket(self) -> str:
        return buckets.split(self.text)[0]

    @property
    def has_bucket(self) -> bool:
        """Whether a bucket is named at all."""
        return bool(self.text.removeprefix(REMOTE).partition("/")[0])

    @property
    def host(self) -> str:
        return "Cloud Storage"

    @property
    def object_path(self) -> str:
        """The path in the bucket. Example: `models/1` for `gs://bucket/models/1/`. Empty for the bucket itself."""
        return buckets.split(self.text)[1]

    @property
    def is_local(self) -> bool:
        return False

    @property
    def is_download(self) -> bool:
        return bool(archive_suffix(self.text))

    @property
    def mounted(self) -> pathlib.Path:
        return MOUNT / self.text.removeprefix(REMOTE)

    @property
    def identity(self) -> str:
        return self.text

    @property
    def is_mounted(self) -> bool:
        return self.has_bucket and (MOUNT / self.bucket).is_dir()

    # === As a source of data ===

    def objects(self) -> list[SourceObject]:
        if archive_suffix(self.object_path):
            return [self.find_archive()[0]]
        root = self._root
        blobs = _without_folders(self._blobs(root))
        found = self._entries([blob for blob in blobs if not is_junk(blob.name.removeprefix(root))], root)
        if not found:
            raise buckets.nothing_at(self.text)
        return sorted(found, key=lambda entry: entry.name)

    def find_archive(self) -> tuple[SourceObject, str]:
        """The archive here, and its generation. Raises `UserError` if it cannot be read."""
        # Reading one object takes fewer rights than listing a bucket.
        blob = self._find_blob()
        if blob is None:
            self._blobs(self._root, max_results=1)  # raises an error if the bucket does not exist
            raise buckets.nothing_at(self.text)
        return self._entry(blob, self._root), str(blob.generation or "")

    @billed
    def _find_blob(self) -> Any:
        with explained(self.text):
            return buckets.bucket_at(self.text, self._reading).get_blob(self.object_path, retry=retry())

    def find_objects(self) -> list[tuple["BucketPlace", int]]:
        """The object here, or else the objects below: places and sizes in bytes, sorted.

        Raises:
            UserError: nothing exists here, or it may not be listed.
        """
        path = self.object_path
        blobs = _without_folders(self._blobs(path))
        found = [blob for blob in blobs if blob.name == path] or [
            blob for blob in blobs if not path or blob.name.startswith(f"{path}/")
        ]
        if not found:
            raise buckets.nothing_at(self.text)
        sizes = {entry.name: entry.size_bytes for entry in self._entries(found, "")}
        return [(self.with_text(f"{REMOTE}{self.bucket}/{name}"), sizes[name]) for name in sorted(sizes)]

    def each_object(self) -> Iterator[tuple[str, int]]:
        """The objects below this folder, page by page: their names in the bucket, and their sizes in bytes.

        Raises:
            UserError: it may not be listed.
        """
        for name, size_bytes in buckets.each_blob(self.text, self._root, self._reading):
            if not name.endswith("/"):
                yield name, size_bytes

    def local(self, objects: list[SourceObject], folder: pathlib.Path) -> pathlib.Path:
        """Copy `objects`, as `objects` lists them, to their names below `folder`. Checksums are verified.

        Raises:
            UserError: an object is gone, may not be read, its checksum differs from the listed one, or a folder
                cannot have its name.
            OSError: a file cannot be written.
        """
        names = {entry.name for entry in objects}
        for name in names:
            check_path(name, self.text)
        if both := sorted(names & folders_of(names)):
            raise both_kinds(both[0], self.text)
        folder.mkdir(parents=True, exist_ok=True)
        total_bytes, room = sum(entry.size_bytes for entry in objects), room_bytes(folder)
        if total_bytes > room:
            raise PlaceError(
                f"{self} has {total_bytes / 1e9:,.3g} GB, but the disk of {folder} has room for "
                f"{room / 1e9:,.3g} GB. Free some, or write to another disk"
            )
        with Tracker(f"download {self}", round(total_bytes / 10**6), "MB") as tracker:
            for entry in objects:
                (folder / entry.name).parent.mkdir(parents=True, exist_ok=True)
            done_bytes = 0
            for n_bytes in self._copied(objects, folder):
                before, done_bytes = done_bytes, done_bytes + n_bytes
                tracker.advance(round(done_bytes / 10**6) - round(before / 10**6))
        for entry in objects:
            actual = checksum(folder / entry.name)
            if actual != entry.crc32c:
                raise ConflictError(
                    f"{entry.name} of {self} arrived with checksum {actual}, listed is {entry.crc32c}: "
                    "it changed meanwhile or was damaged in transit. Try again"
                )
        return folder

    def _copied(self, objects: Sequence[SourceObject], folder: pathlib.Path) -> Iterator[int]:
        """Copy the objects, several (or parts of one) at a time. Yields numbers of bytes as they are written."""
        root, connected = f"{REMOTE}{self.bucket}/{self._root}", self._reading

        def copy(entry: SourceObject) -> int:
            buckets.download_object(root + entry.name, folder / entry.name, connected)
            return entry.size_bytes

        small = [entry for entry in objects if entry.size_bytes <= buckets.CHUNK_BYTES]
        with open_pool(WORKERS) as pool:
            yield from map_ahead(pool, copy, small, 2 * WORKERS)
        for entry in objects:
            if entry.size_bytes > buckets.CHUNK_BYTES:
                with (folder / entry.name).open("wb") as file:
                    for chunk in buckets.read_parts(root + entry.name, entry.size_bytes):
                        yield file.write(chunk)

    def parts(self, size_bytes: int, start: int = 0, generation: int | None = None) -> Iterator[bytes]:
        """The content of the object here from byte `start` on. Arguments are as in `buckets.read_parts`."""
        return buckets.read_parts(self.text, size_bytes, start, generation)

    def read_object(self) -> bytes:
        """The content of the object here. Its checksum is verified. Raises `MissingError` without one."""
        return buckets.read_object(self.text, self._reading)

    def read_listed(self, entry: SourceObject) -> bytes:
        """The content of a file of a listing. Raises `ConflictError` if it is gone, or is another one by now."""
        import google_crc32c

        content = self.content(entry.name)
        if content is None:
            raise ConflictError(f"{self.path(entry.name)} was listed, and is gone now. Try again")
        arrived = f"{google_crc32c.value(content):08x}"
        check(
            arrived == entry.crc32c,
            f"{self.path(entry.name)} arrived with checksum {arrived}, listed is {entry.crc32c}: it changed "
            "meanwhile. Try again",
            ConflictError,
        )
        return content

    # === As a folder of files ===

    def sizes(self) -> dict[str, int]:
        """The names of all objects below this folder, with their sizes in bytes.

        Example: `{"1/saved_model.pb": 4096}`.
        """
        prefix = f"{self.object_path}/".removeprefix("/")
        blobs = self._blobs(prefix)
        return {blob.name.removeprefix(prefix): blob.size for blob in blobs}

    def names(self) -> list[str]:
        root = f"{self.object_path}/".removeprefix("/")
        blobs = self._blobs(root, delimiter="/")
        return [blob.name.removeprefix(root) for blob in blobs]

    def open(self, name: str) -> IO[bytes]:
        try:
            return io.BytesIO(self.read(name))
        except MissingError:
            raise FileNotFoundError(self.path(name)) from None

    def read(self, name: str) -> bytes:
        """The content of a file. Its checksum is verified. Raises `MissingError` if it does not exist."""
        return buckets.read_object(self.path(name), self._reading)

    def content(self, name: str) -> bytes | None:
        try:
            return self.read(name)
        except MissingError:
            return None

    def write(self, name: str, write: Callable[[IO[bytes]], object]) -> None:
        content = io.BytesIO()
        write(content)
        self.upload(name, content.getvalue())

    def upload(self, name: str, content: pathlib.Path | bytes) -> None:
        """Write a file of this machine, or bytes, to a file here."""
        buckets.write_object(self.path(name), content, self._writing)

    def copy(self, name: str, target: str) -> None:
        """Copy a file of this folder to another name in it, within Cloud Storage."""
        buckets.copy_object(self.path(name), self.path(target), self._writing)

    def remove(self, name: str) -> None:
        buckets.remove_object(self.path(name), self._writing)

    def room_bytes(self) -> float:
        return math.inf

    # === Files that several machines replace ===

    def read_state(self, name: str) -> tuple[bytes, int]:
        """The content of a file, and its generation. They are empty and 0 if it does not exist."""
        return buckets.read_state(self.path(name), self._writing)

    def replace_state(self, name: str, content: bytes, generation: int) -> int:
        """Replace a file that still has this generation, and return its new generation.

        The generation is 0 if the file must not exist yet. Example: two machines that claim a number both write
        `replace_state("1", b"", 0)`, and one of them fails.

        Raises:
            ChangedObjectError: it has another generation.
        """
        return buckets.replace_state(self.path(name), content, generation, self._writing)

    def remove_state(self, name: str, generation: int) -> None:
        """Remove a file that still has this generation, if it exists. Raises as `replace_state`."""
        buckets.remove_state(self.path(name), generation, self._writing)

    # === Listings ===

    def _blobs(self, prefix: str, **options: Any) -> list[Any]:
        return buckets.list_blobs(self.text, prefix, self._reading, **options)

    @property
    def _root(self) -> str:
        """The common beginning of the names of a source's objects. Example: `set/` for `gs://b/set`, and for `gs://b/set/a.zip`."""
        path = self.object_path
        root = posixpath.dirname(path) if archive_suffix(path) else path
        return f"{root}/" if root else ""

    def _entries(self, blobs: Sequence[Any], root: str) -> list[SourceObject]:
        """Objects of a listing, with their names below `root`.

        Raises `UserError` if a name or metadata cannot be used.
        A listing lacks the checksums of objects under keys of Cloud KMS, which their own metadata have:
        https://cloud.google.com/storage/docs/encryption/customer-managed-keys#restrictions
        """

        def reload(blob: Any) -> None:
            with explained(f"{REMOTE}{self.bucket}/{blob.name}"):
                blob.reload(retry=retry())

        lacking = [blob for blob in blobs if blob.crc32c is None]
        with open_pool(WORKERS) as pool:
            collections.deque(map_ahead(pool, reload, lacking, 2 * WORKERS), maxlen=0)
        return [self._entry(blob, root) for blob in blobs]

    def _entry(self, blob: Any, root: str) -> SourceObject:
        """An object with its name below `root`. Raises `UserError` if its name or metadata cannot be used."""
        name = blob.name.removeprefix(root)
        check_name(name, self.text)
        crc32c = buckets.checksum_of(blob.crc32c)
        if blob.size is None or not crc32c:
            raise ContentError(
                f"{self} has an object {name[:80]!r} without a size or a sound checksum, as if it was encrypted "
                "with a customer-supplied key. Rewrite it without one, or with a key of Cloud KMS"
            )
        return SourceObject(name, blob.size, crc32c)


def _without_folders(blobs: Sequence[Any]) -> list[Any]:
    """The objects that are files, and no folders.

    An object is a folder if its name ends with a slash, or if it is empty and others are below it. Example: the
    empty object `a` where there is an object `a/b`.
    """
    folders = folders_of(blob.name for blob in blobs)
    return [blob for blob in blobs if not blob.name.endswith("/") and (blob.size or blob.name not in folders)]
