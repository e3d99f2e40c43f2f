"""What a program around the model needs besides `trainer.api`: command lines, settings, images by name, errors.

`studio` is such a program. It imports these two modules and nothing else of this project. A subcommand of it:

    HELP = "print the size of an image"

    def configure(parser: Parser) -> None:
        parser.add_argument("image", metavar="IMAGE")

    def execute(parsed: argparse.Namespace) -> None:
        print(Input.find(parsed.image).open(PredictConfig().most_pixels).size)

`Program` makes a command line of several.
"""

import argparse
import pathlib
from collections.abc import Mapping, Sequence
from types import ModuleType

from trainer.commands import shared_maps
from trainer.commands.shared_flags import add_model, add_region
from trainer.commands.shared_maps import add_map_flags
from trainer.errors import check, look_up, reported, terminable
from trainer.io import local_path, replacing
from trainer.models import choose_model
from trainer.pictures import FORMATS
from trainer.prediction import Input, PredictConfig, drawing_rules
from trainer.settings import (
    Parser,
    add_command,
    add_settings,
    check_ranges,
    output_file,
    parser_of_program,
    results_dir,
    setting,
    settings_of,
    summarize,
)
from trainer.texts import printable, shown, some

__all__ = [
    "COLORS_CSS",
    "FORMATS",
    "Input",
    "Parser",
    "PredictConfig",
    "Program",
    "add_map_flags",
    "add_model",
    "add_region",
    "add_settings",
    "check",
    "check_ranges",
    "drawing_rules",
    "local_path",
    "look_up",
    "output_file",
    "printable",
    "replacing",
    "results_dir",
    "setting",
    "settings_of",
    "shown",
    "some",
    "summarize",
    "write_maps",
]

COLORS_CSS = pathlib.Path(__file__).parent / "reports" / "templates" / "colors.css"
"""Style sheet with the colours of all pages, light and dark, as variables of CSS."""


class Program:
    """A program with subcommands."""

    def __init__(self, command: str, package: str, description: str, modules: Mapping[str, ModuleType]) -> None:
        """Make the command line.

        Args:
            command: name of the installed command, such as `msinet-studio`.
            package: package that `python -m` runs as the same program, such as `studio`.
            description: what the program does, for its help.
            modules: name of a subcommand -> its module, with `HELP`, `configure(parser)` and `execute(parsed)`.
        """
        self.parser, subparsers = parser_of_program(command, package, description)
        for name, module in modules.items():
            add_command(subparsers, name, module).set_defaults(run=module.execute)

    def run(self, arguments: Sequence[str] | None = None) -> None:
        """Run a command line, by default the arguments of the process.

        Raises:
            SystemExit: with status 2 after a mistake in the command line, with 1 after another error that a user
                can correct. stderr says which.
        """
        with reported():
            parsed = self.parser.parse_args(arguments)
        with reported("interrupted: nothing was written"), terminable():
            parsed.run(parsed)


def write_maps(parsed: argparse.Namespace, inputs: Sequence[Input]) -> None:
    """Predict images, write and print what the flags of `add_map_flags` ask for.

    Raises:
        UserError: a flag or an image is wrong, before anything is written. Or nothing more can be written.
        SystemExit: with 1 if there is no map of an image, which stderr says. With another one after Ctrl-C.
    """
    shared_maps.write_maps(parsed, lambda are_beside: (inputs, []), choose_model)
