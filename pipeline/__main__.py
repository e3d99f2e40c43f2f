"""Train MSI-Net by a pipeline: run it on this machine, or submit, schedule and follow it on Vertex AI."""

import argparse
import importlib
import sys
from types import ModuleType

from trainer.errors import UserError, installed, reported

with installed():
    from trainer.places import Queries
    from trainer.settings import add_command, parser_of_program

COMMANDS = (
    *("run", "predict", "prepare", "doctor", "images", "submit", "schedule", "runs", "publish", "compile"),
    *("plan", "benchmark", "sweep", "registry"),
)
WITH_ASSIGNMENTS = ("run", "doctor", "submit", "compile")
"""Commands that also accept pipeline parameters as NAME=VALUE."""


def run() -> int:
    """Run the command line of this process. `trainer.errors.reported` reports its errors."""
    with reported():
        return main(sys.argv[1:])


def main(arguments: list[str]) -> int:
    """Run the command in `arguments` and return its exit status.

    An error that names a signed address of these arguments is without its query, since others may read a log.
    """
    try:
        parsed, assignments = parse_arguments(arguments)
        return int(_module(parsed.command).execute(parsed, assignments))
    except UserError as error:
        error.args = (Queries(arguments).hide(str(error)),)
        raise


def parse_arguments(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """The parsed flags of the command, and its arguments of the form NAME=VALUE, such as `base_epochs=3`.

    Raises `UsageError` for an unknown flag, with the nearest known one.
    """
    parser, subparsers = parser_of_program("msinet-pipeline", "pipeline", str(__doc__))
    for name in COMMANDS:
        add_command(subparsers, name, _module(name), "[NAME=VALUE ...]" if name in WITH_ASSIGNMENTS else "")
    parsed: tuple[argparse.Namespace, list[str]] = parser.parse_known_args(arguments)
    return parsed


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"pipeline.commands.{name}")


if __name__ == "__main__":
    sys.exit(run())
