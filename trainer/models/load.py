"""A network from the weights in a model's folder, or in any file of weights."""

import os
import pathlib

import keras

from trainer.artifacts import WEIGHTS
from trainer.errors import UserError
from trainer.model import build_model
from trainer.models import weight_files, weights
from trainer.models.weight_files import Array


def load_model(folder: str | os.PathLike[str]) -> keras.Model:
    """The network of a model folder in float32, of free height and width (divisible by 8).

    Args:
        folder: holds WEIGHTS, as `write_model` leaves it.

    Raises:
        UserError: if there are no weights, or if they are of another network.
    """
    model = build_model((None, None), "float32")
    load_weights(model, pathlib.Path(folder) / WEIGHTS)
    return model


def load_weights(model: keras.Model, path: pathlib.Path) -> None:
    """Read weights of the whole network.

    Raises:
        UserError: if there are none at `path` or they are of another network.
    """
    if not path.is_file():
        raise UserError(f"{path} does not exist; give the folder of a model that `train` wrote")
    matched = assign_arrays(model, weight_files.read(path).arrays, str(path))
    if matched.is_encoder:
        raise UserError(f"{path} {weights.ENCODER_ALONE}")


def assign_arrays(model: keras.Model, arrays: list[Array], what: str) -> weights.Matched:
    """Give `model` its weights from the arrays of a file, which messages call `what`; what went where."""
    matched = weights.match(arrays, weights.shapes(model), what)
    weights.assign(model, matched)
    return matched
