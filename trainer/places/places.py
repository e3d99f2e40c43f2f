"""Places: what kind a text names is decided here, once, where a flag or a parameter enters.

`stored_at` makes the place of files, `source_places` the places of a source of data, `place_of` any place. Whoever
gets a place calls its methods, and does not ask for its kind. Amazon's S3 would be one more class beside
`BucketPlace`, and one more line in `stored_at`.
"""

import os
import re
import urllib.parse
from collections.abc import Collection

from trainer.errors import SettingError, check
from trainer.io import StrPath
from trainer.places.abstract_place import Place, Stored
from trainer.places.bucket_place import BucketPlace
from trainer.places.buckets import REMOTE
from trainer.places.local_place import LocalPlace
from trainer.texts import shown

DRIVE = "drive:"
"""Prefix of the address of a file on Google Drive, before the file's ID."""
DRIVE_HOSTS = ("drive.google.com", "docs.google.com")
"""Hosts of Google Drive. A link has an ID in its query, and messages name the archive by it."""
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=://)")


class WordPlace(Place):
    """A word that stands for a place. Example: `sample`, for images that are drawn."""


class DrivePlace(Place):
    """An archive on Google Drive. Example: `drive:1g8j-hTT-51IG1UF`. The ID follows `/d/` or `id=` in its link."""

    @property
    def is_download(self) -> bool:
        return True

    @property
    def host(self) -> str:
        return "Google Drive"

    @property
    def drive_id(self) -> str:
        """The ID of the file."""
        return self.text.removeprefix(DRIVE)

    @property
    def page(self) -> str:
        """The page from which a person downloads it."""
        return f"https://drive.google.com/file/d/{self.drive_id}/view"


class WebPlace(Place):
    """An archive at a web address. Example: `https://h.org/set.zip?key=secret`, shown as `https://h.org/set.zip`."""

    @property
    def shown(self) -> str:
        return shown(without_query(self.text))

    @property
    def is_download(self) -> bool:
        return True

    @property
    def host(self) -> str:
        return self.text.partition("://")[2].partition("/")[0]

    def check(self, allow_http: bool = False) -> None:
        """Raise `UserError` unless it is https, or http where that is allowed, and has no password."""
        check_characters(self.text, self.shown)
        try:
            parts = urllib.parse.urlsplit(self.text)
            host = parts.hostname
        except ValueError as error:
            raise SettingError(f"{self.shown} is no address ({error}). Check it") from None
        check(
            host not in DRIVE_HOSTS,
            f"{self.shown} is no link to a file on Google Drive. Share an archive",
            SettingError,
        )
        check(
            parts.scheme in ("https", "http") and bool(host),
            f"source {self.shown!r} is no address that can be fetched. Give https://, gs:// or {DRIVE}ID, several "
            "with spaces between them, or one local path",
            SettingError,
        )
        check(
            "@" not in parts.netloc,
            f"the address of {host} has a password, which would be recorded. Download it",
            SettingError,
        )
        check(
            parts.scheme == "https" or allow_http,
            f"{self.shown}: http is fetched only with private_sources=true. Use an https:// address",
            SettingError,
        )


def stored_at(text: StrPath) -> Stored:
    """The folder or file at a path or a `gs://` address. Example: `models`, or `gs://bucket/models`."""
    written = os.fspath(text)
    return BucketPlace(written) if written.startswith(REMOTE) else LocalPlace(written)


def place_of(text: str, words: Collection[str] = ()) -> Place:
    """The place that a text names: one of `words`, an address, or else a path.

    A link to Google Drive, such as `https://drive.google.com/file/d/ID/view`, becomes `drive:ID`.
    """
    if text in words:
        return WordPlace(text)
    if text.startswith(DRIVE):
        return DrivePlace(text)
    place = stored_at(text)
    if isinstance(place, LocalPlace) and (scheme := SCHEME.match(text)):
        return _on_drive(text) or WebPlace(scheme[0].lower() + text[scheme.end() :])
    return place


def source_places(text: str, words: Collection[str] = ()) -> list[Place]:
    """The places in the text of a source: one, or several addresses with spaces between them. None if it is empty.

    Example: `a b` is one folder, `gs://bucket/two words.zip` one archive, and `https://h.org/a.zip drive:ID` two.
    Nothing is checked. Beside an address, what is no address becomes a `WebPlace`, which `check` refuses.
    """
    whole = place_of(text, words)
    parts = [place_of(part) for part in text.split()]
    is_local = [isinstance(part, LocalPlace) for part in parts]
    if not parts or all(is_local):
        return [whole] if parts else []
    if isinstance(whole, BucketPlace) and any(is_local):
        return [whole]  # names of objects may have spaces
    return [WebPlace(part.text) if local else part for part, local in zip(parts, is_local, strict=True)]


def _on_drive(link: str) -> DrivePlace | None:
    """The file that a link to Google Drive names. None for any other address."""
    try:
        parts = urllib.parse.urlsplit(link)
        host = parts.hostname
    except ValueError:
        return None
    found = re.search(r"/file/d/([\w-]+)", parts.path) or re.search(r"(?:^|&)id=([\w-]+)", parts.query)
    return DrivePlace(DRIVE + found[1]) if found and host in DRIVE_HOSTS and not _is_odd(link) else None


def _is_odd(url: str) -> bool:
    return any(character.isspace() or not character.isprintable() or character == "\\" for character in url)


def check_characters(url: str, where: str) -> None:
    """Raise `UserError` for characters that programs read differently, such as a backslash before the host."""
    check(not _is_odd(url), f"{where}: the address has characters that none may have. Check it", SettingError)


def without_queries(text: str) -> str:
    """Any text with the addresses in it as `WebPlace.shown` leaves them. An address ends at a blank.

    It is for addresses that nobody knows in advance, such as a redirect's.
    """
    return re.sub(r"\S+", lambda match: without_query(match[0]) if "://" in match[0] else match[0], text)


def without_query(url: str) -> str:
    """An address without query, fragment and password, and without the password of an address in its path.

    Example: `https://h.org/a.zip` for `https://me:secret@h.org/a.zip?key=secret`.
    """
    return re.sub(r"//[^/]*@", "//", re.split(r"[?#]", url, maxsplit=1)[0])
