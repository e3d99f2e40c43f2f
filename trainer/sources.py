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
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import IO, cast

from trainer import storage
from trainer.artifacts import SourceObject
from trainer.errors import UserError
from trainer.files import local_path
from trainer.names import ARCHIVES, check_name, is_archive, is_junk
from trainer.progress import Tracker
from trainer.text import printable

DAMAGED = (
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    gzip.BadGzipFile,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)
"""Python's exceptions for archives that are truncated, damaged, encrypted or of an unknown compression."""
TAR_END = bytes(512)
GZIP = b"\x1f\x8b"
"""How a gzip file begins."""
MOST_MEMBER_BYTES = 2**33
"""Of the content of one member of an archive; the largest files that are read are tables."""
MOST_BETWEEN_BYTES = 2**26
"""Of a tarball between the contents of two members, and behind the last one."""


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

    def content(self, most_bytes: int) -> bytes:
        """What `read` returns; raises `UserError` before it is read if there are more than `most_bytes`."""
        if self.size_bytes is not None and self.size_bytes > most_bytes:
            raise UserError(
                f"{self.origin} has {self.size_bytes:,} bytes, more than a file of its kind needs (at most "
                f"{most_bytes:,}); replace it, or remove it with its other files"
            )
        return self.read()


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
        path = local_path(source)
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
            elif is_archive(name):
                members += _unpack_tar(path, name, scratch / f"unpacked-{number}")
                if path.is_relative_to(scratch):
                    path.unlink()
            else:
                members.append(_file(path, name, name))
        yield sorted(members, key=lambda member: member.path)


def _file(path: pathlib.Path, name: str, origin: str) -> Member:
    """A member that is a file of this machine."""

    def read() -> bytes:
        try:
            return path.read_bytes()
        except OSError as error:
            raise UserError(f"cannot read {origin} ({error.strerror}); it was changed or removed") from None

    try:
        size_bytes = path.stat().st_size
    except OSError:
        size_bytes = None  # reading it says why
    return Member(name, origin, read, size_bytes)


def _path(archive: str, member: str) -> str:
    """Path of an archive's member behind the archive's stem, which may tell the member's role."""
    stem = archive[: -len(next(suffix for suffix in ARCHIVES if archive.lower().endswith(suffix)))]
    return posixpath.join(stem, member)


def _safe_name(name: str, archive: str) -> str:
    """The member's normalised name; `UserError` if it would be unpacked outside the target folder."""
    normal = posixpath.normpath(name.replace("\\", "/"))
    if "\0" in normal or normal.startswith(("/", "../")) or normal == ".." or normal[1:2] == ":":
        raise UserError(
            f"{archive} has a member {name!r}, whose path leads out of the archive; do not trust it, pack it again"
        )
    if not is_junk(normal):
        check_name(normal, archive, "rename it, and pack the archive again")
    return normal


def _check_member(name: str, size_bytes: int, archive: str, room_bytes: int = MOST_MEMBER_BYTES) -> None:
    """Raise `UserError` for a file without a name, or one that unpacks to more than there is room for."""
    if name == ".":
        raise UserError(f"{archive} has a file whose name is empty; pack the archive again")
    if size_bytes > MOST_MEMBER_BYTES:
        raise UserError(
            f"{archive} has a file {printable(name)} that unpacks to {size_bytes / 1e9:,.3g} GB, more than the "
            f"{MOST_MEMBER_BYTES / 1e9:.3g} that are read; do not trust it, or pack the archive without it"
        )
    if size_bytes > room_bytes:
        raise UserError(
            f"{archive} has a file {printable(name)} that unpacks to {size_bytes / 1e9:,.3g} GB, but the disk has "
            f"room for {room_bytes / 1e9:,.3g} GB more; free some, or write to another disk"
        )


def _refuse_special(name: str, archive: str, kind: str) -> None:
    raise UserError(f"{archive} has a member {name!r} that is a {kind}; pack it again with plain files only")


# === ZIP ===

UTF8_FLAG = 0x800
"""Of the bits of a member that say how it is packed (APPNOTE 4.4.4)."""


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
                raise _damaged(f"{_name_of(info)} in {origin}", error, origin) from None

        return read

    with archive:
        members = []
        for info in archive.infolist():
            given = _name_of(info)
            name = _safe_name(given, origin)
            if stat.S_ISLNK(info.external_attr >> 16):
                _refuse_special(given, origin, "symbolic link")
            if given.endswith("/"):
                continue
            _check_member(name, info.file_size, origin)
            if is_junk(name):
                continue
            members.append(Member(_path(origin, name), f"{name} in {origin}", reader(info), info.file_size))
        yield members


def _name_of(info: zipfile.ZipInfo) -> str:
    """The name of a member. Python takes one without the flag of UTF-8 for cp437, which few programs write."""
    name = info.orig_filename
    if not info.flag_bits & UTF8_FLAG:
        with suppress(UnicodeError):
            return name.encode("cp437").decode()
    return name


def _damaged(origin: str, error: Exception, archive: str) -> DamagedError:
    return DamagedError(f"{origin} is incomplete or damaged ({error}); copy or download it again", archive)


# === TAR ===


def _unpack_tar(path: pathlib.Path, origin: str, folder: pathlib.Path) -> list[Member]:
    members = []
    total_mb = round(path.stat().st_size / storage.MEGABYTE)
    with path.open("rb") as raw, Tracker(f"unpack {origin}", total_mb, "MB") as tracker:
        shown_mb = 0
        for name, target in _unpacked(raw, origin, folder):
            members.append(_file(target, _path(origin, name), f"{name} in {origin}"))
            tracker.advance(raw.tell() // storage.MEGABYTE - shown_mb)
            shown_mb = raw.tell() // storage.MEGABYTE
    return members


def _unpacked(raw: IO[bytes], origin: str, folder: pathlib.Path) -> Iterator[tuple[str, pathlib.Path]]:
    """Unpack the files one by one; yields name and path of each."""
    is_gzip = not origin.lower().endswith(".tar")
    with ExitStack() as stack:
        # tarfile's own gzip streams accept truncated files and wrong checksums; GzipFile refuses both.
        try:
            stream = _Bounded(_unzipped(raw, stack) if is_gzip else raw, origin)
            archive = stack.enter_context(tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|"))
            for info in archive:
                stream.allow(info.size)
                name = _safe_name(info.name, origin)
                if not (info.isreg() or info.isdir()):
                    _refuse_special(info.name, origin, "link" if info.islnk() or info.issym() else "device")
                if info.issparse():  # its holes fill the disk, and no dataset has any
                    _refuse_special(info.name, origin, "sparse file")
                if info.isdir():
                    continue
                _check_member(name, info.size, origin, storage.room_bytes(folder.parent))
                if is_junk(name):
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
            stream.allow(0)
            if is_gzip:  # the rest, to verify the final checksum
                while stream.read(2**20):
                    pass
            else:
                _check_end(raw)
        except DAMAGED as error:
            raise _damaged(origin, error, origin) from None


def _unzipped(raw: IO[bytes], stack: ExitStack) -> IO[bytes]:
    """The content of a gzip file; some servers pack an archive once more on its way, and it is kept so."""
    stream = stack.enter_context(gzip.GzipFile(fileobj=raw))
    if stream.peek(len(GZIP)).startswith(GZIP):
        stream = stack.enter_context(gzip.GzipFile(fileobj=stream, mode="rb"))
    return cast("IO[bytes]", stream)


class _Bounded:
    """A stream of which tarfile may read so much: headers, and what is behind the last member, may be endless too.

    Python collects the header of a long name, and the map of a sparse file, in memory.
    """

    def __init__(self, stream: IO[bytes], origin: str) -> None:
        self._stream, self._origin = stream, origin
        self._left = MOST_BETWEEN_BYTES

    def allow(self, size_bytes: int) -> None:
        """Let a content of so many bytes be read, and then the next header."""
        self._left = size_bytes + MOST_BETWEEN_BYTES

    def read(self, size: int) -> bytes:
        content = self._stream.read(size)
        self._left -= len(content)
        if self._left < 0:
            raise UserError(
                f"{self._origin} unpacks to more than its files: over {MOST_BETWEEN_BYTES // storage.MEGABYTE} MB "
                "are not their contents; do not trust it, pack it again"
            )
        return content


def _check_end(raw: IO[bytes]) -> None:
    """Raise `EOFError` for a file that ends between two members."""
    raw.seek(-len(TAR_END), 2)
    if raw.read() != TAR_END:
        raise EOFError("the end-of-archive marker is missing")
