"""Command-line flags: of the settings in `trainer.config`, and of what several commands take."""

import argparse
import contextlib
import dataclasses
import json
import pathlib
import sys
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from trainer.artifacts import MODEL_NAME
from trainer.config import PRETRAINED, group_of
from trainer.errors import UserError
from trainer.files import check_place, write_json
from trainer.parser import Parser

STDOUT = "-"
"""File name that stands for standard output."""

Config = TypeVar("Config")


def output_path(text: str) -> str:
    """Type of a flag that names an output: raises `UserError` before any work if nothing can be written there."""
    if "://" in text:
        place = "on Cloud Storage" if text.startswith("gs://") else "an address"
        raise UserError(f"{text} is {place}; name a local path, and copy the result there afterwards")
    if text and text != STDOUT:
        check_place(text)
    return text


def output_dir(text: str) -> str:
    """Type of a flag that names a folder to write; otherwise as `output_path`."""
    output_path(text)
    if pathlib.Path(text).is_file():
        raise UserError(f"{text} is a file; name a folder")
    return text


def output_dir_or_address(text: str) -> str:
    """Type of a flag that names a folder to write, here or on Cloud Storage; otherwise as `output_dir`."""
    return text if "://" in text else output_dir(text)


def output_file(text: str) -> str:
    """Type of a flag that names a file to write, or STDOUT; otherwise as `output_path`."""
    output_path(text)
    if pathlib.Path(text).is_dir():
        raise UserError(f"{text} is a folder; name a file in it")
    return text


def summarize(file: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Write what `compute` returns as JSON to a file or to STDOUT, which then gets nothing else; return it too."""
    with contextlib.redirect_stdout(sys.stderr) if file == STDOUT else contextlib.nullcontext():
        summary = compute()
    if file == STDOUT:
        print(json.dumps(summary, indent=2))
    elif file:
        write_json(pathlib.Path(file), summary)
    return summary


def add_flag(
    group: argparse._ActionsContainer, name: str, kind: type, default: Any, help: str, *, is_text: bool = False
) -> None:
    """Add the flag of one setting to a group of flags. This is the only place that makes a setting a flag.

    Args:
        group: of `Parser.group`.
        name: name of the setting, with underscores.
        kind: bool, int, float or str. A bool is a switch of `Parser`.
        default: value of the setting without the flag.
        help: description of the setting.
        is_text: leave the value a text, for the caller to convert, and None without the flag. Otherwise nothing is
            parsed without the flag, so that `settings` can tell what was typed from a default.
    """
    flag, value = "--" + name.replace("_", "-"), None if is_text else argparse.SUPPRESS
    shown = f"{help} (default: {str(default).lower() if kind is bool else repr(default)})".replace("%", "%%")
    if kind is bool:
        switch = group.add_argument(flag, action=argparse.BooleanOptionalAction, default=value)
        switch.help = shown  # before Python 3.13, the action adds a default of its own
    else:
        metavar = kind.__name__.upper()
        group.add_argument(flag, type=str if is_text else kind, default=value, metavar=metavar, help=shown)


def add_settings(parser: Parser, config: type, names: Collection[str] = ()) -> None:
    """Give `parser` a flag for each field of the dataclass `config`, or for those in `names`, in their groups."""
    for field in dataclasses.fields(config):
        if not names or field.name in names:
            assert isinstance(field.type, type)
            group = parser.group(group_of(config, field))
            add_flag(group, field.name, field.type, field.default, field.metadata["help"])


def add_cache_dir(parser: argparse.ArgumentParser) -> None:
    """Give `parser` the flag `--cache-dir`, for `trainer.downloads.cache.cache_folder`."""
    parser.add_argument(
        "--cache-dir",
        metavar="DIR",
        help="Folder that keeps downloaded archives; empty for none (default: that of the environment variable "
        "MSINET_CACHE, else ~/.cache/msinet).",
    )


MODEL = (
    "Model folder, or a registered name with or without @VERSION or @ALIAS, here or on gs://; or pretrained, the "
    "trained model that comes with this package; or author:salicon, the author's weights, downloaded once"
)
"""Help text: what `trainer.models.find.find_model` accepts."""


def add_model(parser: argparse.ArgumentParser) -> None:
    """Give `parser` the flag `--model`, for `trainer.models.answering.find_answering`."""
    default = f"{MODEL_NAME} if it was trained on real data, else {PRETRAINED}"
    parser.add_argument("--model", default="", metavar="MODEL", help=f"{MODEL} (default: {default}).")


def add_region(group: argparse._ActionsContainer) -> None:
    """Give a parser or a group of flags the flag `--region`, for `trainer.prediction.regions.parse_region`."""
    group.add_argument(
        "--region",
        action="append",
        default=[],
        metavar="NAME:X,Y,W,H",
        help="Region to measure: pixels from the top left, or all four in %%; repeat it for more regions.",
    )


def settings(config: type[Config], arguments: argparse.Namespace, **others: Any) -> Config:
    """The dataclass with the values of its flags and of `others`; its defaults for fields with neither."""
    names = {field.name for field in dataclasses.fields(config)}  # type: ignore[arg-type]
    return config(**{name: value for name, value in vars(arguments).items() if name in names} | others)
