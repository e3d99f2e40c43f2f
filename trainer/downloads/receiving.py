"""Receive the body of an answer into a file that grows: bounded, from where an earlier transfer ended."""

import dataclasses
import os
import pathlib
import re
import time
from typing import Any

from requests import Response  # type: ignore[import-untyped]
from urllib3.exceptions import HTTPError

from trainer.downloads.offers import ChangedError, CutError, NoAnswerError, Offer, read_offer
from trainer.errors import UserError
from trainer.progress import Tracker
from trainer.storage import MEGABYTE, room_bytes
from trainer.text import shown

MOST_BYTES = 200 * 10**9
"""Largest file that is fetched; the largest archive of the table of datasets has 5 GB."""
CHUNK_BYTES = 2**18
SLOW_S, SLOW_BYTES = 300.0, 100_000
"""A transfer of fewer bytes in this time counts as cut."""
SIGNATURES = {".zip": (b"PK\x03\x04", b"PK\x05\x06"), ".gz": (b"\x1f\x8b",), ".tgz": (b"\x1f\x8b",)}
"""Suffix -> how such a file begins."""
MARKUP = (b"<!doctype", b"<html", b"<?xml", b"<head", b"<script")


@dataclasses.dataclass
class Partial:
    """A file that is being received."""

    path: pathlib.Path
    address: str
    """For messages."""
    offer: Offer
    tracker: Tracker
    shown_mb: int = 0

    @property
    def size_bytes(self) -> int:
        """How much of it has arrived."""
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def is_whole(self) -> bool:
        """Whether as much has arrived as was offered."""
        return self.offer.size_bytes is not None and self.size_bytes == self.offer.size_bytes

    def show(self, size_bytes: int) -> None:
        """Show how much has arrived."""
        self.tracker.advance(size_bytes // MEGABYTE - self.shown_mb)
        self.shown_mb = size_bytes // MEGABYTE

    def check_room(self, coming_bytes: int) -> int:
        """The number of bytes that may come; raises `UserError` if `coming_bytes` is more."""
        name = shown(self.offer.name)
        if self.size_bytes + coming_bytes > MOST_BYTES:
            raise UserError(
                f"{name} of {self.address} has more than {MOST_BYTES / 1e9:g} GB, the most that is fetched"
            )
        free = room_bytes(self.path.parent)
        if coming_bytes > free:
            raise UserError(
                f"{name} of {self.address} takes {coming_bytes / 1e9:.3g} GB more, but {self.path.parent} "
                f"has room for {free / 1e9:.3g}; free some, or set MSINET_CACHE to a folder elsewhere"
            )
        return min(free, MOST_BYTES - self.size_bytes)


def receive(partial: Partial, response: Response) -> None:
    """Write the body of an answer, 200 or 206, behind what has arrived; a 200 that has all of it starts anew.

    Raises:
        CutError: the body ended early.
        ChangedError: the answer is of another state of the file than the offer.
        NoAnswerError: the body is not an archive of the offered kind.
        UserError: there is no room for it, or it does not end.
    """
    is_rest = response.status_code == 206
    _check_same(partial, response, is_rest)
    offset = partial.size_bytes if is_rest else 0
    if not is_rest:
        _remove(partial.path)
        partial.show(0)
    expected = None if partial.offer.size_bytes is None else partial.offer.size_bytes - offset
    if expected is None:
        expected = read_offer(response.headers, partial.offer.name).size_bytes
    most = partial.check_room(expected or 0)
    try:
        arrived = _write(partial, response, offset, most)
    except UserError:
        _remove(partial.path)
        raise
    except OSError as error:  # of the file; urllib3 has its own errors for the connection
        _remove(partial.path)
        raise UserError(
            f"cannot write {partial.path} ({error.strerror}); set MSINET_CACHE to a folder on another disk"
        ) from None
    except HTTPError as error:
        raise _cut(partial, offset, expected) from error
    if expected is not None and arrived > expected:
        raise ChangedError
    if expected is not None and arrived != expected:
        raise _cut(partial, offset, expected)


def _cut(partial: Partial, offset: int, expected: int | None) -> CutError:
    total = "" if expected is None else f" of {offset + expected}"
    return CutError(f"the connection ended after {partial.size_bytes}{total} bytes")


def _remove(path: pathlib.Path) -> None:
    path.unlink(missing_ok=True)


def _check_same(partial: Partial, response: Response, is_rest: bool) -> None:
    answered = read_offer(response.headers, partial.offer.name)
    if is_rest:
        found = re.fullmatch(r"bytes (\d{1,20})-\d{1,20}/(\d{1,20}|\*)", response.headers.get("Content-Range", ""))
        if not found or int(found[1]) != partial.size_bytes:
            raise ChangedError
        total = None if found[2] == "*" else int(found[2])
        answered = dataclasses.replace(answered, size_bytes=total)
    if answered.contradicts(partial.offer):
        raise ChangedError


def _write(partial: Partial, response: Response, offset: int, most: int) -> int:
    """Write the body; the number of its bytes."""
    arrived, window_start, window_bytes = 0, time.monotonic(), 0
    raw: Any = response.raw
    with partial.path.open("ab") as file:
        while chunk := raw.read1(CHUNK_BYTES, decode_content=False):
            if offset + arrived == 0:
                check_kind(chunk, partial.offer.name, partial.address)
            arrived += len(chunk)
            if arrived > most:
                raise UserError(
                    f"{shown(partial.offer.name)} of {partial.address} does not end: {arrived / 1e9:.3g} "
                    "GB have arrived, and there is no room for more; look at the address in a browser"
                )
            file.write(chunk)
            partial.show(offset + arrived)
            window_bytes += len(chunk)
            if time.monotonic() - window_start > SLOW_S:
                if window_bytes < SLOW_BYTES:
                    file.flush()
                    os.fsync(file.fileno())
                    raise HTTPError("too slow")
                window_start, window_bytes = time.monotonic(), 0
    return arrived


def check_kind(begin: bytes, name: str, address: str) -> None:
    """Raise `NoAnswerError` unless a file that begins with `begin` can be the archive `name`."""
    if begin.lstrip(b"\xef\xbb\xbf \t\r\n")[:64].lower().startswith(MARKUP):
        raise page_instead(name, address)
    suffix = pathlib.PurePosixPath(name.lower()).suffix
    known = SIGNATURES.get(suffix, (b"",))
    # A chunk may be shorter than a signature.
    if not any(begin.startswith(each[: len(begin)]) for each in known):
        raise NoAnswerError(
            f"what {address} sends is no {suffix} archive: it begins with "
            f"{begin[:8]!r}; look at the address in a browser"
        )


def page_instead(name: str, address: str) -> NoAnswerError:
    """The error about a server that sends a web page."""
    return NoAnswerError(
        f"{address} answers with a web page instead of {shown(name) or 'an archive'}: it wants a login, "
        "the network does, or this is the address of a page; open it in a browser"
    )
