"""Open a source: its files, in folders or in archives, local or on Cloud Storage.

Members of ZIP archives are read in place. Tarballs, which have no random access, are unpacked in one pass.
"""

import gzip
import lzma
import pathlib
import posixpath
import shutil
import stat
import tarfile
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
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
    UnicodeDecodeError,
    gzip.BadGzipFile,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)
"""Python's exceptions for archives that are truncated, damaged, encrypted or of an unknown compression."""
TAR_END = bytes(512)


class DamagedError(UserError):
    """An archive that cannot be read; `archive` is its name."""

    def __init__(self, message: str, archive: str) -> None:
        super().__init__(message)
        self.archive = archive


@dataclass(frozen=True)
class Member:
    """One file of a source."""

    path: str
    """Path below the source; for a member of an archive it begins with the archive's stem."""
    origin: str
    """Its name in messages."""
    read: Callable[[], bytes]
    """Returns its content, in any thread while the source is open; raises `UserError` if it is damaged."""
    size_bytes: int | None = None
    """Of its content, which is never longer; None if it is known only by reading it."""


@contextmanager
def opened(source: str, objects: list[SourceObject], scratch: pathlib.Path) -> Iterator[list[Member]]:
    """The members of a source while it is open, sorted by path.

    Args:
        source: a local folder or archive, or a `gs://` prefix or archive.
        objects: the result of `storage.list_objects(source)`.
        scratch: an existing folder for downloads and unpacked tarballs; the caller removes it.

    Raises:
        UserError: an archive is damaged, or has a member that is unsafe to unpack.
    """
    if storage.is_remote(source):
        folder = scratch / "download"
        storage.download(source, objects, folder)
    else:
        path = pathlib.Path(source).expanduser()
        folder = path.parent if path.is_file() else path
    files = {file.name: folder / file.name for file in objects}
    with opened_files(files, scratch) as members:
        yield members


@contextmanager
def opened_files(files: Mapping[str, pathlib.Path], scratch: pathlib.Path) -> Iterator[list[Member]]:
    """As `opened`, of local files: their names below the source, and where they are.

    Tarballs in `scratch` are removed when they are unpacked, to free space.
    """
    with ExitStack() as archives:
        members: list[Member] = []
        for number, (name, path) in enumerate(files.items()):
            if name.lower().endswith(".zip"):
                members += archives.enter_context(_opened_zip(path, name))
            elif storage.is_archive(name):
                members += _unpack_tar(path, name, scratch / f"unpacked-{number}")
                if path.is_relative_to(scratch):
                    path.unlink()
            else:
                members.append(Member(name, name, _file_reader(path, name)))
        yield sorted(members, key=lambda member: member.path)


def _file_reader(path: pathlib.Path, origin: str) -> Callable[[], bytes]:
    def read() -> bytes:
        try:
            return path.read_bytes()
        except OSError as error:
            raise UserError(f"cannot read {origin} ({error.strerror}); it was changed or removed") from None

    return read


def _path(archive: str, member: str) -> str:
    """Path of an archive's member behind the archive's stem, which may tell the member's role."""
    stem = archive[: -len(next(suffix for suffix in storage.ARCHIVES if archive.lower().endswith(suffix)))]
    return posixpath.join(stem, member)


def _safe_name(name: str, archive: str) -> str:
    """The member's normalised name; `UserError` if it would be unpacked outside the target folder."""
    normal = posixpath.normpath(name.replace("\\", "/"))
    if "\0" in normal or normal.startswith(("/", "../")) or normal == ".." or normal[1:2] == ":":
        raise UserError(
            f"{archive} has a member {name!r}, whose path leads out of the archive; do not trust it, pack it again"
        )
    return normal


def _refuse_special(name: str, archive: str, kind: str) -> None:
    raise UserError(f"{archive} has a member {name!r} that is a {kind}; pack it again with plain files only")


# === ZIP ===


@contextmanager
def _opened_zip(path: pathlib.Path, origin: str) -> Iterator[list[Member]]:
    try:
        archive = zipfile.ZipFile(path)
    except DAMAGED as error:
        raise _damaged(origin, error, origin) from None
    # Opening and closing members is not thread-safe; reading them is.
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
                raise _damaged(f"{info.filename} in {origin}", error, origin) from None

        return read

    with archive:
        members = []
        for info in archive.infolist():
            name = _safe_name(info.filename, origin)
            if stat.S_ISLNK(info.external_attr >> 16):
                _refuse_special(info.filename, origin, "symbolic link")
            if not info.is_dir() and not storage.is_junk(name):
                members.append(Member(_path(origin, name), f"{name} in {origin}", reader(info), info.file_size))
        yield members


def _damaged(origin: str, error: Exception, archive: str) -> DamagedError:
    return DamagedError(f"{origin} is incomplete or damaged ({error}); copy or download it again", archive)


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
    """Unpack the files one by one; yields name and path of each."""
    is_gzip = not origin.lower().endswith(".tar")
    with ExitStack() as stack:
        # tarfile's own gzip streams accept truncated files and wrong checksums; GzipFile refuses both.
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
                    raise UserError(f"{origin} has two members named {name!r}; pack it again with one of them")
                content = archive.extractfile(info)
                assert content is not None
                try:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    file = target.open("wb")
                except OSError as error:
                    raise UserError(
                        f"{origin} has a member {name[:80]!r} that cannot be unpacked here ({error.strerror}); "
                        "pack it again with another name"
                    ) from None
                with file:
                    shutil.copyfileobj(content, file, 2**20)
                yield name, target
            _drain(stream, is_gzip)
        except DAMAGED as error:
            raise _damaged(origin, error, origin) from None


def _drain(stream: IO[bytes], is_gzip: bool) -> None:
    """Read the rest, to verify the final checksum and to notice a file that ends between two members."""
    if is_gzip:
        while stream.read(2**20):
            pass
    else:
        stream.seek(-len(TAR_END), 2)
        if stream.read() != TAR_END:
            raise EOFError("the end-of-archive marker is missing")
