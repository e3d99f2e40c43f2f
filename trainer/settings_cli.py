"""Command-line flags made from the dataclasses of `trainer.config`. Standard library only."""

import argparse
import contextlib
import dataclasses
import json
import pathlib
import sys
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from trainer.artifacts import MODEL_NAME
from trainer.config import PRETRAINED
from trainer.errors import UserError, nearest
from trainer.files import check_place, write_json

STDOUT = "-"
"""File name that stands for standard output."""

Config = TypeVar("Config")


def called_as(command: str, package: str) -> str:
    """How to call this program, for usage lines: the installed `command`, or `python -m` and the package."""
    return command if pathlib.Path(sys.argv[0]).stem == command else f"python -m {package}"


def boolean(text: str) -> bool:
    """Parse `true`, `yes`, `1`, `false`, `no` or `0`; raises `ValueError` for any other word."""
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    try:
        return words[text.lower()]
    except KeyError:
        raise ValueError(f"{text!r} is neither true nor false") from None


def output_path(text: str) -> str:
    """Type of a flag that names an output: raises `UserError` before any work if nothing can be written there."""
    if "://" in text:
        place = "on Cloud Storage" if text.startswith("gs://") else "an address"
        raise UserError(f"{text} is {place}; name a local path, and copy the result there afterwards")
    if text and text != STDOUT:
        check_place(text)
    return text


def output_dir(text: str) -> str:
    """Like `output_path`, for a folder."""
    output_path(text)
    if pathlib.Path(text).is_file():
        raise UserError(f"{text} is a file; name a folder")
    return text


def output_dir_or_address(text: str) -> str:
    """Like `output_dir`, for a folder that may also be on Cloud Storage."""
    return text if "://" in text else output_dir(text)


def output_file(text: str) -> str:
    """Like `output_path`, for a file or STDOUT."""
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


class Parser(argparse.ArgumentParser):
    """Accepts flags by their full names only, and suggests the nearest flag for an unknown one.

    With `returns_unknown`, `parse_known_args` returns unknown arguments to the caller, who reports them with
    `suggestion`. Otherwise they end the process with the usage and exit status 2.
    """

    def __init__(self, *args: Any, returns_unknown: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "allow_abbrev": False})
        self._returns_unknown = returns_unknown

    def suggestion(self, argument: str) -> str:
        """`; did you mean '--x'?` for the flag nearest to `argument`, or nothing."""
        flags = [flag for action in self._actions for flag in action.option_strings]
        return nearest(argument.partition("=")[0], flags)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse unknown arguments here, where the flags of the subcommand are known."""
        known, unknown = super().parse_known_args(args, namespace)
        if unknown and not self._returns_unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self.suggestion(unknown[0])}")
        return known, unknown


def add_flag(
    parser: argparse._ActionsContainer, name: str, kind: type, default: Any, help: str, *, is_text: bool = False
) -> None:
    """Give `parser` the flag of one setting. This is the only place that makes a setting a flag.

    Args:
        parser: a parser or a group of its arguments.
        name: name of the setting, with underscores.
        kind: bool, int, float or str.
        default: value of the setting without the flag.
        help: description of the setting.
        is_text: leave the value a text, for the caller to convert, and None without the flag.
    """
    parser.add_argument(
        "--" + name.replace("_", "-"),
        type=str if is_text else boolean if kind is bool else kind,
        default=None if is_text else default,
        metavar=kind.__name__.upper(),
        help=f"{help} (default: {default!r})".replace("%", "%%"),
    )


def add_settings(parser: argparse.ArgumentParser, config: type, names: Collection[str] = ()) -> None:
    """Give `parser` a flag for each field of the dataclass `config`, or for those in `names`."""
    for field in dataclasses.fields(config):
        if not names or field.name in names:
            assert isinstance(field.type, type)
            add_flag(parser, field.name, field.type, field.default, field.metadata["help"])


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
    parser.add_argument("--model", default="", help=f"{MODEL} (default: {default}).")


def settings(config: type[Config], arguments: argparse.Namespace, **others: Any) -> Config:
    """The dataclass with the values of its flags and of `others`; its defaults for fields with neither."""
    names = {field.name for field in dataclasses.fields(config)}  # type: ignore[arg-type]
    return config(**{name: value for name, value in vars(arguments).items() if name in names} | others)
