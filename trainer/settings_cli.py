"""Command-line flags made from the dataclasses of `trainer.config`. Standard library only."""

import argparse
import dataclasses
import pathlib
import sys
from typing import Any, TypeVar

from trainer.artifacts import MODEL_NAME
from trainer.errors import UserError, nearest
from trainer.files import check_place

STDOUT = "-"
"""A file's name that means the standard output."""

Config = TypeVar("Config")


def called_as(command: str, package: str) -> str:
    """How this process was called, for usage lines: the installed `command`, or `python -m` and the package."""
    return command if pathlib.Path(sys.argv[0]).stem == command else f"python -m {package}"


def boolean(text: str) -> bool:
    """True or False of a word such as `true` or `no`."""
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    try:
        return words[text.lower()]
    except KeyError:
        raise ValueError(f"{text!r} is neither true nor false") from None


def output_path(text: str) -> str:
    """What to write, as a flag's type: a `UserError` before any work where nothing can be written there."""
    if "://" in text:
        place = "on Cloud Storage" if text.startswith("gs://") else "an address"
        raise UserError(f"{text} is {place}; name a place here to write to, and copy it there")
    if text and text != STDOUT:
        check_place(text)
    return text


def output_dir(text: str) -> str:
    """The same for a folder."""
    output_path(text)
    if pathlib.Path(text).is_file():
        raise UserError(f"{text} is a file; name a folder")
    return text


def output_dir_or_address(text: str) -> str:
    """The same for a folder that may as well be on Cloud Storage."""
    return text if "://" in text else output_dir(text)


def output_file(text: str) -> str:
    """The same for a file, or for STDOUT."""
    output_path(text)
    if pathlib.Path(text).is_dir():
        raise UserError(f"{text} is a folder; name a file in it")
    return text


class Parser(argparse.ArgumentParser):
    """Takes flags by their full names only, and names the nearest for one that it does not know."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "allow_abbrev": False})

    def error(self, message: str) -> Any:
        """Print the message with the nearest known flag and exit with status 2."""
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown != message:
            flags = [flag for action in self._actions for flag in action.option_strings]
            message += nearest(unknown.split()[0].split("=")[0], flags)
        super().error(message)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse unknown flags here, where the flags of this subcommand are known."""
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return known, unknown


def add_settings(parser: argparse.ArgumentParser, config: type) -> None:
    """Give `parser` a flag for each field of the dataclass `config`, with its default and its help."""
    for field in dataclasses.fields(config):
        parser.add_argument(
            "--" + field.name.replace("_", "-"),
            type=boolean if field.type is bool else field.type,
            default=field.default,
            metavar=getattr(field.type, "__name__", "value").upper(),
            help=f"{field.metadata['help']} (default: {field.default!r})".replace("%", "%%"),
        )


MODEL = "Model folder, or a registered name with or without @VERSION or @ALIAS, here or on gs://"
"""What `trainer.models.find.find_model` takes, for a flag's help."""


def add_model(parser: argparse.ArgumentParser) -> None:
    """Give `parser` the flag of the model to use, as `trainer.models.find.find_model` takes it."""
    parser.add_argument("--model", default="", help=f"{MODEL} (default: {MODEL_NAME}).")


def settings(config: type[Config], arguments: argparse.Namespace) -> Config:
    """The dataclass with the values of its flags."""
    return config(**{field.name: getattr(arguments, field.name) for field in dataclasses.fields(config)})  # type: ignore[arg-type]
