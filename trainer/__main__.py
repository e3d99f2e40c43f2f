"""Command line of the trainer: one subcommand per task."""

import contextlib
import importlib
import sys

from trainer.errors import UsageError, installed, reported, terminable

with installed():
    from trainer.models import choose_model
    from trainer.settings import Parser, add_command, parser_of_program

COMMANDS = (
    "datasets",
    "fetch",
    "train",
    "benchmark",
    "evaluate",
    "compare",
    "predict",
    "import-weights",
    "export",
)

# Deleted at 0.1.0, with `_refuse_moved`.
MOVED = (
    ("demo", "", "python -m studio demo"),
    ("check", "", "python -m studio check"),
    ("predict", "--compare", "python -m studio compare A B"),
    ("predict", "http://", "python -m studio predict"),
    ("predict", "https://", "python -m studio predict"),
)
"""Command, the beginning of an argument that was for designers (empty for any), and what is called now."""
RESUMES = "interrupted: the same command resumes a training from its last checkpoint"
LEAVES_NOTHING = "interrupted: nothing was written"


def _parser() -> Parser:
    parser, subparsers = parser_of_program("msinet", "trainer", "Prepare data, train, evaluate and use MSI-Net.")
    # Given to `predict`, which without it needs nothing that downloads or imports weights.
    parser.set_defaults(choose_model=choose_model)
    for name in COMMANDS:
        module = importlib.import_module(f"trainer.commands.{name.replace('-', '_')}")
        add_command(subparsers, name, module).set_defaults(run=module.execute)
    return parser


def _refuse_moved(arguments: list[str]) -> None:
    """Raise `UsageError` for a command line of MOVED, with the command that took its place."""
    given = [each.lower() for each in arguments]
    for command, argument, now in MOVED:
        if given[:1] == [command] and (not argument or any(each.startswith(argument) for each in given)):
            raise UsageError(f"`{' '.join(filter(None, (command, argument)))}` is now `{now}`")


def main(arguments: list[str] | None = None) -> None:
    """Run a command line, by default the arguments of the process.

    Example:
        >>> main(["predict", "photo.jpg", "--output-dir", "maps"])
    """
    with reported():
        _refuse_moved(sys.argv[1:] if arguments is None else arguments)
        parsed = _parser().parse_args(arguments)
    is_training = parsed.command == "train"  # it handles SIGTERM itself, and saves its state
    with (
        reported(RESUMES if is_training else LEAVES_NOTHING),
        contextlib.nullcontext() if is_training else terminable(),
    ):
        parsed.run(parsed)


if __name__ == "__main__":
    main(sys.argv[1:])
