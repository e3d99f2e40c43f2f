"""The folder of downloaded archives: one folder for each address, with the archive and what is known of it.

An interrupted download stays there, and the next one goes on with it, whatever ended the process.
"""

import contextlib
import dataclasses
import datetime
import hashlib
import os
import pathlib
import time
from collections.abc import Iterator
from typing import Any

from filelock import FileLock, Timeout

from trainer.datasets import servers
from trainer.datasets.servers import ChangedFileError, CutError, NoAnswerError, Offer, Server
from trainer.errors import ContentError, MismatchError, PlaceError
from trainer.io import read_json, remove_path, room_bytes, write_json
from trainer.machine import Tracker

VARIABLE = "MSINET_CACHE"
"""Environment variable with the folder. Empty for none."""
DEFAULT = "~/.cache/msinet"
RECORD, PARTIAL, LOCK = "download.json", "partial", "lock"
PARTIAL_RECORD = "partial.json"


@dataclasses.dataclass(frozen=True)
class Download:
    """A downloaded archive, and the content of the file RECORD about it."""

    offer: Offer
    """What its server said about it when it was downloaded."""
    size_bytes: int
    crc32c: str
    md5: str
    sha256: str
    time: str
    """When it was downloaded, ISO 8601."""
    mtime_ns: int
    """Modification time of the file, by which a change is noticed."""
    path: pathlib.Path
    """Where it is. RECORD has its name alone."""

    def forget(self) -> None:
        """Remove an archive that turns out to be damaged, so that the next fetch downloads it again."""
        folder = self.path.parent
        with _locked(folder, f"another process uses {folder}"):
            self.path.unlink(missing_ok=True)
            (folder / RECORD).unlink(missing_ok=True)


def cache_folder(chosen: str | None = None) -> pathlib.Path | None:
    """The folder of the cache: `chosen`, else the one that the environment names. None for no cache.

    Example: `~/.cache/msinet`.

    There is none either if whoever runs this has no home folder, as in some containers.
    """
    folder = os.environ.get(VARIABLE, DEFAULT) if chosen is None else chosen
    with contextlib.suppress(RuntimeError):
        return pathlib.Path(folder).expanduser().absolute() if folder else None
    return None


def find_download(root: pathlib.Path, address: str) -> Download | None:
    """The archive of an address in the cache `root`, if it is there and unchanged."""
    return _kept(_folder(root, address))


def fetch_download(root: pathlib.Path, server: Server, digest: str = "") -> Download:
    """The archive of a server: from the folder `root` if it has the state that is offered, else downloaded.

    If the server does not answer, a copy in `root` is used, and a line says so.

    Raises:
        UserError: it cannot be downloaded, has another digest than `digest` (as `Archive.digest`), or cannot be
            written.
    """
    folder = _folder(root, server.address)
    with used_folder(root, folder, f"another process downloads {server.shown}"):
        return _fetch(folder, server, digest)


@contextlib.contextmanager
def used_folder(root: pathlib.Path, folder: pathlib.Path, other: str) -> Iterator[None]:
    """Make a folder of the cache `root`, and keep other processes from it during the block.

    If another process has it, a line says `other`, such as "another process downloads set.zip. Waiting for it".

    Raises:
        UserError: an `OSError` of the block.
    """
    try:
        with _locked(folder, other):
            yield
    except OSError as error:
        raise PlaceError(
            f"the cache of downloads {root} cannot be used ({error.strerror or error}). Name another folder with "
            f"{VARIABLE}, or none with an empty one"
        ) from None


def copy_for(kept: Download | None, error: NoAnswerError) -> Download:
    """The copy, used for a server that does not answer, with a line that says so. Raises `error` without one."""
    if kept is None:
        raise error
    print(f"{error}. The copy of {kept.time[:10]} in the cache is used", flush=True)
    return kept


def _fetch(folder: pathlib.Path, server: Server, digest: str) -> Download:
    kept = _kept(folder)
    if kept and not _has_digest(kept, digest):
        kept.path.unlink()
        kept = None
    try:
        offer = server.offer()
    except NoAnswerError as error:
        return copy_for(kept, error)
    if kept and dataclasses.replace(kept.offer, name=offer.name) == offer:
        print(f"{offer.name} is in the cache: {kept.path}", flush=True)
        return dataclasses.replace(kept, offer=offer)
    return _download(folder, server, offer, digest)


def _download(folder: pathlib.Path, server: Server, offer: Offer, digest: str) -> Download:
    partial, record = folder / PARTIAL, folder / PARTIAL_RECORD
    if not (partial.exists() and _offer_of(record) == offer):
        partial.unlink(missing_ok=True)
        write_json(record, dataclasses.asdict(offer))
    size = "" if offer.size_bytes is None else f", {offer.size_bytes / 1e6:,.1f} MB"
    print(f"download {offer.name} from {server.shown}{size}", flush=True)
    try:
        _receive(server, offer, partial)
    except ChangedFileError:
        _discard(folder)
        raise
    found = _finished(partial, folder / offer.name, offer)
    if offer.crc32c and found.crc32c != offer.crc32c:
        _discard(folder)
        raise NoAnswerError(
            f"{offer.name} of {server.shown} arrived with checksum {found.crc32c}, its server says "
            f"{offer.crc32c}: it was damaged in transit. Try again"
        )
    if not _has_digest(found, digest):
        _discard(folder)
        raise MismatchError(
            f"{offer.name} of {server.shown} has {_digest(found, digest)}, but {digest} is published: "
            "its authors packed it again, or it was changed on its way. Try another network, or ask them. "
            "To take it as it is, pass the addresses of all archives of the dataset as source"
        )
    for path in folder.iterdir():
        if path.name not in (PARTIAL, LOCK):
            remove_path(path)
    partial.replace(found.path)
    write_json(folder / RECORD, {**dataclasses.asdict(found), "path": offer.name, "address": server.shown})
    return found


def _receive(server: Server, offer: Offer, partial: pathlib.Path) -> None:
    """Write the offered file to `partial`, from where an earlier transfer ended."""
    for attempt in range(servers.ATTEMPTS):
        try:
            _transfer(server, offer, partial)
            return
        except CutError as error:
            cause = error
            if attempt < servers.ATTEMPTS - 1:
                time.sleep(servers.PAUSE_S * 2**attempt)
    raise NoAnswerError(
        f"{server.shown} was not received: {cause}. What has arrived is kept, and the same command goes on"
    )


def _transfer(server: Server, offer: Offer, partial: pathlib.Path) -> None:
    """Make one attempt at `_receive`. Raises `CutError` if the file did not arrive completely."""
    done = partial.stat().st_size if partial.exists() else 0
    if done and done == offer.size_bytes:
        return
    with server.receive(offer, done) as (start, chunks), partial.open("ab") as file:
        file.truncate(start)
        _check_room(server, offer, partial, (offer.size_bytes or start) - start)
        total_mb = None if offer.size_bytes is None else round(offer.size_bytes / 10**6)
        shown_mb = start // 10**6
        with Tracker(f"download {offer.name}", total_mb, "MB", shown_mb) as tracker:
            for chunk in chunks:
                file.write(chunk)
                tracker.advance(file.tell() // 10**6 - shown_mb)
                shown_mb = file.tell() // 10**6
        arrived = file.tell()
    if offer.size_bytes not in (None, arrived):
        raise CutError(f"the connection ended after {arrived} of {offer.size_bytes} bytes")


def _check_room(server: Server, offer: Offer, partial: pathlib.Path, coming_bytes: int) -> None:
    room = room_bytes(partial.parent)
    if coming_bytes > room:
        _discard(partial.parent)
        raise PlaceError(
            f"{offer.name} of {server.shown} takes {coming_bytes / 1e9:.3g} GB more, but {partial.parent} has "
            f"room for {room / 1e9:.3g}. Free some, or set {VARIABLE} to a folder elsewhere"
        )


def _finished(partial: pathlib.Path, path: pathlib.Path, offer: Offer) -> Download:
    """What is known of a downloaded file. It is read for its checksums."""
    import google_crc32c

    crc: Any = google_crc32c.Checksum()  # type: ignore[no-untyped-call]
    md5, sha256 = hashlib.md5(usedforsecurity=False), hashlib.sha256()
    status = partial.stat()
    with partial.open("rb") as file:
        while chunk := file.read(2**20):
            crc.update(chunk)
            md5.update(chunk)
            sha256.update(chunk)
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    digests = crc.digest().hex(), md5.hexdigest(), sha256.hexdigest()
    return Download(offer, status.st_size, *digests, now, status.st_mtime_ns, path)


def _has_digest(found: Download, digest: str) -> bool:
    return not digest or _digest(found, digest) == digest


def _digest(found: Download, published: str) -> str:
    """The digest of a downloaded file, by the algorithm of a published one. Example: `md5:9d7bd2f1e5...`."""
    algorithm = published.partition(":")[0]
    digests = {"md5": found.md5, "sha256": found.sha256}
    return f"{algorithm}:{digests[algorithm]}"


def _discard(folder: pathlib.Path) -> None:
    """Remove what has arrived of a download."""
    (folder / PARTIAL).unlink(missing_ok=True)
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
    """The archive in a folder of the cache. None if there is none, or if it was changed."""
    try:
        recorded: Download = read_json(folder / RECORD, "remove it", Download)
        found = dataclasses.replace(recorded, path=folder / recorded.path)
        status = found.path.stat()
    except (ContentError, OSError):
        return None
    return found if (status.st_size, status.st_mtime_ns) == (found.size_bytes, found.mtime_ns) else None


@contextlib.contextmanager
def _locked(folder: pathlib.Path, other: str) -> Iterator[None]:
    """Make a folder, and lock it. `other` is said if another process has it."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        print(f"{other}. Waiting for it", flush=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
