"""Read, write and list objects on Cloud Storage (`gs://`).

google-cloud-storage retries transient failures. `explained` turns its other errors into `UserError`s.
"""

import base64
import functools
import io
import itertools
import mimetypes
import os
import pathlib
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, ParamSpec, TypeVar

from trainer.errors import ConflictError, NotFoundError, SettingError, UnreachableError, UserError
from trainer.machine import map_ahead, open_pool
from trainer.texts import first_line, shown

REMOTE = "gs://"
RETRY_S = 60.0
"""How long transient failures are retried."""
WORKERS = 8
CHUNK_BYTES = 32 * 2**20
"""Larger objects are downloaded in parts of this size, several at a time."""
CRC32C_BYTES = 4
WRITER = "writer"
"""Metadata of an object: a token of the request that wrote it."""
LOGIN = (
    "log in with `gcloud auth application-default login` (with --impersonate-service-account=ACCOUNT if you work "
    "as another account)"
)
USER_PROJECT = "STORAGE_USER_PROJECT"
"""Environment variable: the project that pays for requests to requester-pays buckets."""
NO_USER_PROJECT = "requester pays bucket but no user project"
"""Part of Cloud Storage's error for a request to a requester-pays bucket that names no project."""
_user_projects: dict[str, str] = {}
"""Requester-pays buckets that this process has met -> the project that pays for its requests."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def checksum_of(text: str | None) -> str:
    """The CRC32C in metadata of Cloud Storage, as 8 hex digits. Empty if it is missing or damaged.

    Example: `e3069283` for `4waSgw==`.
    """
    with suppress(ValueError):
        decoded = base64.b64decode(text or "", validate=True)
        return decoded.hex() if len(decoded) == CRC32C_BYTES else ""
    return ""


class RequesterPaysError(UserError):
    """A request to a requester-pays bucket that names no project to bill."""

    def __init__(self, bucket: str) -> None:
        super().__init__(
            f"{bucket!r} is a requester-pays bucket: set the environment variable {USER_PROJECT} to the project "
            "that pays for its requests, in which you have the role Service Usage Consumer"
        )
        self.bucket = bucket


def user_project() -> str:
    """The project that pays for requests to requester-pays buckets. Empty if none is set.

    The environment variable STORAGE_USER_PROJECT names it. Without one, it is the quota project of the default
    credentials.
    """
    import google.auth

    if project := os.environ.get(USER_PROJECT):
        return project
    with suppress(google.auth.exceptions.DefaultCredentialsError):
        return getattr(google.auth.default()[0], "quota_project_id", None) or ""
    return ""


def billed(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The function, called again if a bucket is requester-pays: then its requests name `user_project()`.

    Requests to other buckets name no project: that would need a permission in the project.
    """

    @functools.wraps(function)
    def call(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
        try:
            return function(*args, **options)
        except RequesterPaysError as error:
            if not (project := user_project()):
                raise
            _user_projects[error.bucket] = project
        return function(*args, **options)

    return call


@billed
def read_object(address: str, connected: Any = None) -> bytes:
    """The content of the object at a `gs://` address. Its checksum is verified.

    Args:
        address: gs://BUCKET/PATH.
        connected: a `storage_client()` to use again. Finding the credentials for a new one takes time.

    Raises:
        MissingError: the object or its bucket does not exist.
        UserError: it may not be read, or arrives damaged.
    """
    with explained(address):
        content: bytes = blob_at(address, connected or storage_client()).download_as_bytes(retry=retry())
    return content


def read_parts(address: str, size_bytes: int, start: int = 0, generation: int | None = None) -> Iterator[bytes]:
    """The content of the object at a `gs://` address from byte `start` on. Several parts are read at a time.

    Args:
        address: gs://BUCKET/PATH.
        size_bytes: of the whole object.
        start: number of bytes to leave out.
        generation: the state of the object to read, None for the current one.

    Raises:
        MissingError: the object does not exist in this state.
        UserError: it may not be read.
    """
    connected = storage_client()

    @billed
    def read(begin: int) -> bytes:
        end = min(begin + CHUNK_BYTES, size_bytes) - 1
        with explained(address):
            blob = blob_at(address, connected, generation)
            # The checksum that Cloud Storage sends is for the whole object.
            content: bytes = blob.download_as_bytes(start=begin, end=end, checksum=None, retry=retry())
        return content

    with open_pool(WORKERS) as pool:
        yield from map_ahead(pool, read, range(start, size_bytes, CHUNK_BYTES), WORKERS)


@billed
def download_object(address: str, path: pathlib.Path, connected: Any) -> None:
    """Copy the object at a `gs://` address to a file, by a `storage_client()`. Its checksum is verified.

    Raises:
        MissingError: the object or its bucket does not exist.
        UserError: it may not be read, or arrives damaged.
        OSError: the file cannot be written.
    """
    with explained(address):
        blob_at(address, connected).download_to_filename(str(path), retry=retry())


class MissingError(NotFoundError):
    """An object, or its bucket, that does not exist."""


def storage_client(write: bool = False) -> Any:
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


@billed
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


@billed
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


@billed
def remove_object(address: str, connected: Any) -> None:
    """Remove the object at a `gs://` address if it exists, by a `client(write=True)`. May raise `UserError`."""
    with suppress(MissingError), explained(address, write=True):
        blob_at(address, connected).delete(retry=retry())


def split(source: str) -> tuple[str, str]:
    """Bucket and path of a `gs://` address. Example: `runs` and `a/b` for `gs://runs/a/b/`."""
    bucket, _, path = source.removeprefix(REMOTE).partition("/")
    if not bucket:
        raise SettingError(f"source {source!r} names no bucket. Write gs://BUCKET/PATH")
    return bucket, path.rstrip("/")


def bucket_at(address: str, connected: Any) -> Any:
    """google-cloud-storage's handle of the bucket of a `gs://` address, by a `storage_client()`."""
    bucket = split(address)[0]
    return connected.bucket(bucket, user_project=_user_projects.get(bucket))


def blob_at(address: str, connected: Any, generation: int | None = None) -> Any:
    """google-cloud-storage's handle of the object at a `gs://` address, by a `storage_client()`."""
    return bucket_at(address, connected).blob(split(address)[1], generation=generation)


@billed
def list_blobs(address: str, prefix: str, connected: Any = None, **options: Any) -> list[Any]:
    """The objects (name, size, crc32c) in the bucket of `address` with names that begin with `prefix`.

    Args:
        address: gs://BUCKET/... Error messages name it.
        prefix: of the names, without the bucket.
        connected: as in `read_object`.
        options: `Client.list_blobs` takes them, such as `delimiter`.

    Raises:
        UserError: the bucket does not exist or may not be listed.
    """
    fields = "items(name,size,crc32c),nextPageToken"
    with explained(address):
        bucket = bucket_at(address, connected or storage_client())
        return list(bucket.list_blobs(prefix=prefix, fields=fields, retry=retry(), **options))


def each_blob(address: str, prefix: str, connected: Any) -> Iterator[tuple[str, int]]:
    """The names and sizes of the objects with names that begin with `prefix`, page by page, sorted by name.

    Args and errors are as for `list_blobs`. Of a listing of any length, one page is in memory.
    """
    with explained(address):
        for page in _pages(address, prefix, connected):
            yield from ((blob.name, blob.size or 0) for blob in page)


@billed
def _pages(address: str, prefix: str, connected: Any) -> Iterator[Any]:
    """The pages of a listing. The first one is asked for at once."""
    with explained(address):
        bucket = bucket_at(address, connected)
        listed = bucket.list_blobs(prefix=prefix, fields="items(name,size),nextPageToken", retry=retry())
        pages = listed.pages
        first = next(pages, ())
    return itertools.chain((first,), pages)


def nothing_at(address: str) -> UserError:
    bucket = split(address)[0]
    return NotFoundError(f"there is nothing at {address}. `gcloud storage ls {REMOTE}{bucket}` lists the bucket")


@contextmanager
def explained(source: str, write: bool = False) -> Iterator[None]:
    """Turn errors of Cloud Storage about `source` into a `UserError`, which may be a `RequesterPaysError`."""
    import google.auth.exceptions as auth
    import requests  # type: ignore[import-untyped]
    from google.api_core import exceptions
    from google.cloud.storage.exceptions import DataCorruption

    bucket = split(source)[0]
    try:
        yield
    except exceptions.NotFound:
        raise MissingError(
            f"{source}: there is no bucket {bucket!r}, or no such object in it. Check the address"
        ) from None
    except (exceptions.Forbidden, exceptions.Unauthorized, auth.InvalidOperation, auth.RefreshError) as error:
        # InvalidOperation follows a 401 without credentials, because there is nothing to renew.
        verb, role = ("write", "User") if write else ("read", "Viewer")
        raise NotFoundError(
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
            f"cannot reach Cloud Storage for {source} ({in_short(cause)}). Check the network"
        ) from None
    except (exceptions.GoogleAPICallError, DataCorruption, ValueError) as error:
        if isinstance(error, exceptions.BadRequest) and NO_USER_PROJECT in str(error):
            raise RequesterPaysError(bucket) from None
        raise UserError(f"Cloud Storage refuses {source}: {first_line(error)}") from None


def in_short(error: Exception) -> str:
    """The innermost cause of a network error. Libraries wrap it several times, with addresses and retries.

    Example: `ConnectionRefusedError: Connection refused`.
    """
    inner = error
    while isinstance(cause := getattr(inner, "reason", None) or next(iter(inner.args), None), Exception):
        inner = cause
    return f"{type(inner).__name__}: {shown(str(inner).rpartition(': ')[2])[:100]}"


class ChangedObjectError(ConflictError):
    """An object that another process has replaced, created or removed meanwhile."""

    def __init__(self, address: str) -> None:
        super().__init__(f"{address} was changed by another process meanwhile. Try again")


@billed
def read_state(address: str, connected: Any) -> tuple[bytes, int]:
    """The content of an object, and its generation. They are empty and 0 if it does not exist.

    Args:
        address: gs://BUCKET/PATH.
        connected: a `storage_client()`.

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


@billed
def replace_state(address: str, content: bytes, generation: int, connected: Any) -> int:
    """Replace an object that still has this generation, and return its new generation.

    Args:
        address: gs://BUCKET/PATH.
        content: its new content.
        generation: as `read_state` returned it, 0 if the object must not exist yet.
        connected: a `client(write=True)`.

    Raises:
        ChangedObjectError: it has another generation.
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
            # A request is repeated when its reply is lost. Then the first one has made the change.
            there = blob.bucket.get_blob(blob.name, retry=retry())
            if there is None or there.metadata != blob.metadata:
                raise ChangedObjectError(address) from None
            return int(there.generation)
    return int(blob.generation)


@billed
def remove_state(address: str, generation: int, connected: Any) -> None:
    """Remove an object that still has this generation. Does nothing if it does not exist.

    Arguments and errors are as in `replace_state`.
    """
    from google.api_core.exceptions import NotFound, PreconditionFailed

    with explained(address, write=True):
        try:
            blob_at(address, connected).delete(if_generation_match=generation, retry=retry())
        except NotFound:
            return
        except PreconditionFailed:
            raise ChangedObjectError(address) from None
