"""Write the network of a model's folder in other forms: for servers, as an ONNX file, or as a smaller model."""

import pathlib
from collections.abc import Mapping
from typing import Any

from trainer.io.files import replacing
from trainer.network import compact
from trainer.network.calibration import Calibration
from trainer.network.model_folder import PICTURE, SIGNATURES, ModelFolder, flips, for_kind
from trainer.network.networks import network_of
from trainer.network.onnx_graph import encode_onnx
from trainer.network.weights import read_stored, read_weights


def export_saved_model(
    folder: pathlib.Path,
    path: pathlib.Path,
    kind: str = PICTURE,
    flip_prediction: bool | None = None,
    image_size: tuple[int, int] | None = None,
    default: str = SIGNATURES[0],
    notice: str = "",
) -> None:
    """Write a SavedModel, as `trainer.network.saved_model.write_saved_model` does. Needs TensorFlow to be loaded.

    Args:
        folder: of the model.
        path: folder to write.
        kind: of images, of KINDS. The export has its size, averaging and calibration.
        flip_prediction: whether it averages with the map of the mirrored image. None for the model's own setting.
        image_size: (H, W) to which `serve_bytes` fits an image. None for the model's size for `kind`.
        default: which of the SIGNATURES answers requests that name none.
        notice: what users of the export must know. Empty for nothing.

    Raises:
        UserError: the model is damaged, or the export cannot be written or gives other maps.
    """
    from trainer.network.load import load_model, trained
    from trainer.network.saved_model import write_saved_model

    model = trained(load_model(folder).network, for_kind(_config(folder, flip_prediction), kind))
    write_saved_model(model, image_size or ModelFolder(folder).image_sizes[kind], path, default, notice)


def export_onnx(
    folder: pathlib.Path,
    path: pathlib.Path,
    kind: str = PICTURE,
    flip_prediction: bool | None = None,
    int8: bool = False,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write an ONNX file.

    Args:
        folder: of the model.
        path: of the file. Nothing half-written is left there.
        kind: of images, of KINDS. The export has its averaging and calibration.
        flip_prediction: as in `export_saved_model`.
        int8: whether kernels are kept as integers, which the runtime expands.
        metadata: key -> value, kept in the file beside the `image_size` of the kind, such as `240x320`.

    Raises:
        UserError: the model is damaged.
    """
    config = for_kind(_config(folder, flip_prediction), kind)
    height, width = ModelFolder(folder).image_sizes[kind]
    form = compact.quantized if int8 else compact.expanded
    content = encode_onnx(
        network_of(config),
        form(read_stored(folder)),
        flips(config),
        Calibration.of_config(config),
        {"image_size": f"{height}x{width}", **(metadata or {})},
    )
    with replacing(path) as partial:
        partial.write_bytes(content)


def export_compact(folder: pathlib.Path, path: pathlib.Path, flip_prediction: bool | None = None) -> None:
    """Write a model in compact form (`trainer.network.compact`) at `path`, for all kinds of images.

    Raises:
        UserError: the model is damaged, or the export cannot be written.
    """
    config, seen = _config(folder, flip_prediction), ModelFolder(folder).training_images()
    compact.write_compact(read_weights(folder), path, config, seen)


def _config(folder: pathlib.Path, flip_prediction: bool | None) -> dict[str, Any]:
    """MODEL_CONFIG of the export."""
    config: dict[str, Any] = dict(ModelFolder(folder).config("give the folder of a whole model"))
    for each in (config, *config.get("kinds", {}).values()):
        if flip_prediction is not None and flip_prediction != flips(each):
            each["settings"] = {**each.get("settings", {}), "flip_prediction": flip_prediction}
    return config
