"""Command line of the studio: one subcommand for each thing that designers do."""

import sys

try:
    from studio.commands import check, compare, demo, predict, site
    from trainer.tools import Parser, Program
except ModuleNotFoundError as error:  # outside of the project's environment
    raise SystemExit(
        f"error: {sys.executable} has no package {error.name}: run `make install`, then use .venv/bin/python, or "
        "`source .venv/bin/activate` first"
    ) from None

COMMANDS = {"demo": demo, "site": site, "check": check, "compare": compare, "predict": predict}


def _program() -> Program:
    return Program("msinet-studio", "studio", "See and check where people look in designs.", COMMANDS)


def _parser() -> Parser:
    return _program().parser


def main(arguments: list[str] | None = None) -> None:
    """Run a command line, by default the arguments of the process."""
    _program().run(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
