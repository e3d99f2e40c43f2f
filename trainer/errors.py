"""Errors that a user can cause and correct, and the checks that raise them. Standard library only."""

import difflib
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

Row = TypeVar("Row")


class UserError(Exception):
    """Something the user can put right. The message says what is wrong, with numbers or names, and what to do."""


class PlaceError(UserError):
    """Where something was to be written nothing can be, such as below a file, or with too long a name."""


class GateError(UserError):
    """A trained model that is not good enough to go on."""


def first_line(error: Exception) -> str:
    """What a library's error says, on one line of at most 300 characters, to be quoted in our own."""
    return ((getattr(error, "message", "") or str(error)).splitlines() or [type(error).__name__])[0][:300]


@contextmanager
def reported() -> Iterator[None]:
    """Without a traceback: a `UserError` is `error: ...` on stderr and exit status 1, Ctrl-C is 130."""
    try:
        yield
    except UserError as error:
        raise SystemExit(f"error: {error}") from None
    except KeyboardInterrupt:
        print("interrupted; a training goes on from its last checkpoint with the same command", file=sys.stderr)
        raise SystemExit(130) from None


def check(condition: bool, message: str) -> None:
    """Raise `UserError(message)` unless `condition` holds."""
    if not condition:
        raise UserError(message)


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the known name closest to `name` but for case, or nothing."""
    folded = {each.casefold(): each for each in known}
    close = difflib.get_close_matches(name.casefold(), folded, n=1)
    return f"; did you mean {folded[close[0]]!r}?" if close else ""


def look_up(what: str, name: str, rows: Mapping[str, Row]) -> Row:
    """`rows[name]`; a `UserError` that names the nearest known one otherwise."""
    try:
        return rows[name]
    except KeyError:
        raise UserError(f"unknown {what} {name!r}{nearest(name, rows)} (known: {', '.join(rows)})") from None


def check_choice(what: str, value: str, choices: Iterable[str]) -> None:
    """Raise `UserError` naming the choices, and the nearest one, unless `value` is one of them."""
    choices = tuple(choices)
    check(value in choices, f"{what} is {value!r}; choose one of {', '.join(choices)}{nearest(value, choices)}")
