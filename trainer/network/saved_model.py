"""Write a model's folder, and its network as a SavedModel for TensorFlow's servers.

The SavedModel takes prepared images. `trainer.prediction.predictor.Predictor` decodes and resizes them.
"""

import importlib.util
import pathlib
import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from trainer.errors import MismatchError, PlaceError
from trainer.io import replacing, write_json
from trainer.network import hdf5_files, load
from trainer.network.load import Trained
from trainer.network.model_folder import ASSETS_EXTRA, MODEL_CONFIG, MODEL_WEIGHTS, SAVED_MODEL
from trainer.texts import first_line

TOLERANCE = 1e-5
"""Maximum difference allowed between the model and its reloaded export."""
NOTICE = "NOTICE.txt"
SIGNATURE = "serving_default"
"""The signature that servers take for a request that names none."""
PREPARED = tf.TensorSpec((None, None, None, 3), tf.float32, "input")


def write_model(
    model: keras.Model,
    folder: pathlib.Path,
    image_size: tuple[int, int],
    summary: dict[str, Any],
    saved_model: bool = True,
) -> None:
    """Write WEIGHTS, SAVED_MODEL and MODEL_CONFIG into `folder`.

    Args:
        model: in float32 and of free size. After the call it has the weights that were read back from the file.
        folder: an existing folder.
        image_size: (H, W) of the random image whose maps are compared.
        summary: content of MODEL_CONFIG.
        saved_model: whether to write SAVED_MODEL, too.

    Raises:
        UserError: as `write_saved_model`.
    """
    arrays = {f"{layer.name}/{weight.name}": weight.numpy() for layer in model.layers for weight in layer.weights}
    (folder / MODEL_WEIGHTS).write_bytes(hdf5_files.encode_hdf5(arrays))
    load.assign_arrays(model, hdf5_files.read_hdf5(folder / MODEL_WEIGHTS)[1], str(folder / MODEL_WEIGHTS))
    if saved_model:
        write_saved_model(load.trained_network(model, summary), image_size, folder / SAVED_MODEL)
    write_json(folder / MODEL_CONFIG, summary)


def write_saved_model(model: Trained, image_size: tuple[int, int], path: pathlib.Path, notice: str = "") -> None:
    """Write a SavedModel, reload it, and compare it with the network.

    Args:
        model: as `load_model` returns it.
        image_size: (H, W) of the random image whose maps are compared.
        path: folder to write. It is written only if the comparison succeeds.
        notice: what users of the export must know, for the file NOTICE in its extra assets. Empty for none.

    Raises:
        UserError: it cannot be written, or the reloaded export gives other maps than the network.
    """
    servable = _Servable(model)
    with replacing(path) as partial:
        try:
            tf.saved_model.save(servable, str(partial), {SIGNATURE: servable.serve})
        except tf.errors.OpError as error:
            raise PlaceError(
                f"cannot write {path} ({first_line(error)}). Free some space, or name another folder"
            ) from None
        finally:
            _remove_generated_code()
        if notice:
            (partial / ASSETS_EXTRA).mkdir()
            (partial / ASSETS_EXTRA / NOTICE).write_text(f"{notice}\n")
        _verify(model, partial, image_size)


def _remove_generated_code() -> None:
    """Remove the modules that AutoGraph has written for the save, and their bytecode, which it would leave."""
    for name, module in list(sys.modules.items()):
        if name.startswith("__autograph_generated_file") and module.__file__:
            for file in (module.__file__, importlib.util.cache_from_source(module.__file__)):
                pathlib.Path(file).unlink(missing_ok=True)


def _verify(model: Trained, path: pathlib.Path, image_size: tuple[int, int]) -> None:
    serve = tf.saved_model.load(str(path)).signatures[SIGNATURE]
    stimulus = np.random.default_rng(0).integers(0, 256, (1, *image_size, 3)).astype(np.float32)
    difference = np.abs(serve(input=tf.constant(stimulus))["output"].numpy() - model(stimulus).numpy()).max()
    if not difference <= TOLERANCE:
        raise MismatchError(
            f"the export gives other maps than the network: they differ by up to {difference:.2g} on 0..1. "
            f"Nothing was exported to {path.parent}"
        )


class _Servable(tf.Module):  # type: ignore[misc]
    """The export's signature around a network of free size."""

    def __init__(self, model: Trained) -> None:
        super().__init__(name="msinet")
        self._variables = [variable.value for variable in model.network.variables]  # tracked, hence saved
        self._network = model  # not tracked, or every variable would be saved twice

    @tf.function(input_signature=[PREPARED], autograph=False)  # type: ignore[untyped-decorator]
    def serve(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
        """Prepared images (N, H, W, 3), 0..255, to maps (N, H, W, 1) in [0, 1].

        H and W are divisible by the network's stride.
        """
        return {"output": self._network(images)}
