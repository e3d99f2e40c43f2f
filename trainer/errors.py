"""Errors that a user can cause and mend."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


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
