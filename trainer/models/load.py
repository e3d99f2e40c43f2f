"""Load the network of a model's folder, which may average over mirrored images, or weights of a file into one."""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from trainer.artifacts import MODEL_CONFIG, MODEL_REMEDY, WEIGHTS, ModelConfig
from trainer.errors import UserError
from trainer.files import read_json
from trainer.layers import Normalize
from trainer.model import build_model
from trainer.models import weight_files, weights
from trainer.models.keras_file import Array

Network = Callable[[tf.Tensor], tf.Tensor]
"""Images (N, H, W, 3), 0..255, to maps (N, H, W, 1) in [0, 1]."""


def load_model(folder: str | os.PathLike[str]) -> "Trained":
    """The network of a model's folder in float32, for any height and width divisible by 8.

    Args:
        folder: a model's folder, which holds WEIGHTS; without MODEL_CONFIG it has the defaults.

    Raises:
        UserError: there are no weights, they belong to another network, or MODEL_CONFIG is damaged.
    """
    model, config = build_model((None, None), "float32"), pathlib.Path(folder) / MODEL_CONFIG
    load_weights(model, pathlib.Path(folder) / WEIGHTS)
    return Trained(model, config.is_file() and flips(read_json(config, MODEL_REMEDY, ModelConfig)))


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


@dataclasses.dataclass(frozen=True)
class Trained:
    """The network of a model, and whether the model averages; a `Network` itself."""

    network: keras.Model
    flips: bool = False
    """The setting `flip_prediction`."""

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        """Predict the maps, (N, H, W, 1) in [0, 1], of images (N, H, W, 3), 0..255."""
        return self.predict_with(self.network)(images)

    def predict_with(self, network: Network) -> Network:
        """`network`, which computes what this one's does, averaged if this model averages."""
        return averaged(network) if self.flips else network


def flips(config: Mapping[str, Any]) -> bool:
    """Whether a model averages, by the content of its MODEL_CONFIG."""
    return bool(config.get("settings", {}).get("flip_prediction", False))


def averaged(network: Network) -> Network:
    """The mean of a network's map and of its map of the mirrored image, mirrored back; scaled to [0, 1] again."""
    normalize = Normalize()

    def both(images: tf.Tensor) -> tf.Tensor:
        images = tf.convert_to_tensor(images)
        maps = network(images)
        with tf.control_dependencies([maps]):  # one after the other, in the memory of one
            mirrored = tf.identity(tf.reverse(images, axis=[2]))
        return normalize(maps + tf.reverse(network(mirrored), axis=[2]))

    return both
