"""The addresses that a source names, what their servers say of them, and their archives."""

import collections
import dataclasses
import pathlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from trainer import storage
from trainer.artifacts import SourceObject
from trainer.datasets import DRIVE, Dataset, Place
from trainer.downloads import cache
from trainer.downloads.addresses import RefusedError, Rule, place_of
from trainer.downloads.bucket import Bucket
from trainer.downloads.drive import Drive
from trainer.downloads.given import ROW_HTTP, checked_addresses
from trainer.downloads.offers import NoAnswerError
from trainer.downloads.web import Web
from trainer.errors import UserError
from trainer.names import is_archive


class Published(Protocol):
    """Archives at public places, such as a dataset's: whose they are, and under which terms."""

    @property
    def places(self) -> tuple[Place, ...]:
        """Where they are."""

    @property
    def licence(self) -> str:
        """Terms of use."""

    @property
    def citation(self) -> str:
        """The publication to cite."""

    @property
    def homepage(self) -> str:
        """Page of their authors."""


@dataclasses.dataclass(frozen=True)
class Origin:
    """The archives at the addresses of one source."""

    places: tuple[Place, ...]
    rule: Rule
    row: Published | None = None
    """What is published at these places; None for addresses that a user gives."""
    by_hand: str = ""
    """What a person can do if a public place does not answer; empty for what a dataset's source can be."""

    @property
    def source(self) -> str:
        """Their addresses as one text, for records: without the queries that a user gives, which may be keys."""
        return " ".join(place.address if self.row else place_of(place.address) for place in self.places)


def origin_of(source: str, row: Dataset, private: bool = False) -> Origin | None:
    """The archives that a source names by their addresses; None for a local path or a folder of a bucket.

    Args:
        source: as `FetchConfig.source`; empty for the places of the row.
        row: the dataset.
        private: whether http and addresses of private networks are allowed.

    Raises:
        UserError: an address that is not fetched.
    """
    if not source:
        return public(row, private)
    rule = Rule(private, ROW_HTTP)
    addresses = checked_addresses(source, rule)
    is_folder = len(addresses) == 1 and storage.is_remote(source) and not is_archive(source)
    return Origin(tuple(Place(each, "") for each in addresses), rule) if addresses and not is_folder else None


def public(row: Published, private: bool = False, by_hand: str = "") -> Origin:
    """The archives at the public places of a dataset, or of what else is published; `UserError` if it has none."""
    if not row.places:
        raise UserError("recordings of your own have no public place; give their folder, archive or address")
    return Origin(row.places, Rule(private, ROW_HTTP), row, by_hand)


def kept(place: Place, root: pathlib.Path) -> cache.Download | None:
    """What the cache `root` has of a public place."""
    return cache.find(root, _remote(place, Rule(http=ROW_HTTP)).address)


def _remotes(origin: Origin) -> list[tuple[Place, cache.Remote]]:
    return [(place, _remote(place, origin.rule)) for place in origin.places]


def _remote(place: Place, rule: Rule) -> cache.Remote:
    if place.address.startswith(storage.REMOTE):
        return Bucket(place.address)
    kind = Drive if place.address.startswith(DRIVE) else Web
    return kind(place.address, rule, place.name)


def offers(origin: Origin, root: pathlib.Path | None) -> list[SourceObject]:
    """What the servers say of the archives, without sending them, for a fingerprint.

    Of a server that does not answer, this is what it said of the copy in the cache `root`, if there is one.

    Raises:
        UserError: there is neither.
    """
    said = []
    with _by_hand(origin):
        for place, remote in _remotes(origin):
            try:
                offer = remote.offer()
            except NoAnswerError as error:
                kept = cache.instead(cache.find(root, remote.address) if root else None, error)
                offer = dataclasses.replace(kept.offer, name=place.name or kept.offer.name)
            said.append(offer.object)
    _check_names([each.name for each in said], origin)
    return said


def fetch(origin: Origin, root: pathlib.Path) -> list[cache.Download]:
    """The archives, downloaded to the cache `root`, or from it if they are there and their servers have no others.

    Raises:
        UserError: one cannot be downloaded; what other archives it has stays there.
    """
    if origin.row and not all(cache.find(root, remote.address) for _, remote in _remotes(origin)):
        for name, text in (("Licence", origin.row.licence), ("Please cite", origin.row.citation)):
            if text:
                print(f"{name}: {text}", flush=True)
    with _by_hand(origin):
        found = [cache.fetch(root, remote, place.sha256) for place, remote in _remotes(origin)]
    _check_names([each.offer.name for each in found], origin)
    return found


def _check_names(names: Sequence[str], origin: Origin) -> None:
    name, count = collections.Counter(names).most_common(1)[0]
    if count > 1:
        raise UserError(
            f"{origin.source}: {count} archives have the name {name}; download them, rename one, and pass "
            "their folder"
        )


@contextmanager
def _by_hand(origin: Origin) -> Iterator[None]:
    """Add to an error about a public place what a person can do."""
    try:
        yield
    except (NoAnswerError, RefusedError, storage.UnreachableError, storage.MissingError) as error:
        if origin.row is None:
            raise
        names = ", ".join(place.name for place in origin.places)
        page = f" from {origin.row.homepage}" if origin.row.homepage else ""
        in_folder = f"or download {names} in a browser{page} into a folder, and pass the folder as source"
        raise NoAnswerError(f"{error}; {origin.by_hand or in_folder}") from None
