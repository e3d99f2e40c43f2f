"""Load the network of a model's folder, or weights from any file into a network."""

import os
import pathlib

import keras

from trainer.artifacts import MODEL_CONFIG, MODEL_REMEDY, WEIGHTS, ModelConfig
from trainer.errors import UserError
from trainer.files import read_json
from trainer.model import build_model
from trainer.models import trained, weight_files, weights
from trainer.models.arrays import Array
from trainer.models.trained import Trained


def load_model(folder: str | os.PathLike[str]) -> Trained:
    """The network of a model's folder in float32, for any height and width divisible by 8.

    Args:
        folder: a model's folder, which holds WEIGHTS; without MODEL_CONFIG it has the defaults.

    Raises:
        UserError: there are no weights, they belong to another network, or MODEL_CONFIG is damaged.
    """
    model, config = build_model((None, None), "float32"), pathlib.Path(folder) / MODEL_CONFIG
    load_weights(model, pathlib.Path(folder) / WEIGHTS)
    return Trained(model, config.is_file() and trained.flips(read_json(config, MODEL_REMEDY, ModelConfig)))


def load_weights(model: keras.Model, path: pathlib.Path) -> None:
    """Read the weights of the whole network from `path`.

    Raises:
        UserError: the file does not exist, or belongs to another network.
    """
    if not path.is_file():
        raise UserError(f"{path} does not exist; {MODEL_REMEDY}")
    matched = assign_arrays(model, weight_files.read(path).arrays, str(path))
    if matched.is_encoder:
        raise UserError(f"{path} {weights.ENCODER_ALONE}")


def assign_arrays(model: keras.Model, arrays: list[Array], what: str) -> weights.Matched:
    """Assign the arrays of a file, which messages call `what`, to the layers of `model`.

    Raises:
        UserError: the arrays belong to another network; see `weights.match`.
    """
    matched = weights.match(arrays, weights.shapes(model), what)
    weights.assign(model, matched)
    return matched
