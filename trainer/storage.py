"""List, read, write and download files, local or on Cloud Storage (`gs://`).

A *source* is a folder, a `gs://` prefix, or one archive, here or on Cloud Storage. google-cloud-storage retries
transient failures; `explained` turns its other errors into `UserError`s.
"""

import base64
import io
import math
import mimetypes
import os
import pathlib
import posixpath
import secrets
import shutil
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import IO, Any

from trainer.artifacts import SourceObject
from trainer.errors import UserError, first_line, shown
from trainer.io import files
from trainer.io.files import MOUNT as MOUNT
from trainer.io.files import checksum, local_path
from trainer.io.progress import Tracker, map_ahead, open_pool

REMOTE = "gs://"
ARCHIVES = (".zip", ".tar.gz", ".tgz", ".tar")
"""Suffixes of the archives that can be read."""
RETRY_S = 60.0
"""How long transient failures are retried."""
WORKERS = 8
CHUNK_BYTES = 32 * 2**20
"""Larger objects are downloaded in parts of this size, several at a time."""
MEGABYTE = 10**6
CRC32C_BYTES = 4
NAME_BYTES, PATH_BYTES = 255, 3000
"""Longest name of a file, and longest path below a folder: systems allow 4,096 bytes with the folder."""
WRITER = "writer"
"""Metadata of an object: a token of the request that wrote it."""
PROBE = ".writable"
"""Name of the file by which `Folder.check_writable` tries a folder."""
LEFT_BYTES = 100 * MEGABYTE
"""Free space that unpacked archives, downloads and checkpoints leave on the disk."""
LOGIN = (
    "log in with `gcloud auth application-default login` (with --impersonate-service-account=ACCOUNT if you work "
    "as another account)"
)


def is_remote(source: str) -> bool:
    """Whether `source` is on Cloud Storage."""
    return source.startswith(REMOTE)


def unmounted(path: str) -> str:
    """The `gs://` address of a path of the mount; any other path or address as it is.

    The mount has no locks for two machines, and shows a file of another machine as it was a minute ago, on some
    machines forever (gcsfuse 3.11.4, cfg/params.yaml: metadata-cache.ttl-secs).
    """
    return REMOTE + path.removeprefix(f"{MOUNT}/") if path.startswith(f"{MOUNT}/") else path


def list_objects(source: str) -> list[SourceObject]:
    """List the files of a source (a folder, an archive, a `gs://` prefix or archive), sorted by name.

    Names are relative to the folder or prefix; an archive has its own name. Hidden files are left out. On Cloud
    Storage only the listing is read; local files are read for their checksums.

    Raises:
        UserError: the source is empty, does not exist, or may not be read.
    """
    objects = _list_remote(source) if is_remote(source) else _list_local(local_path(source))
    return sorted(objects, key=lambda entry: entry.name)


def room_bytes(folder: pathlib.Path) -> int:
    """How much can be written to the disk of an existing folder, without `LEFT_BYTES`."""
    return max(shutil.disk_usage(folder).free - LEFT_BYTES, 0)


def find_archive(address: str) -> tuple[SourceObject, str]:
    """Find the archive at a `gs://` address, and its generation; raises `UserError` if it cannot be read."""
    bucket, path = split(address)
    with explained(address):
        # Reading one object takes fewer rights than listing a bucket.
        blob = client().bucket(bucket).get_blob(path, retry=retry())
    if blob is None:
        list_blobs(address, _root(path), max_results=1)  # raises an error if the bucket does not exist
        raise nothing_at(address)
    return _entry(blob, address, _root(path)), str(blob.generation or "")


def checksum_of(text: str | None) -> str:
    """The CRC32C in metadata of Cloud Storage, as 8 hex digits; empty if it is missing or damaged."""
    with suppress(ValueError):
        decoded = base64.b64decode(text or "", validate=True)
        return decoded.hex() if len(decoded) == CRC32C_BYTES else ""
    return ""


def find_objects(address: str) -> list[tuple[str, int]]:
    """The object at a `gs://` address, or else the objects below it: addresses and sizes in bytes, sorted.

    Raises:
        UserError: nothing exists there, or it may not be listed.
    """
    bucket_name, path = split(address)
    blobs = _without_folders(list_blobs(address, path))
    found = [blob for blob in blobs if blob.name == path] or [
        blob for blob in blobs if not path or blob.name.startswith(f"{path}/")
    ]
    if not found:
        raise nothing_at(address)
    sizes = {entry.name: entry.size_bytes for entry in (_entry(blob, address, "") for blob in found)}
    return [(f"{REMOTE}{bucket_name}/{name}", sizes[name]) for name in sorted(sizes)]


def read_object(address: str, connected: Any = None) -> bytes:
    """The content of the object at a `gs://` address; its checksum is verified.

    Args:
        address: gs://BUCKET/PATH.
        connected: a `client()` to use again; finding the credentials for a new one takes time.

    Raises:
        MissingError: the object or its bucket does not exist.
        UserError: it may not be read, or arrives damaged.
    """
    with explained(address):
        content: bytes = blob_at(address, connected or client()).download_as_bytes(retry=retry())
    return content


def download(source: str, objects: list[SourceObject], folder: pathlib.Path) -> None:
    """Copy `objects`, listed at the `gs://` source, to their names below `folder`; checksums are verified.

    Raises:
        UserError: an object is gone, may not be read, its checksum differs from the listed one, or a folder cannot
            have its name.
        OSError: a file cannot be written.
    """
    names = {entry.name for entry in objects}
    for name in names:
        check_path(name, source)
    if both := sorted(names & folders_of(names)):
        raise both_kinds(both[0], source)
    folder.mkdir(parents=True, exist_ok=True)
    total_bytes, room = sum(entry.size_bytes for entry in objects), room_bytes(folder)
    if total_bytes > room:
        raise UserError(
            f"{source} has {total_bytes / 1e9:,.3g} GB, but the disk of {folder} has room for {room / 1e9:,.3g} "
            "GB; free some, or write to another disk"
        )
    with Tracker(f"download {source}", round(total_bytes / MEGABYTE), "MB") as tracker:
        for entry in objects:
            (folder / entry.name).parent.mkdir(parents=True, exist_ok=True)
        done_bytes = 0
        for n_bytes in _copied(source, objects, folder):
            before, done_bytes = done_bytes, done_bytes + n_bytes
            tracker.advance(round(done_bytes / MEGABYTE) - round(before / MEGABYTE))
    for entry in objects:
        actual = checksum(folder / entry.name)
        if actual != entry.crc32c:
            raise UserError(
                f"{entry.name} of {source} arrived with checksum {actual}, listed is {entry.crc32c}: "
                "it changed meanwhile or was damaged in transit; try again"
            )


def _copied(source: str, objects: Sequence[SourceObject], folder: pathlib.Path) -> Iterator[int]:
    """Copy the objects, several or several parts of one at a time; yields numbers of bytes as they are written."""
    bucket, path = split(source)
    root, connected = f"{REMOTE}{bucket}/{_root(path)}", client()

    def copy(entry: SourceObject) -> int:
        blob_at(root + entry.name, connected).download_to_filename(str(folder / entry.name), retry=retry())
        return entry.size_bytes

    small = [entry for entry in objects if entry.size_bytes <= CHUNK_BYTES]
    with explained(source), open_pool(WORKERS) as pool:
        yield from map_ahead(pool, copy, small, 2 * WORKERS)
    for entry in objects:
        if entry.size_bytes > CHUNK_BYTES:
            with (folder / entry.name).open("wb") as file:
                for chunk in read_parts(root + entry.name, entry.size_bytes):
                    yield file.write(chunk)


def read_parts(address: str, size_bytes: int, start: int = 0, generation: int | None = None) -> Iterator[bytes]:
    """The content of the object at a `gs://` address from byte `start` on; several parts are read at a time.

    Args:
        address: gs://BUCKET/PATH.
        size_bytes: of the whole object.
        start: number of bytes to leave out.
        generation: the state of the object to read; None for the current one.

    Raises:
        MissingError: the object does not exist in this state.
        UserError: it may not be read.
    """
    bucket, path = split(address)
    connected = client()

    def read(begin: int) -> bytes:
        end = min(begin + CHUNK_BYTES, size_bytes) - 1
        blob = connected.bucket(bucket).blob(path, generation=generation)
        # The checksum that Cloud Storage sends is that of the whole object.
        content: bytes = blob.download_as_bytes(start=begin, end=end, checksum=None, retry=retry())
        return content

    with explained(address), open_pool(WORKERS) as pool:
        yield from map_ahead(pool, read, range(start, size_bytes, CHUNK_BYTES), WORKERS)


def download_for_now(source: str, objects: list[SourceObject]) -> pathlib.Path:
    """Download objects, as `download` does, to a new folder that is removed when this process ends."""
    folder = files.folder_for_now()
    download(source, objects, folder)
    return folder


# === Names ===


def is_archive(name: str) -> bool:
    """Whether `name` has the suffix of an archive that can be read."""
    return name.lower().endswith(ARCHIVES)


def is_junk(name: str) -> bool:
    """Whether an operating system made the file: a hidden file, `__MACOSX`, `Thumbs.db` or macOS's `Icon`."""
    parts = [part for part in name.split("/") if part != ".."]
    return any(part.startswith(".") or part in ("__MACOSX", "Thumbs.db", "Icon\r") for part in parts)


def check_name(name: str, origin: str) -> None:
    """Raise `UserError` for the name of a file in `origin` that is not UTF-8 or has control characters."""
    if {unicodedata.category(character) for character in name} & {"Cc", "Cs"}:
        raise UserError(f"{origin} has a file {name[:80]!r} whose name has no printable form; rename it")


def check_path(name: str, origin: str) -> None:
    """Raise `UserError` for a name in `origin` by which no file below a folder can be written."""
    check_name(name, origin)
    if posixpath.normpath(name) != name or name.startswith("/") or name.partition("/")[0] == "..":
        raise UserError(f"{origin} has a file named {name[:80]!r}, which leads out of it; rename it")
    n_bytes = max(len(part.encode()) for part in name.split("/"))
    if n_bytes > NAME_BYTES or len(name.encode()) > PATH_BYTES:
        raise UserError(
            f"{origin} has a file named {name[:80]!r}..., which is longer than folders allow ({NAME_BYTES} bytes "
            f"for each part of a path, {PATH_BYTES:,} for all); rename it"
        )


def both_kinds(name: str, origin: str) -> UserError:
    """The error for a source in which a file and a folder have the same name."""
    return UserError(f"{origin} has a file {name[:80]!r}, and files below a folder of this name; rename one")


def folders_of(names: Iterable[str]) -> set[str]:
    """The folders of files, and those that they are in."""
    folders: set[str] = set()
    for name in names:
        while (name := name.rpartition("/")[0]) and name not in folders:
            folders.add(name)
    return folders


# === Local files ===


def paths_at(path: pathlib.Path) -> dict[str, pathlib.Path]:
    """The files of a folder by their names below it, or one archive, without hidden files; links are followed.

    Raises:
        UserError: there are none, or one is no regular file.
        OSError: a folder cannot be read.
    """
    if not path.exists():
        raise UserError(f"source {path} does not exist; give a folder, an archive, a gs:// address, or `sample`")
    if path.is_dir():
        paths = dict(_walk(path))
    elif is_archive(path.name):
        paths = {path.name: path}
    else:
        raise UserError(f"source {path} is neither a folder nor an archive ({', '.join(ARCHIVES)})")
    if not paths:
        raise UserError(f"source {path} is an empty folder; put the dataset's archives or folders into it")
    return paths


def _list_local(path: pathlib.Path) -> list[SourceObject]:
    paths = paths_at(path)
    with ThreadPoolExecutor(WORKERS) as pool:
        checksums = list(pool.map(checksum, paths.values()))
    sizes = [file.stat().st_size for file in paths.values()]
    return [SourceObject(*facts) for facts in zip(paths, sizes, checksums, strict=True)]


def _walk(folder: pathlib.Path) -> Iterator[tuple[str, pathlib.Path]]:
    """The files below a folder: their names, and their paths."""

    def fail(error: OSError) -> None:
        raise error

    for parent, folders, names in os.walk(folder, onerror=fail, followlinks=True):
        folders[:] = [name for name in folders if not is_junk(name)]
        for path in (pathlib.Path(parent, name) for name in names if not is_junk(name)):
            if not path.is_file():
                raise UserError(f"{path} is no regular file, or a link to none; remove it, or get its content")
            name = path.relative_to(folder).as_posix()
            check_name(name, str(folder))
            yield name, path


# === Cloud Storage ===


class UnreachableError(UserError):
    """Cloud Storage does not answer."""


class MissingError(UserError):
    """An object, or its bucket, that does not exist."""


def client(write: bool = False) -> Any:
    """A Cloud Storage client with the default credentials, or an anonymous one if there are none.

    With STORAGE_EMULATOR_HOST set, requests go to that server.
    """
    import google.auth
    from google.cloud import storage

    if os.environ.get("STORAGE_EMULATOR_HOST"):
        return storage.Client.create_anonymous_client()
    scope = f"https://www.googleapis.com/auth/devstorage.{'read_write' if write else 'read_only'}"
    try:
        found, project = google.auth.default(scopes=[scope])
    except google.auth.exceptions.DefaultCredentialsError:
        return storage.Client.create_anonymous_client()
    return storage.Client(project=project or "none", credentials=found)


def retry() -> Any:
    """google-cloud-storage's policy of retries, for `RETRY_S`."""
    from google.cloud.storage.retry import DEFAULT_RETRY

    return DEFAULT_RETRY.with_timeout(RETRY_S)


def write_object(address: str, content: pathlib.Path | bytes, connected: Any) -> None:
    """Write a file or bytes to the object at a `gs://` address, by a `client(write=True)`.

    Raises:
        MissingError: the bucket does not exist.
        UserError: the object may not be written.
    """
    options = {"content_type": mimetypes.guess_type(address)[0], "checksum": "crc32c", "retry": retry()}
    with explained(address, write=True):
        blob = blob_at(address, connected)
        if isinstance(content, pathlib.Path):
            blob.upload_from_filename(content, **options)
        else:
            blob.upload_from_file(io.BytesIO(content), **options)


def copy_object(source: str, target: str, connected: Any) -> None:
    """Copy an object to another address within Cloud Storage, by a `client(write=True)`.

    Raises:
        MissingError: the object does not exist.
        UserError: it may not be read, or the copy not be written.
    """
    original, copy = blob_at(source, connected), blob_at(target, connected)
    with explained(target, write=True):
        token = None
        while True:  # a large object takes several requests if it moves to other disks
            token, _, _ = copy.rewrite(original, token=token, retry=retry())
            if token is None:
                return


def remove_object(address: str, connected: Any) -> None:
    """Remove the object at a `gs://` address if it exists, by a `client(write=True)`; may raise `UserError`."""
    with suppress(MissingError), explained(address, write=True):
        blob_at(address, connected).delete(retry=retry())


def split(source: str) -> tuple[str, str]:
    """Bucket and path (without a trailing slash) of a `gs://` address."""
    bucket, _, path = source.removeprefix(REMOTE).partition("/")
    if not bucket:
        raise UserError(f"source {source!r} names no bucket; write gs://BUCKET/PATH")
    return bucket, path.rstrip("/")


def blob_at(address: str, connected: Any) -> Any:
    """google-cloud-storage's handle of the object at a `gs://` address, by a `client()`."""
    bucket, path = split(address)
    return connected.bucket(bucket).blob(path)


def list_blobs(address: str, prefix: str, connected: Any = None, **options: Any) -> list[Any]:
    """The objects (name, size, crc32c) in the bucket of `address` whose names begin with `prefix`.

    Args:
        address: gs://BUCKET/...; error messages name it.
        prefix: of the names, without the bucket.
        connected: as in `read_object`.
        options: `Client.list_blobs` takes them, such as `delimiter`.

    Raises:
        UserError: the bucket does not exist or may not be listed.
    """
    fields = "items(name,size,crc32c),nextPageToken"
    with explained(address):
        bucket = split(address)[0]
        reader = connected or client()
        return list(reader.list_blobs(bucket, prefix=prefix, fields=fields, retry=retry(), **options))


def _root(path: str) -> str:
    """The common beginning of the names of a source's objects; their relative names follow it."""
    root = path.rpartition("/")[0] if is_archive(path) else path
    return f"{root}/" if root else ""


def _list_remote(source: str) -> list[SourceObject]:
    path = split(source)[1]
    if is_archive(path):
        return [find_archive(source)[0]]
    root = _root(path)
    objects = [
        _entry(blob, source, root)
        for blob in _without_folders(list_blobs(source, root))
        if not is_junk(blob.name.removeprefix(root))
    ]
    if not objects:
        raise nothing_at(source)
    return objects


def _without_folders(blobs: Sequence[Any]) -> list[Any]:
    """The objects that are files: a folder is one whose name ends with a slash, or is empty with others below."""
    folders = folders_of(blob.name for blob in blobs)
    return [blob for blob in blobs if not blob.name.endswith("/") and (blob.size or blob.name not in folders)]


def _entry(blob: Any, source: str, root: str) -> SourceObject:
    """An object of a listing, with its name below `root`; `UserError` if its name or metadata cannot be used."""
    name = blob.name.removeprefix(root)
    check_name(name, source)
    crc32c = checksum_of(blob.crc32c)
    if blob.size is None or not crc32c:
        raise UserError(
            f"{source} has an object {name[:80]!r} without a size or a sound checksum, as if it was encrypted "
            "with your own key (customer-supplied), which is not supported; copy it without such a key"
        )
    return SourceObject(name, blob.size, crc32c)


def nothing_at(address: str) -> UserError:
    bucket = split(address)[0]
    return UserError(f"there is nothing at {address}; `gcloud storage ls {REMOTE}{bucket}` lists the bucket")


@contextmanager
def explained(source: str, write: bool = False) -> Iterator[None]:
    """Turn errors of Cloud Storage about `source` into a `UserError`."""
    import google.auth.exceptions as auth
    import requests  # type: ignore[import-untyped]
    from google.api_core import exceptions
    from google.cloud.storage.exceptions import DataCorruption

    bucket = split(source)[0]
    try:
        yield
    except exceptions.NotFound:
        raise MissingError(
            f"{source}: there is no bucket {bucket!r}, or no such object in it; check the address"
        ) from None
    except (exceptions.Forbidden, exceptions.Unauthorized, auth.InvalidOperation, auth.RefreshError) as error:
        # InvalidOperation follows a 401 without credentials, because there is nothing to renew.
        verb, role = ("write", "User") if write else ("read", "Viewer")
        raise UserError(
            f"no permission to {verb} {source} ({first_line(error)}): {LOGIN}, or have its owner give "
            f"your account the role Storage Object {role} on the bucket {bucket!r}"
        ) from None
    except (
        exceptions.RetryError,
        exceptions.ServerError,
        exceptions.TooManyRequests,
        auth.TransportError,
        requests.exceptions.RequestException,
    ) as error:
        cause = error.cause if isinstance(error, exceptions.RetryError) else error
        raise UnreachableError(
            f"cannot reach Cloud Storage for {source} ({in_short(cause)}); check the network"
        ) from None
    except (exceptions.GoogleAPICallError, DataCorruption, ValueError) as error:
        raise UserError(f"Cloud Storage refuses {source}: {first_line(error)}") from None


def in_short(error: Exception) -> str:
    """The innermost cause of a network error; libraries wrap it several times, with addresses and retries."""
    inner = error
    while isinstance(cause := getattr(inner, "reason", None) or next(iter(inner.args), None), Exception):
        inner = cause
    return f"{type(inner).__name__}: {shown(str(inner).rpartition(': ')[2])[:100]}"


# === Objects that several processes write ===
#
# Each content of an object has a generation, and a request may name the one that it replaces. Reads and lists show
# every write that has ended.
# https://cloud.google.com/storage/docs/request-preconditions
# https://cloud.google.com/storage/docs/consistency


class ChangedError(UserError):
    """An object that another process has replaced, created or removed meanwhile."""

    def __init__(self, address: str) -> None:
        super().__init__(f"{address} was changed by another process meanwhile; try again")


def read_state(address: str, connected: Any) -> tuple[bytes, int]:
    """The content of an object, and its generation; empty and 0 if it does not exist.

    Args:
        address: gs://BUCKET/PATH.
        connected: a `client()`.

    Raises:
        UserError: it may not be read.
    """
    blob = blob_at(address, connected)
    try:
        with explained(address):
            content: bytes = blob.download_as_bytes(retry=retry())
    except MissingError:
        return b"", 0
    return content, int(blob.generation)


def replace_state(address: str, content: bytes, generation: int, connected: Any) -> int:
    """Replace an object that still has this generation, 0 if it must not exist yet; returns its new generation.

    Args:
        address: gs://BUCKET/PATH.
        content: its new content.
        generation: as `read_state` returned it.
        connected: a `client(write=True)`.

    Raises:
        ChangedError: it has another generation.
        UserError: it may not be written.
    """
    from google.api_core.exceptions import PreconditionFailed

    blob = blob_at(address, connected)
    blob.metadata = {WRITER: secrets.token_hex(8)}
    # Objects that everybody may read are cached otherwise, and reads return an earlier content for up to an hour:
    # https://cloud.google.com/storage/docs/caching
    blob.cache_control = "no-store"
    options = {"if_generation_match": generation, "checksum": "crc32c", "retry": retry()}
    with explained(address, write=True):
        try:
            blob.upload_from_string(content, **options)
        except PreconditionFailed:
            # A request is repeated when its reply is lost; then the first one has made the change.
            there = blob.bucket.get_blob(blob.name, retry=retry())
            if there is None or there.metadata != blob.metadata:
                raise ChangedError(address) from None
            return int(there.generation)
    return int(blob.generation)


def remove_state(address: str, generation: int, connected: Any) -> None:
    """Remove an object that still has this generation; does nothing if it does not exist.

    Arguments and errors are those of `replace_state`.
    """
    from google.api_core.exceptions import NotFound, PreconditionFailed

    with explained(address, write=True):
        try:
            blob_at(address, connected).delete(if_generation_match=generation, retry=retry())
        except NotFound:
            return
        except PreconditionFailed:
            raise ChangedError(address) from None


# === Flat folders, here or on Cloud Storage ===


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
            write_object(self.path(name), content.getvalue(), client(write=True))
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
            remove_object(self.path(name), client(write=True))
            return
        with self._local("remove", name):
            pathlib.Path(self.address, name).unlink(missing_ok=True)
