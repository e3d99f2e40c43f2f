"""Start a training; TensorFlow is loaded only after the arguments have been checked."""

from typing import Any

from trainer.config import TrainConfig
from trainer.loading import load_tensorflow
from trainer.models.weight_sources import fetch_archive
from trainer.training import exits
from trainer.training.checks import Path, check_training


def train_checked(
    config: TrainConfig,
    dataset: Path,
    output: Path,
    checkpoints: Path,
    base_model: Path | None = None,
    *,
    accelerator: str = "",
    **places: str,
) -> dict[str, Any]:
    """Train; arguments, result and errors are those of `trainer.training.train.train`."""
    check_training(config, dataset, output, base_model, accelerator)
    exits.watch()
    if base_model is None:
        fetch_archive(config.initial_weights)
    load_tensorflow()
    from trainer.training.train import train

    return train(config, dataset, output, checkpoints, base_model, accelerator=accelerator, **places)
