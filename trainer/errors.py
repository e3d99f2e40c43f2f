"""Errors that a user can cause and mend."""

from collections.abc import Iterator
from contextlib import contextmanager


class UserError(Exception):
    """Something the user can put right. The message says what is wrong, with numbers or names, and what to do."""


class GateError(UserError):
    """A trained model that is not good enough to go on."""


@contextmanager
def reported() -> Iterator[None]:
    """Turn a `UserError` into `error: ...` on stderr and exit status 1, without a traceback."""
    try:
        yield
    except UserError as error:
        raise SystemExit(f"error: {error}") from None
