"""Writes a model in the form of other programs: a SavedModel, an ONNX file, or the compact form.

What is slow to import is imported in the function that needs it: only a SavedModel needs TensorFlow.
"""

import pathlib
from typing import Any

from trainer.errors import printable
from trainer.io.files import read_json, replacing
from trainer.io.runtime import load_tensorflow
from trainer.models.answering import Answering
from trainer.network.model_folder import (
    EXPORT_FORMATS,
    MODEL_CONFIG,
    PICTURE,
    ModelConfig,
    architecture_of,
    flips,
    for_kind,
    image_size_of,
    image_sizes_of,
    training_images,
)

_, ONNX, ONNX_INT8, _ = EXPORT_FORMATS
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
    from trainer.network import saved_model
    from trainer.network.load import load_model, trained

    config = for_kind(_config(answering.folder, flip_prediction), kind)
    model = trained(load_model(answering.folder).network, config)
    saved_model.write_saved_model(model, size, path, signature, answering.notice)


def write_onnx(
    answering: Answering,
    path: pathlib.Path,
    format: str = ONNX_INT8,
    flip_prediction: bool | None = None,
    kind: str = PICTURE,
) -> None:
    """Write the network of a model as an ONNX file, with what its users must know as metadata.

    Args:
        answering: the model.
        path: of the file. Nothing half-written is left there.
        format: ONNX or ONNX_INT8.
        flip_prediction: whether it averages with the map of the mirrored image. None for the model's own setting.
        kind: of images, of KINDS, for which the model has a size.

    Raises:
        UserError: the model's weights or its configuration are damaged.
    """
    from trainer.network import calibration
    from trainer.network.compact import expanded, quantized
    from trainer.network.onnx_graph import encode_onnx
    from trainer.network.weights import read_stored

    folder = answering.folder
    config = for_kind(_config(folder, flip_prediction), kind)
    form = quantized if format == ONNX_INT8 else expanded
    height, width = image_sizes_of(folder)[kind]
    metadata = {
        "description": printable(answering.description),
        "image_size": f"{height}x{width}",
        "notice": answering.notice or answering.hint,
    }
    network = architecture_of(folder)
    content = encode_onnx(
        network, form(read_stored(folder)), flips(config), calibration.of_config(config), metadata
    )
    with replacing(path) as partial:
        partial.write_bytes(content)


def write_compact(answering: Answering, path: pathlib.Path, flip_prediction: bool | None) -> str:
    """Write the compact form of a model into the folder `path`.

    Returns:
        A sentence about what the 8 bits change in the maps of random images.

    Raises:
        UserError: the model's weights or its configuration are damaged.
    """
    import numpy as np

    from trainer.network import compact
    from trainer.network.inference import Inference
    from trainer.network.weights import read_weights

    folder = answering.folder
    size = image_size_of(folder)
    height, width = (side // PATCH_PX for side in size)
    patches = np.random.default_rng(0).integers(0, 256, (IMAGES, height, width, 3))
    images = patches.repeat(PATCH_PX, axis=1).repeat(PATCH_PX, axis=2)
    before = Inference(folder, size, "float32")(images)
    config = _config(folder, flip_prediction)
    compact.write_compact(read_weights(folder), path, config, training_images(folder))
    differences = np.abs(before - Inference(path, size, "float32")(images))
    return (
        f"the maps of {IMAGES} random images differ from those in float32 by at most {differences.max():.2g}, and "
        f"by {differences.mean():.2g} on average, on 0..1"
    )


def _config(folder: pathlib.Path, flip_prediction: bool | None) -> dict[str, Any]:
    """MODEL_CONFIG of the export."""
    config: dict[str, Any] = read_json(folder / MODEL_CONFIG, "give the folder of a whole model", ModelConfig)
    for each in (config, *config.get("kinds", {}).values()):
        if flip_prediction is not None and flip_prediction != flips(each):
            each["settings"] = {**each.get("settings", {}), "flip_prediction": flip_prediction}
    return config
