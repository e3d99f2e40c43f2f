"""Command lines: the parser with its sentences about mistakes, and settings as flags and back."""

import argparse
import contextlib
import dataclasses
import json
import pathlib
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from types import ModuleType
from typing import Any, TypeVar

from trainer.errors import PlaceError, UsageError, UserError
from trainer.io import check_output_path, write_json
from trainer.machine import code_version
from trainer.places import stored_at
from trainer.settings.fields import WORDS, flag_of, group_of, integer
from trainer.texts import nearest

SHELLS = ("bash", "zsh", "fish", "tcsh")
"""Shells for which shtab writes a completion."""
FILES, FOLDERS = ("FILE", "HTML", "PATH", "IMAGE", "DESIGN", "PAGE", "MODEL", "SOURCE"), ("DIR",)
"""Names of values that a shell completes by the names of files, and by the names of folders alone."""
STDOUT = "-"
"""File name that stands for standard output."""
Config = TypeVar("Config")


def called_as(command: str, package: str) -> str:
    """The call of this program in usage lines: the `command`, such as `msinet`, or `python -m PACKAGE`."""
    return command if pathlib.Path(sys.argv[0]).stem == command else f"python -m {package}"


class _Help(argparse.RawDescriptionHelpFormatter):
    """Leaves out the flags of `Parser.show_later`."""

    def add_argument(self, action: argparse.Action) -> None:
        if not getattr(action, "is_later", False):
            super().add_argument(action)


class Parser(argparse.ArgumentParser):
    """Accepts flags by their full names only, and ends each mistake with one sentence, as `UsageError`.

    A switch is a flag with the action `argparse.BooleanOptionalAction`, such as `--flip` and `--no-flip`. It may
    also be written with a word of WORDS: `--flip true` or `--flip=true`.

    Args:
        takes: how the usage shows other arguments, such as `[NAME=VALUE ...]`, which `parse_known_args` then
            returns. Empty to refuse them.
    """

    def __init__(self, *args: Any, takes: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **{"formatter_class": _Help, **kwargs, "allow_abbrev": False})
        self._takes = takes

    def group(self, title: str) -> argparse._ActionsContainer:
        """The group of flags with this title. It is new at first."""
        groups = [group for group in self._action_groups if group.title == title]
        return groups[0] if groups else self.add_argument_group(title)

    def show_later(self, flags: Collection[str]) -> None:
        """Leave these flags out of `--help`. `--help-all` shows all."""
        for flag in flags:
            self._option_string_actions[flag].is_later = True  # type: ignore[attr-defined]
        self.add_argument("--help-all", action=_HelpAll, nargs=0, help=f"show {len(flags)} more flags, and exit")
        self.epilog = f"`{self.prog} --help-all` shows {len(flags)} more flags."

    def error(self, message: str) -> Any:
        """Raise `UsageError` with `message`, and where the flags are explained."""
        raise UsageError(f"{message} (see `{self.prog} --help`)")

    def format_help(self) -> str:
        """The help. Its usage names only what must be given.

        Example: `msinet predict [OPTION ...] IMAGE [IMAGE ...]`.
        """
        formatter = self._get_formatter()
        required = [action for action in self._actions if action.required or not action.option_strings]
        formatter.add_usage(None, required, [], prefix="")
        given = " ".join(formatter.format_help().split()).removeprefix(self.prog)
        self.usage = f"{self.prog} [OPTION ...]{given} {self._takes}".rstrip().replace("%", "%%")
        return super().format_help()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Also refuse unknown flags, and other unknown arguments unless this parser takes some."""
        given = sys.argv[1:] if args is None else list(args)
        known, unknown = super().parse_known_args(self._plain(given), namespace)
        for argument in () if self._subparsers else unknown:  # a subcommand has refused its own
            if argument.startswith("-"):
                flag = argument.partition("=")[0]
                self.error(f"unknown flag {flag!r}{nearest(flag, self._option_string_actions)}")
            if not self._takes:
                self.error(f"unknown argument {argument!r}")
        return known, unknown

    def _plain(self, args: Sequence[str]) -> list[str]:
        """The arguments with switches as argparse takes them. Example: `--no-flip` for `--flip false`."""
        switches = {
            action.option_strings[0]
            for action in self._actions
            if isinstance(action, argparse.BooleanOptionalAction)
        }
        plain: list[str] = []
        for argument in args:
            name, _, word = argument.partition("=")
            if plain and plain[-1] in switches and argument.lower() in WORDS:
                name, word = plain.pop(), argument
            if name in switches and word.lower() in WORDS:
                plain.append(name if WORDS[word.lower()] else f"--no-{name.removeprefix('--')}")
            else:
                plain.append(argument)
        return plain

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse what is none of the action's choices, with the nearest one."""
        if action.choices is not None and value not in action.choices:
            name, choices = "/".join(action.option_strings) or "the command", list(map(str, action.choices))
            self.error(f"{name} is {value!r}. Choose one of {', '.join(choices)}{nearest(value, choices)}")


def parser_of_program(command: str, package: str, description: str) -> tuple[Parser, Any]:
    """The parser of a program and its subcommands, to which `add_command` adds.

    Args:
        command: name of the installed command.
        package: package that `python -m` runs as the same program.
        description: what the program does, for its help.
    """
    parser = Parser(prog=called_as(command, package), description=description)
    parser.add_argument("--version", action=_Version, nargs=0, help="Print the version, and end.")
    parser.add_argument(
        "--completion",
        action=_Completion,
        choices=SHELLS,
        help=f'Print the script that completes `{command}` in a shell, and end: eval "$({command} --completion '
        'bash)".',
    )
    parser.set_defaults(program=command)
    return parser, parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)


def add_command(subparsers: Any, name: str, module: ModuleType, takes: str = "") -> Parser:
    """Add the command `name` of a module with HELP and `configure`. Returns its parser."""
    parser: Parser = subparsers.add_parser(name, help=module.HELP, description=module.__doc__, takes=takes)
    module.configure(parser)
    return parser


class _Version(argparse.Action):
    """Prints the version and the commit of this package."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(f"{parser.get_default('program')} {code_version()}")
        parser.exit()


class _HelpAll(argparse.Action):
    """Prints the help with all flags."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        for action in parser._actions:
            action.is_later = False  # type: ignore[attr-defined]
        parser.epilog = None
        parser.print_help()
        parser.exit()


class _Completion(argparse.Action):
    """Prints the completion of the installed command for a shell: `python -m` has none."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, *_: Any) -> None:
        import shtab

        for action in _actions(parser):
            if action.metavar in FILES + FOLDERS:
                action.complete = shtab.FILE if action.metavar in FILES else shtab.DIRECTORY  # type: ignore[attr-defined]
        parser.prog = parser.get_default("program")
        print(shtab.complete(parser, values))
        parser.exit()


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """All flags and arguments of a parser and its subcommands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                yield from _actions(subparser)
        else:
            yield action


def output_path(text: str, into: bool = False) -> str:
    """Check the value of a flag that names a local file or folder to write, before any work is done.

    Args:
        text: the value. STDOUT and an empty text pass unchecked.
        into: whether files are added to a folder, which may exist.

    Raises:
        UserError: the value is an address, or nothing can be written there.
    """
    if "://" in text:
        place = "an address" if stored_at(text).is_local else "on Cloud Storage"
        raise PlaceError(f"{text} is {place}: name a local path, and copy the result there afterwards")
    if text and text != STDOUT:
        check_output_path(text, into)
    return text


def output_dir(text: str, into: bool = False) -> str:
    """Check the value of a flag that names a folder to write. Raises `UserError` for a file."""
    output_path(text, into)
    if pathlib.Path(text).is_file():
        raise PlaceError(f"{text} is a file: name a folder")
    return text


def results_dir(text: str) -> str:
    """Check the value of a flag that names a folder to which files are added. Raises `UserError` for a file."""
    return output_dir(text, into=True)


def output_dir_or_address(text: str) -> str:
    """Check the value of a flag that names a folder to write, here or at an address.

    Addresses pass unchecked, such as `gs://bucket/runs`.
    """
    return text if "://" in text else output_dir(text)


def output_file(text: str) -> str:
    """Check the value of a flag that names a file to write, or STDOUT. Raises `UserError` for a folder."""
    output_path(text)
    if pathlib.Path(text).is_dir():
        raise PlaceError(f"{text} is a folder: name a file in it")
    return text


def summarize(file: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Write what `compute` returns as JSON to a file or to STDOUT, which then gets nothing else. Returns it."""
    with contextlib.redirect_stdout(sys.stderr) if file == STDOUT else contextlib.nullcontext():
        summary = compute()
    if file == STDOUT:
        print(json.dumps(summary, indent=2))
    elif file:
        write_json(pathlib.Path(file), summary)
    return summary


def add_flag(
    group: argparse._ActionsContainer, name: str, kind: type, default: Any, help: str, *, is_text: bool = False
) -> None:
    """Add the flag of one setting to a group of flags. This is the only place that makes a setting a flag.

    Args:
        group: of `Parser.group`.
        name: name of the setting, with underscores.
        kind: bool, int, float or str. A bool is a switch of `Parser`.
        default: value of the setting without the flag.
        help: description of the setting.
        is_text: leave the value a text, for the caller to convert, and None without the flag. Otherwise nothing is
            parsed without the flag, so that `settings_of` can tell what was typed from a default.
    """
    flag, value = flag_of(name), None if is_text else argparse.SUPPRESS
    shown = f"{help} (default: {str(default).lower() if kind is bool else repr(default)})".replace("%", "%%")
    if kind is bool:
        switch = group.add_argument(flag, action=argparse.BooleanOptionalAction, default=value)
        switch.help = shown  # before Python 3.13, the action adds a default of its own
    else:
        metavar, parse = kind.__name__.upper(), integer if kind is int else kind
        group.add_argument(flag, default=value, metavar=metavar, help=shown, type=str if is_text else parse)


def add_settings(parser: Parser, config: type, names: Collection[str] = ()) -> None:
    """Give `parser` a flag for each field of the dataclass `config`, or for those in `names`, in their groups."""
    for field in dataclasses.fields(config):
        if not names or field.name in names:
            assert isinstance(field.type, type)
            group = parser.group(group_of(config, field))
            add_flag(group, field.name, field.type, field.default, field.metadata["help"])


def as_flags(text: str, config: type) -> str:
    """`text` with the flag of each setting of a dataclass. Example: `--split hash` for `split=hash`."""
    names = {field.name for field in dataclasses.fields(config)}

    def flag(found: re.Match[str]) -> str:
        return f"{flag_of(found[1])} " if found[1] in names else found[0]

    return re.sub(r"(?<![\w,='])(\w+)=(?=\S)", flag, text)


@contextlib.contextmanager
def advising_flags(config: type) -> Iterator[None]:
    """Have the errors of this context advise settings of a dataclass as this command takes them: as flags."""
    try:
        yield
    except UserError as error:
        error.args = (as_flags(str(error), config),)
        raise


def settings_of(config: type[Config], arguments: argparse.Namespace, **others: Any) -> Config:
    """The dataclass with the values of its flags and of `others`. A field with neither has its default."""
    names = {field.name for field in dataclasses.fields(config)}  # type: ignore[arg-type]
    return config(**{name: value for name, value in vars(arguments).items() if name in names} | others)
