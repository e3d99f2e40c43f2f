"""Registries in TensorFlow Serving's layout: in a folder of this machine or of a mounted volume, or in a bucket.

    <root>/<name>/aliases.json              {"default": 3, "challenger": 4}
    <root>/<name>/defaults.json             [{"version": 3, "since": "2026-03-02T10:00:00+00:00"}]
    <root>/<name>/<version>/                a SavedModel
    <root>/<name>/<version>/assets.extra/   the same model as the trainer reads it (weights, configuration,
                                            history), the scores of each image, and `VERSION`: metrics and lineage
    <root>/<name>/serving/<version>/        a copy of the default's SavedModel, and of no other

TensorFlow Serving takes the highest number that it finds in a folder: of <root>/<name> the newest version, of
<root>/<name>/serving the default.
"""

import abc
import dataclasses
import datetime
import fcntl
import functools
import json
import os
import pathlib
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, Self

from pipeline.registry.address import check_bucket
from pipeline.registry.versions import (
    GRAPH,
    NO_VERSION,
    READERS,
    Version,
    check_model,
    copy_version,
    dated,
    fetch,
    files_of,
    mounted,
    promoted,
    record_bytes,
)
from trainer import artifacts, files, storage
from trainer.artifacts import (
    ALIASES,
    CHALLENGER,
    DEFAULT,
    DEFAULTS,
    REGISTRY,
    SAVED_MODEL,
    SERVING,
    VERSION_EXTRA,
)
from trainer.errors import ContentError, UserError, check
from trainer.files import parse_json
from trainer.models import find
from trainer.models.find import NEEDED, VERSION, is_claim, listed, model_at, model_in
from trainer.storage import ChangedError, Folder

Models = Mapping[int, Collection[str]]
"""Number of a version -> names of the files that the trainer reads."""
DAMAGED = "remove it, then set the default with `python -m pipeline registry set-default VERSION`"
"""Remedy for a file of aliases that cannot be read."""
LOCK = ".lock"
"""File in a model's folder that a writer locks."""
FILE_OF_VERSION = re.compile(r"(\d+)/(.+)")
"""Path of an object below a model: the version's number, and the file's path in it."""


class NumberedRegistry(abc.ABC):
    """The rules of a `Registry`; its subclasses read and write the files."""

    @property
    @abc.abstractmethod
    def address(self) -> str:
        """Path or address of the folder of all models."""

    @abc.abstractmethod
    def aliases(self, name: str) -> dict[str, int]:
        """The number of the version that each alias names; see `Registry.aliases`."""

    def versions(self, name: str) -> list[Version]:
        """All versions of model `name`, oldest first; see `Registry.versions`."""
        models = self._models(name)
        with ThreadPoolExecutor(READERS) as pool:
            return list(pool.map(lambda number: self._version(name, number, models), sorted(models)))

    def defaults(self, name: str) -> list[tuple[datetime.datetime, int]]:
        """When the default moved, and to which version, oldest first; see `Registry.defaults`."""
        moves = [(datetime.datetime.fromisoformat(each["since"]), each["version"]) for each in self._moves(name)]
        # A registry of an earlier version has no such file.
        return moves or promoted(self.versions(name), self.aliases(name).get(DEFAULT))

    def default(self, name: str) -> Version | None:
        """The default version, or None. Raises `UserError` if the alias names a version that does not exist."""
        number = self.aliases(name).get(DEFAULT)
        return None if number is None else self._version(name, number, self._models(name))

    def add(
        self,
        name: str,
        model: pathlib.Path,
        record: Mapping[str, Any],
        promote: bool,
        compared_with: int,
        evaluation: pathlib.Path | None = None,
    ) -> tuple[int, str]:
        """Register a model folder; returns the version's number and alias. See `Registry.add`."""
        check_model(model)

        def choose(aliases: Mapping[str, int]) -> str:
            # Another run may have moved the default since this model was compared with it.
            default = aliases.get(DEFAULT, NO_VERSION)
            return DEFAULT if number == default or (promote and default == compared_with) else CHALLENGER

        with self._locked(name):
            number = self._registered(name, record)
            if number is None:
                number = self._write(name, model, evaluation, record)
            return number, self._move(name, number, choose)

    def set_alias(self, name: str, alias: str, version: int) -> None:
        """Let `alias` name `version`; see `Registry.set_alias`."""
        self._version(name, version, self._models(name))
        with self._locked(name):
            self._move(name, version, lambda aliases: alias)

    def promote(self, name: str) -> None:
        """Write `SERVING` again, as after a registration that was killed; see `Registry.promote`."""
        check(
            NumberedRegistry.default(self, name) is not None,
            f"model {name!r} has no default in {self.address}; name one with `python -m pipeline registry "
            "set-default VERSION`",
        )
        with self._locked(name):
            self._serve(name)

    def check_writable(self, name: str) -> None:
        """Raise `UserError` if no version could be added; see `Registry.check_writable`."""
        self._probe(name)
        NumberedRegistry.default(self, name)

    # === Rules ===

    def _version(self, name: str, number: int, models: Models) -> Version:
        """A version. Raises `UserError` if it does not exist, or if files are missing."""
        check(
            number in models,
            f"model {name!r} has no version {number} in {self.address} "
            f"(versions: {listed(sorted(models)) or 'none'}); set the default to another with "
            f"`python -m pipeline registry set-default VERSION`, or without a version remove {artifacts.ALIASES}",
        )
        place = f"{self.address}/{name}/{number}"
        missing = ", ".join(file for file in (VERSION, *NEEDED) if file not in models[number])
        if missing:
            raise ContentError(
                f"version {number} of model {name!r} is incomplete: {model_at(place)} has no {missing}; "
                f"restore it, or remove {place}"
            )
        return Version(number, self._folder(place), place, self._record(place))

    def _registered(self, name: str, record: Mapping[str, Any]) -> int | None:
        """The version that an earlier attempt of this run has registered; None if there is none."""
        models = self._models(name)

        def is_same(number: int) -> bool:
            try:
                return _is_of_same_run(self._version(name, number, models).record, record)
            except ContentError:  # an incomplete version, which is no reason to lose this model
                return False

        with ThreadPoolExecutor(READERS) as pool:
            numbers = sorted(models)
            found = pool.map(is_same, numbers)
            return next((number for number, same in zip(numbers, found, strict=True) if same), None)

    def _move(self, name: str, version: int, choose: Callable[[Mapping[str, int]], str]) -> str:
        """`_point`; if that moves the default, `SERVING` follows it and DEFAULTS has an entry more."""
        alias = self._point(name, version, choose)
        if alias == DEFAULT:
            self._serve(name)
            since = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            self._add_move(name, {"version": version, "since": since})
        return alias

    # === Files ===

    @abc.abstractmethod
    def _moves(self, name: str) -> list[artifacts.Move]:
        """The content of DEFAULTS."""

    @abc.abstractmethod
    def _add_move(self, name: str, move: artifacts.Move) -> None:
        """Append to DEFAULTS, unless the version of the last entry is the same."""

    @abc.abstractmethod
    def _models(self, name: str) -> Models:
        """The versions, except those that are being written."""

    @abc.abstractmethod
    def _folder(self, place: str) -> pathlib.Path:
        """Where a task finds the version at `place` as the trainer reads it."""

    @abc.abstractmethod
    def _record(self, place: str) -> dict[str, Any]:
        """The content of VERSION; raises `UserError` if it is damaged."""

    @abc.abstractmethod
    def _locked(self, name: str) -> AbstractContextManager[object]:
        """Keep other processes out while the model is written, where two at once would disturb each other."""

    @abc.abstractmethod
    def _write(
        self, name: str, model: pathlib.Path, evaluation: pathlib.Path | None, record: Mapping[str, Any]
    ) -> int:
        """Write a version with the next number, completely or not at all; returns its number."""

    @abc.abstractmethod
    def _point(self, name: str, version: int, choose: Callable[[Mapping[str, int]], str]) -> str:
        """Let the alias that `choose` selects, given all aliases, name the version; returns that alias."""

    @abc.abstractmethod
    def _serve(self, name: str) -> None:
        """Copy the default's SavedModel into `SERVING`, then remove other versions there.

        A server that watches the folder finds a whole version at any time. It goes to a lower number once the
        higher one is removed.
        """

    @abc.abstractmethod
    def _probe(self, name: str) -> None:
        """Raise `UserError` if nothing can be written for the model."""


def _appended(moves: list[artifacts.Move], move: artifacts.Move) -> list[artifacts.Move]:
    return moves if moves and moves[-1]["version"] == move["version"] else [*moves, move]


def _is_of_same_run(registered: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    """Whether two records have the same run, by its name or its folder, and the same metrics."""
    ours, theirs = (entry.get("lineage", {}) for entry in (record, registered))
    is_same_run = any(ours.get(key) and ours[key] == theirs.get(key) for key in ("run", "folder"))
    return is_same_run and registered.get("metrics") == record["metrics"]


@dataclasses.dataclass(frozen=True)
class BucketRegistry(NumberedRegistry):
    """A registry at a `gs://` address, which several machines may write.

    A version exists once its VERSION has content. The object is created empty, which claims the number, and gets
    its content last. So readers never see half a version, and two writers never share a number. What a killed
    writer left is no version; its number is not used again, and its folder can be removed.
    """

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

    def default(self, name: str) -> Version | None:
        """The default version, or None; its folder is downloaded, and removed when this process ends."""
        version = super().default(name)
        return version and dataclasses.replace(version, model=fetch(version.place))

    @functools.cached_property
    def _client(self) -> Any:
        return storage.client(write=True)

    def _aliases(self, name: str) -> tuple[dict[str, int], int]:
        """The aliases, and the generation of their object."""
        address = f"{self.root}/{name}/{ALIASES}"
        content, generation = storage.read_state(address, self._client)
        return parse_json(content, address, DAMAGED, artifacts.Aliases) if generation else {}, generation

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
        return mounted(place)

    def _record(self, place: str) -> dict[str, Any]:
        address = f"{model_at(place)}/{VERSION}"
        content = storage.read_object(address, self._client)
        return dict(parse_json(content, address, f"restore it, or remove {place}", artifacts.Version))

    def _locked(self, name: str) -> AbstractContextManager[object]:
        """Do nothing: each write names the generation that it replaces, so two writers do not mix."""
        return nullcontext()

    def _write(
        self, name: str, model: pathlib.Path, evaluation: pathlib.Path | None, record: Mapping[str, Any]
    ) -> int:
        number, claim = self._claim(name)
        place = f"{self.root}/{name}/{number}"
        copy_version(place, model / SAVED_MODEL, files_of(model, evaluation), self._client)
        content = record_bytes({"version": number, **record})
        storage.replace_state(f"{model_at(place)}/{VERSION}", content, claim, self._client)
        return number

    def _claim(self, name: str) -> tuple[int, int]:
        """The next number, which no other writer can have now, and the generation of its empty VERSION."""
        number = max(self._files(name), default=0) + 1
        while True:
            with suppress(ChangedError):
                address = f"{model_at(f'{self.root}/{name}/{number}')}/{VERSION}"
                return number, storage.replace_state(address, b"", 0, self._client)
            number += 1

    def _point(self, name: str, version: int, choose: Callable[[Mapping[str, int]], str]) -> str:
        while True:
            aliases, generation = self._aliases(name)
            alias = choose(aliases)
            content = json.dumps({**aliases, alias: version}, indent=2) + "\n"
            with suppress(ChangedError):
                storage.replace_state(f"{self.root}/{name}/{ALIASES}", content.encode(), generation, self._client)
                return alias

    def _moves(self, name: str) -> list[artifacts.Move]:
        return self._read_moves(name)[0]

    def _read_moves(self, name: str) -> tuple[list[artifacts.Move], int]:
        address = f"{self.root}/{name}/{DEFAULTS}"
        content, generation = storage.read_state(address, self._client)
        moves = parse_json(content, address, "remove it", list[artifacts.Move]) if generation else []
        return moves, generation

    def _add_move(self, name: str, move: artifacts.Move) -> None:
        while True:
            moves, generation = self._read_moves(name)
            content = json.dumps(_appended(moves, move), indent=2) + "\n"
            with suppress(ChangedError):
                storage.replace_state(f"{self.root}/{name}/{DEFAULTS}", content.encode(), generation, self._client)
                return

    def _serve(self, name: str) -> None:
        served = f"{self.root}/{name}/{SERVING}"
        while True:
            number = self.aliases(name)[DEFAULT]
            there = self._names(served)
            if f"{number}/{GRAPH}" not in there:
                files = [path for path in self._files(name)[number] if not path.startswith(f"{VERSION_EXTRA}/")]
                for path in sorted(files, key=lambda path: path == GRAPH):
                    source = f"{self.root}/{name}/{number}/{path}"
                    storage.copy_object(source, f"{served}/{number}/{path}", self._client)
            for path in sorted(there, key=lambda path: not path.endswith(f"/{GRAPH}")):
                if not path.startswith(f"{number}/"):
                    storage.remove_object(f"{served}/{path}", self._client)
            # Another writer may have moved the default meanwhile, and each has removed what the other wrote.
            if self.aliases(name)[DEFAULT] == number and f"{number}/{GRAPH}" in self._names(served):
                return

    def _names(self, address: str) -> list[str]:
        """The names of all objects below an address, relative to it."""
        prefix = f"{storage.split(address)[1]}/"
        return [blob.name.removeprefix(prefix) for blob in storage.list_blobs(address, prefix, self._client)]

    def _probe(self, name: str) -> None:
        Folder(f"{self.root}/{name}").check_writable()


@dataclasses.dataclass(frozen=True)
class LocalRegistry(NumberedRegistry):
    """A registry in a folder; a lock of its file system keeps writers apart."""

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
        return find.read_aliases(self.root / name, DAMAGED)

    def _models(self, name: str) -> Models:
        def names(number: int) -> set[str]:
            folder = model_in(self.root / name / str(number))
            return {path.name for path in folder.iterdir()} if folder.is_dir() else set()

        return {number: names(number) for number in find.version_numbers(self.root / name)}

    def _folder(self, place: str) -> pathlib.Path:
        return model_in(pathlib.Path(place))

    def _record(self, place: str) -> dict[str, Any]:
        path = self._folder(place) / VERSION
        return dict(files.read_json(path, f"restore it, or remove {place}", artifacts.Version))

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """Hold a lock of this file system on the model, and remove the leftovers of killed writers."""
        self._probe(name)
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        lock = _lock(folder / LOCK)
        try:
            yield
        finally:
            os.close(lock)

    def _write(
        self, name: str, model: pathlib.Path, evaluation: pathlib.Path | None, record: Mapping[str, Any]
    ) -> int:
        number = max(self._models(name), default=0) + 1
        with files.replacing(
            self.root / name / str(number), last=f"{artifacts.VERSION_EXTRA}/{VERSION}"
        ) as partial:
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

    def _moves(self, name: str) -> list[artifacts.Move]:
        path = self.root / name / DEFAULTS
        return list(files.read_json(path, "remove it", list[artifacts.Move])) if path.exists() else []

    def _add_move(self, name: str, move: artifacts.Move) -> None:
        files.write_json(self.root / name / DEFAULTS, _appended(self._moves(name), move))

    def _serve(self, name: str) -> None:
        number = str(self.aliases(name)[DEFAULT])
        served = self.root / name / SERVING
        files.remove_leftovers(served)
        if not files.is_taken(served / number):
            with files.replacing(served / number, last=GRAPH) as partial:
                shutil.copytree(self.root / name / number, partial, ignore=shutil.ignore_patterns(VERSION_EXTRA))
        for other in served.iterdir():
            if other.name != number:
                with suppress(OSError):  # a mounted bucket renames no folder
                    # A server that starts now must not find half a version.
                    other = other.rename(served / f"{files.PARTIAL}{other.name}")
                files.remove(other)

    def _probe(self, name: str) -> None:
        folder = self.root / name
        files.check_output_path(folder / ALIASES)
        if (folder / LOCK).exists():
            os.close(_lock(folder / LOCK))


def _lock(path: pathlib.Path) -> int:
    """The open and locked file that a writer of a model holds. Whoever came first owns it."""
    try:
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except PermissionError:
            lock = os.open(path, os.O_RDONLY)  # another user's, which is sufficient except on NFS
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError as error:
        raise UserError(
            f"{path} cannot be locked ({error.strerror}); have its owner make it writable for you, or keep the "
            "registry in another folder or in a bucket"
        ) from None
    return lock
