"""Command line of the studio: one subcommand for each thing that designers do."""

import sys

try:
    from studio.commands import check, compare, demo, predict, site
    from trainer.api import Parser, add_command, program, reported, terminable
except ModuleNotFoundError as error:  # outside of the project's environment
    raise SystemExit(
        f"error: {sys.executable} has no package {error.name}; run `make install`, then use .venv/bin/python, or "
        "`source .venv/bin/activate` first"
    ) from None

COMMANDS = {"demo": demo, "site": site, "check": check, "compare": compare, "predict": predict}


def _parser() -> Parser:
    parser, subparsers = program("msinet-studio", "studio", "See and check where people look in designs.")
    for name, module in COMMANDS.items():
        add_command(subparsers, name, module).set_defaults(run=module.execute)
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Run a command line; by default the arguments of the process."""
    with reported():
        parsed = _parser().parse_args(arguments)
    with reported("interrupted; nothing was written"), terminable():
        parsed.run(parsed)


if __name__ == "__main__":
    main(sys.argv[1:])
