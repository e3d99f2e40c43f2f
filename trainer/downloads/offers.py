"""What a server says about a file without sending it, and the errors of servers that do not send one."""

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


class NoAnswerError(UserError):
    """A server cannot be reached, or does not say or send what it is asked for."""


class ChangedError(Exception):
    """A file is no longer the one that its server offered."""


class CutError(Exception):
    """A transfer ended early; the message is the cause."""


@dataclasses.dataclass(frozen=True)
class Offer:
    """What a server says about a file."""

    name: str
    """A plain file name with the suffix of an archive."""
    size_bytes: int | None
    """None if the server does not say."""
    crc32c: str = ""
    """Checksum of the content, 8 hex digits; only Google's servers say it."""
    etag: str = ""
    """The server's label of this state of the file, or its generation on Cloud Storage."""
    last_modified: str = ""

    @property
    def validator(self) -> str:
        """Value for the header If-Range, which stands for this very content; empty if nothing does."""
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
        """Whether the two cannot describe the same state of a file."""
        fields = ("size_bytes", "crc32c", "etag", "last_modified")
        pairs = [(getattr(self, name), getattr(other, name)) for name in fields]
        return any(mine != its for mine, its in pairs if mine not in (None, "") and its not in (None, ""))


def read_offer(headers: Mapping[str, str], name: str) -> Offer:
    """The offer in the headers of an answer whose body is the whole file."""
    length = headers.get("Content-Length", "")
    return Offer(
        name,
        int(length) if length.isascii() and length.isdigit() else None,
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
    message["Content-Disposition"] = headers.get("Content-Disposition", "")
    names = [posixpath.basename(urllib.parse.unquote(urllib.parse.urlsplit(url).path)) for url in urls]
    try:
        given = message.get_filename("")
    except (TypeError, ValueError):  # Python raises whatever odd parameters lead it to
        given = ""
    name = given or next((each for each in names if is_archive(each)), names[0])
    if not is_archive(name) or not name.isprintable() or name.startswith(".") or set(name) & set("/\\:"):
        raise UserError(
            f"{address}: its file name {shown(name)!r} is not the plain name of an archive "
            f"({', '.join(ARCHIVES)}); give the address of an archive, or download it and pass its path"
        )
    return name
