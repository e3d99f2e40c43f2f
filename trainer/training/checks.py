"""What can be wrong with a training, before TensorFlow is loaded for it."""

import json
import os
import pathlib
from typing import Any

from trainer import accelerators, storage
from trainer.artifacts import MODEL_CONFIG, WEIGHTS, Manifest
from trainer.config import NO_FILE, TrainConfig
from trainer.errors import UserError, check
from trainer.files import is_taken, read_json
from trainer.models import weight_sources

Path = str | os.PathLike[str]


def check_training(
    config: TrainConfig, dataset: Path, output: Path, base_model: Path | None = None, accelerator: str = ""
) -> Manifest:
    """The manifest of the data; the arguments are those of `trainer.training.train.train`.

    Raises:
        UserError: the data, the accelerator or the weights to start from are not there, or `output` is taken.
    """
    manifest = Manifest.load(dataset)
    check(
        bool(manifest.counts["valid"]),
        f"{manifest.dataset} has no validation images, by which the best epoch is chosen",
    )
    if accelerator:
        accelerators.get(accelerator)
    check_output(output)
    if base_model is not None:
        remedy = "give the folder of a model that `train` wrote"
        read_json(pathlib.Path(base_model) / MODEL_CONFIG, remedy)
        path = pathlib.Path(base_model) / WEIGHTS
        check(path.is_file(), f"{path} does not exist; {remedy}")
    elif config.initial_weights not in NO_FILE and not storage.is_remote(config.initial_weights):
        weight_sources.check_local(config.initial_weights)
    return manifest


def check_output(output: Path, identity: dict[str, Any] | None = None) -> None:
    """Raise `UserError` if there is something at `output` that is not a model, or not that of this very run.

    Args:
        output: folder of the model to write.
        identity: what tells this run from others, once it is known.
    """
    folder = pathlib.Path(output)
    if not is_taken(folder):
        return
    config = folder / MODEL_CONFIG
    found = read_json(config, "remove the folder").get("identity") if config.is_file() else None
    if found is None or (identity is not None and found != json.loads(json.dumps(identity))):
        raise UserError(f"{output} exists already, and is not the model of this run; remove it, or name another")
