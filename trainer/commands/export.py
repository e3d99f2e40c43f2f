"""Export a trained model: as a SavedModel for servers, or as a TFLite file for mobile devices (LiteRT)."""

import argparse
import pathlib
import sys

from trainer import generated
from trainer.config import EXPORT_FORMATS, QUANTIZATIONS, SIGNATURES
from trainer.errors import UserError
from trainer.loading import load_tensorflow
from trainer.settings_cli import add_model, output_path

SAVED_MODEL, TFLITE = EXPORT_FORMATS
HELP = "export a model for servers or mobile devices"


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "--output", type=output_path, required=True, metavar="PATH", help="Folder or file of the export."
    )
    parser.add_argument("--format", default=SAVED_MODEL, choices=EXPORT_FORMATS, help="(default: %(default)s)")
    parser.add_argument(
        "--image-size", default="", metavar="HxW", help="Network input in pixels (default: the training's)."
    )
    parser.add_argument(
        "--default-signature",
        default=SIGNATURES[0],
        choices=SIGNATURES,
        help="Only for SavedModels: signature for requests that name none (default: %(default)s).",
    )
    parser.add_argument(
        "--quantization",
        default=QUANTIZATIONS[0],
        choices=QUANTIZATIONS,
        help="Only for TFLite: type of the weights (default: %(default)s, which means float32).",
    )


def execute(parsed: argparse.Namespace) -> None:
    path = pathlib.Path(parsed.output)
    if path.exists():
        raise UserError(f"{path} exists already; name another --output, or remove it")
    for flag, default, of in (("default_signature", SIGNATURES[0], SAVED_MODEL), ("quantization", "none", TFLITE)):
        if parsed.format != of and getattr(parsed, flag) != default:
            raise UserError(f"--{flag.replace('_', '-')} is for the format {of}, but --format is {parsed.format}")

    from trainer.config import parse_image_size
    from trainer.models.find import find_model, image_size_of

    size = parsed.image_size and parse_image_size(parsed.image_size)
    folder = find_model(parsed.model)
    size = size or image_size_of(folder)

    load_tensorflow()
    from trainer.models.lite import write_lite
    from trainer.models.load import load_model
    from trainer.models.saved_model import write_saved_model

    print(f"exporting {folder} as {parsed.format}", flush=True)  # it takes up to a minute
    model, notice = load_model(folder), generated.of_folder(folder)
    if parsed.format == SAVED_MODEL:
        write_saved_model(model, size, path, parsed.default_signature, notice)
        size_bytes = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    else:
        write_lite(model, size, path, parsed.quantization)
        size_bytes = path.stat().st_size
    if notice:
        print(f"note: {notice}", file=sys.stderr)
    print(f"wrote {path}, {size_bytes / 1e6:.1f} MB, for images of {size[0]} x {size[1]} pixels (height x width)")
