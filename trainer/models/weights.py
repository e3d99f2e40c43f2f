"""The weights of a model's folder, as arrays. Needs no TensorFlow."""

import os
import pathlib

from trainer.errors import ContentError, UserError
from trainer.io import untrusted
from trainer.models import compact, model_names
from trainer.models.architecture import weight_shapes
from trainer.models.matching import Weights, match
from trainer.models.model_folder import COMPACT_WEIGHTS, MODEL_REMEDY, weights_in
from trainer.models.weight_files import HDF5_LIMITS, read_in_worker

ENCODER_ALONE = (
    "holds the weights of an encoder alone, without ASPP and decoder, so it is not a model yet; use it as the "
    "initial weights of a training (`train --initial-weights`, initial_weights of the pipeline)"
)


def read_weights(folder: str | os.PathLike[str]) -> Weights:
    """Read the weights of the whole network from a model's folder, in float32; raises as `read_stored`."""
    return compact.expanded(read_stored(folder))


def read_stored(folder: str | os.PathLike[str]) -> Weights:
    """Read the weights of the whole network from a model's folder: in float32, or in compact form if it has that.

    They are read in a worker, because they may be from anyone, but for those that come with this package.

    Raises:
        UserError: there are none, they are damaged, or they belong to another network.
    """
    path = weights_in(pathlib.Path(folder))
    if not path.is_file():
        raise UserError(f"{path} does not exist; {MODEL_REMEDY}")
    if path.parent == model_names.PRETRAINED_FOLDER:
        return compact.read_compact(path, compact.decode_compact, model_names.GET_PRETRAINED)
    if path.name == COMPACT_WEIGHTS:
        return compact.read_compact(path, lambda content: _decode_in_worker(content, str(path)))
    matched = match(read_in_worker(path, weight_shapes().values(), str(path)), str(path))
    if matched.is_encoder:
        raise ContentError(f"{path} {ENCODER_ALONE}")
    return matched.values


def _decode_in_worker(content: bytes, what: str) -> Weights:
    function = "trainer.models.compact.decode_compact"
    stored: Weights = untrusted.call(function, content, file=what, remedy=compact.REMEDY, limits=HDF5_LIMITS)
    return stored
