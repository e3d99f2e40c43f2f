"""The folder of downloaded archives: one folder for each address, with the archive and what is known of it.

An interrupted download stays there, and the next one goes on with it, whatever ended the process.
"""

import contextlib
import dataclasses
import datetime
import fcntl
import hashlib
import os
import pathlib
from collections.abc import Iterable, Iterator
from typing import IO, Any, Protocol

from trainer.downloads.offers import ChangedError, NoAnswerError, Offer
from trainer.errors import ContentError, UserError
from trainer.files import read_json, write_json

VARIABLE = "MSINET_CACHE"
"""Environment variable with the folder; empty for none."""
DEFAULT = "~/.cache/msinet"
RECORD, PARTIAL, LOCK = "download.json", "partial", "lock"
PARTIAL_RECORD = "partial.json"
ATTEMPTS = 3
"""Attempts at a file that changes while it is downloaded."""


class Remote(Protocol):
    """An archive at an address."""

    address: str

    @property
    def shown(self) -> str:
        """The address for messages."""

    def offer(self) -> Offer:
        """What its server says of it."""

    def transfer(self, path: pathlib.Path, offer: Offer) -> None:
        """Receive the rest of it behind what `path` has; raises `ChangedError` if it is another by now."""


@dataclasses.dataclass(frozen=True)
class _Facts:
    """What is known of a downloaded archive."""

    offer: Offer
    """What its server said of it before."""
    size_bytes: int
    crc32c: str
    sha256: str
    time: str
    """When it was downloaded, ISO 8601."""
    mtime_ns: int
    """Of the file, by which a change is noticed."""


@dataclasses.dataclass(frozen=True)
class Download(_Facts):
    """A downloaded archive."""

    path: pathlib.Path


@dataclasses.dataclass(frozen=True)
class _Kept(_Facts):
    """RECORD: a `Download`, with the name of its file and the address for people."""

    path: str
    address: str


def cache_folder(chosen: str | None = None) -> pathlib.Path | None:
    """The folder of the cache: `chosen`, else the one that the environment names; None for no cache.

    Raises:
        UserError: it is in the home folder of nobody who is known here.
    """
    named = os.environ.get(VARIABLE) if chosen is None else chosen
    folder = DEFAULT if named is None else named
    try:
        return pathlib.Path(folder).expanduser().absolute() if folder else None
    except RuntimeError:
        if named is None:  # whoever runs this has no home folder, as in some containers
            return None
        raise UserError(
            f"the cache of downloads {folder} is in a home folder that is not known here; name another "
            f"folder with {VARIABLE}, or none with an empty one"
        ) from None


def find(root: pathlib.Path, address: str) -> Download | None:
    """The archive of an address in the cache `root`, if it is there and unchanged."""
    return _kept(_folder(root, address))


def forget(downloads: Iterable[Download]) -> None:
    """Remove archives that turn out to be damaged, so that the next fetch downloads them again."""
    for each in downloads:
        with locked(each.path.parent, f"another process uses {each.path.parent}"):
            each.path.unlink(missing_ok=True)
            (each.path.parent / RECORD).unlink(missing_ok=True)


def fetch(root: pathlib.Path, remote: Remote, sha256: str = "") -> Download:
    """The archive at an address: from the folder `root` if it has the state that its server offers, else new.

    If its server does not answer, a copy in `root` is used, and a line says so.

    Raises:
        UserError: it cannot be downloaded, has another SHA-256 than `sha256` (if given), or cannot be written.
    """
    folder = _folder(root, remote.address)
    with usable(root), locked(folder, f"another process downloads {remote.shown}"):
        return _fetch(folder, remote, sha256)


@contextlib.contextmanager
def usable(root: pathlib.Path) -> Iterator[None]:
    """Translate `OSError` of the block, which uses the cache `root`, to `UserError`."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"the cache of downloads {root} cannot be used ({error.strerror or error}); name another folder with "
            f"{VARIABLE}, or none with an empty one"
        ) from None


def instead(kept: Download | None, error: NoAnswerError) -> Download:
    """The copy, used for a server that does not answer, with a line that says so; raises `error` without one."""
    if kept is None:
        raise error
    print(f"{error}; the copy of {kept.time[:10]} in the cache is used", flush=True)
    return kept


def _fetch(folder: pathlib.Path, remote: Remote, sha256: str) -> Download:
    kept = _kept(folder)
    try:
        offer = remote.offer()
    except NoAnswerError as error:
        kept = instead(kept, error)
        _check_sha256(kept, remote, sha256)
        return kept
    for _ in range(ATTEMPTS):
        if kept and dataclasses.replace(kept.offer, name=offer.name) == offer:
            _check_sha256(kept, remote, sha256)
            print(f"{offer.name} is in the cache: {kept.path}", flush=True)
            if not (sha256 or offer.has_state):
                print(f"its server gives nothing by which a change shows; remove {folder} to fetch it again")
            return dataclasses.replace(kept, offer=offer)
        with contextlib.suppress(ChangedError):
            return _download(folder, remote, offer, sha256)
        (folder / PARTIAL).unlink(missing_ok=True)
        offer = remote.offer()
    raise NoAnswerError(f"{remote.shown} changes while it is downloaded; try again later")


def _download(folder: pathlib.Path, remote: Remote, offer: Offer, sha256: str) -> Download:
    partial, record = folder / PARTIAL, folder / PARTIAL_RECORD
    is_resumed = partial.exists() and _offer_of(record) == offer
    if not is_resumed:
        partial.unlink(missing_ok=True)
        write_json(record, dataclasses.asdict(offer))
    size = "" if offer.size_bytes is None else f", {offer.size_bytes / 1e6:,.1f} MB"
    print(f"download {offer.name} from {remote.shown}{size}", flush=True)
    try:
        remote.transfer(partial, offer)
        found = _finished(partial, folder / offer.name, offer)
        _check(found, remote, sha256, is_resumed)
    except (NoAnswerError, ChangedError):
        _tidy(folder)
        raise
    except UserError:
        if not partial.exists():
            _tidy(folder)
        raise
    for name in (RECORD, *_archives(folder)):
        (folder / name).unlink(missing_ok=True)
    partial.replace(found.path)
    write_json(folder / RECORD, {**dataclasses.asdict(found), "path": offer.name, "address": remote.shown})
    record.unlink()
    return found


def _archives(folder: pathlib.Path) -> list[str]:
    """Names of the archives of earlier downloads."""
    others = {RECORD, PARTIAL, PARTIAL_RECORD, LOCK}
    return [path.name for path in folder.iterdir() if path.name not in others]


def _finished(partial: pathlib.Path, path: pathlib.Path, offer: Offer) -> Download:
    """What is known of a downloaded file, which is read for its checksums."""
    import google_crc32c

    crc: Any = google_crc32c.Checksum()  # type: ignore[no-untyped-call]
    sha = hashlib.sha256()
    status = partial.stat()
    with partial.open("rb") as file:
        while chunk := file.read(2**20):
            crc.update(chunk)
            sha.update(chunk)
        os.fsync(file.fileno())
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return Download(offer, status.st_size, crc.digest().hex(), sha.hexdigest(), now, status.st_mtime_ns, path)


def _check(found: Download, remote: Remote, sha256: str, is_resumed: bool) -> None:
    """Raise `NoAnswerError` for a file with other checksums than it must have, and remove it.

    A file that an earlier process began is tried once more from its beginning: `ChangedError`.
    """
    crc32c = found.offer.crc32c
    if (not crc32c or found.crc32c == crc32c) and (not sha256 or found.sha256 == sha256):
        return
    (found.path.parent / PARTIAL).unlink()
    if is_resumed:
        raise ChangedError
    if crc32c and found.crc32c != crc32c:
        raise NoAnswerError(
            f"{found.offer.name} of {remote.shown} arrived with checksum {found.crc32c}, its server says "
            f"{crc32c}: it was damaged in transit; try again"
        )
    _check_sha256(found, remote, sha256)


def _check_sha256(found: Download, remote: Remote, sha256: str) -> None:
    if sha256 and found.sha256 != sha256:
        found.path.unlink(missing_ok=True)
        raise NoAnswerError(
            f"{found.offer.name} of {remote.shown} has SHA-256 {found.sha256}, and trainer/datasets.py says "
            f"{sha256}: it is another file than the one that was seen; ask its authors, or pass its address as "
            "source to take it as it is"
        )


def _tidy(folder: pathlib.Path) -> None:
    """Remove the record of a download of which nothing has arrived."""
    partial = folder / PARTIAL
    if not partial.exists() or not partial.stat().st_size:
        partial.unlink(missing_ok=True)
        (folder / PARTIAL_RECORD).unlink(missing_ok=True)


def _folder(root: pathlib.Path, address: str) -> pathlib.Path:
    return root / hashlib.sha256(address.encode()).hexdigest()[:16]


def _offer_of(record: pathlib.Path) -> Offer | None:
    try:
        offer: Offer = read_json(record, "remove it", Offer)
        return offer
    except ContentError:
        return None


def _kept(folder: pathlib.Path) -> Download | None:
    """The archive in a folder of the cache; None if there is none, or if it was changed."""
    try:
        kept = read_json(folder / RECORD, "remove it", _Kept)
        path = folder / kept.path
        status = path.stat()
    except (ContentError, OSError, ValueError):  # ValueError: no file can have the name
        return None
    found = Download(**{name: value for name, value in vars(kept).items() if name != "address"} | {"path": path})
    return found if (status.st_size, status.st_mtime_ns) == (found.size_bytes, found.mtime_ns) else None


@contextlib.contextmanager
def locked(folder: pathlib.Path, other: str) -> Iterator[None]:
    """Makes the folder and keeps other processes from it; at the end removes it if nothing is in it.

    If another process has it, a line says what `other` says of that one. The system ends the lock with the
    process, however it ends.
    """
    with _lock(folder, other):
        try:
            yield
        finally:
            if [path.name for path in folder.iterdir()] == [LOCK]:
                (folder / LOCK).unlink()
                with contextlib.suppress(OSError):  # another process has made its own lock there
                    folder.rmdir()


def _lock(folder: pathlib.Path, other: str) -> IO[str]:
    """The open file of the lock, once this process has it."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            file = (folder / LOCK).open("w")
        except FileNotFoundError:  # the folder was removed just now
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{other}; waiting for it", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        # The process that had the lock may have removed it: then it keeps nobody from the folder.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), (folder / LOCK).stat()):
                return file
        file.close()
