"""The trainer's command line: one subcommand for each thing it does."""

import argparse
import importlib
import os
import sys

from trainer.errors import reported
from trainer.settings_cli import Parser, called_as

COMMANDS = ("fetch", "train", "evaluate", "compare", "predict", "demo", "import-weights", "export")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog=called_as("msinet", "trainer"), description="Prepare data, train MSI-Net, evaluate it, use it."
    )
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    for name in COMMANDS:
        module = importlib.import_module(f"trainer.commands.{name.replace('-', '_')}")
        raw = argparse.RawDescriptionHelpFormatter
        added = subparsers.add_parser(name, help=module.HELP, description=module.__doc__, formatter_class=raw)
        added.set_defaults(run=module.execute)
        module.configure(added)
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Run the command line `arguments` (those of the process without them)."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with reported():
        parsed = _parser().parse_args(arguments)
        parsed.run(parsed)


if __name__ == "__main__":
    main(sys.argv[1:])
