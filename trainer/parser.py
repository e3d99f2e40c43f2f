"""The parser of command lines: its sentences about mistakes, switches, groups of flags, version and completion."""

import argparse
import pathlib
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from trainer.artifacts import code_version
from trainer.errors import UsageError, UserError, check_choice, nearest

WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
SHELLS = ("bash", "zsh", "fish", "tcsh")
"""Shells whose completion shtab writes."""
FILES, FOLDERS = ("FILE", "HTML", "PATH", "IMAGE", "DESIGN", "MODEL", "SOURCE"), ("DIR",)
"""Names of values that a shell completes by the names of files, and by those of folders alone."""


def called_as(command: str, package: str) -> str:
    """The call of this program in usage lines: the installed `command`, or `python -m PACKAGE`."""
    return command if pathlib.Path(sys.argv[0]).stem == command else f"python -m {package}"


def boolean(text: str) -> bool:
    """Parse a word of WORDS; raises `ValueError` for any other word."""
    try:
        return WORDS[text.lower()]
    except KeyError:
        raise ValueError(f"{text!r} is neither true nor false") from None


class Parser(argparse.ArgumentParser):
    """Accepts flags by their full names only, and ends each mistake with one sentence, as `UsageError`.

    A switch is a flag with the action `argparse.BooleanOptionalAction`, such as `--flip` and `--no-flip`. It may
    also be written with a word of WORDS: `--flip true` or `--flip=true`.

    Args:
        takes: how the usage shows other arguments, such as `[NAME=VALUE ...]`, which `parse_known_args` then
            returns; empty to refuse them.
    """

    def __init__(self, *args: Any, takes: str = "", **kwargs: Any) -> None:
        raw = argparse.RawDescriptionHelpFormatter
        super().__init__(*args, **{"formatter_class": raw, **kwargs, "allow_abbrev": False})
        self._takes = takes

    def group(self, title: str) -> argparse._ActionsContainer:
        """The group of flags with this title; a new one at first."""
        groups = [group for group in self._action_groups if group.title == title]
        return groups[0] if groups else self.add_argument_group(title)

    def error(self, message: str) -> Any:
        """Raise `UsageError` with `message`, and where the flags are explained."""
        raise UsageError(f"{message} (see `{self.prog} --help`)")

    def format_help(self) -> str:
        """The help; its usage names only what must be given."""
        formatter = self._get_formatter()
        required = [action for action in self._actions if action.required or not action.option_strings]
        formatter.add_usage(None, required, [], prefix="")
        given = " ".join(formatter.format_help().split()).removeprefix(self.prog)
        self.usage = f"{self.prog} [OPTION ...]{given} {self._takes}".rstrip().replace("%", "%%")
        return super().format_help()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Also refuses unknown arguments, unless this parser takes some or has subcommands."""
        given = sys.argv[1:] if args is None else list(args)
        # Before argparse asks for a required flag, which may be there with a letter missing.
        known, unknown = super().parse_known_args(list(self._checked(given)), namespace)
        if unknown and not (self._takes or self._subparsers):
            self.error(f"unknown argument {unknown[0]!r}")
        return known, unknown

    def _checked(self, args: Sequence[str]) -> Iterator[str]:
        """`args` with switches in argparse's own form; raises `UsageError` for unknown flags."""
        flags = {option: action for action in self._actions for option in action.option_strings}
        left = list(args)
        while left:
            name, equals, value = left[0].partition("=")
            if left[0] == "--" or (self._subparsers and not name.startswith("-")):
                break  # a subcommand checks its own flags
            argument = left.pop(0)
            if name.startswith("--") and name not in flags:
                self.error(f"unknown flag {name!r}{nearest(name, flags)}")
            if isinstance(flags.get(name), argparse.BooleanOptionalAction):
                if not equals and left and self._is_word(left[0]):
                    equals, value = "=", left.pop(0)
                argument = self._switch(name, value) if equals else name
            yield argument
        yield from left

    def _is_word(self, text: str) -> bool:
        """Whether `text` after a switch is its value."""
        return text.lower() in WORDS or not (
            text.startswith("-") or self._get_positional_actions() or (self._takes and "=" in text)
        )

    def _switch(self, name: str, word: str) -> str:
        """The form without a value of the switch `name` with the value `word`."""
        positive = "--" + name.removeprefix("--").removeprefix("no-")
        negative = f"--no-{positive.removeprefix('--')}"
        if name == negative or word.lower() not in WORDS:
            self.error(f"{name} is {word!r}; write {positive} or {negative}, or {positive} with true or false")
        return positive if WORDS[word.lower()] else negative

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise `UsageError` with the nearest choice unless `value` is one of the action's."""
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        if isinstance(action, argparse._SubParsersAction):
            raise UsageError(f"unknown command {value!r}{nearest(value, choices)} (known: {', '.join(choices)})")
        try:
            check_choice("/".join(action.option_strings) or action.dest, value, choices)
        except UserError as error:
            self.error(str(error))


def program(command: str, package: str, description: str) -> tuple[Parser, Any]:
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
    """Add the command `name` of a module with HELP and `configure`; returns its parser."""
    parser: Parser = subparsers.add_parser(name, help=module.HELP, description=module.__doc__, takes=takes)
    module.configure(parser)
    return parser


class _Version(argparse.Action):
    """Prints the version and the commit of this package."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(f"{parser.get_default('program')} {code_version()}")
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
