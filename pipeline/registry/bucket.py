"""A model registry in a bucket of Cloud Storage, which several machines may write.

A version exists once its VERSION has content. The object is created empty, which claims the number, and gets its
content last, only if nobody has touched it since. So readers never see half a version, two writers never share a
number, and the claim of a killed writer is withdrawn, with its files, by the next one.
"""

import dataclasses
import functools
import json
import pathlib
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Self

from pipeline.registry import staging
from pipeline.registry.address import check_bucket
from pipeline.registry.lock import Lock
from pipeline.registry.numbered import DAMAGED, Models, NumberedRegistry
from pipeline.registry.versions import Version, files_of
from trainer import generations, records, storage
from trainer.artifacts import ALIASES, SAVED_MODEL, VERSION_EXTRA, WEIGHTS
from trainer.files import parse_json
from trainer.folder import Folder
from trainer.generations import ChangedError
from trainer.models.registry_layout import VERSION, is_claim, model_at

FILE_OF_VERSION = re.compile(r"(\d+)/(.+)")


@dataclasses.dataclass(frozen=True)
class BucketRegistry(NumberedRegistry):
    """A registry at a `gs://` address."""

    root: str

    @classmethod
    def at(cls, location: str) -> Self:
        """The registry at gs://BUCKET/FOLDER; raises `UserError` for a malformed address."""
        check_bucket("registry", location)
        return cls(location.rstrip("/"))

    @property
    def address(self) -> str:
        """As `NumberedRegistry`."""
        return self.root

    def aliases(self, name: str) -> dict[str, int]:
        """As `Registry`."""
        return self._aliases(name)[0]

    @functools.cached_property
    def _client(self) -> Any:
        return storage.client(write=True)

    def _aliases(self, name: str) -> tuple[dict[str, int], int]:
        """The aliases, and the generation of their object."""
        address = f"{self.root}/{name}/{ALIASES}"
        content, generation = generations.read(address, self._client)
        return parse_json(content, address, DAMAGED, records.Aliases) if generation else {}, generation

    def _files(self, name: str) -> dict[int, dict[str, int]]:
        """Number of each version, also of those that are being written -> name of a file below it -> its size."""
        prefix = f"{storage.split(self.root)[1]}/{name}/".removeprefix("/")
        found: dict[int, dict[str, int]] = {}
        for blob in storage.list_blobs(self.root, prefix, connected=self._client):
            if match := FILE_OF_VERSION.fullmatch(blob.name.removeprefix(prefix)):
                found.setdefault(int(match[1]), {})[match[2]] = blob.size
        return found

    def _models(self, name: str) -> Models:
        return {
            number: {path.removeprefix(f"{VERSION_EXTRA}/") for path in sizes}
            for number, sizes in self._files(name).items()
            if not is_claim(sizes)
        }

    def _folder(self, place: str) -> pathlib.Path:
        return staging.mounted(place)

    def _readable(self, version: Version) -> Version:
        return dataclasses.replace(version, model=staging.fetch(version.place))

    def _record(self, place: str, remedy: str) -> dict[str, Any]:
        address = f"{model_at(place)}/{VERSION}"
        return dict(parse_json(storage.read_object(address, self._client), address, remedy, records.Version))

    def _checksum(self, place: str) -> str:
        objects = storage.list_objects(model_at(place))
        return next(entry.crc32c for entry in objects if entry.name == WEIGHTS)

    def _locked(self, name: str) -> Lock:
        return Lock(f"{self.root}/{name}/.lock", self._client)

    def _write(
        self, name: str, model: pathlib.Path, evaluation: pathlib.Path | None, record: Mapping[str, Any]
    ) -> int:
        earlier = self._files(name)
        # Above the claims of killed writers too, one of which may only have been stopped.
        number = max(earlier, default=0) + 1
        place = self._place(name, number)
        claim = generations.replace(f"{model_at(place)}/{VERSION}", b"", 0, self._client)
        try:
            for left in (left for left, sizes in earlier.items() if is_claim(sizes)):
                self._withdraw(self._place(name, left))
            staging.copy(place, model / SAVED_MODEL, files_of(model, evaluation), self._client)
            content = staging.content({"version": number, **record})
            generations.replace(f"{model_at(place)}/{VERSION}", content, claim, self._client)
        except BaseException:
            with suppress(Exception):  # the next writer tries again
                self._withdraw(place)
            raise
        return number

    def _withdraw(self, place: str) -> None:
        """Remove the claim and the files of a version, unless it is complete meanwhile."""
        version = f"{model_at(place)}/{VERSION}"
        content, generation = generations.read(version, self._client)
        if content:
            return
        # From here on its writer cannot complete it.
        with suppress(ChangedError):
            generations.replace(version, b"", generation, self._client)
            addresses = [address for address, _ in storage.find_objects(place) if address != version]
            for address in (*addresses, version):
                with suppress(storage.MissingError), storage.explained(address, write=True):
                    storage.blob_at(address, self._client).delete(retry=storage.retry())

    def _point(self, name: str, version: int, choose: Callable[[Mapping[str, int]], str]) -> str:
        while True:
            aliases, generation = self._aliases(name)
            alias = choose(aliases)
            content = json.dumps({**aliases, alias: version}, indent=2) + "\n"
            with suppress(ChangedError):
                generations.replace(f"{self.root}/{name}/{ALIASES}", content.encode(), generation, self._client)
                return alias

    def _probe(self, name: str) -> None:
        Folder(f"{self.root}/{name}").check_writable()
