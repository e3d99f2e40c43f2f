"""Checks of a training that need no TensorFlow."""

import json
import os
import pathlib
from typing import Any

from trainer import accelerators, storage
from trainer.artifacts import MODEL_CONFIG, MODEL_REMEDY, WEIGHTS, BaseConfig, Manifest, ModelConfig
from trainer.config import NO_FILE, TrainConfig, with_recipe
from trainer.errors import UserError, check
from trainer.files import is_taken, read_json
from trainer.models import weight_sources

Path = str | os.PathLike[str]


def check_training(
    config: TrainConfig, dataset: Path, output: Path, base_model: Path | None = None, accelerator: str = ""
) -> Manifest:
    """Check the arguments of `trainer.training.train.train`; return the manifest of the data.

    Raises:
        UserError: if the data, the accelerator or the initial weights do not exist, if settings contradict the
            recipe, or if `output` is in use.
    """
    with_recipe(config, fine_tuning=base_model is not None)
    manifest = Manifest.load(dataset)
    check(
        not manifest.is_test_set,
        f"{dataset} is a test set of {manifest.dataset}, which is not trained on; fetch data without --test",
    )
    check(
        bool(manifest.counts["valid"]),
        f"{manifest.dataset} has no validation images, which choose the best epoch; prepare more images",
    )
    if accelerator:
        accelerators.get(accelerator)
    check_output(output)
    if base_model is not None:
        read_json(pathlib.Path(base_model) / MODEL_CONFIG, MODEL_REMEDY, BaseConfig)
        path = pathlib.Path(base_model) / WEIGHTS
        check(path.is_file(), f"{path} does not exist; {MODEL_REMEDY}")
    elif config.initial_weights not in NO_FILE and not storage.is_remote(config.initial_weights):
        weight_sources.check_local(config.initial_weights)
    return manifest


def check_output(output: Path, identity: dict[str, Any] | None = None) -> None:
    """Raise `UserError` if `output` exists and is not a model, or not the model of this run.

    Args:
        output: folder of the model to write.
        identity: of this run, once it is known.
    """
    folder = pathlib.Path(output)
    if not is_taken(folder):
        return
    config = folder / MODEL_CONFIG
    found: ModelConfig = read_json(config, "remove the folder", ModelConfig) if config.is_file() else {}
    existing = found.get("identity")
    if existing is None or (identity is not None and existing != json.loads(json.dumps(identity))):
        raise UserError(
            f"{output} exists already, and is not the model of this run; remove it, or choose another folder"
        )
