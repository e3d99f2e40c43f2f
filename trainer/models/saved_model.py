"""Write a model's folder, and its network as a SavedModel for servers."""

import pathlib
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from trainer import preprocess
from trainer.artifacts import MODEL_CONFIG, SAVED_MODEL, VERSION_EXTRA, WEIGHTS
from trainer.config import SIGNATURES
from trainer.errors import UserError, first_line
from trainer.files import replacing, write_json
from trainer.models import graph_picture, keras_file, trained
from trainer.models.load import load_weights
from trainer.models.trained import Trained

TOLERANCE = 1e-5
"""Maximum difference allowed between the model and its reloaded export."""
NOTICE = "NOTICE.txt"
PREPARED = tf.TensorSpec((None, None, None, 3), tf.float32, "input")
ENCODED = tf.TensorSpec((None,), tf.string, "image_bytes")


class _Servable(tf.Module):  # type: ignore[misc]
    """The export's signatures around a network of free size."""

    def __init__(self, model: Trained, image_size: tuple[int, int]) -> None:
        super().__init__(name="msinet")
        self._image_size = image_size
        self._variables = [variable.value for variable in model.network.variables]  # tracked, hence saved
        self._network = model  # not tracked, or every variable would be saved twice

    @tf.function(input_signature=[PREPARED], autograph=False)  # type: ignore[untyped-decorator]
    def serving_default(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
        """Prepared images (N, H, W, 3), 0..255, to maps (N, H, W, 1) in [0, 1]; H and W divisible by 8."""
        return {"output": self._network(images)}

    @tf.function(input_signature=[ENCODED], autograph=False)  # type: ignore[untyped-decorator]
    def serve_bytes(self, image_bytes: tf.Tensor) -> dict[str, tf.Tensor]:
        """Encoded images to 8-bit PNG maps of the upright images' own sizes; an empty string for an invalid image.

        Two run at a time: memory does not grow with their number, and one is decoded while another is predicted.
        """
        return {"saliency_bytes": tf.map_fn(self._serve_one, image_bytes, parallel_iterations=2)}

    def _serve_one(self, encoded: tf.Tensor) -> tf.Tensor:
        image = graph_picture.read_picture(encoded)
        return tf.cond(tf.size(image) > 0, lambda: self._encoded_map(image), lambda: tf.constant(b""))

    def _encoded_map(self, image: tf.Tensor) -> tf.Tensor:
        prediction = self._network(preprocess.prepare_stimulus(image, self._image_size)[None])[0]
        return tf.io.encode_png(preprocess.restore_map(prediction, tf.shape(image)[:2]))


def write_model(
    model: keras.Model, folder: pathlib.Path, image_size: tuple[int, int], summary: dict[str, Any]
) -> None:
    """Write WEIGHTS, SAVED_MODEL and MODEL_CONFIG into `folder`.

    Args:
        model: in float32 and of free size; after the call it has the weights that were read back from the file.
        folder: an existing folder.
        image_size: (H, W) to which `serve_bytes` fits an image.
        summary: content of MODEL_CONFIG.

    Raises:
        UserError: as `write_saved_model`.
    """
    arrays = {f"{layer.name}/{weight.name}": weight.numpy() for layer in model.layers for weight in layer.weights}
    (folder / WEIGHTS).write_bytes(keras_file.encode(arrays))
    load_weights(model, folder / WEIGHTS)
    write_saved_model(Trained(model, trained.flips(summary)), image_size, folder / SAVED_MODEL)
    write_json(folder / MODEL_CONFIG, summary)


def write_saved_model(
    model: Trained,
    image_size: tuple[int, int],
    path: pathlib.Path,
    default: str = SIGNATURES[0],
    notice: str = "",
) -> None:
    """Write a SavedModel with both SIGNATURES, reload it, and compare it with the network.

    Args:
        model: as `load_model` returns it.
        image_size: (H, W) to which `serve_bytes` fits an image.
        path: folder to write; it is written only if the comparison succeeds.
        default: which of the SIGNATURES `serving_default` is, for requests that name no signature. With
            `serve_bytes` the export accepts encoded images only.
        notice: what users of the export must know, for the file NOTICE in its extra assets; empty for none.

    Raises:
        UserError: it cannot be written, or the reloaded export gives other maps than the network.
    """
    servable = _Servable(model, image_size)
    signatures = {name: getattr(servable, name) for name in SIGNATURES}
    with replacing(path) as partial:
        try:
            tf.saved_model.save(servable, str(partial), signatures | {SIGNATURES[0]: signatures[default]})
        except tf.errors.OpError as error:
            raise UserError(
                f"cannot write {path} ({first_line(error)}); free some space, or name another folder"
            ) from None
        if notice:
            (partial / VERSION_EXTRA).mkdir()
            (partial / VERSION_EXTRA / NOTICE).write_text(f"{notice}\n")
        _verify(model, partial, image_size, default)


def _verify(model: Trained, path: pathlib.Path, image_size: tuple[int, int], default: str) -> None:
    signatures = tf.saved_model.load(str(path)).signatures
    stimulus = np.random.default_rng(0).integers(0, 256, (1, *image_size, 3)).astype(np.float32)
    expected = model(stimulus).numpy()
    difference = 0.0
    if default == SIGNATURES[0]:
        exported = signatures[default](input=tf.constant(stimulus))["output"].numpy()
        difference = float(np.abs(exported - expected).max())
    encoded = tf.io.encode_png(tf.cast(stimulus[0], tf.uint8))
    served = signatures["serve_bytes"](image_bytes=encoded[None])["saliency_bytes"][0]
    levels = tf.io.decode_png(served).numpy().astype(int)
    level_difference = np.abs(levels - preprocess.restore_map(expected[0], image_size)).max()
    if not (difference <= TOLERANCE and level_difference <= 1):
        raise UserError(
            f"the export gives other maps than the network: they differ by up to {difference:.2g} on 0..1, or "
            f"{level_difference} grey levels; nothing was exported to {path.parent}"
        )
