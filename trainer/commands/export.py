"""Write a trained model for other programs: a SavedModel that serves, or a TFLite file for LiteRT."""

import argparse
import pathlib

from trainer.config import EXPORT_FORMATS, QUANTIZATIONS, SIGNATURES
from trainer.errors import UserError
from trainer.loading import load_tensorflow
from trainer.settings_cli import add_model, output_path

SAVED_MODEL, TFLITE = EXPORT_FORMATS
HELP = "write a model for servers or telephones"


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "--output", type=output_path, required=True, metavar="PATH", help="Folder, or file, to write."
    )
    parser.add_argument("--format", default=SAVED_MODEL, choices=EXPORT_FORMATS, help="(default: %(default)s)")
    parser.add_argument(
        "--image-size", default="", metavar="HxW", help="The network's input, pixels (default: the training's)."
    )
    parser.add_argument(
        "--default-signature",
        default=SIGNATURES[0],
        choices=SIGNATURES,
        help="Of a SavedModel: what answers requests that name no signature (default: %(default)s).",
    )
    parser.add_argument(
        "--quantization",
        default=QUANTIZATIONS[0],
        choices=QUANTIZATIONS,
        help="Of a TFLite file: the type of its weights (default: %(default)s, float32).",
    )


def execute(parsed: argparse.Namespace) -> None:
    path = pathlib.Path(parsed.output)
    if path.exists():
        raise UserError(f"{path} is there already; name another --output, or remove it")
    for flag, default, of in (("default_signature", SIGNATURES[0], SAVED_MODEL), ("quantization", "none", TFLITE)):
        if parsed.format != of and getattr(parsed, flag) != default:
            raise UserError(f"--{flag.replace('_', '-')} is of the format {of}, and --format is {parsed.format}")

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
    model = load_model(folder)
    if parsed.format == SAVED_MODEL:
        write_saved_model(model, size, path, parsed.default_signature)
        size_bytes = sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
    else:
        write_lite(model, size, path, parsed.quantization)
        size_bytes = path.stat().st_size
    print(f"wrote {path}, {size_bytes / 1e6:.1f} MB, for images of {size[0]} x {size[1]} pixels (height x width)")
