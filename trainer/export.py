"""A trained network as a SavedModel that serves, and back as a Keras model."""

import os
import pathlib
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from trainer import preprocess
from trainer.artifacts import MODEL_CONFIG, SAVED_MODEL, WEIGHTS, write_json
from trainer.errors import UserError
from trainer.initial import load_weights
from trainer.model import build_model

TOLERANCE = 1e-5
"""Largest difference allowed between the model and its reloaded export."""


class _Servable(tf.Module):  # type: ignore[misc]
    """The signatures of the export around a network of free size."""

    def __init__(self, model: keras.Model, image_size: tuple[int, int]) -> None:
        super().__init__(name="msinet")
        self._model, self._image_size = model, image_size
        self._variables = [variable.value for variable in model.variables]  # tracked, hence saved

    @tf.function(input_signature=[tf.TensorSpec((None, None, None, 3), tf.float32, "input")])  # type: ignore[untyped-decorator]
    def serving_default(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
        """Prepared images (N, H, W, 3), 0..255, to maps (N, H, W, 1) in [0, 1]; H and W divisible by 8."""
        return {"output": self._model(images)}

    @tf.function(input_signature=[tf.TensorSpec((None,), tf.string, "image_bytes")])  # type: ignore[untyped-decorator]
    def serve_bytes(self, image_bytes: tf.Tensor) -> dict[str, tf.Tensor]:
        """Encoded images (JPEG, PNG, BMP, first frame of a GIF) to 8-bit PNG maps at the images' own sizes."""
        return {"saliency_bytes": tf.map_fn(self._serve_one, image_bytes)}

    def _serve_one(self, encoded: tf.Tensor) -> tf.Tensor:
        image = tf.io.decode_image(encoded, channels=3, expand_animations=False)
        image.set_shape((None, None, 3))
        prepared = preprocess.prepare_stimulus(image, self._image_size)
        prediction = self._model(prepared[None])[0]
        return tf.io.encode_png(preprocess.restore_map(prediction, tf.shape(image)[:2]))


def load_model(folder: str | os.PathLike[str], dtype: str | None = None) -> keras.Model:
    """The network of a model folder, of free height and width (divisible by 8).

    Args:
        folder: holds WEIGHTS, as `write_model` leaves it.
        dtype: Keras' precision policy; float32 without it.

    Raises:
        UserError: if there are no weights, or if they are of another network.
    """
    model = build_model((None, None), dtype or "float32")
    load_weights(model, pathlib.Path(folder) / WEIGHTS)
    return model


def write_model(folder: pathlib.Path, image_size: tuple[int, int], summary: dict[str, Any]) -> None:
    """Write SAVED_MODEL and MODEL_CONFIG beside the WEIGHTS in `folder`.

    The export is reloaded and compared with the network before it counts.

    Args:
        folder: holds WEIGHTS.
        image_size: (H, W) to which `serve_bytes` fits an image.
        summary: goes into MODEL_CONFIG.

    Raises:
        UserError: if the reloaded export answers otherwise than the network.
    """
    model = load_model(folder)
    servable = _Servable(model, image_size)
    path = str(folder / SAVED_MODEL)
    signatures = {"serving_default": servable.serving_default, "serve_bytes": servable.serve_bytes}
    tf.saved_model.save(servable, path, signatures=signatures)
    _verify(model, path, image_size)
    write_json(folder / MODEL_CONFIG, summary)


def _verify(model: keras.Model, path: str, image_size: tuple[int, int]) -> None:
    reloaded = tf.saved_model.load(path)
    stimulus = np.random.default_rng(0).integers(0, 256, (1, *image_size, 3)).astype(np.float32)
    expected = model(stimulus).numpy()
    answered = reloaded.signatures["serving_default"](input=tf.constant(stimulus))["output"].numpy()
    difference = float(np.abs(answered - expected).max())
    encoded = tf.io.encode_png(tf.cast(stimulus[0], tf.uint8))
    served = reloaded.signatures["serve_bytes"](image_bytes=encoded[None])["saliency_bytes"][0]
    levels = tf.io.decode_png(served).numpy().astype(int)
    expected_levels = preprocess.restore_map(expected[0], image_size).astype(int)
    if difference > TOLERANCE or np.abs(levels - expected_levels).max() > 1:
        raise UserError(
            f"the export in {path} answers otherwise than the network: {difference:.2g} at most on 0..1, "
            f"{np.abs(levels - expected_levels).max()} grey levels; it does not count as exported"
        )
