"""Load the Keras network of a model's folder, with its averaging and its calibration, or weights into one."""

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from trainer.errors import MismatchError
from trainer.network import model_folder
from trainer.network.arrays import Array, Weights
from trainer.network.calibration import Calibration
from trainer.network.keras_networks import build_network
from trainer.network.layers import Normalize
from trainer.network.matching import Matched, match
from trainer.network.model_folder import ModelFolder
from trainer.network.networks import NETWORKS
from trainer.network.tensorflow_calibration import calibrated
from trainer.network.weight_files import LocalWeights
from trainer.network.weights import read_weights

Predict = Callable[[tf.Tensor], tf.Tensor]
"""Images (N, H, W, 3), 0..255, to maps (N, H, W, 1) in [0, 1]."""


def load_model(folder: str | os.PathLike[str]) -> "Trained":
    """The network of a model's folder in float32, for any height and width divisible by its stride.

    Args:
        folder: a model's folder. Without MODEL_CONFIG the model has the defaults.

    Raises:
        UserError: there are no weights, they belong to another network, or MODEL_CONFIG is damaged.
    """
    model = build_network(ModelFolder(folder).architecture, (None, None), "float32")
    load_weights(model, folder)
    return trained_network(model, ModelFolder(folder).known_config() or {})


def load_weights(model: keras.Model, folder: str | os.PathLike[str]) -> None:
    """Assign the weights of a model's folder to `model`.

    Raises:
        UserError: as `trainer.network.weights.read_weights`, or the folder has a model of another network.
    """
    architecture = ModelFolder(folder).architecture
    if architecture.name != model.name:
        raise MismatchError(
            f"{folder} has a model of {architecture.title}, which cannot be the start of another network, "
            f"{NETWORKS[model.name].title}. Name a model of that network"
        )
    _assign(model, read_weights(folder))


def assign_weights(model: keras.Model, weights: LocalWeights | list[Array], what: str) -> None:
    """Assign weights to the layers of `model`, named as its network: files of any form, or arrays.

    Messages call them `what`, such as "ImageNet's VGG16".

    Raises:
        ContentError: as `LocalWeights.read`, or they are of another network.
        UserError: as `load_weights`.
    """
    if isinstance(weights, list):
        assign_arrays(model, weights, what)
    elif weights.model:
        load_weights(model, weights.model)
    else:
        assign_arrays(model, weights.read(NETWORKS[model.name].weight_shapes().values(), what), what)


def assign_arrays(model: keras.Model, arrays: list[Array], what: str, whole: bool = False) -> Matched:
    """Assign the arrays of a file, which messages call `what`, to the layers of `model`, named as its network.

    With `whole`, the weights of an encoder alone are refused.

    Raises:
        ContentError: the arrays belong to another network. See `trainer.network.matching.match`.
    """
    matched = match(NETWORKS[model.name], arrays, what, whole)
    _assign(model, matched.values)
    return matched


def _assign(model: keras.Model, weights: Weights) -> None:
    for (layer, role), value in weights.items():
        getattr(model.get_layer(layer), role).assign(value)


@dataclasses.dataclass(frozen=True)
class Trained:
    """The network of a model, whether the model averages, and its calibration. It is a `Predict` itself."""

    network: keras.Model
    flips: bool = False
    """The setting `flip_prediction`."""
    calibration: Calibration | None = None

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        """Predict the maps, (N, H, W, 1) in [0, 1], of images (N, H, W, 3), 0..255."""
        maps = (averaged(self.network) if self.flips else self.network)(images)
        return calibrated(self.calibration, maps, images) if self.calibration else maps


def trained_network(network: keras.Model, config: Mapping[str, Any]) -> Trained:
    """The network as a model with this content of MODEL_CONFIG predicts with it."""
    return Trained(network, model_folder.flips(config), Calibration.of_config(config))


def averaged(network: Predict) -> Predict:
    """The mean of two maps, scaled to [0, 1] again: the image's, and the mirrored image's map mirrored back."""
    normalize = Normalize()

    def both(images: tf.Tensor) -> tf.Tensor:
        images = tf.convert_to_tensor(images)
        maps = network(images)
        with tf.control_dependencies([maps]):  # one after the other, in the memory of one
            mirrored = tf.identity(tf.reverse(images, axis=[2]))
        return normalize(maps + tf.reverse(network(mirrored), axis=[2]))

    return both
