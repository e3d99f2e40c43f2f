"""Export a trained model: as a SavedModel for servers, as an ONNX file for other runtimes, or in compact form.

A SavedModel and an ONNX file read prepared images of any height and width divisible by 8. With
`--format onnx-int8` its kernels have 8 bits, which the runtime expands: 25 MB in place of 100. docs/serving.md has
clients in Python and JavaScript. Only a SavedModel needs TensorFlow. An export predicts all images alike: as
pictures, or with `--kind page` as pages, if the model has a size and a calibration of its own for them.

The compact form, `--format int8`, is a folder of 25 MB that every command takes as a model: the weights of kernels
have 8 bits and a scale for each output channel, and are float32 again when they are loaded.
"""

import argparse
import pathlib

from trainer.commands.shared_flags import add_model
from trainer.errors import PlaceError, SettingError
from trainer.network import PAGE, PICTURE, ModelFolder
from trainer.settings import output_path

SAVED_MODEL, _, ONNX_INT8, COMPACT = FORMATS = "saved-model", "onnx", "onnx-int8", "int8"
HELP = "export a model for servers and other runtimes, or in compact form"


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "--output", type=output_path, required=True, metavar="PATH", help="Folder or file of the export."
    )
    parser.add_argument("--format", default=SAVED_MODEL, choices=FORMATS, help="(default: %(default)s)")
    parser.add_argument(
        "--kind",
        default=PICTURE,
        choices=(PICTURE, PAGE),
        help="What the images are. The compact form predicts both as the model does (default: %(default)s).",
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
        raise PlaceError(f"{path} exists already: name another --output, or remove it")
    if parsed.format == COMPACT and parsed.kind != PICTURE:
        raise SettingError(
            f"the format {COMPACT} predicts each kind of images as the model does: leave out --kind"
        )
    from trainer.models import ModelExport, choose_model

    answering = choose_model(parsed.model).announced()
    sizes = ModelFolder(answering.folder).image_sizes
    if parsed.kind not in sizes:
        raise SettingError(f"{answering.name} has no size of its own for a {parsed.kind}: leave out --kind")
    size = sizes[parsed.kind]

    print(f"exporting {answering.name} as {parsed.format}", flush=True)  # it takes up to a minute
    answering.tell()
    export = ModelExport(answering, parsed.kind, parsed.flip_prediction)
    if parsed.format == SAVED_MODEL:
        export.saved_model(path)
    elif parsed.format == COMPACT:
        print(export.compact(path))
    else:
        export.onnx(path, parsed.format == ONNX_INT8)
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    size_bytes = sum(file.stat().st_size for file in files)
    print(f"wrote {path}, {size_bytes / 1e6:.1f} MB, for images of {size[0]} x {size[1]} pixels (height x width)")
