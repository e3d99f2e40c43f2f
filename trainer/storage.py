"""Files on local paths and on Cloud Storage (`gs://`) behind one small interface: list and download.

A *source* is a folder, a `gs://` prefix, or one archive in either place. Transient failures are retried by
google-cloud-storage; what remains is a `UserError` that says what to do.
"""

import atexit
import base64
import mimetypes
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

import google_crc32c

from trainer.artifacts import SourceObject
from trainer.errors import UserError
from trainer.progress import Tracker

REMOTE = "gs://"
MOUNT = pathlib.Path("/gcs")
"""Vertex AI mounts Cloud Storage here: /gcs/BUCKET/..."""
ARCHIVES = (".zip", ".tar.gz", ".tgz", ".tar")
RETRY_S = 60.0
"""How long transient failures are retried."""
WORKERS = 8
CHUNK_BYTES = 32 * 2**20
"""Larger objects are downloaded in so large pieces at once."""
MEGABYTE = 10**6
POLL_S = 0.5
LOGIN = "log in with `gcloud auth application-default login`"


def is_remote(source: str) -> bool:
    """Whether `source` is on Cloud Storage."""
    return source.startswith(REMOTE)


def is_archive(name: str) -> bool:
    """Whether `name` ends as an archive that can be read does."""
    return name.lower().endswith(ARCHIVES)


def is_junk(name: str) -> bool:
    """Whether operating systems leave such files everywhere: hidden ones, `__MACOSX`, `Thumbs.db`."""
    parts = [part for part in name.split("/") if part != ".."]
    return any(part.startswith(".") or part in ("__MACOSX", "Thumbs.db") for part in parts)


def list_objects(source: str) -> list[SourceObject]:
    """The files at `source` (a folder, a file, a `gs://` prefix or object), sorted by name.

    Names are relative to a folder or prefix; one file has its own name. Hidden files are left out. On Cloud
    Storage this reads the listing only; locally every file is read for its checksum.

    Raises:
        UserError: there is nothing, or it may not be read.
    """
    objects = _list_remote(source) if is_remote(source) else _list_local(pathlib.Path(source).expanduser())
    return sorted(objects, key=lambda each: each.name)


def download(source: str, objects: list[SourceObject], folder: pathlib.Path) -> None:
    """Copy `objects`, listed at the `gs://` source, to their names below `folder`; checksums are verified.

    Raises:
        UserError: an object is gone, may not be read, or arrives with another checksum than listed.
    """
    for each in objects:
        if not (folder / each.name).resolve().is_relative_to(folder.resolve()):
            raise UserError(f"{source} has an object named {each.name!r}, which climbs out of it; rename it")
        (folder / each.name).parent.mkdir(parents=True, exist_ok=True)
    total_mb = round(sum(each.size_bytes for each in objects) / MEGABYTE)
    shown_mb = 0
    with (
        explained(source),
        ThreadPoolExecutor(1) as background,
        Tracker(f"download {source}", total_mb, "MB") as tracker,
    ):
        done_bytes = 0
        for group in _groups(objects):
            transfer = background.submit(_transfer, source, group, folder)
            while wait([transfer], timeout=POLL_S).not_done:
                arrived_bytes = done_bytes + sum(_written_bytes(folder / each.name) for each in group)
                tracker.advance(round(arrived_bytes / MEGABYTE) - shown_mb)
                shown_mb = round(arrived_bytes / MEGABYTE)
            transfer.result()
            done_bytes += sum(each.size_bytes for each in group)
        tracker.advance(total_mb - shown_mb)
    _verify(source, objects, folder)


def find_objects(address: str) -> list[tuple[str, int]]:
    """The object at a `gs://` address, else those below it: their addresses and sizes in bytes, sorted.

    Raises:
        UserError: there is nothing, or it may not be listed.
    """
    bucket_name, path = split(address)
    with explained(address):
        found = (
            client()
            .bucket(bucket_name)
            .list_blobs(prefix=path, fields="items(name,size),nextPageToken", retry=retry())
        )
        sizes = {blob.name: blob.size for blob in found if not blob.name.endswith("/")}
    below = [name for name in sizes if not path or name.startswith(f"{path}/")]
    chosen = [path] if path in sizes else sorted(below)
    if not chosen:
        raise _nothing(address, bucket_name)
    return [(f"{REMOTE}{bucket_name}/{name}", sizes[name]) for name in chosen]


def read_object(address: str, connected: Any) -> bytes:
    """The content of the object at a `gs://` address by a `client()`; its checksum is verified.

    Raises:
        UserError: it is gone, may not be read, or arrives damaged.
    """
    bucket_name, path = split(address)
    with explained(address):
        content: bytes = connected.bucket(bucket_name).blob(path).download_as_bytes(retry=retry())
    return content


def download_for_now(source: str, objects: list[SourceObject]) -> pathlib.Path:
    """`download` to a folder that is removed when this process ends."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="msinet-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    download(source, objects, folder)
    return folder


def checksum(path: pathlib.Path) -> str:
    """CRC32C of the file, 8 hex digits, as Cloud Storage computes it."""
    crc: Any = google_crc32c.Checksum()  # type: ignore[no-untyped-call]
    with path.open("rb") as file:
        while chunk := file.read(2**20):
            crc.update(chunk)
    return str(crc.digest().hex())


# === Local ===


def _list_local(path: pathlib.Path) -> list[SourceObject]:
    if not path.exists():
        raise UserError(f"source {path} does not exist; give a folder, an archive, a gs:// address, or `sample`")
    if path.is_file() and not is_archive(path.name):
        raise UserError(f"source {path} is neither a folder nor an archive ({', '.join(ARCHIVES)})")
    found = {path.name: path} if path.is_file() else dict(_walk(path))
    if not found:
        raise UserError(f"source {path} is an empty folder; put the data set's archives or folders into it")
    try:
        with ThreadPoolExecutor(WORKERS) as pool:
            checksums = list(pool.map(checksum, found.values()))
    except PermissionError as error:
        raise UserError(f"may not read {error.filename}; give yourself the right to (chmod, chown)") from None
    sizes = [each.stat().st_size for each in found.values()]
    return [SourceObject(*each) for each in zip(found, sizes, checksums, strict=True)]


def _walk(folder: pathlib.Path) -> Iterator[tuple[str, pathlib.Path]]:
    # Links are followed: a data set's folders may well lie on several disks.
    for parent, _, names in os.walk(folder, followlinks=True):
        for name in names:
            path = pathlib.Path(parent, name)
            relative = path.relative_to(folder).as_posix()
            if not is_junk(relative):
                yield relative, path


# === Cloud Storage ===


class MissingError(UserError):
    """An object, or its bucket, that does not exist."""


def client(write: bool = False) -> Any:
    """A client with the default credentials, or an anonymous one; STORAGE_EMULATOR_HOST is honoured by it."""
    # Off Google Cloud nobody answers for the metadata server; once and for a second is enough to find that out.
    os.environ.setdefault("GCE_METADATA_TIMEOUT", "1")
    os.environ.setdefault("GCE_METADATA_DETECT_RETRIES", "1")
    import google.auth
    from google.cloud import storage

    if os.environ.get("STORAGE_EMULATOR_HOST"):
        return storage.Client.create_anonymous_client()
    scope = f"https://www.googleapis.com/auth/devstorage.{'read_write' if write else 'read_only'}"
    try:
        credentials, project = google.auth.default(scopes=[scope])
    except google.auth.exceptions.DefaultCredentialsError:
        return storage.Client.create_anonymous_client()
    return storage.Client(project=project or "none", credentials=credentials)


def retry() -> Any:
    """What google-cloud-storage retries, for `RETRY_S`."""
    from google.cloud.storage.retry import DEFAULT_RETRY

    return DEFAULT_RETRY.with_timeout(RETRY_S)


def write_object(address: str, content: pathlib.Path | bytes, connected: Any) -> None:
    """Write a file, or bytes, to the object at a `gs://` address by a `client(write=True)`, with a checksum.

    Raises:
        MissingError: there is no such bucket.
        UserError: the object may not be written.
    """
    bucket_name, path = split(address)
    blob = connected.bucket(bucket_name).blob(path)
    with explained(address, write=True):
        if isinstance(content, bytes):
            kind = mimetypes.guess_type(path)[0]
            blob.upload_from_string(content, content_type=kind, checksum="crc32c", retry=retry())
        else:
            blob.upload_from_filename(content, checksum="crc32c", retry=retry())


def split(source: str) -> tuple[str, str]:
    """Bucket and path (without a slash at its end) of a `gs://` address."""
    bucket, _, path = source.removeprefix(REMOTE).partition("/")
    if not bucket:
        raise UserError(f"source {source!r} names no bucket; write gs://BUCKET/PATH")
    return bucket, path.rstrip("/")


def _root(path: str) -> str:
    """What the names of a source's objects begin with, their relative names left out."""
    root = path.rpartition("/")[0] if is_archive(path) else path
    return f"{root}/" if root else ""


def _list_remote(source: str) -> list[SourceObject]:
    bucket_name, path = split(source)
    root = _root(path)
    with explained(source):
        bucket = client().bucket(bucket_name)
        if is_archive(path):
            # To read one object takes fewer rights than to list a bucket.
            blob = bucket.get_blob(path, retry=retry())
            blobs = [blob] if blob else []
            if not blobs:
                # A missing bucket would look the same; this raises NotFound for it.
                list(bucket.list_blobs(max_results=1, retry=retry()))
        else:
            fields = "items(name,size,crc32c),nextPageToken"
            blobs = list(bucket.list_blobs(prefix=root, fields=fields, retry=retry()))
    named = [(blob.name.removeprefix(root), blob) for blob in blobs]
    objects = [
        SourceObject(name, blob.size, base64.b64decode(blob.crc32c).hex())
        for name, blob in named
        if not name.endswith("/") and not is_junk(name)
    ]
    if not objects:
        raise _nothing(source, bucket_name)
    return objects


def _nothing(source: str, bucket_name: str) -> UserError:
    return UserError(
        f"there is nothing at {source}; `gcloud storage ls {REMOTE}{bucket_name}` shows what the bucket has"
    )


def _groups(objects: list[SourceObject]) -> Iterator[list[SourceObject]]:
    """Large objects one by one, for these are downloaded in pieces, and the others by the hundred."""
    small = [each for each in objects if each.size_bytes <= CHUNK_BYTES]
    yield from ([each] for each in objects if each.size_bytes > CHUNK_BYTES)
    yield from (small[start : start + 100] for start in range(0, len(small), 100))


def _transfer(source: str, objects: list[SourceObject], folder: pathlib.Path) -> None:
    from google.cloud.storage import transfer_manager

    bucket_name, path = split(source)
    bucket = client().bucket(bucket_name)
    pairs = [(bucket.blob(_root(path) + each.name), str(folder / each.name)) for each in objects]
    # Threads: nothing is computed here but checksums, which leave the interpreter to others.
    threads = {"max_workers": WORKERS, "worker_type": transfer_manager.THREAD}
    options = {"retry": retry()}
    if objects[0].size_bytes <= CHUNK_BYTES:
        transfer_manager.download_many(pairs, download_kwargs=options, raise_exception=True, **threads)
        return
    for blob, target in pairs:
        blob.reload(retry=retry())  # for the size, and the checksum that the whole is compared with
        transfer_manager.download_chunks_concurrently(
            blob, target, chunk_size=CHUNK_BYTES, download_kwargs=options, **threads
        )


def _written_bytes(path: pathlib.Path) -> int:
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0
    # Pieces go into a sparse file, which may have its full length at once.
    return min(status.st_size, status.st_blocks * 512)


def _verify(source: str, objects: list[SourceObject], folder: pathlib.Path) -> None:
    for each in objects:
        actual = checksum(folder / each.name)
        if actual != each.crc32c:
            raise UserError(
                f"{each.name} of {source} arrived with checksum {actual}, listed is {each.crc32c}: it changed "
                "meanwhile or was damaged on the way; try again"
            )


@contextmanager
def explained(source: str, write: bool = False) -> Iterator[None]:
    """Turn what Cloud Storage answers for `source` into a `UserError` with a remedy."""
    import google.auth.exceptions
    from google.api_core import exceptions
    from google.cloud.storage.exceptions import DataCorruption

    bucket = split(source)[0]
    try:
        yield
    except exceptions.NotFound:
        raise MissingError(
            f"{source}: there is no bucket {bucket!r}, or no such object in it; check the address"
        ) from None
    except (exceptions.Forbidden, exceptions.Unauthorized, google.auth.exceptions.InvalidOperation) as error:
        # The last one is what comes of a 401 without credentials: there is nothing to renew.
        verb, role = ("write", "User") if write else ("read", "Viewer")
        raise UserError(
            f"no permission to {verb} {source} ({getattr(error, 'code', 401)}): {LOGIN}, or have its owner give "
            f"your account the role Storage Object {role} on the bucket {bucket!r}"
        ) from None
    except google.auth.exceptions.RefreshError as error:
        raise UserError(f"the credentials for {source} are not accepted any more ({error}): {LOGIN}") from None
    except DataCorruption as error:
        text = " ".join(str(error).split())
        raise UserError(f"{source} arrived damaged, its checksum differs ({text}); try again") from None
    except (
        exceptions.RetryError,
        exceptions.ServerError,
        exceptions.TooManyRequests,
        google.auth.exceptions.TransportError,
    ) as error:
        cause = error.cause if isinstance(error, exceptions.RetryError) else error
        raise UserError(
            f"cannot reach Cloud Storage for {source} ({_in_short(cause)}); check the network"
        ) from None
    except exceptions.GoogleAPICallError as error:
        raise UserError(f"Cloud Storage refuses {source}: {error.message}; check the address") from None


def _in_short(error: Exception) -> str:
    """What a network's error comes down to; libraries wrap it several times, with all addresses and retries."""
    inner = error
    while isinstance(next_one := getattr(inner, "reason", None) or next(iter(inner.args), None), Exception):
        inner = next_one
    return f"{type(inner).__name__}: {str(inner).rpartition(': ')[2][:100]}"
