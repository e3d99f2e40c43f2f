"""Command line of the pipeline."""

import argparse
import importlib
import sys
from types import ModuleType

from trainer.errors import UserError, reported
from trainer.settings_cli import called_as

COMMANDS = ("run", "submit", "schedule", "runs", "publish", "compile", "plan", "registry")
TAKE_ASSIGNMENTS = ("run", "submit", "schedule")
"""Take pipeline parameters as NAME=VALUE too."""


def run() -> int:
    """Run the command line of this process, with errors reported as `trainer.errors.reported` does it."""
    with reported():
        return main(sys.argv[1:])


def main(arguments: list[str]) -> int:
    """Run the command; returns the exit status."""
    parsed, others = parse(arguments)
    return int(_module(parsed.command).execute(parsed, others))


def parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """What the command's parser makes of `arguments`, and what it left for the command to read."""
    program = called_as("msinet-pipeline", "pipeline")
    parser = argparse.ArgumentParser(prog=program, description=__doc__, allow_abbrev=False)
    subparsers = parser.add_subparsers(dest="command", required=True)
    raw = argparse.RawDescriptionHelpFormatter
    for name in COMMANDS:
        module = _module(name)
        module.configure(
            subparsers.add_parser(
                name, help=module.HELP, description=module.__doc__, formatter_class=raw, allow_abbrev=False
            )
        )
    parsed, others = parser.parse_known_args(arguments)
    if others and parsed.command not in TAKE_ASSIGNMENTS:
        raise UserError(f"unknown argument {others[0]!r}; see `{program} {parsed.command} --help`")
    return parsed, others


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"pipeline.commands.{name}")


if __name__ == "__main__":
    sys.exit(run())
