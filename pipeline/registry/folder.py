"""The model registry: versions of a model, and which of them is the default. No TensorFlow needed.

`LocalRegistry` is a folder in TensorFlow Serving's layout, which Serving can be pointed at as it is:

    <root>/<name>/aliases.json              {"default": 3, "challenger": 4}
    <root>/<name>/<version>/                a SavedModel
    <root>/<name>/<version>/assets.extra/   the same model as the trainer reads it (weights, configuration,
                                            history), its scores of each image, and `VERSION`: metrics and lineage
"""

import dataclasses
import datetime
import fcntl
import os
import pathlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

from pipeline.registry.address import VERTEX
from pipeline.registry.versions import NO_VERSION, VERSION, Registry, Version, check_model, files_of
from trainer import artifacts, storage
from trainer.artifacts import ALIASES, CHALLENGER, DEFAULT, REGISTRY
from trainer.config import EvaluateConfig, check
from trainer.errors import UserError
from trainer.models.find import NEEDED


@dataclasses.dataclass(frozen=True)
class LocalRegistry:
    """A registry in a folder."""

    root: pathlib.Path

    @classmethod
    def at(cls, location: str) -> Self:
        """The one in a folder, `models` in the working directory if `location` is empty."""
        return cls(pathlib.Path(location or REGISTRY))

    def versions(self, name: str) -> list[Version]:
        return [self._version(name, number) for number in self._numbers(name)]

    def aliases(self, name: str) -> dict[str, int]:
        path = self.root / name / ALIASES
        remedy = f"remove {path}, and name the default with `python -m pipeline registry set-default VERSION`"
        return dict(artifacts.read_json(path, remedy)) if path.exists() else {}

    def default(self, name: str) -> Version | None:
        """As of `Registry`; `UserError` where the alias names a version that is not there."""
        number, numbers = self.aliases(name).get(DEFAULT), self._numbers(name)
        if number is None:
            return None
        another = "`python -m pipeline registry set-default VERSION` names another"
        remedy = another if numbers else f"remove {self.root / name / ALIASES}"
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
        check_model(model)
        with self._locked(name) as folder:
            number = self._registered(name, model, record)
            if number is None:
                number = max(self._numbers(name), default=0) + 1
                _write(folder / str(number), model, evaluation, {"version": number, **record})
            # Another run may have moved the default after this model was compared with it.
            default = self.aliases(name).get(DEFAULT, NO_VERSION)
            alias = DEFAULT if number == default or (promote and default == champion) else CHALLENGER
            self._write_alias(name, alias, number)
        return number, alias

    def set_alias(self, name: str, alias: str, version: int) -> None:
        self._version(name, version)
        with self._locked(name):
            self._write_alias(name, alias, version)

    def _registered(self, name: str, model: pathlib.Path, record: Mapping[str, Any]) -> int | None:
        """The version that this run has made of these weights already, in an earlier try at the upload."""
        for number in self._numbers(name):
            try:
                known = self._version(name, number)
            except UserError:  # one that is not whole, which is no reason to lose this model
                continue
            weights = (folder / artifacts.WEIGHTS for folder in (known.model, model))
            if _is_of_one_run(known.record, record) and len(set(map(storage.checksum, weights))) == 1:
                return number
        return None

    def _numbers(self, name: str) -> list[int]:
        folder = self.root / name
        found = folder.iterdir() if folder.is_dir() else ()
        return sorted(int(each.name) for each in found if each.name.isdecimal())

    def _version(self, name: str, number: int, hint: str = "") -> Version:
        """A version that is there, whole; `hint` ends what is said where there is no such one."""
        numbers = self._numbers(name)
        known = ", ".join(map(str, numbers)) or "none"
        check(
            number in numbers, f"model {name!r} has no version {number} in {self.root} (versions: {known}){hint}"
        )
        place = self.root / name / str(number)
        model = place / artifacts.VERSION_EXTRA
        missing = ", ".join(each for each in (VERSION, *NEEDED) if not (model / each).is_file())
        remedy = f"put it back, or remove {place}"
        check(not missing, f"version {number} of model {name!r} is not whole, {model} has no {missing}; {remedy}")
        return Version(number, model, str(place), artifacts.read_json(model / VERSION, remedy))

    def _write_alias(self, name: str, alias: str, version: int) -> None:
        artifacts.write_json(self.root / name / ALIASES, {**self.aliases(name), alias: version})

    @contextmanager
    def _locked(self, name: str) -> Iterator[pathlib.Path]:
        """The folder of `name`, for one writer at a time; what a killed writer left behind is removed."""
        folder = self.root / name
        artifacts.check_place(folder / ALIASES)
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for leftover in folder.glob(".partial-*"):
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
            yield folder
        finally:
            os.close(lock)


def _write(
    place: pathlib.Path, model: pathlib.Path, evaluation: pathlib.Path | None, record: Mapping[str, Any]
) -> None:
    """Write the folder of a version."""
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    with artifacts.replacing(place) as partial:
        shutil.copytree(model / artifacts.SAVED_MODEL, partial)
        extra = partial / artifacts.VERSION_EXTRA
        extra.mkdir(exist_ok=True)
        for file in files_of(model, evaluation).values():
            shutil.copy(file, extra)
        artifacts.write_json(extra / VERSION, {"created": created, **record})


def _is_of_one_run(known: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    """Whether two records are of one run, by its name or its folder, and say the same of the model."""
    ours, theirs = (each.get("lineage", {}) for each in (record, known))
    is_same_run = any(ours.get(key) and ours[key] == theirs.get(key) for key in ("run", "folder"))
    return is_same_run and known["metrics"] == record["metrics"]


def connect(location: str = "") -> Registry:
    """The registry at `location`: a folder (`models` in the working directory if it is empty), or vertex://..."""
    if location.startswith(VERTEX):
        from pipeline.registry.vertex import VertexRegistry

        return VertexRegistry.at(location)
    return LocalRegistry.at(location)


def lineage(run: str, data: Mapping[str, str], model: str) -> dict[str, Any]:
    """What a model was made from: the run, the code, the prepared data of each step, and its settings."""
    manifests = {step: artifacts.Manifest.load(folder) for step, folder in data.items()}
    return {
        "run": run,
        # A run on this machine that goes on has another name, in the same folder.
        "folder": model.partition(f"/{run}/")[0],
        "code_version": artifacts.code_version(),
        "data": {
            step: {
                "dataset": manifest.dataset,
                "source": manifest.source,
                "fingerprint": manifest.fingerprint,
                "image_size": manifest.image_size,
                "counts": manifest.counts,
            }
            for step, manifest in manifests.items()
        },
        "model": artifacts.read_json(pathlib.Path(model) / artifacts.MODEL_CONFIG, "train the model again"),
    }


def compare(
    config: EvaluateConfig, location: str, name: str, model: str, data: Sequence[str], output: str
) -> tuple[dict[str, Any], int]:
    """Evaluate a candidate beside the current default of model `name`.

    `data` are prepared data sets, the first of which decides. Returns the evaluation, and the number of the
    version the candidate was compared with, `NO_VERSION` where there is none.
    """
    from trainer.evaluation.evaluate import evaluate

    champion = connect(location).default(name)
    folders = artifacts.prepared_by_name(data)
    judged = evaluate(config, model, folders, output, champion.model if champion else None)
    return judged, champion.number if champion else NO_VERSION


def register(
    registry: Registry, name: str, model: str, evaluation: str, champion: int, facts: Mapping[str, Any]
) -> tuple[int, str]:
    """Register an evaluated model; returns its version and the alias it got."""
    folder = pathlib.Path(evaluation)
    judged = artifacts.read_json(folder / artifacts.EVALUATION, "evaluate the model first")
    record = {
        "metrics": {dataset: result["models"]["candidate"] for dataset, result in judged["datasets"].items()},
        "compared_with": champion,
        "reason": judged["reason"],
        "lineage": facts,
    }
    return registry.add(name, pathlib.Path(model), record, judged["promote"], champion, folder)
