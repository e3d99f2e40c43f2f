"""What `compare` is asked to compare: a run of the pipeline, an evaluation, a registered version, or a model."""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

from trainer import artifacts, files, storage
from trainer.errors import UserError
from trainer.evaluation import per_image
from trainer.evaluation.per_image import PerImage
from trainer.models.find import find_model

KINDS = (
    "a run (runs/TIME), an evaluation (the folder that `python -m trainer evaluate` wrote), a registered version "
    "(msinet@3) or a model folder"
)
RUN_EVALUATION = "evaluate-model/evaluation"
"""In the folder of a run's attempt."""
RESERVED = {per_image.CENTER_BIAS, per_image.UNIFORM, "stimulus", "density"}
"""What is beside the models in tables and pictures."""
REMEDY = "evaluate the model again"


@dataclasses.dataclass(frozen=True)
class Measured:
    """What was found when a model was evaluated on one data set."""

    table: PerImage
    manifest: dict[str, Any]
    """What `artifacts.Manifest` says of the data, without its files."""
    folder: pathlib.Path | None
    """The prepared data, where it still is what it was."""


@dataclasses.dataclass(frozen=True)
class Contestant:
    """One of the models to compare."""

    label: str
    """What to call it: the end of what the user wrote, as long as it must be to differ from the others'."""
    given: str
    model: pathlib.Path | None
    """Its folder, where it still is there."""
    measured: dict[str, Measured]
    """Data set -> its scores; empty for a model that was not evaluated."""
    facts: dict[str, Any]
    """Where it came from, for people."""


def find_contestants(names: Sequence[str]) -> list[Contestant]:
    """The models that `names` stand for, in their order; `UserError` for what is none, and for one named twice."""
    if len(names) < 2:
        raise UserError("compare takes two or more models; `python -m trainer evaluate` looks at one")
    given = [name.rstrip("/") for name in names]
    twice = sorted({name for name in given if given.count(name) > 1})
    if twice:
        raise UserError(f"{', '.join(twice)} is named twice; name each model once")
    return [_find(name, label) for name, label in zip(given, _labels(given), strict=True)]


def _labels(names: Sequence[str]) -> list[str]:
    """The shortest ends of paths that tell them apart from each other, and from what is shown beside them."""
    parts = [name.split("/") for name in names]
    for more in range(max(map(len, parts))):
        # A version's number says nothing without its name.
        labels = ["/".join(each[-1 - each[-1].isdecimal() - more :]) for each in parts]
        if len(set(labels)) == len(labels) and not RESERVED.intersection(labels):
            return labels
    taken = min(RESERVED.intersection(names))
    raise UserError(f"{taken} is what the figures call something else; write ./{taken}, or the whole path")


def _find(name: str, label: str) -> Contestant:
    folder = pathlib.Path(name).expanduser()
    if storage.is_remote(name) and (evaluation := _download(name)) is not None:
        return _evaluated(name, label, evaluation)
    if (folder / artifacts.RUN_FILE).is_file():
        return _evaluated(name, label, _evaluation_of(folder))
    if (folder / artifacts.EVALUATION).is_file() and not (folder / artifacts.WEIGHTS).is_file():
        return _evaluated(name, label, folder)
    try:
        model = find_model(name)
    except UserError as error:
        raise UserError(f"{name} is nothing to compare ({error}); name {KINDS}") from None
    if (model / artifacts.EVALUATION).is_file():
        return _evaluated(name, label, model, model)
    return Contestant(label, name, model, {}, {"model": str(model)})


def _evaluation_of(run: pathlib.Path) -> pathlib.Path:
    """The evaluation of a run with the parameters that it has now."""
    attempt = artifacts.latest_attempt(run)
    if attempt is None or not (attempt / RUN_EVALUATION).is_dir():
        again = f"finish it with `make run-pipeline RESUME={run}`"
        raise UserError(f"the run {run} has not come to its evaluation; {again}")
    return attempt / RUN_EVALUATION


def _evaluated(name: str, label: str, folder: pathlib.Path, model: pathlib.Path | None = None) -> Contestant:
    """The candidate of an evaluation folder; `model` is its folder, where the evaluation need not be asked."""
    content = files.read_json(folder / artifacts.EVALUATION, REMEDY)
    tables = per_image.read(folder / artifacts.PER_IMAGE, REMEDY)
    try:
        measured = {
            dataset: Measured(tables[dataset], result["manifest"], _same_data(result))
            for dataset, result in content["datasets"].items()
        }
        place = model or pathlib.Path(content["model_folders"][per_image.CANDIDATE])
        facts = {"evaluated in": str(folder), "model": str(place), "code": content["code_version"]}
    except KeyError as error:
        raise UserError(f"{folder} was written by an earlier version (it has no {error}); {REMEDY}") from None
    there = place if (place / artifacts.WEIGHTS).is_file() else None
    return Contestant(label, name, there, measured, facts)


def _same_data(result: dict[str, Any]) -> pathlib.Path | None:
    """The folder of the prepared data, unless it is gone or holds other data now."""
    folder = pathlib.Path(result["folder"])
    try:
        manifest = artifacts.Manifest.load(folder)
    except UserError:
        return None
    known = result["manifest"]
    same = manifest.fingerprint == known["fingerprint"] and list(manifest.image_size) == known["image_size"]
    return folder if same else None


def _download(address: str) -> pathlib.Path | None:
    """The scores of an evaluation on Cloud Storage, in a folder removed when the process ends; None of others."""
    try:
        objects = {each.name: each for each in storage.list_objects(address)}
    except UserError:
        if "@" not in address.rpartition("/")[2]:
            raise
        return None  # no folder, but perhaps a version: `find_model` knows, and says what is wrong otherwise
    if artifacts.EVALUATION not in objects or artifacts.PER_IMAGE not in objects or artifacts.WEIGHTS in objects:
        return None
    return storage.download_for_now(address, [objects[artifacts.EVALUATION], objects[artifacts.PER_IMAGE]])
