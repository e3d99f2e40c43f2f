"""Registries in TensorFlow Serving's layout: in a folder of this machine or of a mounted volume, or in a bucket.

    <root>/<name>/aliases.json              {"default": 3, "challenger": 4}
    <root>/<name>/defaults.json             [{"version": 3, "since": "2026-03-02T10:00:00+00:00", "by": "gate"}]
    <root>/<name>/decisions.json            the decisions about the default in the last 365 days
    <root>/<name>/<version>/                a SavedModel
    <root>/<name>/<version>/assets.extra/   the same model as the trainer reads it (weights, configuration,
                                            history), the scores of each image, and version.json: metrics and
                                            lineage
    <root>/<name>/serving/<version>/        a copy of the default's SavedModel, and of no other

TensorFlow Serving takes the highest number that it finds in a folder: of <root>/<name> the newest version, of
<root>/<name>/serving the default. As long as `pretrained` is the default, `aliases.json` has none. It is served as
`serving/0` once a person has made it the default.
"""

import abc
import dataclasses
import datetime
import fcntl
import os
import pathlib
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, Self

from lifecycle.registry import decisions
from lifecycle.registry.state_files import LedgerEntry, read_in_bucket, read_in_folder, text_of, update_in_bucket
from lifecycle.registry.state_layout import DECISIONS, DEFAULTS, SERVING
from lifecycle.registry.version_zero import exported_pretrained
from lifecycle.registry.versions import (
    GRAPH,
    READERS,
    RECORD,
    DefaultMove,
    Look,
    Version,
    check_model,
    copy_version,
    dated,
    download_version,
    files_of,
    mounted,
    parse_record,
    promoted,
    record_bytes,
    recorded_moves,
    remedy_of,
    with_move,
)
from trainer.errors import ContentError, NotFoundError, PlaceError, check
from trainer.evaluation import VersionRecord
from trainer.io import (
    check_output_path,
    is_taken,
    read_limited,
    remove_leftovers,
    remove_path,
    replacing,
    write_json,
)
from trainer.models import ALIASES, CHALLENGER, DEFAULT, PRETRAINED_VERSION, REGISTRY, VERSION, version_numbers
from trainer.network import ASSETS_EXTRA, ModelFolder
from trainer.places import BucketPlace, ChangedObjectError

FilesByVersion = Mapping[int, Collection[str]]
"""Number of a version -> names of the files that the trainer reads."""
LOCK = ".lock"
"""File in a model's folder that a writer locks."""
FILE_OF_VERSION = re.compile(r"(\d+)/(.+)")
"""Path of an object below a model: the version's number, and the file's path in it."""


class NumberedRegistry(abc.ABC):
    """The rules of a `Registry`. Its subclasses read and write the files."""

    @property
    @abc.abstractmethod
    def address(self) -> str:
        """Path or address of the folder of all models, such as `gs://runs/models`."""

    def aliases(self, name: str) -> dict[str, int]:
        """The number of the version that each alias names, such as `{"default": 3}`. See `Registry.aliases`."""
        return dict(self._read_json(name, ALIASES))

    def versions(self, name: str) -> list[Version]:
        """All versions of model `name`, oldest first. See `Registry.versions`."""
        models = self._models(name)
        with ThreadPoolExecutor(READERS) as pool:
            return list(pool.map(lambda number: self._version(name, number, models), sorted(models)))

    def default_moves(self, name: str) -> list[DefaultMove]:
        """The moves of the default, oldest first. See `Registry.default_moves`."""
        # Without the file, which is removed if it is damaged, what the versions themselves say is known.
        return recorded_moves(self._read_json(name, DEFAULTS)) or self._told_by_versions(name)

    def resource_of(self, name: str, number: int) -> tuple[str, str]:
        """The address of a version, such as `gs://runs/models/msinet/3`, twice. See `Registry.resource_of`."""
        (address,) = [version.address for version in self.versions(name) if version.number == number]
        return address, address

    def _told_by_versions(self, name: str) -> list[DefaultMove]:
        return promoted(self.versions(name), self.aliases(name).get(DEFAULT))

    def default(self, name: str) -> Version | None:
        """The default version, or None. See `Registry.default`."""
        return self._default_version(name)

    def add(
        self,
        name: str,
        model: pathlib.Path,
        record: Mapping[str, Any],
        promote: bool,
        compared_with: int,
        evaluation: pathlib.Path | None = None,
    ) -> tuple[int, str]:
        """Register a model folder. Returns the version's number and alias. See `Registry.add`."""
        check_model(model)

        def choose(aliases: Mapping[str, int]) -> str:
            # Another run may have moved the default since this model was compared with it.
            default = aliases.get(DEFAULT, PRETRAINED_VERSION)
            return DEFAULT if number == default or (promote and default == compared_with) else CHALLENGER

        with self._locked(name):
            number = self._registered(name, record)
            if number is None:
                number = self._write(name, model, evaluation, record)
            elif self._was_replaced(name, number):
                return number, CHALLENGER
            return number, self._move(name, number, choose)

    def set_alias(self, name: str, alias: str, version: int) -> None:
        """Let `alias` name `version`. See `Registry.set_alias`."""
        models = self._models(name)
        if version == PRETRAINED_VERSION and alias == DEFAULT and models:
            exported_pretrained()  # first: if it cannot be made, nothing has changed
        else:
            self._version(name, version, models)
        with self._locked(name):
            self._move(name, version, lambda aliases: alias, by_person=True)

    def serve_default(self, name: str) -> None:
        """Write `serving/` again, as after a registration that was killed. See `Registry.serve_default`."""
        if self._default_version(name) is None:
            exported_pretrained()  # before other writers wait for it
        with self._locked(name):
            self._serve(name)

    def check_writable(self, name: str) -> None:
        """Raise `UserError` if no version could be added. See `Registry.check_writable`."""
        self._probe(name)
        self._default_version(name)

    def decide(self, name: str, look: Look) -> int:
        """The number of a decision. See `Registry.decide`."""
        number, versions, now = 0, self.versions(name), datetime.datetime.now(datetime.UTC)

        def change(ledger: list[LedgerEntry]) -> list[LedgerEntry]:
            nonlocal number
            ledger, number = decisions.take(ledger, versions, look, now)
            return ledger

        with self._locked(name):
            self._update_json(name, DECISIONS, change)
        return number

    def undecided(self, name: str, look: Look) -> None:
        """Give the number of a decision back. See `Registry.undecided`."""
        with self._locked(name):
            self._update_json(name, DECISIONS, lambda ledger: decisions.give_back(ledger, look))

    def next_decision(self, name: str) -> int:
        """The number that the next decision would have. See `Registry.next_decision`."""
        now = datetime.datetime.now(datetime.UTC)
        return decisions.free_number(self._read_json(name, DECISIONS), self.versions(name), now)

    # === Rules ===

    def _default_version(self, name: str) -> Version | None:
        """The default version, or None, without a download.

        Raises `UserError` if the alias names a version that does not exist.
        """
        number = self._default_number(name)
        return None if number == PRETRAINED_VERSION else self._version(name, number, self._models(name))

    def _default_number(self, name: str) -> int:
        return self.aliases(name).get(DEFAULT, PRETRAINED_VERSION)

    def _version(self, name: str, number: int, models: FilesByVersion) -> Version:
        """A version. Raises `UserError` if it does not exist, or if files are missing."""
        known = [PRETRAINED_VERSION, *sorted(models)] if models else []
        check(
            number in models,
            f"model {name!r} has no version {number} in {self.address} "
            f"(versions: {', '.join(map(str, known)) or 'none'}). Set the default to another with "
            "`python -m pipeline registry set-default VERSION`, or without a version remove "
            f"{ALIASES}",
            NotFoundError,
        )
        version_dir = f"{self.address}/{name}/{number}"
        missing = ", ".join(file for file in (VERSION, *ModelFolder.NEEDED) if file not in models[number])
        if missing:
            raise ContentError(
                f"version {number} of model {name!r} is incomplete: {version_dir}/{ASSETS_EXTRA} has no "
                f"{missing}. Restore it, or remove {version_dir}"
            )
        return Version(number, self._folder(version_dir), version_dir, self._record(version_dir))

    def _registered(self, name: str, record: Mapping[str, Any]) -> int | None:
        """The version that an earlier attempt of this run has registered. None if there is none."""
        models = self._models(name)

        def is_same(number: int) -> bool:
            try:
                return _is_of_same_run(self._version(name, number, models).facts, VersionRecord.of(record))
            except ContentError:  # an incomplete version, which is no reason to lose this model
                return False

        with ThreadPoolExecutor(READERS) as pool:
            numbers = sorted(models)
            found = pool.map(is_same, numbers)
            return next((number for number, same in zip(numbers, found, strict=True) if same), None)

    def _was_replaced(self, name: str, number: int) -> bool:
        """Whether a version was the default before, so that registering it again undoes nobody's decision."""
        moved = any(move.version == number for move in self._read_json(name, DEFAULTS))
        return moved and self.aliases(name).get(DEFAULT, number) != number

    def _move(
        self, name: str, version: int, choose: Callable[[Mapping[str, int]], str], by_person: bool = False
    ) -> str:
        """Let the alias that `choose` selects, given all aliases, name the version. Returns that alias.

        If it is the default, `serving/` gets the version and `defaults.json` an entry more.
        """
        earlier: list[DefaultMove] = []
        if not self._read_json(name, DEFAULTS):
            with suppress(ContentError):  # a damaged version, which is no reason to move nothing
                earlier = self._told_by_versions(name)
        alias = self._point(name, version, choose)
        if alias == DEFAULT:
            self._serve(name)
            self._update_json(name, DEFAULTS, lambda moves: with_move(moves, earlier, version, by_person))
        return alias

    def _point(self, name: str, version: int, choose: Callable[[Mapping[str, int]], str]) -> str:
        """Let the alias that `choose` selects name the version in `aliases.json`. Returns that alias."""
        alias = ""

        def change(aliases: Mapping[str, int]) -> Mapping[str, int]:
            nonlocal alias
            alias = choose(aliases)
            others = {each: number for each, number in aliases.items() if each != alias}
            return others if version == PRETRAINED_VERSION else {**others, alias: version}

        self._update_json(name, ALIASES, change)
        return alias

    # === Files ===

    @abc.abstractmethod
    def _read_json(self, name: str, file: str) -> Any:
        """The content of a file of REMEDIES. Empty if there is none, `UserError` if it is damaged."""

    @abc.abstractmethod
    def _update_json(self, name: str, file: str, change: Callable[[Any], Any]) -> None:
        """Replace the content of a file of REMEDIES by what `change`, which may be called twice, makes of it."""

    @abc.abstractmethod
    def _models(self, name: str) -> FilesByVersion:
        """The versions, except the ones that are being written."""

    @abc.abstractmethod
    def _folder(self, version_dir: str) -> pathlib.Path:
        """Where a task finds a version as the trainer reads it, such as `models/msinet/3/assets.extra`."""

    @abc.abstractmethod
    def _record(self, version_dir: str) -> dict[str, Any]:
        """The content of `version.json`. Raises `UserError` if it is damaged."""

    @abc.abstractmethod
    def _locked(self, name: str) -> AbstractContextManager[object]:
        """Keep other processes out while the model is written, where two at once would disturb each other."""

    @abc.abstractmethod
    def _write(
        self, name: str, model: pathlib.Path, evaluation: pathlib.Path | None, record: Mapping[str, Any]
    ) -> int:
        """Write a version with the next number, completely or not at all. Returns its number."""

    @abc.abstractmethod
    def _serve(self, name: str) -> None:
        """Copy the default's SavedModel into `serving/`, then remove other versions there.

        A server that watches the folder finds a whole version at any time. It goes to a lower number once the
        higher one is removed.
        """

    @abc.abstractmethod
    def _probe(self, name: str) -> None:
        """Raise `UserError` if nothing can be written for the model."""


def _is_of_same_run(registered: VersionRecord, record: VersionRecord) -> bool:
    """Whether two records have the same run, by its name or its folder, and the same metrics.

    Example: a resumed run has another name, but the same folder.
    """
    ours, theirs = record.lineage, registered.lineage
    is_same_run = any(own and own == its for own, its in ((ours.run, theirs.run), (ours.folder, theirs.folder)))
    return is_same_run and registered.metrics == record.metrics


@dataclasses.dataclass(frozen=True)
class BucketRegistry(NumberedRegistry):
    """A registry at a `gs://` address, which several machines may write.

    A version exists once its `version.json` has content. The object is created empty, which claims the number, and
    gets its content last. So readers never see half a version, and two writers never share a number. What a killed
    writer left is no version. Its number is not used again, and its folder can be removed.
    """

    root: BucketPlace

    @classmethod
    def at(cls, location: str) -> Self:
        """The registry at an address such as `gs://runs/models`. Raises `UserError` for a malformed one."""
        return cls(BucketPlace.at(location, "registry").with_text(location.rstrip("/")).connected())

    @property
    def address(self) -> str:
        """Path or address of the folder of all models, such as `gs://runs/models`."""
        return str(self.root)

    def default(self, name: str) -> Version | None:
        """The default version, or None. Its folder is downloaded, and removed when this process ends."""
        version = super().default(name)
        return version and dataclasses.replace(version, model=download_version(version.address))

    def _read_json(self, name: str, file: str) -> Any:
        return read_in_bucket(self.root.join(name), file)[0]

    def _update_json(self, name: str, file: str, change: Callable[[Any], Any]) -> None:
        update_in_bucket(self.root.join(name), file, change)

    def _files(self, name: str) -> dict[int, dict[str, int]]:
        """Number of each version, even while it is being written -> name of a file below it -> its size.

        Example: `{3: {"saved_model.pb": 91000}}`.
        """
        found: dict[int, dict[str, int]] = {}
        for file, size in self.root.join(name).sizes().items():
            if match := FILE_OF_VERSION.fullmatch(file):
                found.setdefault(int(match[1]), {})[match[2]] = size
        return found

    def _models(self, name: str) -> FilesByVersion:
        return {
            number: {path.removeprefix(f"{ASSETS_EXTRA}/") for path in sizes}
            for number, sizes in self._files(name).items()
            if sizes.get(RECORD) != 0
        }

    def _folder(self, version_dir: str) -> pathlib.Path:
        return mounted(version_dir)

    def _record(self, version_dir: str) -> dict[str, Any]:
        address = f"{version_dir}/{RECORD}"
        content = self.root.with_text(address).read_object()
        return parse_record(content, address, version_dir)

    def _locked(self, name: str) -> AbstractContextManager[object]:
        """Do nothing: each write names the generation that it replaces, so two writers do not mix."""
        return nullcontext()

    def _write(
        self, name: str, model: pathlib.Path, evaluation: pathlib.Path | None, record: Mapping[str, Any]
    ) -> int:
        number, claim = self._claim(name)
        version_dir = self.root.join(f"{name}/{number}")
        copy_version(version_dir, ModelFolder(model).saved_model, files_of(model, evaluation))
        content = record_bytes({"version": number, **record})
        version_dir.replace_state(RECORD, content, claim)
        return number

    def _claim(self, name: str) -> tuple[int, int]:
        """The next number, which no other writer can have now, and the generation of its empty `version.json`."""
        number = max(self._files(name), default=0) + 1
        while True:
            with suppress(ChangedObjectError):
                return number, self.root.join(f"{name}/{number}").replace_state(RECORD, b"", 0)
            number += 1

    def _serve(self, name: str) -> None:
        folder = self.root.join(name)
        served = folder.join(SERVING)
        while True:
            number = self._default_number(name)
            there = served.sizes()
            if f"{number}/{GRAPH}" not in there and number == PRETRAINED_VERSION:
                copy_version(served.join(str(number)), exported_pretrained().saved_model, {})
            elif f"{number}/{GRAPH}" not in there:
                files = [path for path in self._files(name)[number] if not path.startswith(f"{ASSETS_EXTRA}/")]
                for path in sorted(files, key=lambda path: path == GRAPH):
                    folder.copy(f"{number}/{path}", f"{SERVING}/{number}/{path}")
            for path in sorted(there, key=lambda path: not path.endswith(f"/{GRAPH}")):
                if not path.startswith(f"{number}/"):
                    served.remove(path)
            # Another writer may have moved the default meanwhile, and each has removed what the other wrote.
            if self._default_number(name) == number and f"{number}/{GRAPH}" in served.sizes():
                return

    def _probe(self, name: str) -> None:
        self.root.join(name).check_writable()


@dataclasses.dataclass(frozen=True)
class LocalRegistry(NumberedRegistry):
    """A registry in a folder. A lock of its file system keeps writers apart."""

    root: pathlib.Path

    @classmethod
    def at(cls, location: str) -> Self:
        """The registry in the folder `location`. If that is empty, in `models` in the working directory."""
        return cls(pathlib.Path(location or REGISTRY))

    @property
    def address(self) -> str:
        """Path or address of the folder of all models, such as `gs://runs/models`."""
        return str(self.root)

    def _read_json(self, name: str, file: str) -> Any:
        return read_in_folder(self.root / name, file)

    def _update_json(self, name: str, file: str, change: Callable[[Any], Any]) -> None:
        with replacing(self.root / name / file) as partial:
            partial.write_text(text_of(change(self._read_json(name, file))))

    def _models(self, name: str) -> FilesByVersion:
        def names(number: int) -> set[str]:
            folder = self.root / name / str(number) / ASSETS_EXTRA
            return {path.name for path in folder.iterdir()} if folder.is_dir() else set()

        return {number: names(number) for number in version_numbers(self.root / name)}

    def _folder(self, version_dir: str) -> pathlib.Path:
        return pathlib.Path(version_dir, ASSETS_EXTRA)

    def _record(self, version_dir: str) -> dict[str, Any]:
        path = self._folder(version_dir) / VERSION
        content = read_limited(path, remedy_of(version_dir))
        return parse_record(content, str(path), version_dir)

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """Hold a lock of this file system on the model, and remove the leftovers of killed writers."""
        self._probe(name)
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        lock = _lock(folder / LOCK)
        try:
            remove_leftovers(folder)
            yield
        finally:
            os.close(lock)

    def _write(
        self, name: str, model: pathlib.Path, evaluation: pathlib.Path | None, record: Mapping[str, Any]
    ) -> int:
        number = max(self._models(name), default=0) + 1
        with replacing(self.root / name / str(number), last=RECORD) as partial:
            shutil.copytree(ModelFolder(model).saved_model, partial)
            extra = partial / ASSETS_EXTRA
            extra.mkdir(exist_ok=True)
            for file in files_of(model, evaluation).values():
                shutil.copy(file, extra)
            write_json(extra / VERSION, dated({"version": number, **record}))
        return number

    def _serve(self, name: str) -> None:
        number = str(self._default_number(name))
        is_ours = number != str(PRETRAINED_VERSION)
        source = self.root / name / number if is_ours else exported_pretrained().saved_model
        served = self.root / name / SERVING
        remove_leftovers(served)
        if not is_taken(served / number):
            with replacing(served / number, last=GRAPH) as partial:
                shutil.copytree(source, partial, ignore=shutil.ignore_patterns(ASSETS_EXTRA))
        for other in served.iterdir():
            if other.name != number:
                remove_path(other, at_once=True)  # a server that starts now must not find half a version

    def _probe(self, name: str) -> None:
        folder = self.root / name
        check_output_path(folder / ALIASES)
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
        raise PlaceError(
            f"{path} cannot be locked ({error.strerror}). Have its owner make it writable for you, or keep the "
            "registry in another folder or in a bucket"
        ) from None
    return lock
