"""Open a source: its files, in folders or in archives, local or on Cloud Storage.

Members of ZIP archives are read in place. Tarballs, which have no random access, are unpacked in one pass.
"""

import functools
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

from trainer.errors import ContentError, PlaceError, UserError
from trainer.io import room_bytes
from trainer.machine import Tracker
from trainer.places import file_names
from trainer.places.abstract_place import Stored
from trainer.places.bucket_place import BucketPlace
from trainer.places.file_names import SourceObject, archive_suffix, check_name, check_path, is_junk

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
MEGABYTE = 10**6


class DamagedArchiveError(UserError):
    """An archive that cannot be read. Its name is `archive`."""

    def __init__(self, message: str, archive: str = "") -> None:
        super().__init__(message)
        self.archive = archive


@dataclass(frozen=True)
class Member:
    """One file of a source."""

    path: str
    """Path below the source. The path of a member begins with the archive's stem. Example: `maps/a.png` for
    `a.png` in `maps.zip`."""
    origin: str
    """The name of the file in messages."""
    read: Callable[[], bytes]
    """Returns its content, in any thread while the source is open. It raises `UserError` if it is damaged."""
    size_bytes: int | None = None
    """Size of the content, which is never longer. None if only reading it tells."""
    file: pathlib.Path | None = None
    """The file itself, if it is one of this machine."""
    object: str = ""
    """Name of the source's file that it is, or is in, such as `maps.zip`. Empty if it is generated."""

    def content(self, most_bytes: int) -> bytes:
        """The file's content.

        Raises:
            ContentError: it has more than `most_bytes`. It is not read then.
        """
        if self.size_bytes is not None and self.size_bytes > most_bytes:
            raise ContentError(
                f"{self.origin} has {self.size_bytes:,} bytes, more than a file of its kind needs (at most "
                f"{most_bytes:,}). Replace it, or remove it with its other files"
            )
        return self.read()


@contextmanager
def open_source(
    place: Stored, objects: list[SourceObject], scratch: pathlib.Path, when_read: bool = False
) -> Iterator[list[Member]]:
    """The members of a source while it is open, sorted by path.

    Args:
        place: a folder or an archive.
        objects: the result of `place.objects()`.
        scratch: an existing folder for downloads and unpacked tarballs. The caller removes it.
        when_read: whether a file in a folder of a bucket is fetched only when it is read, each time anew. Archives
            are always fetched before.

    Raises:
        UserError: an archive is damaged, or has a member that is unsafe to unpack.
    """
    later: list[Member] = []
    if when_read and isinstance(place, BucketPlace):
        connected = place.connected()
        later = [_fetched(connected, entry) for entry in objects if not archive_suffix(entry.name)]
        objects = [entry for entry in objects if archive_suffix(entry.name)]
    folder = place.local(objects, scratch / "download")
    with opened_files({entry.name: folder / entry.name for entry in objects}, scratch) as members:
        yield sorted([*members, *later], key=lambda member: member.path)


def _fetched(place: BucketPlace, entry: SourceObject) -> Member:
    """A member that is fetched when it is read."""
    read = functools.partial(place.read_listed, entry)
    return Member(entry.name, entry.name, read, entry.size_bytes, object=entry.name)


@contextmanager
def opened_files(paths: Mapping[str, pathlib.Path], scratch: pathlib.Path) -> Iterator[list[Member]]:
    """The members of local files while they are open, sorted by path.

    Args:
        paths: their names below the source, and where they are.
        scratch: an existing folder for unpacked tarballs. Tarballs in it are removed when they are unpacked.

    Raises:
        UserError: as `open_source`.
    """
    with ExitStack() as archives:
        members: list[Member] = []
        for number, (name, path) in enumerate(paths.items()):
            suffix = archive_suffix(name)
            if suffix == ".zip":
                members += archives.enter_context(_opened_zip(path, name))
            elif suffix:
                members += _unpack_tar(path, name, scratch / f"unpacked-{number}")
                if path.is_relative_to(scratch):
                    path.unlink()
            else:
                members.append(_file(path, name, name, name))
        yield sorted(members, key=lambda member: member.path)


def _file(path: pathlib.Path, name: str, origin: str, object: str) -> Member:
    """A member that is a file of this machine."""
    return Member(name, origin, path.read_bytes, path.stat().st_size, path, object)


def _path(archive: str, member: str) -> str:
    """Path of a member behind the archive's stem, which may tell the member's role. Example: `maps/a.png`."""
    return posixpath.join(archive[: -len(archive_suffix(archive))], member)


def _not_plain(name: str, archive: str) -> UserError:
    return ContentError(
        f"{archive} has a member {name!r}, whose path leads out of the archive, or which is a link or a device. "
        "Do not trust it, pack it again with plain files only"
    )


# === ZIP ===

UTF8_FLAG = 0x800
"""Flag bit of a member: its name is UTF-8 (APPNOTE 4.4.4)."""


@contextmanager
def _opened_zip(path: pathlib.Path, origin: str) -> Iterator[list[Member]]:
    try:
        archive = zipfile.ZipFile(path)
    except DAMAGED as error:
        raise _damaged(origin, error, origin) from None
    # Opening and closing members is not thread-safe. Reading them is.
    lock = threading.Lock()

    def reader(info: zipfile.ZipInfo, name: str) -> Callable[[], bytes]:
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
                raise _damaged(f"{name} in {origin}", error, origin) from None

        return read

    with archive:
        members = []
        for info in archive.infolist():
            given = _name_of(info)
            name = posixpath.normpath(given.replace("\\", "/"))
            if given.endswith("/") or is_junk(name):
                continue
            leads_out = name.startswith("/") or name.partition("/")[0] == ".." or name[1:2] == ":"
            if leads_out or stat.S_ISLNK(info.external_attr >> 16):
                raise _not_plain(given, origin)
            check_name(name, origin)
            called = f"{name} in {origin}"
            member = Member(_path(origin, name), called, reader(info, name), info.file_size, object=origin)
            members.append(member)
        yield members


def _name_of(info: zipfile.ZipInfo) -> str:
    """The name of a member. Python takes one without the flag of UTF-8 for cp437, which few programs write."""
    name = info.orig_filename
    if not info.flag_bits & UTF8_FLAG:
        with suppress(UnicodeError):
            return name.encode("cp437").decode()
    return name


def _damaged(origin: str, error: Exception, archive: str) -> DamagedArchiveError:
    return DamagedArchiveError(f"{origin} is incomplete or damaged ({error}). Copy or download it again", archive)


# === TAR ===


def _unpack_tar(path: pathlib.Path, origin: str, folder: pathlib.Path) -> list[Member]:
    """Unpack the files of a tarball into `folder`. If members have one name, the last counts, as for tar."""
    members: dict[str, Member] = {}
    total_mb = round(path.stat().st_size / MEGABYTE)
    folder.mkdir(parents=True, exist_ok=True)
    with path.open("rb") as raw, Tracker(f"unpack {origin}", total_mb, "MB") as tracker:
        shown_mb = 0
        for name in _unpacked(raw, origin, folder):
            members[name] = _file(folder / name, _path(origin, name), f"{name} in {origin}", origin)
            tracker.advance(raw.tell() // MEGABYTE - shown_mb)
            shown_mb = raw.tell() // MEGABYTE
    return list(members.values())


def _unpacked(raw: IO[bytes], origin: str, folder: pathlib.Path) -> Iterator[str]:
    """Unpack the files one by one. Yields the name of each below `folder`."""
    is_gzip = not origin.lower().endswith(".tar")
    with ExitStack() as stack:
        try:
            # tarfile's own gzip streams accept truncated files and wrong checksums. GzipFile refuses both.
            stream = _unzipped(raw, stack) if is_gzip else raw
            for info in (archive := stack.enter_context(tarfile.open(fileobj=stream, mode="r|"))):
                name = posixpath.normpath(info.name).lstrip("/")
                if info.isdir() or is_junk(name):
                    continue
                if not info.isreg() or name.partition("/")[0] == "..":
                    raise _not_plain(info.name, origin)
                check_path(name, origin)
                room = room_bytes(folder)
                if info.size > room:
                    raise PlaceError(
                        f"{origin} has a file {name} that unpacks to {info.size / 1e9:,.3g} GB, but "
                        f"the disk has room for {room / 1e9:,.3g} GB more. Free some, or write to another disk"
                    )
                # tarfile's own filter for such members is not in the Python 3.11.2 of Debian 12.
                with (
                    cast("IO[bytes]", archive.extractfile(info)) as content,
                    _new_file(folder, name, origin) as file,
                ):
                    shutil.copyfileobj(content, file)
                yield name
            if is_gzip:  # the rest, to verify the final checksum
                while stream.read(2**20):
                    pass
            else:
                _check_end(raw)
        except DAMAGED as error:
            raise _damaged(origin, error, origin) from None


def _new_file(folder: pathlib.Path, name: str, origin: str) -> IO[bytes]:
    """A file to write below a folder.

    Raises:
        UserError: a file and a folder have the name. Example: `a` and `a/b.png`.
    """
    try:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        return (folder / name).open("wb")
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise file_names.both_kinds(name, origin) from None


def _unzipped(raw: IO[bytes], stack: ExitStack) -> IO[bytes]:
    """The content of a gzip file. Some servers gzip archives again in transit, so it may be gzipped twice."""
    stream = stack.enter_context(gzip.GzipFile(fileobj=raw))
    if stream.peek(2).startswith(b"\x1f\x8b"):
        stream = stack.enter_context(gzip.GzipFile(fileobj=stream, mode="rb"))
    return cast("IO[bytes]", stream)


def _check_end(raw: IO[bytes]) -> None:
    """Raise `EOFError` for a file that ends between two members."""
    raw.seek(-len(TAR_END), 2)
    if raw.read() != TAR_END:
        raise EOFError("the end-of-archive marker is missing")
