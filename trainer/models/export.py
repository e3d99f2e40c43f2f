"""Writes a model in the form of other programs: a SavedModel, an ONNX file, or the compact form.

What is slow to import is imported in the function that needs it: only a SavedModel needs TensorFlow.
"""

import pathlib

from trainer.errors import printable
from trainer.machine.runtime import load_tensorflow
from trainer.models.answering import Answering
from trainer.network import export
from trainer.network.model_folder import PICTURE, ModelFolder

IMAGES = 3
"""Random images whose maps are compared."""
PATCH_PX = 8
"""Sides of the uniform patches that the random images consist of."""


def write_saved_model(
    answering: Answering,
    path: pathlib.Path,
    size: tuple[int, int],
    signature: str,
    flip_prediction: bool | None,
    kind: str,
) -> None:
    """Write a model as a SavedModel for servers. Loads TensorFlow.

    Args:
        answering: the model.
        path: of the folder to write.
        size: (H, W) to which it fits encoded images, pixels.
        signature: of SIGNATURES, for requests that name none.
        flip_prediction: as in `write_onnx`.
        kind: as in `write_onnx`.

    Raises:
        UserError: the model is damaged, nothing can be written, or the export gives other maps than the network.
    """
    load_tensorflow()
    export.export_saved_model(answering.folder, path, kind, flip_prediction, size, signature, answering.notice)


def write_onnx(
    answering: Answering,
    path: pathlib.Path,
    int8: bool = True,
    flip_prediction: bool | None = None,
    kind: str = PICTURE,
) -> None:
    """Write the network of a model as an ONNX file, with what its users must know as metadata.

    Args:
        answering: the model.
        path: of the file. Nothing half-written is left there.
        int8: whether its kernels have 8 bits, which the runtime expands.
        flip_prediction: whether it averages with the map of the mirrored image. None for the model's own setting.
        kind: of images, of KINDS, for which the model has a size.

    Raises:
        UserError: the model's weights or its configuration are damaged.
    """
    metadata = {
        "description": printable(answering.description),
        "notice": answering.notice or answering.hint,
    }
    export.export_onnx(answering.folder, path, kind, flip_prediction, int8, metadata)


def write_compact(answering: Answering, path: pathlib.Path, flip_prediction: bool | None) -> str:
    """Write the compact form of a model into the folder `path`.

    Returns:
        A sentence about what the 8 bits change in the maps of random images.

    Raises:
        UserError: the model's weights or its configuration are damaged.
    """
    import numpy as np

    from trainer.network.inference import Inference

    folder = answering.folder
    size = ModelFolder(folder).image_size
    height, width = (side // PATCH_PX for side in size)
    patches = np.random.default_rng(0).integers(0, 256, (IMAGES, height, width, 3))
    images = patches.repeat(PATCH_PX, axis=1).repeat(PATCH_PX, axis=2)
    before = Inference(folder, size, "float32")(images)
    export.export_compact(folder, path, flip_prediction)
    differences = np.abs(before - Inference(path, size, "float32")(images))
    return (
        f"the maps of {IMAGES} random images differ from those in float32 by at most {differences.max():.2g}, and "
        f"by {differences.mean():.2g} on average, on 0..1"
    )
