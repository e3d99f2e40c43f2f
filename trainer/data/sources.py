"""The files of a source, whether they lie in folders or in archives, on this machine or on Cloud Storage.

Members of ZIP archives are read where they are; tarballs, which know no random access, are unpacked in one stream.
"""

import gzip
import pathlib
import posixpath
import shutil
import stat
import tarfile
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, cast

from trainer import storage
from trainer.artifacts import SourceObject
from trainer.errors import UserError
from trainer.progress import Tracker

DAMAGED = (
    EOFError,
    NotImplementedError,
    RuntimeError,
    gzip.BadGzipFile,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What Python raises for archives that are cut short, damaged, encrypted or packed in unknown ways."""
TAR_END = bytes(512)


@dataclass(frozen=True)
class Member:
    """One file of a source."""

    path: str
    """Path that says what it is: within a folder its own; within an archive the archive's stem comes first."""
    origin: str
    """What to call it in a message."""
    read: Callable[[], bytes]
    """Its content; may be called from any thread while the source is open. Raises `UserError` where damaged."""


@contextmanager
def opened(source: str, objects: list[SourceObject], scratch: pathlib.Path) -> Iterator[list[Member]]:
    """The members of a source while it is open, sorted by path.

    Args:
        source: a local folder or archive, or a `gs://` prefix or archive.
        objects: what `storage.list_objects(source)` says.
        scratch: an existing folder for downloads and unpacked tarballs; left to the caller to remove.

    Raises:
        UserError: an archive is damaged, or has a member that is unsafe to unpack.
    """
    if storage.is_remote(source):
        folder = scratch / "download"
        storage.download(source, objects, folder)
    else:
        path = pathlib.Path(source).expanduser()
        folder = path.parent if path.is_file() else path
    with ExitStack() as archives:
        members: list[Member] = []
        for number, each in enumerate(objects):
            path = folder / each.name
            if path.name.lower().endswith(".zip"):
                members += archives.enter_context(_opened_zip(path, each.name))
            elif storage.is_archive(path.name):
                members += _unpack_tar(path, each.name, scratch / f"unpacked-{number}")
                if storage.is_remote(source):
                    path.unlink()  # unpacked, it would only take room
            else:
                members.append(Member(each.name, each.name, _file_reader(path, each.name)))
        yield sorted(members, key=lambda member: member.path)


def _file_reader(path: pathlib.Path, origin: str) -> Callable[[], bytes]:
    def read() -> bytes:
        try:
            return path.read_bytes()
        except OSError as error:
            raise UserError(f"cannot read {origin} ({error.strerror}); it has been changed or removed") from None

    return read


def _path(archive: str, member: str) -> str:
    """Path of an archive's member with the archive's stem in front, which may be what says its role."""
    stem = archive[: -len(next(suffix for suffix in storage.ARCHIVES if archive.lower().endswith(suffix)))]
    return posixpath.join(stem, member)


def _safe_name(name: str, archive: str) -> str:
    """The member's name, normalised; a `UserError` where it would be written outside of the folder unpacked to."""
    normal = posixpath.normpath(name.replace("\\", "/"))
    if normal.startswith(("/", "../")) or normal == ".." or normal[1:2] == ":":
        raise UserError(
            f"{archive} has a member {name!r}, whose path climbs out of the archive; do not trust it, pack it anew"
        )
    return normal


def _refuse_special(name: str, archive: str, kind: str) -> None:
    raise UserError(f"{archive} has a member {name!r} that is a {kind}; pack it anew with plain files only")


# === ZIP ===


@contextmanager
def _opened_zip(path: pathlib.Path, origin: str) -> Iterator[list[Member]]:
    try:
        archive = zipfile.ZipFile(path)
    except DAMAGED as error:
        raise _damaged(origin, error) from None
    # Its bookkeeping of open members is not made for threads; reading them is.
    lock = threading.Lock()

    def reader(info: zipfile.ZipInfo) -> Callable[[], bytes]:
        def read() -> bytes:
            try:
                with lock:
                    member = archive.open(info)
                try:
                    return member.read()
                finally:
                    with lock:
                        member.close()
            except (*DAMAGED, OSError) as error:
                raise _damaged(f"{info.filename} in {origin}", error) from None

        return read

    with archive:
        members = []
        for info in archive.infolist():
            name = _safe_name(info.filename, origin)
            if stat.S_ISLNK(info.external_attr >> 16):
                _refuse_special(info.filename, origin, "symbolic link")
            if not info.is_dir() and not storage.is_junk(name):
                members.append(Member(_path(origin, name), f"{name} in {origin}", reader(info)))
        yield members


def _damaged(origin: str, error: Exception) -> UserError:
    return UserError(f"{origin} is cut short or damaged ({error}); copy or download it again")


# === TAR ===


def _unpack_tar(path: pathlib.Path, origin: str, folder: pathlib.Path) -> list[Member]:
    members = []
    total_mb = round(path.stat().st_size / storage.MEGABYTE)
    with path.open("rb") as raw, Tracker(f"unpack {origin}", total_mb, "MB") as tracker:
        shown_mb = 0
        for name, target in _unpacked(raw, origin, folder):
            members.append(Member(_path(origin, name), f"{name} in {origin}", _file_reader(target, name)))
            tracker.advance(raw.tell() // storage.MEGABYTE - shown_mb)
            shown_mb = raw.tell() // storage.MEGABYTE
    return members


def _unpacked(raw: IO[bytes], origin: str, folder: pathlib.Path) -> Iterator[tuple[str, pathlib.Path]]:
    """Name and place of each file, as it is unpacked."""
    is_gzip = not origin.lower().endswith(".tar")
    with ExitStack() as stack:
        # tarfile's own streams take a cut for the end and do not look at checksums; GzipFile does both.
        stream = cast("IO[bytes]", stack.enter_context(gzip.GzipFile(fileobj=raw))) if is_gzip else raw
        try:
            archive = stack.enter_context(tarfile.open(fileobj=stream, mode="r|"))
            for info in archive:
                name = _safe_name(info.name, origin)
                if not (info.isreg() or info.isdir()):
                    _refuse_special(info.name, origin, "link" if info.islnk() or info.issym() else "device")
                if info.isdir() or storage.is_junk(name):
                    continue
                target = folder / name
                if target.exists():
                    raise UserError(f"{origin} has two members named {name!r}; pack it anew with one of them")
                target.parent.mkdir(parents=True, exist_ok=True)
                content = archive.extractfile(info)
                assert content is not None
                with target.open("wb") as file:
                    shutil.copyfileobj(content, file, 2**20)
                yield name, target
            _drain(stream, is_gzip)
        except DAMAGED as error:
            raise _damaged(origin, error) from None


def _drain(stream: IO[bytes], is_gzip: bool) -> None:
    """Read what is left, so that the checksum at the end is looked at, and a cut between members is seen."""
    if is_gzip:
        while stream.read(2**20):
            pass
    else:
        stream.seek(-len(TAR_END), 2)
        if stream.read() != TAR_END:
            raise EOFError("the marker of its end is missing")
