"""The models that `compare` compares: of a pipeline run, an evaluation, a registered version or a model folder."""

import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Any

from trainer import artifacts, files, generated, storage
from trainer.errors import UserError
from trainer.evaluation import per_image
from trainer.evaluation.per_image import PerImage
from trainer.files import local_path
from trainer.loading import load_tensorflow
from trainer.models.find import find_model

KINDS = (
    "a run (runs/TIME), an evaluation (the output folder of `python -m trainer evaluate`), a registered version "
    "(msinet@3), a model folder or pretrained"
)
RUN_EVALUATION = "evaluate-model/evaluation"
"""Relative to the folder of a run's attempt."""
RESERVED = {per_image.CENTER_BIAS, per_image.UNIFORM, "stimulus", "density"}
"""Names that tables and pictures use for something else than a model."""
EVALUATE_AGAIN = "evaluate the model again"


@dataclasses.dataclass(frozen=True)
class Measured:
    """The evaluation of a model on one dataset."""

    table: PerImage
    manifest: dict[str, Any]
    """Content of `artifacts.Manifest`, without its files."""
    folder: pathlib.Path | None
    """The prepared data; None if it no longer exists or has changed."""
    center_bias: tuple[Any, ...] = ()
    """Fingerprint and number of the training images of the centre bias; empty for those of `manifest`."""


@dataclasses.dataclass(frozen=True)
class Contestant:
    """One of the models to compare."""

    label: str
    """The shortest end of `name` that no other contestant has."""
    name: str
    """What the user wrote."""
    model: pathlib.Path | None
    """The model folder; None if it no longer exists."""
    measured: dict[str, Measured]
    """Dataset -> evaluation; empty for a model that was not evaluated."""
    facts: dict[str, Any]
    """Where the model comes from, for people."""

    @property
    def notice(self) -> str:
        """What must be said of a model of the sample set; empty for others, and if the model no longer exists."""
        return generated.of_folder(self.model, self.label) if self.model else ""

    @functools.cached_property
    def network(self) -> Any:
        """The `scoring.Network` of a model folder that exists, loaded on first use."""
        assert self.model is not None
        load_tensorflow()
        from trainer.evaluation.scoring import load_network

        return load_network(self.model)


def find_contestants(names: Sequence[str]) -> list[Contestant]:
    """Find the models with these names, in their order.

    Raises:
        UserError: a name stands for no model, two names are equal, or there are fewer than two.
    """
    if len(names) < 2:
        raise UserError("compare needs two or more models; to evaluate one, use `python -m trainer evaluate`")
    names = [name.rstrip("/") for name in names]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise UserError(f"{', '.join(repeated)} is named twice; name each model once")
    return [_find(name, label) for name, label in zip(names, _labels(names), strict=True)]


def _labels(names: Sequence[str]) -> list[str]:
    """The shortest ends of paths that differ from each other and are not RESERVED."""
    parts = [name.split("/") for name in names]
    for more in range(max(map(len, parts))):
        # The number of a version is meaningless without the model's name.
        labels = ["/".join(path[-1 - path[-1].isdecimal() - more :]) for path in parts]
        if len(set(labels)) == len(labels) and not RESERVED.intersection(labels):
            return labels
    reserved = min(RESERVED.intersection(names))
    raise UserError(f"the name {reserved} has another meaning in reports; write ./{reserved}, or the whole path")


def _find(name: str, label: str) -> Contestant:
    folder = local_path(name)
    if storage.is_remote(name) and (evaluation := _download(name)) is not None:
        return _evaluated(name, label, evaluation)
    if (folder / artifacts.RUN_FILE).is_file():
        return _evaluated(name, label, _evaluation_of(folder))
    if (folder / artifacts.EVALUATION).is_file() and not (folder / artifacts.WEIGHTS).is_file():
        return _evaluated(name, label, folder)
    try:
        model = find_model(name)
    except UserError as error:
        raise UserError(f"{name} cannot be compared ({error}); name {KINDS}") from None
    if (model / artifacts.EVALUATION).is_file():
        return _evaluated(name, label, model, model)
    return Contestant(label, name, model, {}, {"model": str(model)})


def _evaluation_of(run: pathlib.Path) -> pathlib.Path:
    """The evaluation of the run's latest attempt."""
    attempt = artifacts.latest_attempt(run)
    if attempt is None or not (attempt / RUN_EVALUATION).is_dir():
        raise UserError(f"the run {run} has no evaluation yet; finish it with `make run-pipeline RESUME={run}`")
    return attempt / RUN_EVALUATION


def _evaluated(name: str, label: str, folder: pathlib.Path, model: pathlib.Path | None = None) -> Contestant:
    """The candidate of an evaluation folder; its model is in `model`, or else where the evaluation says."""
    content = files.read_json(folder / artifacts.EVALUATION, EVALUATE_AGAIN, artifacts.Compared)
    tables = per_image.read(folder / artifacts.PER_IMAGE, EVALUATE_AGAIN)
    try:
        measured = {
            dataset: Measured(
                *(tables[dataset], result["manifest"], _same_data(result)), tuple(result.get("center_bias", ()))
            )
            for dataset, result in content["datasets"].items()
        }
        path = model or pathlib.Path(content["model_folders"][per_image.CANDIDATE])
        facts = {"evaluation": str(folder), "model": str(path), "code": content["code_version"]}
    except KeyError as error:
        raise UserError(f"{folder} is from an earlier version (it has no {error}); {EVALUATE_AGAIN}") from None
    existing = path if (path / artifacts.WEIGHTS).is_file() else None
    return Contestant(label, name, existing, measured, facts)


def _same_data(result: dict[str, Any]) -> pathlib.Path | None:
    """The folder of the prepared data; None if it no longer exists or has changed."""
    folder = pathlib.Path(result["folder"])
    try:
        manifest = artifacts.Manifest.load(folder)
    except UserError:
        return None
    stored = result["manifest"]
    is_same = manifest.fingerprint == stored["fingerprint"] and list(manifest.image_size) == stored["image_size"]
    return folder if is_same else None


def _download(address: str) -> pathlib.Path | None:
    """Download an evaluation from Cloud Storage to a folder that is removed at exit; None for anything else."""
    try:
        objects = {each.name: each for each in storage.list_objects(address)}
    except UserError:
        if "@" not in address.rpartition("/")[2]:
            raise
        return None  # it may be a registered version, which `find_model` looks up
    if artifacts.EVALUATION not in objects or artifacts.PER_IMAGE not in objects or artifacts.WEIGHTS in objects:
        return None
    return storage.download_for_now(address, [objects[artifacts.EVALUATION], objects[artifacts.PER_IMAGE]])
