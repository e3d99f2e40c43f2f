"""What a server says of a file without sending it, and the errors of those who do not send it."""

import base64
import binascii
import dataclasses
import email.message
import posixpath
import urllib.parse
from collections.abc import Mapping

from trainer.artifacts import SourceObject
from trainer.errors import UserError
from trainer.names import ARCHIVES, is_archive
from trainer.text import shown

LONGEST_NAME = 200
"""Bytes; file systems take 255."""
MOST_DIGITS = 20


class NoAnswerError(UserError):
    """A server that cannot be reached, or that does not say or send what it is asked for."""


class ChangedError(Exception):
    """A file that is no longer the one that its server offered."""


class CutError(Exception):
    """A transfer that ended early; the message is the cause."""


@dataclasses.dataclass(frozen=True)
class Offer:
    """What a server says of a file."""

    name: str
    """A plain file name with the suffix of an archive."""
    size_bytes: int | None
    """None if the server does not say."""
    crc32c: str = ""
    """Of the content, 8 hex digits; servers other than Google's do not say it."""
    etag: str = ""
    """The server's label of this state of the file, or a generation on Cloud Storage."""
    last_modified: str = ""

    @property
    def validator(self) -> str:
        """For the header If-Range: what stands for this very content; empty if nothing does."""
        return self.last_modified if self.etag.startswith("W/") else self.etag or self.last_modified

    @property
    def has_state(self) -> bool:
        """Whether the server says anything but the size by which two states of the file differ."""
        return bool(self.crc32c or self.etag or self.last_modified)

    @property
    def object(self) -> SourceObject:
        """The file for a fingerprint. What tells its states apart takes the place of an unknown checksum."""
        size = -1 if self.size_bytes is None else self.size_bytes
        return SourceObject(self.name, size, self.crc32c or self.etag or self.last_modified)

    def contradicts(self, other: "Offer") -> bool:
        """Whether the two cannot be of the same state of a file."""
        fields = ("size_bytes", "crc32c", "etag", "last_modified")
        pairs = [(getattr(self, name), getattr(other, name)) for name in fields]
        return any(
            first != second for first, second in pairs if first not in (None, "") and second not in (None, "")
        )


def read_offer(headers: Mapping[str, str], name: str) -> Offer:
    """The offer in the headers of an answer that has the whole file as its body."""
    length = headers.get("Content-Length", "")
    return Offer(
        name,
        int(length) if length.isascii() and length.isdigit() and len(length) < MOST_DIGITS else None,
        _crc32c(headers.get("x-goog-hash", "")),
        shown(headers.get("ETag", "")),
        shown(headers.get("Last-Modified", "")),
    )


def _crc32c(hashes: str) -> str:
    for each in hashes.split(","):
        kind, _, value = each.strip().partition("=")
        if kind == "crc32c":
            try:
                return base64.b64decode(value, validate=True).hex()
            except binascii.Error:
                return ""
    return ""


def name_of(headers: Mapping[str, str], address: str, *urls: str) -> str:
    """The archive's name: what its server calls it, else the last part of a URL; errors name the `address`.

    Raises:
        UserError: it is not a plain name of an archive.
    """
    message = email.message.Message()
    message["Content-Disposition"] = shown_raw(headers.get("Content-Disposition", ""))
    try:
        given = message.get_filename("")
    except (TypeError, ValueError):  # Python raises whatever odd parameters lead it to
        given = ""
    if not given.isprintable():  # from 3.13 on it takes some of them
        given = ""
    names = [posixpath.basename(urllib.parse.unquote(urllib.parse.urlsplit(url).path)) for url in urls]
    name = given or next((each for each in names if is_archive(each)), names[0])
    return checked_name(name, address)


def shown_raw(text: str) -> str:
    """A header's text without characters that a header cannot have."""
    return "".join(character for character in text if character.isprintable())


def checked_name(name: str, address: str) -> str:
    """`name`; raises `UserError` unless it is a plain file name with the suffix of an archive."""
    is_plain = name.isprintable() and not name.startswith(".") and not set(name) & set("/\\:")
    if not is_plain or len(name.encode()) > LONGEST_NAME:
        raise UserError(
            f"{address} has a file named {shown(name)!r}, which is no plain name; download it yourself, "
            "and pass its path"
        )
    if not is_archive(name):
        what = f"is named {shown(name)!r}" if name else "has no file name"
        raise UserError(
            f"{address}: what is there {what}, which is not the name of an archive "
            f"({', '.join(ARCHIVES)}); give the address of an archive"
        )
    return name
