"""What a trained model rests on, and whether two runs are one."""

import dataclasses
import os
import pathlib
from typing import Any

from trainer.artifacts import MODEL_CONFIG, Manifest, code_version
from trainer.config import TrainConfig
from trainer.files import read_json

CHANGEABLE = ("epochs", "checkpoint_minutes", "precision", "accumulation", "profile_steps")
"""Settings that may differ when a run goes on; what precision came to may not."""


def lineage(
    config: TrainConfig,
    manifest: Manifest,
    precision: str,
    base_model: str | os.PathLike[str] | None,
    initial_weights_fingerprint: str = "",
) -> dict[str, Any]:
    """Settings, data and code of a training; `identity` is the part that a checkpoint must agree with.

    Args:
        config: the settings, with the batch size that is used.
        manifest: of the data.
        precision: what `config.precision` came to.
        base_model: folder of the model whose weights to start from.
        initial_weights_fingerprint: digest of the file of initial weights; empty where there is none.
    """
    base = None
    if base_model is not None:
        base = read_json(pathlib.Path(base_model) / MODEL_CONFIG, "give the folder of a model that `train` wrote")
    settings = dataclasses.asdict(config)
    identity = {key: value for key, value in settings.items() if key not in CHANGEABLE}
    if config.schedule != "constant":  # the way to its end depends on where that is
        identity["epochs"] = config.epochs
    if initial_weights_fingerprint:  # absent otherwise, so that older checkpoints without such a file go on
        identity["initial_weights_fingerprint"] = initial_weights_fingerprint
    identity |= {
        "precision": precision,
        "image_size": list(manifest.image_size),
        "n_train": manifest.counts["train"],
        "fingerprint": manifest.fingerprint,
        "base": base and [base["identity"], base["best_epoch"]],
    }
    return {
        "dataset": manifest.dataset,
        "source": manifest.source,
        "fingerprint": manifest.fingerprint,
        "counts": manifest.counts,
        "image_size": list(manifest.image_size),
        "precision": precision,
        "settings": settings,
        "code_version": code_version(),
        "base_model": base,
        "identity": identity,
    }
