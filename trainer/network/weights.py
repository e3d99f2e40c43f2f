"""The weights of a model's folder, as arrays. Needs no TensorFlow."""

import os

from trainer.errors import NotFoundError
from trainer.machine import call_untrusted
from trainer.network import compact, hdf5_files
from trainer.network.arrays import Weights
from trainer.network.matching import match
from trainer.network.model_folder import COMPACT_WEIGHTS, MODEL_REMEDY, ModelFolder


def read_weights(folder: str | os.PathLike[str]) -> Weights:
    """Read the weights of the whole network from a model's folder, in float32. Raises as `read_stored`."""
    return compact.expanded(read_stored(folder))


def read_stored(folder: str | os.PathLike[str]) -> Weights:
    """Read the weights of the whole network from a model's folder: in float32, or in compact form if it has that.

    They are read in a worker, because they may be from anyone, but for those that come with this package.

    Raises:
        UserError: there are none, they are damaged, or they belong to another network.
    """
    model = ModelFolder(folder)
    path = model.weights
    if not path.is_file():
        raise NotFoundError(f"{path} does not exist: {MODEL_REMEDY}")
    if model.path == ModelFolder.pretrained().path:
        return compact.read_compact(path, compact.decode_compact, model.remedy)
    if path.name == COMPACT_WEIGHTS:
        return compact.read_compact(path, lambda content: _decode_in_worker(content, str(path)))
    architecture = model.architecture
    arrays = hdf5_files.read_in_worker(path, architecture.weight_shapes().values(), str(path))
    return match(architecture, arrays, str(path), whole=True).values


def _decode_in_worker(content: bytes, what: str) -> Weights:
    function = "trainer.network.compact.decode_compact"
    stored: Weights = call_untrusted(function, content, file=what, remedy=compact.REMEDY, limits=hdf5_files.LIMITS)
    return stored
