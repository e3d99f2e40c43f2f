"""The files of a source: listed, checked by name and downloaded.

A *source* is a folder, a `gs://` prefix, or one archive, here or on Cloud Storage.
"""

import collections
import os
import pathlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from trainer.errors import UserError
from trainer.io import buckets, files
from trainer.io.buckets import (
    REMOTE,
    WORKERS,
    billed,
    bucket_at,
    checksum_of,
    download_object,
    explained,
    is_remote,
    list_blobs,
    nothing_at,
    read_parts,
    retry,
    split,
    storage_client,
)
from trainer.io.file_names import (
    ARCHIVES,
    SourceObject,
    both_kinds,
    check_name,
    check_path,
    folders_of,
    is_archive,
    is_junk,
)
from trainer.io.files import MEGABYTE, checksum, local_path, room_bytes
from trainer.io.progress import Tracker, map_ahead, open_pool


def list_objects(source: str) -> list[SourceObject]:
    """List the files of a source (a folder, an archive, a `gs://` prefix or archive), sorted by name.

    Names are relative to the folder or prefix; an archive has its own name. Hidden files are left out. On Cloud
    Storage only the listing is read; local files are read for their checksums.

    Raises:
        UserError: the source is empty, does not exist, or may not be read.
    """
    objects = _list_remote(source) if is_remote(source) else _list_local(local_path(source))
    return sorted(objects, key=lambda entry: entry.name)


@billed
def find_archive(address: str) -> tuple[SourceObject, str]:
    """Find the archive at a `gs://` address, and its generation; raises `UserError` if it cannot be read."""
    path = split(address)[1]
    with explained(address):
        # Reading one object takes fewer rights than listing a bucket.
        blob = bucket_at(address, storage_client()).get_blob(path, retry=retry())
    if blob is None:
        list_blobs(address, _root(path), max_results=1)  # raises an error if the bucket does not exist
        raise nothing_at(address)
    return _entry(blob, address, _root(path)), str(blob.generation or "")


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
    sizes = {entry.name: entry.size_bytes for entry in _entries(found, address, "")}
    return [(f"{REMOTE}{bucket_name}/{name}", sizes[name]) for name in sorted(sizes)]


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
    root, connected = f"{REMOTE}{bucket}/{_root(path)}", storage_client()

    def copy(entry: SourceObject) -> int:
        download_object(root + entry.name, folder / entry.name, connected)
        return entry.size_bytes

    small = [entry for entry in objects if entry.size_bytes <= buckets.CHUNK_BYTES]
    with open_pool(WORKERS) as pool:
        yield from map_ahead(pool, copy, small, 2 * WORKERS)
    for entry in objects:
        if entry.size_bytes > buckets.CHUNK_BYTES:
            with (folder / entry.name).open("wb") as file:
                for chunk in read_parts(root + entry.name, entry.size_bytes):
                    yield file.write(chunk)


def download_for_now(source: str, objects: list[SourceObject]) -> pathlib.Path:
    """Download objects, as `download` does, to a new folder that is removed when this process ends."""
    folder = files.folder_for_now()
    download(source, objects, folder)
    return folder


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


def _root(path: str) -> str:
    """The common beginning of the names of a source's objects; their relative names follow it."""
    root = path.rpartition("/")[0] if is_archive(path) else path
    return f"{root}/" if root else ""


def _list_remote(source: str) -> list[SourceObject]:
    path = split(source)[1]
    if is_archive(path):
        return [find_archive(source)[0]]
    root = _root(path)
    blobs = _without_folders(list_blobs(source, root))
    objects = _entries([blob for blob in blobs if not is_junk(blob.name.removeprefix(root))], source, root)
    if not objects:
        raise nothing_at(source)
    return objects


def _without_folders(blobs: Sequence[Any]) -> list[Any]:
    """The objects that are files: a folder is one whose name ends with a slash, or is empty with others below."""
    folders = folders_of(blob.name for blob in blobs)
    return [blob for blob in blobs if not blob.name.endswith("/") and (blob.size or blob.name not in folders)]


def _entries(blobs: Sequence[Any], source: str, root: str) -> list[SourceObject]:
    """Objects of a listing, with their names below `root`; `UserError` if a name or metadata cannot be used.

    A listing lacks the checksums of objects under keys of Cloud KMS, which their own metadata have:
    https://cloud.google.com/storage/docs/encryption/customer-managed-keys#restrictions
    """

    def reload(blob: Any) -> None:
        with explained(f"{REMOTE}{split(source)[0]}/{blob.name}"):
            blob.reload(retry=retry())

    lacking = [blob for blob in blobs if blob.crc32c is None]
    with open_pool(WORKERS) as pool:
        collections.deque(map_ahead(pool, reload, lacking, 2 * WORKERS), maxlen=0)
    return [_entry(blob, source, root) for blob in blobs]


def _entry(blob: Any, source: str, root: str) -> SourceObject:
    """An object with its name below `root`; `UserError` if its name or metadata cannot be used."""
    name = blob.name.removeprefix(root)
    check_name(name, source)
    crc32c = checksum_of(blob.crc32c)
    if blob.size is None or not crc32c:
        raise UserError(
            f"{source} has an object {name[:80]!r} without a size or a sound checksum, as if it was encrypted "
            "with a customer-supplied key; rewrite it without one, or with a key of Cloud KMS"
        )
    return SourceObject(name, blob.size, crc32c)
