"""Export a trained model: as a SavedModel for servers, as an ONNX file for other runtimes, or in compact form.

An ONNX file reads prepared images, as the SavedModel does, of any height and width divisible by 8. With
`--format onnx-int8` its kernels have 8 bits, which the runtime expands: 25 MB in place of 100. docs/serving.md has
clients in Python and JavaScript. Only a SavedModel needs TensorFlow. An export predicts all images alike: as
pictures, or with `--kind page` as pages, if the model has a size and a calibration of its own for them.

The compact form, `--format int8`, is a folder of 25 MB that every command takes as a model: the weights of kernels
have 8 bits and a scale for each output channel, and are float32 again when they are loaded.
"""

import argparse
import pathlib
from typing import TYPE_CHECKING, Any

from trainer.commands.shared_flags import add_model
from trainer.errors import UserError, printable
from trainer.io.runtime import load_tensorflow
from trainer.network.model_folder import EXPORT_FORMATS, KINDS, PICTURE, SIGNATURES, flips, for_kind
from trainer.settings.flags import output_path

if TYPE_CHECKING:
    from trainer.models.find import Answering

SAVED_MODEL, ONNX, ONNX_INT8, COMPACT = EXPORT_FORMATS
HELP = "export a model for servers and other runtimes, or in compact form"
IMAGES = 3
"""Random images whose maps are compared."""
PATCH_PX = 8
"""Sides of the uniform patches that the random images consist of."""
SAVED_MODEL_FLAGS = {"image_size": "", "default_signature": SIGNATURES[0]}
"""Flags that only a SavedModel has, and their defaults."""


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "--output", type=output_path, required=True, metavar="PATH", help="Folder or file of the export."
    )
    parser.add_argument("--format", default=SAVED_MODEL, choices=EXPORT_FORMATS, help="(default: %(default)s)")
    parser.add_argument(
        "--image-size",
        default="",
        metavar="HxW",
        help="Only for SavedModels: network input in pixels (default: the training's).",
    )
    parser.add_argument(
        "--default-signature",
        default=SIGNATURES[0],
        choices=SIGNATURES,
        help="Only for SavedModels: signature for requests that name none (default: %(default)s).",
    )
    parser.add_argument(
        "--kind",
        default=PICTURE,
        choices=KINDS,
        help="What the images are; the compact form predicts both as the model does (default: %(default)s).",
    )
    parser.add_argument(
        "--flip-prediction",
        action=argparse.BooleanOptionalAction,
        help="Whether the export averages the map of an image and that of its mirror image, in twice the time "
        "(default: as the model does).",
    )


def execute(parsed: argparse.Namespace) -> None:
    path = pathlib.Path(parsed.output)
    if path.exists():
        raise UserError(f"{path} exists already; name another --output, or remove it")
    for flag, default in SAVED_MODEL_FLAGS.items():
        if parsed.format != SAVED_MODEL and getattr(parsed, flag) != default:
            raise UserError(
                f"--{flag.replace('_', '-')} is for the format {SAVED_MODEL}, but --format is {parsed.format}"
            )

    if parsed.format == COMPACT and parsed.kind != PICTURE:
        raise UserError(f"the format {COMPACT} predicts each kind of images as the model does; leave out --kind")
    from trainer.data.settings import parse_image_size
    from trainer.models.find import find_answering
    from trainer.network.model_folder import image_sizes_of

    size = parsed.image_size and parse_image_size(parsed.image_size)
    answering = find_answering(parsed.model)
    folder = answering.folder
    sizes = image_sizes_of(folder)
    if parsed.kind not in sizes:
        raise UserError(f"{answering.name} has no size of its own for a {parsed.kind}; leave out --kind")
    size = size or sizes[parsed.kind]

    print(f"exporting {answering.name} as {parsed.format}", flush=True)  # it takes up to a minute
    answering.tell()
    if parsed.format == SAVED_MODEL:
        _export_saved_model(parsed, folder, path, size, answering.notice)
    elif parsed.format == COMPACT:
        _export_compact(folder, path, parsed.flip_prediction)
    else:
        write_onnx(answering, path, parsed.format, parsed.flip_prediction, parsed.kind)
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    size_bytes = sum(file.stat().st_size for file in files)
    print(f"wrote {path}, {size_bytes / 1e6:.1f} MB, for images of {size[0]} x {size[1]} pixels (height x width)")


def _export_saved_model(
    parsed: argparse.Namespace, folder: pathlib.Path, path: pathlib.Path, size: tuple[int, int], notice: str
) -> None:
    load_tensorflow()
    from trainer.models.saved_model import write_saved_model
    from trainer.network.load import load_model, trained

    model = trained(load_model(folder).network, for_kind(_config(folder, parsed.flip_prediction), parsed.kind))
    write_saved_model(model, size, path, parsed.default_signature, notice)


def write_onnx(
    answering: "Answering",
    path: pathlib.Path,
    format: str = ONNX_INT8,
    flip_prediction: bool | None = None,
    kind: str = PICTURE,
) -> None:
    """Write the network of a model as an ONNX file, with what its users must know as metadata.

    Args:
        answering: the model.
        path: of the file; nothing half-written is left there.
        format: ONNX or ONNX_INT8.
        flip_prediction: whether it averages with the map of the mirrored image; None for the model's own setting.
        kind: of images, of KINDS, for which the model has a size.

    Raises:
        UserError: the model's weights or its configuration are damaged.
    """
    from trainer.io.files import replacing
    from trainer.network import calibration
    from trainer.network.compact import expanded, quantized
    from trainer.network.model_folder import image_sizes_of
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
    content = encode_onnx(form(read_stored(folder)), flips(config), calibration.of_config(config), metadata)
    with replacing(path) as partial:
        partial.write_bytes(content)


def _export_compact(folder: pathlib.Path, path: pathlib.Path, flip_prediction: bool | None) -> None:
    """Write the compact form of the model in `folder`, and print what the 8 bits change."""
    import numpy as np

    from trainer.network.compact import write_compact
    from trainer.network.inference import Inference
    from trainer.network.model_folder import image_size_of, training_images
    from trainer.network.weights import read_weights

    size = image_size_of(folder)
    height, width = (side // PATCH_PX for side in size)
    patches = np.random.default_rng(0).integers(0, 256, (IMAGES, height, width, 3))
    images = patches.repeat(PATCH_PX, axis=1).repeat(PATCH_PX, axis=2)
    before = Inference(folder, size, "float32")(images)
    write_compact(read_weights(folder), path, _config(folder, flip_prediction), training_images(folder))
    differences = np.abs(before - Inference(path, size, "float32")(images))
    print(
        f"the maps of {IMAGES} random images differ from those in float32 by at most {differences.max():.2g}, and "
        f"by {differences.mean():.2g} on average, on 0..1"
    )


def _config(folder: pathlib.Path, flip_prediction: bool | None) -> dict[str, Any]:
    """MODEL_CONFIG of the export."""
    from trainer.io.files import read_json
    from trainer.network.model_folder import MODEL_CONFIG, ModelConfig

    config: dict[str, Any] = read_json(folder / MODEL_CONFIG, "give the folder of a whole model", ModelConfig)
    for each in (config, *config.get("kinds", {}).values()):
        if flip_prediction is not None and flip_prediction != flips(each):
            each["settings"] = {**each.get("settings", {}), "flip_prediction": flip_prediction}
    return config
