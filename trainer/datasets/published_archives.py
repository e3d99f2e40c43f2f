"""The archives that a source or a dataset names by addresses: what their servers say, and their download."""

import collections
import dataclasses
import pathlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, Self

from trainer.datasets import cache
from trainer.datasets.servers import NoAnswerError, Server, server_of
from trainer.datasets.table import DATASETS, Archive
from trainer.errors import AmbiguousError, SettingError, UnreachableError
from trainer.places import MissingError, Place, SourceObject

IN_TABLE = frozenset(archive.address for row in DATASETS.values() for archive in row.archives)
"""Addresses in the table of datasets: the servers of some have no https."""


class Published(Protocol):
    """Archives at public addresses, such as a dataset's: who has made them, and under which terms."""

    @property
    def archives(self) -> tuple[Archive, ...]:
        """Their addresses."""

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

    archives: tuple[Archive, ...]
    allow_http: bool = False
    """Whether servers may lead to addresses without https."""
    row: Published | None = None
    """Who publishes the archives. None for addresses that a user gives."""
    by_hand: str = ""
    """What a person can do if a public address does not answer. Empty to pass a folder as source."""

    @staticmethod
    def check(places: Sequence[Place], allow_http: bool = False) -> None:
        """Raise `UserError` for an address that is not fetched, judged by its text. No server is asked.

        Args:
            places: of a source.
            allow_http: as `FetchConfig.private_sources`.
        """
        for each in places:
            each.check(allow_http or str(each) in IN_TABLE)

    @classmethod
    def published(cls, row: Published, allow_http: bool = False, by_hand: str = "") -> Self:
        """The archives that a dataset's authors, or somebody else, publish. Raises `UserError` without any."""
        if not row.archives:
            raise SettingError("your own recordings are not public. Give their folder, archive or address")
        return cls(row.archives, allow_http, row, by_hand)

    @classmethod
    def given(cls, places: Sequence[Place], allow_http: bool = False) -> Self:
        """The archives at the addresses that a user gives as a source.

        Raises:
            UserError: an address that is not fetched, judged by its text.
        """
        cls.check(places, allow_http)
        return cls(tuple(Archive(str(each), "") for each in places), allow_http)

    @property
    def source(self) -> str:
        """Their addresses as one text, for records: without the queries that a user gives, which may be keys.

        Example: `https://h.org/a.zip drive:ID`.
        """
        return " ".join(each.address if self.row else each.place.shown for each in self.archives)

    @property
    def servers(self) -> list[Server]:
        """The server of each archive."""
        return [server_of(archive.place, archive.name, self.allow_http) for archive in self.archives]

    @staticmethod
    def kept(archive: Archive, root: pathlib.Path) -> cache.Download | None:
        """The copy of a public archive in the cache `root`, if it is there."""
        return cache.find_download(root, server_of(archive.place).address)

    def offers(self, root: pathlib.Path | None) -> list[SourceObject]:
        """What the servers say about the archives without sending them, for a fingerprint.

        If a server does not answer, this is what it said about the copy in the cache `root`, if there is one.

        Raises:
            UserError: there is neither.
        """
        said = []
        with _by_hand(self):
            for archive, server in zip(self.archives, self.servers, strict=True):
                try:
                    offer = server.offer()
                except NoAnswerError as error:
                    copy = cache.copy_for(cache.find_download(root, server.address) if root else None, error)
                    offer = dataclasses.replace(copy.offer, name=archive.name or copy.offer.name)
                said.append(offer.object)
        return said

    def fetch(self, root: pathlib.Path) -> list[cache.Download]:
        """Download the archives to the cache `root`. One that is there is used if its server has no other.

        Raises:
            UserError: one cannot be downloaded. The others stay in the cache.
        """
        servers = self.servers
        if self.row and not all(cache.find_download(root, server.address) for server in servers):
            for name, text in (("Licence", self.row.licence), ("Please cite", self.row.citation)):
                if text:
                    print(f"{name}: {text}", flush=True)
        with _by_hand(self):
            downloads = [
                cache.fetch_download(root, server, archive.digest)
                for archive, server in zip(self.archives, servers, strict=True)
            ]
        name, count = collections.Counter(each.offer.name for each in downloads).most_common(1)[0]
        if count > 1:
            raise AmbiguousError(
                f"{self.source}: {count} archives have the name {name}. Download them, rename one, and pass "
                "their folder"
            )
        return downloads


@contextmanager
def _by_hand(origin: Origin) -> Iterator[None]:
    """Add to an error about a public address what a person can do."""
    try:
        yield
    except (NoAnswerError, UnreachableError, MissingError) as error:
        if origin.row is None:
            raise
        names = ", ".join(archive.name for archive in origin.archives)
        page = f" from {origin.row.homepage}" if origin.row.homepage else ""
        in_folder = f"Or download {names} in a browser{page} into a folder, and pass the folder as source"
        raise NoAnswerError(f"{error}. {origin.by_hand or in_folder}") from None
