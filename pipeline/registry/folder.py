"""A model registry in a folder of this machine or of a mounted volume."""

import dataclasses
import fcntl
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Self

from pipeline.registry.numbered import DAMAGED, Models, NumberedRegistry
from pipeline.registry.versions import Version, dated, files_of
from trainer import artifacts, files, records, scratch
from trainer.artifacts import ALIASES, REGISTRY
from trainer.errors import UserError
from trainer.files import checksum
from trainer.models import registry_layout
from trainer.models.registry_layout import VERSION, model_in

LOCK = ".lock"


@dataclasses.dataclass(frozen=True)
class LocalRegistry(NumberedRegistry):
    """A registry in a folder."""

    root: pathlib.Path

    @classmethod
    def at(cls, location: str) -> Self:
        """The registry in the folder `location`; in `models` in the working directory if that is empty."""
        return cls(pathlib.Path(location or REGISTRY))

    @property
    def address(self) -> str:
        """Path or address of the folder of all models."""
        return str(self.root)

    def aliases(self, name: str) -> dict[str, int]:
        """The number of the version that each alias names; see `Registry.aliases`."""
        return registry_layout.read_aliases(self.root / name, DAMAGED)

    def _models(self, name: str) -> Models:
        def names(number: int) -> set[str]:
            folder = model_in(self.root / name / str(number))
            return {path.name for path in folder.iterdir()} if folder.is_dir() else set()

        return {number: names(number) for number in registry_layout.version_numbers(self.root / name)}

    def _folder(self, place: str) -> pathlib.Path:
        return model_in(pathlib.Path(place))

    def _readable(self, version: Version) -> Version:
        return version

    def _record(self, place: str, remedy: str) -> dict[str, Any]:
        return dict(files.read_json(self._folder(place) / VERSION, remedy, records.Version))

    def _checksum(self, place: str) -> str:
        return checksum(self._folder(place) / artifacts.WEIGHTS)

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """Hold a lock of this file system on the model, and remove the leftovers of killed writers."""
        self._probe(name)
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        lock = _open_lock(folder)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
            except OSError as error:  # such as a network file system without locks, or read-only for this user
                raise UserError(
                    f"{folder / LOCK} cannot be locked ({error.strerror}); keep the registry on another file "
                    "system, or in a bucket"
                ) from None
            unfinished = (path.parent for path in folder.glob(f"*/{files.UNFINISHED}"))
            for leftover in (*folder.glob(f"{scratch.PARTIAL}*"), *unfinished):
                with suppress(OSError):  # another user's
                    files.remove(leftover)
            yield
        finally:
            os.close(lock)

    def _write(
        self, name: str, model: pathlib.Path, evaluation: pathlib.Path | None, record: Mapping[str, Any]
    ) -> int:
        number = max(self._models(name), default=0) + 1
        with files.replacing(self._place(name, number), last=f"{artifacts.VERSION_EXTRA}/{VERSION}") as partial:
            shutil.copytree(model / artifacts.SAVED_MODEL, partial)
            extra = model_in(partial)
            extra.mkdir(exist_ok=True)
            for file in files_of(model, evaluation).values():
                shutil.copy(file, extra)
            files.write_json(extra / VERSION, dated({"version": number, **record}))
        return number

    def _point(self, name: str, version: int, choose: Callable[[Mapping[str, int]], str]) -> str:
        aliases = self.aliases(name)
        alias = choose(aliases)
        files.write_json(self.root / name / ALIASES, {**aliases, alias: version})
        return alias

    def _probe(self, name: str) -> None:
        folder = self.root / name
        files.check_place(folder / ALIASES)
        if (folder / LOCK).exists():
            os.close(_open_lock(folder))


def _open_lock(folder: pathlib.Path) -> int:
    """The open file that a writer of a name locks. Whoever came first owns it, and others may only read it."""
    path = folder / LOCK
    try:
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except PermissionError:
            return os.open(path, os.O_RDONLY)  # sufficient, except on NFS
    except OSError as error:
        raise UserError(
            f"{path}, which another user made, cannot be opened ({error.strerror}); have that user give you the "
            "right to read and write the folder (chmod)"
        ) from None
