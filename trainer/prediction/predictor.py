"""A trained network that predicts the saliency map of any image, and of a long page screen by screen."""

import functools
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer.data import preprocess
from trainer.errors import UserError
from trainer.models.find import image_size_of
from trainer.models.load import load_model
from trainer.prediction.heat import Map
from trainer.prediction.screens import count_screens, rows_of_screens


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

    def prepare(self, image: npt.NDArray[np.uint8], n_screens: int = 0) -> npt.NDArray[np.float32]:
        """Resize and pad each screen of an image (h, w, 3) RGB to the network's input.

        Args:
            image: (h, w, 3) RGB.
            n_screens: into which it is cut; 0 to decide by its size, as `count_screens` does.

        Returns:
            (n, H, W, 3) in 0..255, with n = 1 for an image that is not cut.
        """
        return np.stack([self._prepare(part).numpy() for part in self._cut(image, n_screens)])

    def predict(self, image: npt.NDArray[np.uint8], n_screens: int = 0, size: Sequence[int] | None = None) -> Map:
        """Predict the saliency map of an image, and of a long page the map of each screen alone.

        Args:
            image: (h, w, 3) RGB.
            n_screens: into which it is cut; 0 to decide by its size, as `count_screens` does.
            size: (h, w) of the map, pixels; None for that of the image.

        Returns:
            (h, w) in [0, 1]. On a long page, the largest value of each screen is 1.

        Raises:
            UserError: the prediction is not finite.
        """
        # One by one, as the last bits of a map depend on the size of its batch.
        parts = self._cut(image, n_screens)
        maps = [self.predict_prepared(self._prepare(part)[None])[0] for part in parts]
        return self.restore(np.stack(maps), image.shape[:2] if size is None else size)

    def predict_prepared(self, batch: Any) -> Map:
        """Predict the maps, (n, H, W) in [0, 1], of prepared images (n, H, W, 3), 0..255.

        The maps are still padded; `restore` brings those of an image to its size.

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
    def restore(predictions: Map, size: Sequence[int]) -> Map:
        """Assemble the predictions of an image's screens, and resize them to its size.

        Args:
            predictions: (n, H, W), 0..1, of the n padded screens of an image from the top.
            size: (h, w) of the image, pixels.

        Returns:
            (h, w) float32, not rounded, clipped to 0..1 because bicubic interpolation overshoots. Of several
            screens, each has the largest value 1, and no rows are blended; a single one keeps its values.
        """
        if len(predictions) == 1:
            return _restored(predictions[0], size)
        height, width = size
        joined = np.empty((height, width), np.float32)
        for rows, prediction in zip(rows_of_screens(height, len(predictions)), predictions, strict=True):
            part = _restored(prediction, (rows.stop - rows.start, width))
            np.divide(part, max(float(part.max()), 1e-12), out=joined[rows])
        return joined

    @staticmethod
    def _cut(image: npt.NDArray[np.uint8], n_screens: int) -> list[npt.NDArray[np.uint8]]:
        rows = rows_of_screens(image.shape[0], n_screens or count_screens(image.shape))
        return [image[each] for each in rows]


def _restored(prediction: Map, size: Sequence[int]) -> Map:
    restored: Map = _restore(prediction, tf.constant(size, tf.int32)).numpy()
    return restored
