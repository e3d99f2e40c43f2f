"""The archives that a source or a dataset names by addresses: what their servers say, and their download."""

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
from trainer.downloads.servers import Bucket, Drive, NoAnswerError, Server, Web, checked_addresses, place_of
from trainer.errors import UserError
from trainer.storage import is_archive


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
    allow_http: bool = False
    """Whether servers may lead to addresses without https."""
    row: Published | None = None
    """What is published at these places; None for addresses that a user gives."""
    by_hand: str = ""
    """What a person can do if a public place does not answer; empty for what a dataset's source can be."""

    @property
    def source(self) -> str:
        """Their addresses as one text, for records: without the queries that a user gives, which may be keys."""
        return " ".join(place.address if self.row else place_of(place.address) for place in self.places)


def origin_of(source: str, row: Dataset, allow_http: bool = False) -> Origin | None:
    """The archives that a source names by their addresses; None for a local path or a folder of a bucket.

    Args:
        source: as `FetchConfig.source`; empty for the places of the row.
        row: the dataset.
        allow_http: as `FetchConfig.private_sources`.

    Raises:
        UserError: an address that is not fetched.
    """
    if not source:
        return public(row, allow_http)
    addresses = checked_addresses(source, allow_http)
    is_folder = len(addresses) == 1 and storage.is_remote(source) and not is_archive(source)
    if not addresses or is_folder:
        return None
    return Origin(tuple(Place(each, "") for each in addresses), allow_http)


def public(row: Published, allow_http: bool = False, by_hand: str = "") -> Origin:
    """The archives at the public places of a dataset, or of what else is published; `UserError` if it has none."""
    if not row.places:
        raise UserError("recordings of your own have no public place; give their folder, archive or address")
    return Origin(row.places, allow_http, row, by_hand)


def kept(place: Place, root: pathlib.Path) -> cache.Download | None:
    """The archive of a public place in the cache `root`, if it is there."""
    return cache.find(root, _server(place).address)


def _servers(origin: Origin) -> list[tuple[Place, Server]]:
    return [(place, _server(place, origin.allow_http)) for place in origin.places]


def _server(place: Place, allow_http: bool = False) -> Server:
    if place.address.startswith(storage.REMOTE):
        return Bucket(place.address)
    if place.address.startswith(DRIVE):
        return Drive(place.address, place.name)
    return Web(place.address, place.name, allow_http)


def offers(origin: Origin, root: pathlib.Path | None) -> list[SourceObject]:
    """What the servers say about the archives without sending them, for a fingerprint.

    If a server does not answer, this is what it said about the copy in the cache `root`, if there is one.

    Raises:
        UserError: there is neither.
    """
    said = []
    with _by_hand(origin):
        for place, server in _servers(origin):
            try:
                offer = server.offer()
            except NoAnswerError as error:
                kept = cache.copy_for(cache.find(root, server.address) if root else None, error)
                offer = dataclasses.replace(kept.offer, name=place.name or kept.offer.name)
            said.append(offer.object)
    _check_names([each.name for each in said], origin)
    return said


def fetch(origin: Origin, root: pathlib.Path) -> list[cache.Download]:
    """The archives, downloaded to the cache `root`, or from it if they are there and their servers have no others.

    Raises:
        UserError: one cannot be downloaded; what other archives it has stays there.
    """
    if origin.row and not all(cache.find(root, server.address) for _, server in _servers(origin)):
        for name, text in (("Licence", origin.row.licence), ("Please cite", origin.row.citation)):
            if text:
                print(f"{name}: {text}", flush=True)
    with _by_hand(origin):
        found = [cache.fetch(root, server, place.sha256) for place, server in _servers(origin)]
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
    except (NoAnswerError, storage.UnreachableError, storage.MissingError) as error:
        if origin.row is None:
            raise
        names = ", ".join(place.name for place in origin.places)
        page = f" from {origin.row.homepage}" if origin.row.homepage else ""
        in_folder = f"or download {names} in a browser{page} into a folder, and pass the folder as source"
        raise NoAnswerError(f"{error}; {origin.by_hand or in_folder}") from None
