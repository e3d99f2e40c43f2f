"""Predict the saliency maps of images, and measure how much attention their regions get.

  python -m trainer predict photo.jpg
  python -m trainer predict photos gs://bucket/more --output-dir maps --format png,overlay
  python -m trainer predict page.png --region button:20,300,160,48 --region logo:2%,1%,20%,8%

IMAGE is a file, a folder (searched with its subfolders), a glob, or the same on Cloud Storage (gs://). The first
command writes photo-attention.png next to the photo: its attention in heat colours. A picture of a long page gets
a map for each of its screens, since nobody sees such a page at once: what is measured is a part of the screen. An
image that cannot be read is reported on stderr with the reason, and the others are still predicted. The exit
status is 1 if any image failed, else 0. A line on stderr says which model is used.
"""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainer.commands.shared_maps import add_map_flags, write_maps
from trainer.errors import PlaceError, check
from trainer.io import local_path
from trainer.settings import Parser
from trainer.texts import printable

if TYPE_CHECKING:
    from trainer.prediction import Input

HELP = "predict saliency maps of images, measure regions"


def configure(parser: Parser) -> None:
    parser.add_argument("images", nargs="+", metavar="IMAGE", help="File, folder, glob, or gs:// address.")
    add_map_flags(parser)


def execute(parsed: argparse.Namespace) -> None:
    write_maps(parsed, lambda are_beside: _find(parsed, are_beside), parsed.choose_model)


def _find(parsed: argparse.Namespace, are_beside: bool) -> "tuple[Sequence[Input], Sequence[str]]":
    """List the images, and what is skipped. Refuses a folder where results are written beside them."""
    from trainer.prediction import find_inputs

    for name in parsed.images if are_beside else ():
        # A second run would take results next to the images of a folder as images.
        check(
            not local_path(name).is_dir(),
            f"{printable(name)} is a folder. Name a folder for the results of its images with --output-dir",
            PlaceError,
        )
    return find_inputs(parsed.images, parsed.output_dir)
