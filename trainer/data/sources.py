"""Where a dataset comes from: drawn here, published archives, or a folder or an archive, opened alike."""

import abc
import dataclasses
import hashlib
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from trainer.data import sample
from trainer.datasets import Dataset, Origin, cache_folder
from trainer.errors import ConflictError, check
from trainer.io import checksum
from trainer.places import (
    DamagedArchiveError,
    Member,
    Place,
    SourceObject,
    Stored,
    WordPlace,
    open_source,
    opened_files,
)


@dataclasses.dataclass(frozen=True)
class OpenedSource:
    """An opened source: its files, and their digest."""

    name: str
    """Its path or addresses, for messages and the manifest. A key in an address is left out."""
    members: list[Member]
    objects: list[SourceObject]
    """Its files."""
    fingerprint: str


class Source(abc.ABC):
    """A source of a dataset."""

    @abc.abstractmethod
    def fingerprint(self) -> str:
        """A digest (hex) of the names, sizes and checksums of all files, and of the row's `part`.

        It does not depend on where the files are. On Cloud Storage only the listing is read. Other servers are
        asked what they say of a file without sending it. Where they say no checksum, its ETag or date takes the
        place.
        """

    @abc.abstractmethod
    def open(
        self, scratch: pathlib.Path, cache_dir: str | None, when_read: bool = False
    ) -> AbstractContextManager[OpenedSource]:
        """The source while it is open.

        Args:
            scratch: an existing folder for downloads and unpacked tarballs. The caller removes it.
            cache_dir: as in `trainer.data.fetch.fetch_dataset`.
            when_read: as in `open_source`, for whoever reads some of the files alone.
        """

    @contextmanager
    def open_part(
        self, objects: Sequence[SourceObject], fingerprint: str, scratch: pathlib.Path, cache_dir: str | None
    ) -> Iterator[list[Member]]:
        """The members of some objects of the source, while it is open, if it is as it was before.

        Of a folder, here or on Cloud Storage, only these objects are fetched and read. Each that is an archive is
        fetched as a whole, and a tarball is unpacked as a whole. All archives at addresses are downloaded, unless
        they are in the folder for downloads.

        Args:
            objects: some of `OpenedSource.objects`.
            fingerprint: `OpenedSource.fingerprint`.
            scratch: as in `open`.
            cache_dir: as in `open`.

        Raises:
            ConflictError: the source has changed.
            UserError: it cannot be fetched.
        """
        with self.open(scratch, cache_dir) as source:
            _check_same(source, fingerprint)
            yield source.members


def source_of(dataset: str, places: Sequence[Place], private_sources: bool = False) -> Source:
    """The source of a dataset.

    Args:
        dataset: its name.
        places: as `FetchConfig.places`.
        private_sources: as in `FetchConfig`.

    Raises:
        UserError: the dataset is unknown or not public, or an address is not fetched.
    """
    row = Dataset.named(dataset)
    match places:
        case []:
            return _Published(Origin.published(row, private_sources), row.part)
        case [WordPlace()]:
            return _Sample(dataset)
        case [Stored(is_download=False) as place]:
            return _Files(place, row.part)
        case _:
            return _Published(Origin.given(places, private_sources), row.part)


@dataclasses.dataclass(frozen=True)
class _Sample(Source):
    """Generated images. An image is made when it is read."""

    dataset: str

    def fingerprint(self) -> str:
        return sample.fingerprint_sample(self.dataset)

    @contextmanager
    def open(
        self, scratch: pathlib.Path, cache_dir: str | None, when_read: bool = False
    ) -> Iterator[OpenedSource]:
        yield OpenedSource("sample", sample.members(self.dataset), [], self.fingerprint())


@dataclasses.dataclass(frozen=True)
class _Files(Source):
    """A folder or an archive of this machine, or a folder of a bucket."""

    place: Stored
    part: str

    def fingerprint(self) -> str:
        return _fingerprint(self.place.objects(), self.part)

    @contextmanager
    def open(
        self, scratch: pathlib.Path, cache_dir: str | None, when_read: bool = False
    ) -> Iterator[OpenedSource]:
        objects = self.place.objects()
        with open_source(self.place, objects, scratch, when_read) as members:
            yield OpenedSource(str(self.place), members, objects, _fingerprint(objects, self.part))

    @contextmanager
    def open_part(
        self, objects: Sequence[SourceObject], fingerprint: str, scratch: pathlib.Path, cache_dir: str | None
    ) -> Iterator[list[Member]]:
        if self.place.is_local:  # what is fetched from a bucket is compared there
            folder = self.place.local(list(objects), scratch)
            for entry in objects:
                path = folder / entry.name
                check(
                    path.is_file() and checksum(path) == entry.crc32c,
                    f"{path} has changed, or is gone, since the images were listed. Restore it, or begin again",
                    ConflictError,
                )
        with open_source(self.place, list(objects), scratch) as members:
            yield members


@dataclasses.dataclass(frozen=True)
class _Published(Source):
    """Archives that are downloaded."""

    origin: Origin
    part: str

    def fingerprint(self) -> str:
        return _fingerprint(self.origin.offers(cache_folder()), self.part)

    @contextmanager
    def open(
        self, scratch: pathlib.Path, cache_dir: str | None, when_read: bool = False
    ) -> Iterator[OpenedSource]:
        root = cache_folder(cache_dir) or scratch / "download"
        downloads = self.origin.fetch(root)
        objects = [SourceObject(each.offer.name, each.size_bytes, each.crc32c, each.sha256) for each in downloads]
        paths = {each.offer.name: each.path for each in downloads}
        try:
            with opened_files(paths, scratch) as members:
                fingerprint = _fingerprint((each.offer.object for each in downloads), self.part)
                yield OpenedSource(self.origin.source, members, objects, fingerprint)
        except DamagedArchiveError as error:
            for each in downloads:
                if each.offer.name == error.archive:
                    each.forget()
            raise


def _check_same(source: OpenedSource, fingerprint: str) -> None:
    check(
        source.fingerprint == fingerprint,
        f"{source.name} has changed since its images were listed: its fingerprint is {source.fingerprint[:8]}, "
        f"and was {fingerprint[:8]}. Begin again",
        ConflictError,
    )


def _fingerprint(objects: Iterable[SourceObject], part: str) -> str:
    lines = sorted(f"{file.name}\t{file.size_bytes}\t{file.crc32c}\n" for file in objects)
    return hashlib.sha256("".join([*lines, part]).encode()).hexdigest()
