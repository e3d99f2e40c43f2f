"""What the pipeline does with a registry: find it, compare a model with its default, register it."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.registry.address import VERTEX
from pipeline.registry.folder import LocalRegistry
from pipeline.registry.versions import NO_VERSION, Registry
from trainer import artifacts, files
from trainer.config import EvaluateConfig


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
        "model": files.read_json(pathlib.Path(model) / artifacts.MODEL_CONFIG, "train the model again"),
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
    judged = files.read_json(folder / artifacts.EVALUATION, "evaluate the model first")
    record = {
        "metrics": {dataset: result["models"]["candidate"] for dataset, result in judged["datasets"].items()},
        "compared_with": champion,
        "reason": judged["reason"],
        "lineage": facts,
    }
    return registry.add(name, pathlib.Path(model), record, judged["promote"], champion, folder)
