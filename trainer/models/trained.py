"""A trained network as its model predicts: alone, or averaged with its map of the mirrored image."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from trainer.layers import Normalize

Network = Callable[[tf.Tensor], tf.Tensor]
"""Images (N, H, W, 3), 0..255, to maps (N, H, W, 1) in [0, 1]."""


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
