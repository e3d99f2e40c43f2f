"""Flags that several commands take."""

import argparse

from trainer.models import MODEL_NAME, PRETRAINED

MODEL = (
    "Model folder, or a registered name with or without @VERSION or @ALIAS, here or on gs://. Or pretrained, the "
    "trained model that comes with this package. Or author:salicon, the author's weights, downloaded once"
)
"""Help text: what `trainer.models.find.find_model` accepts."""


def add_cache_dir(parser: argparse.ArgumentParser) -> None:
    """Give `parser` the flag `--cache-dir`, for `trainer.datasets.cache.cache_folder`."""
    parser.add_argument(
        "--cache-dir",
        metavar="DIR",
        help="Folder that keeps downloaded archives, empty for none (default: the environment variable "
        "MSINET_CACHE, else ~/.cache/msinet).",
    )


def add_model(parser: argparse.ArgumentParser) -> None:
    """Give `parser` the flag `--model`, for `trainer.models.find.choose_model`."""
    default = f"{MODEL_NAME} if it was trained on real data, else {PRETRAINED}"
    parser.add_argument("--model", default="", metavar="MODEL", help=f"{MODEL} (default: {default}).")


def add_region(group: argparse._ActionsContainer) -> None:
    """Give a parser or a group of flags the flag `--region`, for `trainer.prediction.regions.parse_regions`."""
    group.add_argument(
        "--region",
        action="append",
        default=[],
        metavar="NAME:X,Y,W,H",
        help="Region to measure: pixels from the top left, or all four in %%. Repeat it for more regions.",
    )
