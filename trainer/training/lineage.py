"""The origin of a trained model (settings, data and code), and the identity of the run that writes it."""

import dataclasses
import json
import pathlib
from typing import Any

from trainer.artifacts import MODEL_CONFIG, MODEL_REMEDY, BaseConfig, Manifest, ModelConfig, StrPath, code_version
from trainer.config import TrainConfig
from trainer.errors import UserError
from trainer.files import is_taken, read_json

CHANGEABLE = (
    "recipe",
    "epochs",
    "patience",
    "checkpoint_minutes",
    "precision",
    "accumulation",
    "profile_steps",
    "flip_prediction",
)
"""Settings that may change when a run resumes. The resolved precision may not."""
LATER = ("flip",)
"""Settings that checkpoints of earlier versions do not have; such a run had their defaults."""


def lineage(
    config: TrainConfig,
    manifest: Manifest,
    precision: str,
    base_model: StrPath | None,
    initial_weights_fingerprint: str = "",
) -> dict[str, Any]:
    """Describe the settings, data and code of a training; a checkpoint must have the same `identity`.

    Args:
        config: the settings, with the batch size in use.
        manifest: of the data.
        precision: the resolved `config.precision`.
        base_model: folder of the model whose weights to start from.
        initial_weights_fingerprint: digest of the file of initial weights; empty without such a file.
    """
    base = None
    if base_model is not None:
        base = read_json(pathlib.Path(base_model) / MODEL_CONFIG, MODEL_REMEDY, BaseConfig)
    return {
        "dataset": manifest.dataset,
        "source": manifest.source,
        "fingerprint": manifest.fingerprint,
        "counts": manifest.counts,
        "test_share": manifest.test_share,
        "split": manifest.split,
        "image_size": list(manifest.image_size),
        "precision": precision,
        "settings": dataclasses.asdict(config),
        "code_version": code_version(),
        "base_model": base,
        "identity": _identity(config, manifest, precision, base, initial_weights_fingerprint),
    }


def _identity(
    config: TrainConfig,
    manifest: Manifest,
    precision: str,
    base: dict[str, Any] | None,
    initial_weights_fingerprint: str,
) -> dict[str, Any]:
    identity = {
        field.name: value
        for field in dataclasses.fields(config)
        if field.name not in CHANGEABLE
        and ((value := getattr(config, field.name)) != field.default or field.name not in LATER)
    }
    if config.schedule != "constant":  # the learning rate of every step depends on the number of epochs
        identity["epochs"] = config.epochs
    if initial_weights_fingerprint:  # absent otherwise, so that older checkpoints without such a file can resume
        identity["initial_weights_fingerprint"] = initial_weights_fingerprint
    if manifest.test_share:  # likewise; the images that choose the epoch depend on it
        identity["test_share"] = manifest.test_share
    return identity | {
        "precision": precision,
        "image_size": list(manifest.image_size),
        "n_train": manifest.counts["train"],
        "fingerprint": manifest.fingerprint,
        "base": base and [base["identity"], base["best_epoch"]],
    }


def check_output(output: StrPath, identity: dict[str, Any] | None = None) -> None:
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
