"""Start a training. TensorFlow is loaded only after the arguments have been checked."""

import pathlib
from typing import Any

from trainer.data import Manifest
from trainer.errors import ContentError, MismatchError, NotFoundError, PlaceError, check
from trainer.io import StrPath, is_taken
from trainer.machine import load_tensorflow
from trainer.models import WeightSource
from trainer.network import ModelFolder
from trainer.training import accelerators, exits
from trainer.training.settings import TrainConfig


def train_checked(
    config: TrainConfig,
    dataset: StrPath,
    output: StrPath,
    checkpoints: StrPath,
    base_model: StrPath | None = None,
    *,
    accelerator: str = "",
    logs: str = "",
    cache: str = "auto",
    initial_weights_fingerprint: str = "",
    saved_model: bool = True,
) -> dict[str, Any]:
    """Check the arguments and train. Arguments, result and errors are as in `trainer.training.train.train`."""
    check_training(config, dataset, output, base_model, accelerator)
    exits.watch_training()
    if base_model is None:
        WeightSource(config.initial_weights).fetch_archive()
    load_tensorflow()
    from trainer.training.train import train

    return train(
        config,
        dataset,
        output,
        checkpoints,
        base_model,
        accelerator=accelerator,
        logs=logs,
        cache=cache,
        initial_weights_fingerprint=initial_weights_fingerprint,
        saved_model=saved_model,
    )


def check_training(
    config: TrainConfig,
    dataset: StrPath,
    output: StrPath,
    base_model: StrPath | None = None,
    accelerator: str = "",
) -> None:
    """Check the arguments of `trainer.training.train.train`.

    Raises:
        UserError: if the settings lack the values of their recipe, if the data, the accelerator or the initial
            weights do not exist, or if `output` is in use.
    """
    config.check_recipe_applied(fine_tuning=base_model is not None)
    manifest = Manifest.load(dataset)
    check(
        not manifest.is_test_set,
        f"{dataset} is a test set of {manifest.dataset}, which is not trained on: fetch data without --test",
        MismatchError,
    )
    check(
        bool(manifest.counts["valid"]),
        f"{manifest.dataset} has no validation images, which choose the best epoch: prepare more images",
        ContentError,
    )
    if accelerator:
        accelerators.Accelerator.named(accelerator)
    check(
        not is_taken(pathlib.Path(output)) or ModelFolder(output).config_file.is_file(),
        f"{output} exists already, and is not a model: remove it, or choose another folder",
        PlaceError,
    )
    if base_model is not None:
        folder = ModelFolder(base_model)
        folder.config_of_base()
        check(folder.has_weights, f"{folder.weights} does not exist: {folder.remedy}", NotFoundError)
    else:
        WeightSource(config.initial_weights).check_local()
