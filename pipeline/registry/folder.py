"""A model registry in a folder: versions of a model, and which version is the default.

The folder has TensorFlow Serving's layout, so TensorFlow Serving can read it directly:

    <root>/<name>/aliases.json              {"default": 3, "challenger": 4}
    <root>/<name>/<version>/                a SavedModel
    <root>/<name>/<version>/assets.extra/   the same model as the trainer reads it (weights, configuration,
                                            history), the scores of each image, and `VERSION`: metrics and lineage
"""

import dataclasses
import fcntl
import os
import pathlib
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

from pipeline.registry.versions import NO_VERSION, VERSION, Version, check_model, dated, files_of
from trainer import artifacts, files, storage
from trainer.artifacts import ALIASES, CHALLENGER, DEFAULT, REGISTRY
from trainer.errors import UserError, check
from trainer.models import registry_layout
from trainer.models.registry_layout import NEEDED, model_in


@dataclasses.dataclass(frozen=True)
class LocalRegistry:
    """A registry in a folder."""

    root: pathlib.Path

    @classmethod
    def at(cls, location: str) -> Self:
        """The registry in the folder `location`; in `models` in the working directory if that is empty."""
        return cls(pathlib.Path(location or REGISTRY))

    def versions(self, name: str) -> list[Version]:
        """As `Registry`."""
        return [self._version(name, number) for number in self._numbers(name)]

    def aliases(self, name: str) -> dict[str, int]:
        """As `Registry`."""
        remedy = "remove it, then set the default with `python -m pipeline registry set-default VERSION`"
        return registry_layout.read_aliases(self.root / name, remedy)

    def default(self, name: str) -> Version | None:
        """As `Registry`. Raises `UserError` if the alias names a version that does not exist."""
        number, numbers = self.aliases(name).get(DEFAULT), self._numbers(name)
        if number is None:
            return None
        select = "select another with `python -m pipeline registry set-default VERSION`"
        remedy = select if numbers else f"remove {self.root / name / ALIASES}"
        return self._version(name, number, f", which is its default; {remedy}")

    def add(
        self,
        name: str,
        model: pathlib.Path,
        record: Mapping[str, Any],
        promote: bool,
        champion: int,
        evaluation: pathlib.Path | None = None,
    ) -> tuple[int, str]:
        """As `Registry`."""
        check_model(model)
        with self._locked(name) as folder:
            number = self._registered(name, model, record)
            if number is None:
                number = max(self._numbers(name), default=0) + 1
                _write(folder / str(number), model, evaluation, {"version": number, **record})
            # Another run may have moved the default since this model was compared with it.
            default = self.aliases(name).get(DEFAULT, NO_VERSION)
            alias = DEFAULT if number == default or (promote and default == champion) else CHALLENGER
            self._write_alias(name, alias, number)
        return number, alias

    def set_alias(self, name: str, alias: str, version: int) -> None:
        """As `Registry`."""
        self._version(name, version)
        with self._locked(name):
            self._write_alias(name, alias, version)

    def _registered(self, name: str, model: pathlib.Path, record: Mapping[str, Any]) -> int | None:
        """The version that an earlier attempt of this run made from the same weights; None if there is none."""
        for number in self._numbers(name):
            try:
                version = self._version(name, number)
            except UserError:  # an incomplete version, which is no reason to lose this model
                continue
            weights = (folder / artifacts.WEIGHTS for folder in (version.model, model))
            if _is_of_same_run(version.record, record) and len(set(map(storage.checksum, weights))) == 1:
                return number
        return None

    def _numbers(self, name: str) -> list[int]:
        return registry_layout.version_numbers(self.root / name)

    def _version(self, name: str, number: int, hint: str = "") -> Version:
        """A version. Raises `UserError`, which ends with `hint`, if it does not exist, or if files are missing."""
        numbers = self._numbers(name)
        existing = ", ".join(map(str, numbers)) or "none"
        check(
            number in numbers,
            f"model {name!r} has no version {number} in {self.root} (versions: {existing}){hint}",
        )
        place = self.root / name / str(number)
        model = model_in(place)
        missing = ", ".join(file for file in (VERSION, *NEEDED) if not (model / file).is_file())
        remedy = f"restore it, or remove {place}"
        check(not missing, f"version {number} of model {name!r} is incomplete: {model} has no {missing}; {remedy}")
        return Version(number, model, str(place), files.read_json(model / VERSION, remedy))

    def _write_alias(self, name: str, alias: str, version: int) -> None:
        files.write_json(self.root / name / ALIASES, {**self.aliases(name), alias: version})

    @contextmanager
    def _locked(self, name: str) -> Iterator[pathlib.Path]:
        """The folder of `name`, for one writer at a time; removes the leftovers of killed writers."""
        folder = self.root / name
        files.check_place(folder / ALIASES)
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            unfinished = (path.parent for path in folder.glob(f"*/{files.UNFINISHED}"))
            for leftover in (*folder.glob(".partial-*"), *unfinished):
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
            yield folder
        finally:
            os.close(lock)


def _write(
    place: pathlib.Path, model: pathlib.Path, evaluation: pathlib.Path | None, record: Mapping[str, Any]
) -> None:
    """Write the folder of a version."""
    with files.replacing(place, last=f"{artifacts.VERSION_EXTRA}/{VERSION}") as partial:
        shutil.copytree(model / artifacts.SAVED_MODEL, partial)
        extra = model_in(partial)
        extra.mkdir(exist_ok=True)
        for file in files_of(model, evaluation).values():
            shutil.copy(file, extra)
        files.write_json(extra / VERSION, dated(record))


def _is_of_same_run(registered: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    """Whether two records have the same run, by its name or its folder, and the same metrics."""
    ours, theirs = (entry.get("lineage", {}) for entry in (record, registered))
    is_same_run = any(ours.get(key) and ours[key] == theirs.get(key) for key in ("run", "folder"))
    return is_same_run and registered["metrics"] == record["metrics"]
