"""A trained network that predicts the saliency map of any image."""

import functools
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer import preprocess
from trainer.errors import UserError
from trainer.heat import Map
from trainer.models.find import image_size_of
from trainer.models.load import load_model


def _clipped(prediction: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    return tf.clip_by_value(preprocess.resize_back(prediction, size), 0, 1)


# As a graph, TensorFlow needs 13 bytes for each pixel of a large image, else 21.
_restore = tf.function(
    _clipped, [tf.TensorSpec((None, None), tf.float32), tf.TensorSpec((2,), tf.int32)], autograph=False
)


class Predictor:
    """The network of a model folder, loaded once; any thread may call its methods."""

    def __init__(self, model_folder: str | os.PathLike[str]) -> None:
        folder = pathlib.Path(model_folder)
        self.image_size = height, width = image_size_of(folder)
        """(H, W) of the network's input, pixels."""
        # The batch size is left open, so that the smaller last batch is not traced again.
        prepared = tf.TensorSpec((None, height, width, 3), tf.float32)
        self._model = load_model(folder)
        self._forward = tf.function(self._model, [prepared], autograph=False)
        fit = functools.partial(preprocess.prepare_stimulus, size=self.image_size)
        self._prepare = tf.function(fit, [tf.TensorSpec((None, None, 3), tf.uint8)], autograph=False)

    def prepare(self, image: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """Resize and pad an image (h, w, 3) RGB to the network's input, (H, W, 3) in 0..255."""
        prepared: npt.NDArray[np.float32] = self._prepare(image).numpy()
        return prepared

    def predict(self, image: npt.NDArray[np.uint8]) -> Map:
        """Predict the saliency map, (h, w) in [0, 1], of an image (h, w, 3) RGB.

        Raises:
            UserError: the prediction is not finite.
        """
        return self.restore(self.predict_prepared(self.prepare(image)[None])[0], image.shape[:2])

    def predict_prepared(self, batch: Any) -> Map:
        """Predict the maps, (n, H, W) in [0, 1], of prepared images (n, H, W, 3), 0..255.

        The maps are still padded; `restore` brings one to the size of its image.

        Raises:
            UserError: a prediction is not finite.
        """
        maps: Map = self._forward(batch).numpy()[..., 0]
        if not np.isfinite(maps).all():
            raise UserError(
                "the model's prediction is not finite: its weights are damaged or its training diverged; train it "
                "again, or use another model"
            )
        return maps

    @staticmethod
    def restore(prediction: Map, size: Sequence[int]) -> Map:
        """Resize a prediction to the size of its image.

        Args:
            prediction: (H, W), 0..1, of the padded image.
            size: (h, w) of the image, pixels.

        Returns:
            (h, w) float32, not rounded, clipped to 0..1 because bicubic interpolation overshoots.
        """
        restored: Map = _restore(prediction, tf.constant(size, tf.int32)).numpy()
        return restored
