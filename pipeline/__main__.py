"""Train MSI-Net by a pipeline: run it on this machine, or submit, schedule and follow it on Vertex AI."""

import argparse
import importlib
import sys
from types import ModuleType

from trainer.errors import UserError, reported
from trainer.settings_cli import Parser, called_as

COMMANDS = ("run", "doctor", "images", "submit", "schedule", "runs", "publish", "compile", "plan", "registry")
WITH_ASSIGNMENTS = ("run", "doctor", "submit", "schedule", "compile")
"""Commands that also accept pipeline parameters as NAME=VALUE."""


def run() -> int:
    """Run the command line of this process; `trainer.errors.reported` reports its errors."""
    with reported():
        return main(sys.argv[1:])


def main(arguments: list[str]) -> int:
    """Run the command in `arguments` and return its exit status."""
    parsed, assignments = parse(arguments)
    return int(_module(parsed.command).execute(parsed, assignments))


def parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """The parsed flags of the command, and its arguments of the form NAME=VALUE, unparsed.

    Raises `UserError` for an unknown flag, with the nearest known one.
    """
    program = called_as("msinet-pipeline", "pipeline")
    parser = Parser(prog=program, description=__doc__, returns_unknown=True)
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    raw = argparse.RawDescriptionHelpFormatter
    for name in COMMANDS:
        module = _module(name)
        module.configure(
            subparsers.add_parser(
                name, help=module.HELP, description=module.__doc__, formatter_class=raw, returns_unknown=True
            )
        )
    parsed, unknown = parser.parse_known_args(arguments)
    takes_assignments = parsed.command in WITH_ASSIGNMENTS
    for argument in unknown:
        if argument.startswith("-") or not takes_assignments:
            suggestion = subparsers.choices[parsed.command].suggestion(argument)
            raise UserError(f"unknown argument {argument!r}{suggestion} (see `{program} {parsed.command} --help`)")
    return parsed, unknown


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"pipeline.commands.{name}")


if __name__ == "__main__":
    sys.exit(run())
