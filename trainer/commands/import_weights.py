"""\
Convert weights that were trained elsewhere to a model.

SOURCE is a path or a gs:// address of a frozen SavedModel or .pb of MSI-Net's author, a TensorFlow checkpoint (its
name up to .ckpt), an HDF5 file of Keras such as the .weights.h5 of the TF2 port, or a model of this project. All
names and shapes are checked. Only the values are read: no graph or code of the source is run.

SOURCE can also be author:salicon, or another of author:mit1003, cat2000, dutomron, pascals, osie and fiwi: the
weights that the author publishes for this dataset (MIT License) are downloaded once, and kept in the cache of
`fetch`. The published files themselves are untested: tests generate files as the author's code writes them.
"""

import argparse

from trainer.data import FetchConfig
from trainer.datasets import DATASETS
from trainer.settings import output_dir
from trainer.texts import visible

HELP = "convert published weights to a model"


def configure(parser: argparse.ArgumentParser) -> None:
    sizes = ", ".join(f"{name} {row.image_size[0]}x{row.image_size[1]}" for name, row in DATASETS.items())
    parser.add_argument("source", metavar="SOURCE")
    parser.add_argument(
        "--output-dir", type=output_dir, required=True, metavar="DIR", help="Folder for the model."
    )
    parser.add_argument(
        "--dataset",
        default=FetchConfig.dataset,
        metavar="NAME",
        help="Dataset that the weights were trained on (default: %(default)s). A model and author:NAME keep their "
        "own.",
    )
    parser.add_argument(
        "--image-size",
        default="",
        metavar="HxW",
        help=f"Size to which images are fitted, in pixels (default: that of the dataset: {sizes}).",
    )


def execute(parsed: argparse.Namespace) -> None:
    from trainer.models import WeightSource

    imported = WeightSource(parsed.source).import_to(parsed.output_dir, parsed.dataset, parsed.image_size)
    print(visible(imported.report))
    print(f"wrote the model to {parsed.output_dir}")
