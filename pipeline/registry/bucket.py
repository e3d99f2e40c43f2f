"""A model registry in a bucket of Cloud Storage, which several machines may write.

A version exists once its VERSION has content. The object is created empty, which claims the number, and gets its
content last. So readers never see half a version, and two writers never share a number. What a killed writer left
is no version; its number is not used again, and its folder can be removed.
"""

import dataclasses
import functools
import json
import pathlib
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Self

from pipeline.registry import staging
from pipeline.registry.address import check_bucket
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
        """Path or address of the folder of all models."""
        return self.root

    def aliases(self, name: str) -> dict[str, int]:
        """The number of the version that each alias names; see `Registry.aliases`."""
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

    def _locked(self, name: str) -> AbstractContextManager[object]:
        """Do nothing: each write names the generation that it replaces, so two writers do not mix."""
        return nullcontext()

    def _write(
        self, name: str, model: pathlib.Path, evaluation: pathlib.Path | None, record: Mapping[str, Any]
    ) -> int:
        number, claim = self._claim(name)
        place = self._place(name, number)
        try:
            staging.copy(place, model / SAVED_MODEL, files_of(model, evaluation), self._client)
            content = staging.content({"version": number, **record})
            generations.replace(f"{model_at(place)}/{VERSION}", content, claim, self._client)
        except BaseException:
            with suppress(Exception):  # what is left is no version; a complete one is left alone
                generations.replace(f"{model_at(place)}/{VERSION}", b"", claim, self._client)
                self._remove(place)
            raise
        return number

    def _claim(self, name: str) -> tuple[int, int]:
        """The next number, which no other writer can have now, and the generation of its empty VERSION."""
        number = max(self._files(name), default=0) + 1
        while True:
            with suppress(ChangedError):
                address = f"{model_at(self._place(name, number))}/{VERSION}"
                return number, generations.replace(address, b"", 0, self._client)
            number += 1

    def _remove(self, place: str) -> None:
        """Remove the files of a version that is being written, and VERSION last."""
        version = f"{model_at(place)}/{VERSION}"
        for address in (*(address for address, _ in storage.find_objects(place) if address != version), version):
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
