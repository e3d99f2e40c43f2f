"""A registry in TensorFlow Serving's layout, in a folder or in a bucket: what both do alike.

    <root>/<name>/aliases.json              {"default": 3, "challenger": 4}
    <root>/<name>/<version>/                a SavedModel
    <root>/<name>/<version>/assets.extra/   the same model as the trainer reads it (weights, configuration,
                                            history), the scores of each image, and `VERSION`: metrics and lineage

TensorFlow Serving can read <root>/<name> directly.
"""

import abc
import pathlib
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

from pipeline.registry.versions import NO_VERSION, Version, check_model
from trainer import artifacts
from trainer.artifacts import CHALLENGER, DEFAULT
from trainer.errors import ContentError, check
from trainer.files import checksum
from trainer.models.registry_layout import NEEDED, VERSION, listed, model_at

READERS = 8
"""Threads that read the records of several versions."""
Models = Mapping[int, Collection[str]]
"""Number of a version -> names of the files that the trainer reads."""
DAMAGED = "remove it, then set the default with `python -m pipeline registry set-default VERSION`"
"""Remedy for a file of aliases that cannot be read."""


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

    def default(self, name: str) -> Version | None:
        """The default version, or None. Raises `UserError` if the alias names a version that does not exist."""
        version = self._default(name)
        return version and self._readable(version)

    def add(
        self,
        name: str,
        model: pathlib.Path,
        record: Mapping[str, Any],
        promote: bool,
        champion: int,
        evaluation: pathlib.Path | None = None,
    ) -> tuple[int, str]:
        """Register a model folder; returns the version's number and alias. See `Registry.add`."""
        check_model(model)

        def choose(aliases: Mapping[str, int]) -> str:
            # Another run may have moved the default since this model was compared with it.
            default = aliases.get(DEFAULT, NO_VERSION)
            return DEFAULT if number == default or (promote and default == champion) else CHALLENGER

        with self._locked(name):
            number = self._registered(name, model, record)
            if number is None:
                number = self._write(name, model, evaluation, record)
            return number, self._point(name, number, choose)

    def set_alias(self, name: str, alias: str, version: int) -> None:
        """Let `alias` name `version`; see `Registry.set_alias`."""
        self._version(name, version, self._models(name))
        with self._locked(name):
            self._point(name, version, lambda aliases: alias)

    def check_writable(self, name: str) -> None:
        """Raise `UserError` if no version could be added; see `Registry.check_writable`."""
        self._probe(name)
        self._default(name)

    # === Rules ===

    def _version(self, name: str, number: int, models: Models, hint: str = "") -> Version:
        """A version. Raises `UserError`, which ends with `hint`, if it does not exist, or if files are missing."""
        check(
            number in models,
            f"model {name!r} has no version {number} in {self.address} "
            f"(versions: {listed(sorted(models)) or 'none'}){hint}",
        )
        place = self._place(name, number)
        missing = ", ".join(file for file in (VERSION, *NEEDED) if file not in models[number])
        remedy = f"restore it, or remove {place}"
        if missing:
            raise ContentError(
                f"version {number} of model {name!r} is incomplete: {model_at(place)} has no {missing}; {remedy}"
            )
        return Version(number, self._folder(place), place, self._record(place, remedy))

    def _default(self, name: str) -> Version | None:
        """The default version, or None; its files may not be on this machine."""
        number = self.aliases(name).get(DEFAULT)
        if number is None:
            return None
        models = self._models(name)
        select = "select another with `python -m pipeline registry set-default VERSION`"
        remedy = select if models else f"remove {self.address}/{name}/{artifacts.ALIASES}"
        return self._version(name, number, models, f", which is its default; {remedy}")

    def _registered(self, name: str, model: pathlib.Path, record: Mapping[str, Any]) -> int | None:
        """The version that an earlier attempt of this run made from the same weights; None if there is none."""

        def is_same(number: int) -> bool:
            try:
                version = self._version(name, number, models)
            except ContentError:  # an incomplete version, which is no reason to lose this model
                return False
            return _is_of_same_run(version.record, record) and self._checksum(version.place) == expected

        models, expected = self._models(name), checksum(model / artifacts.WEIGHTS)
        with ThreadPoolExecutor(READERS) as pool:
            numbers = sorted(models)
            found = pool.map(is_same, numbers)
            return next((number for number, same in zip(numbers, found, strict=True) if same), None)

    def _place(self, name: str, number: int) -> str:
        return f"{self.address}/{name}/{number}"

    # === Files ===

    @abc.abstractmethod
    def _models(self, name: str) -> Models:
        """The versions, except those that are being written."""

    @abc.abstractmethod
    def _folder(self, place: str) -> pathlib.Path:
        """Where a task finds the version at `place` as the trainer reads it."""

    @abc.abstractmethod
    def _readable(self, version: Version) -> Version:
        """A version with its files on this machine."""

    @abc.abstractmethod
    def _record(self, place: str, remedy: str) -> dict[str, Any]:
        """The content of VERSION; raises a `UserError` that ends with `remedy` if it is damaged."""

    @abc.abstractmethod
    def _checksum(self, place: str) -> str:
        """CRC32C of the weights of the version at `place`, as `checksum`."""

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
    def _probe(self, name: str) -> None:
        """Raise `UserError` if nothing can be written for the model."""


def _is_of_same_run(registered: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    """Whether two records have the same run, by its name or its folder, and the same metrics."""
    ours, theirs = (entry.get("lineage", {}) for entry in (record, registered))
    is_same_run = any(ours.get(key) and ours[key] == theirs.get(key) for key in ("run", "folder"))
    return is_same_run and registered.get("metrics") == record["metrics"]
