"""Command line of the trainer: one subcommand per task."""

import contextlib
import importlib
import sys

from trainer.errors import installed, reported, terminable

with installed():
    from trainer.cli import Parser, add_command, program

COMMANDS = (
    "datasets",
    "fetch",
    "train",
    "benchmark",
    "evaluate",
    "compare",
    "predict",
    "check",
    "demo",
    "import-weights",
    "export",
)

RESUMES = "interrupted; the same command resumes a training from its last checkpoint"
LEAVES_NOTHING = "interrupted; nothing was written"


def _parser() -> Parser:
    parser, subparsers = program("msinet", "trainer", "Prepare data; train, evaluate and use MSI-Net.")
    for name in COMMANDS:
        module = importlib.import_module(f"trainer.commands.{name.replace('-', '_')}")
        add_command(subparsers, name, module).set_defaults(run=module.execute)
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Run a command line; by default the arguments of the process."""
    with reported():
        parsed = _parser().parse_args(arguments)
    is_training = parsed.command == "train"  # it handles SIGTERM itself, and saves its state
    with (
        reported(RESUMES if is_training else LEAVES_NOTHING),
        contextlib.nullcontext() if is_training else terminable(),
    ):
        parsed.run(parsed)


if __name__ == "__main__":
    main(sys.argv[1:])
