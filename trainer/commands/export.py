"""Export a trained model: as a SavedModel for servers, or in compact form.

The compact form, `--format int8`, is a folder of 25 MB that every command takes as a model: the weights of kernels
have 8 bits and a scale for each output channel, and are float32 again when they are loaded.
"""

import argparse
import dataclasses
import pathlib
from typing import Any

from trainer.commands.shared_flags import add_model
from trainer.errors import UserError
from trainer.io.runtime import load_tensorflow
from trainer.models.model_folder import EXPORT_FORMATS, SIGNATURES
from trainer.settings.flags import output_path

SAVED_MODEL = EXPORT_FORMATS[0]
HELP = "export a model for servers, or in compact form"
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

    from trainer.data.settings import parse_image_size
    from trainer.models.find import find_answering, image_size_of

    size = parsed.image_size and parse_image_size(parsed.image_size)
    answering = find_answering(parsed.model)
    folder = answering.folder
    size = size or image_size_of(folder)

    load_tensorflow()
    from trainer.models.load import load_model

    print(f"exporting {answering.name} as {parsed.format}", flush=True)  # it takes up to a minute
    answering.tell()
    model, notice = load_model(folder), answering.notice
    if parsed.flip_prediction is not None:
        model = dataclasses.replace(model, flips=parsed.flip_prediction)
    if parsed.format == SAVED_MODEL:
        from trainer.models.saved_model import write_saved_model

        write_saved_model(model, size, path, parsed.default_signature, notice)
    else:
        _export_compact(model, size, path, folder)
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    size_bytes = sum(file.stat().st_size for file in files)
    print(f"wrote {path}, {size_bytes / 1e6:.1f} MB, for images of {size[0]} x {size[1]} pixels (height x width)")


def _export_compact(model: Any, size: tuple[int, int], path: pathlib.Path, folder: pathlib.Path) -> None:
    """Write the compact form of the model in `folder`, and print what the 8 bits change."""
    from trainer.io.files import read_json
    from trainer.models import load, model_folder
    from trainer.models.compact import IMAGES, write_compact
    from trainer.models.model_folder import MODEL_CONFIG

    config = read_json(folder / MODEL_CONFIG, "give the folder of a whole model", model_folder.ModelConfig)
    if model.flips != load.flips(config):
        config["settings"] = {**config.get("settings", {}), "flip_prediction": model.flips}
    largest, mean = write_compact(model.network, size, path, config, model_folder.training_images(folder))
    print(
        f"the maps of {IMAGES} random images differ from those in float32 by at most {largest:.2g}, and by "
        f"{mean:.2g} on average, on 0..1"
    )
