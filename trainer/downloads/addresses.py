"""The addresses that a source names, as a person writes them, and how they are shown in messages and records."""

import re
import urllib.parse

from trainer import storage
from trainer.datasets import DATASETS, DRIVE
from trainer.errors import UserError, check
from trainer.names import is_archive
from trainer.text import shown

ADDRESSES = ("https://", "http://", DRIVE, storage.REMOTE)
"""Beginnings of the addresses that can be fetched."""
TABLE_HTTP = frozenset(
    place.address for row in DATASETS.values() for place in row.places if place.address.startswith("http://")
)
"""Addresses in the table of datasets whose servers have no https."""


def addresses_in(source: str) -> list[str]:
    """The addresses in a source: one, or several with spaces between them; empty for a local path."""
    parts = source.split()
    if source.startswith(storage.REMOTE) and not all(part.startswith(ADDRESSES) for part in parts):
        return [source]  # names of objects may have spaces
    return parts if any(part.startswith(ADDRESSES) or _scheme(part) for part in parts) else []


def _scheme(text: str) -> str:
    found = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text)
    return found[0] if found else ""


def checked_addresses(source: str, allow_http: bool = False) -> list[str]:
    """The addresses in a source, with `drive:ID` for links to Google Drive; empty for a local path.

    Args:
        source: as `FetchConfig.source`.
        allow_http: as `FetchConfig.private_sources`.

    Raises:
        UserError: an address cannot be fetched, judged by its text; no server is asked.
    """
    addresses = [_as_drive(each) for each in addresses_in(source)]
    for each in addresses:
        if each.startswith(DRIVE):
            is_id = re.fullmatch(r"[A-Za-z0-9_-]{10,}", each.removeprefix(DRIVE))
            check(
                bool(is_id),
                f"{shown(each)} has no id of a file on Google Drive; write {DRIVE}ID, or its whole link",
            )
        elif storage.is_remote(each):
            check(
                len(addresses) == 1 or is_archive(each),
                f"source {each} is no archive; of several addresses each must be one",
            )
        else:
            _check_web(each, allow_http)
    return addresses


def _check_web(address: str, allow_http: bool) -> None:
    """Raise `UserError` unless an address is https, or http where that is allowed, and has no password."""
    where = place_of(address)
    check_characters(address, where)
    try:
        parts = urllib.parse.urlsplit(address)
        host = parts.hostname
    except ValueError as error:
        raise UserError(f"{where} is no address ({error}); check it") from None
    check(
        parts.scheme in ("https", "http") and bool(host),
        f"source {where!r} is no address that can be fetched; give https://, gs:// or {DRIVE}ID, several with "
        "spaces between them, or one local path",
    )
    check("@" not in parts.netloc, f"the address of {host} has a password, which would be recorded; download it")
    check(
        parts.scheme == "https" or allow_http or address in TABLE_HTTP,
        f"{where}: http is fetched only with private_sources=true; use an https:// address",
    )


def check_characters(url: str, where: str) -> None:
    """Raise `UserError` for characters that programs read differently, such as a backslash before the host."""
    if any(character.isspace() or not character.isprintable() or character == "\\" for character in url):
        raise UserError(f"{where}: the address has characters that none may have; check it")


def _as_drive(address: str) -> str:
    """`drive:ID` for a link that Google Drive gives to share a file; any other address as it is."""
    try:
        parts = urllib.parse.urlsplit(address)
    except ValueError:
        return address  # `_check_web` names it
    if parts.hostname not in ("drive.google.com", "docs.google.com"):
        return address
    found = re.search(r"/file/d/([\w-]+)", parts.path) or re.search(r"(?:^|&)id=([\w-]+)", parts.query)
    if not found:
        raise UserError(f"{place_of(address)} is no link to a file on Google Drive; share an archive")
    return DRIVE + found[1]


def drive_link(address: str) -> str:
    """The page from which a person downloads `drive:ID`."""
    return f"https://drive.google.com/file/d/{address.removeprefix(DRIVE)}/view"


def place_of(url: str) -> str:
    """An address for messages and records, without its query, which may be a key, and without a password."""
    plain = re.sub(r"^(\w+://)[^/?#]*@", r"\1", url)
    return shown(re.split(r"[?#]", plain, maxsplit=1)[0])


def without_queries(text: str) -> str:
    """Any text with its web addresses cut before their queries, which may be keys."""
    return re.sub(r"(https?://[^\s?\"'<>]+)\?[^\s\"<>]*", r"\1", text)
