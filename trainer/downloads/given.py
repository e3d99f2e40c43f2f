"""The addresses that a source names, as a person writes them."""

import re
import urllib.parse

from trainer import storage
from trainer.datasets import DATASETS, DRIVE
from trainer.downloads.addresses import Rule, place_of
from trainer.errors import UserError
from trainer.names import is_archive
from trainer.text import shown

ADDRESSES = ("https://", "http://", DRIVE, storage.REMOTE)
"""How the addresses begin that can be fetched."""
ROW_HTTP = frozenset(
    place.address for row in DATASETS.values() for place in row.places if place.address.startswith("http://")
)
"""Places of the table of datasets that have no https."""


def addresses_in(source: str) -> list[str]:
    """The addresses in a source: one, or several with spaces between them; empty for a local path."""
    parts = source.split()
    if source.startswith(storage.REMOTE) and not all(part.startswith(ADDRESSES) for part in parts):
        return [source]  # names of objects may have spaces
    return parts if any(part.startswith(ADDRESSES) or _scheme(part) for part in parts) else []


def _scheme(text: str) -> str:
    found = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text)
    return found[0] if found else ""


def checked_addresses(source: str, rule: Rule) -> list[str]:
    """The addresses in a source, with `drive:ID` for links to Google Drive; empty for a local path.

    Raises:
        UserError: one of them is not fetched, by what it says; nothing is asked.
    """
    addresses = [_as_drive(each) for each in addresses_in(source)]
    for each in addresses:
        if not each.startswith(ADDRESSES):
            scheme = _scheme(each)
            what = f"addresses that begin with {scheme} are not fetched" if scheme else "this is no address"
            raise UserError(
                f"source {place_of(each)!r}: {what}; give https://, gs:// or {DRIVE}ID, several with spaces "
                "between them, or one local path"
            )
        if each.startswith(DRIVE):
            _check_id(each)
        elif not storage.is_remote(each):
            rule.check(each)
        elif len(addresses) > 1 and not is_archive(each):
            raise UserError(f"source {each} is no archive; of several addresses each must be one")
    return addresses


def _as_drive(address: str) -> str:
    """`drive:ID` of a link that Google Drive gives to share a file; any other address as it is."""
    try:
        parts = urllib.parse.urlsplit(address)
    except ValueError:
        return address  # the rule names it
    if parts.hostname not in ("drive.google.com", "docs.google.com"):
        return address
    found = re.search(r"/file/d/([\w-]+)", parts.path) or re.search(r"(?:^|&)id=([\w-]+)", parts.query)
    if not found:
        raise UserError(f"{place_of(address)} is no link to a file on Google Drive; share an archive")
    return DRIVE + found[1]


def _check_id(address: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_-]{10,}", address.removeprefix(DRIVE)):
        raise UserError(
            f"{shown(address)}: this is no id of a file on Google Drive; write {DRIVE}ID, with the part of its "
            "link behind /d/ or id="
        )
