"""Errors that a user can cause and correct, and the checks that raise them."""

import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from trainer.texts import nearest, readable

__all__ = [
    "AmbiguousError",
    "Checks",
    "ConflictError",
    "ContentError",
    "FailedError",
    "GateError",
    "MismatchError",
    "MistakesError",
    "NotFoundError",
    "PlaceError",
    "SettingError",
    "UnknownNameError",
    "UnreachableError",
    "UsageError",
    "UserError",
    "check",
    "check_choice",
    "installed",
    "interrupted_status",
    "look_up",
    "reported",
    "terminable",
]

Row = TypeVar("Row")

USAGE_STATUS = 2
"""Exit status for a command line that cannot be parsed. Other programs have the same."""


class UserError(Exception):
    """A mistake that the user can correct. The message says what is wrong, with names or numbers, and what to do.

    Its class says what kind of mistake it is. Example:
        >>> check(width > 0, f"the width is {width}. It must be above 0", SettingError)

    Names of files and other texts in it cannot control a terminal, and its lines are shortened in the middle: a
    value may be as long as the input, and what to do is at the end.
    """

    def __init__(self, message: str) -> None:
        super().__init__(readable(message))

    def within(self, title: str) -> "UserError":
        """The same mistake with where it is in its message. Example: `vertex.toml: bucket is empty`."""
        self.args = (readable(f"{title}: {self}"),)
        return self


class UsageError(UserError):
    """A command line that cannot be parsed. Example: `unknown flag '--epoch'`."""


class NotFoundError(UserError):
    """What a person named, or a run needs, is not there: a file, version, run, image, quota or right.

    Example:
        >>> raise NotFoundError("model 'msinet' has no version 3")
    """


class UnknownNameError(UserError):
    """A name that no table has. Example: `unknown dataset 'osei'`."""


class SettingError(UserError):
    """A setting that has a value which it may not have, or one that contradicts another setting.

    Example:
        >>> raise SettingError("workers is 2, but v5e-4 trains on one machine")
    """


class PlaceError(UserError):
    """Nothing can be written to a place: a parent is a file, it exists already, or the disk is read-only.

    Example: `cannot write maps/a.png: Read-only file system`.
    """


class ContentError(UserError):
    """A file or folder that is damaged, or lacks what it should have. Example: `aliases.json is damaged`."""


class MismatchError(UserError):
    """Two things that do not belong together.

    Example:
        >>> raise MismatchError("mine is of a sweep with other search")
    """


class AmbiguousError(UserError):
    """What a person gave has more than one meaning. Example: `2 models are called 'msinet'`."""


class ConflictError(UserError):
    """Another process uses a thing, or has changed it meanwhile. Example: `the run mine is already running`."""


class UnreachableError(UserError):
    """A server, bucket or API does not answer, or refuses.

    Example:
        >>> raise UnreachableError("cannot reach the service")
    """


class FailedError(UserError):
    """A job or program that ended without its result. Example: `the training job wrote no model to gs://b/model`."""


class GateError(UserError):
    """Data or a trained model that are not good enough for the pipeline to continue.

    Example: `the candidate is worse than the centre bias in KLD`.
    """


class Terminated(KeyboardInterrupt):
    """Raised in the context `terminable` when the process gets SIGTERM."""


@contextmanager
def installed() -> Iterator[None]:
    """End the process with a sentence if a package is missing, as outside of the project's environment."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise SystemExit(
            f"error: {sys.executable} has no package {error.name}. Run `make install`, then use "
            ".venv/bin/python, or `source .venv/bin/activate` first. Without make: `pip install '.[cpu]'`"
        ) from None


@contextmanager
def reported(interrupted: str = "interrupted") -> Iterator[None]:
    """Exit without a traceback: `UserError` prints `error: ...` and exits with 1, `UsageError` with USAGE_STATUS.

    An `OSError`, which names its file, and a missing package are printed so, too. Ctrl-C and `Terminated` print
    `interrupted` and exit with `interrupted_status`.
    """
    try:
        with installed():
            yield
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(USAGE_STATUS) from None
    except (UserError, OSError) as error:
        raise SystemExit(f"error: {readable(str(error))}") from None
    except KeyboardInterrupt as error:
        print(interrupted, file=sys.stderr)
        raise SystemExit(interrupted_status(error)) from None


def interrupted_status(error: KeyboardInterrupt) -> int:
    """The exit status, as of a process that the signal ended: 130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + (signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT)


@contextmanager
def terminable() -> Iterator[None]:
    """Within this context, SIGTERM raises `Terminated`, so that a command cleans up as after Ctrl-C.

    A second SIGTERM ends the process at once. Python handles signals in the main thread only: in any other thread
    nothing changes.
    """

    def terminate(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise Terminated

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


class MistakesError(UserError):
    """Several mistakes, each with a line of its own in `lines`."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join([f"there are {len(lines)} mistakes", *lines]))
        self.lines = lines

    def within(self, title: str) -> UserError:
        """All mistakes as one. Example: `vertex.toml: there are 2 mistakes`."""
        return UserError(f"{title}: {self}")


class Checks:
    """Several checks, so that a user learns of all mistakes at once, and of each once.

    `with checks.collect(title):` keeps the errors of a check for `raise_errors`, which raises all.
    """

    def __init__(self) -> None:
        self._titles: dict[str, str] = {}
        self._errors: list[UserError] = []

    @property
    def passed(self) -> bool:
        """Whether there is no mistake so far."""
        return not self._titles

    @contextmanager
    def collect(self, title: str = "") -> Iterator[None]:
        """Keep each `UserError` of this context, below `title`. An error that several titles have needs none."""
        try:
            yield
        except UserError as error:
            self._errors.append(error)
            for line in error.lines if isinstance(error, MistakesError) else [str(error)]:
                if not any(known.endswith(f": {line}") for known in self._titles):
                    self._titles[line] = title if self._titles.get(line, title) == title else ""

    def raise_errors(self) -> None:
        """Raise the mistake, or `MistakesError` with all of them, if there are any."""
        lines = [f"{title}: {line}" if title else line for line, title in self._titles.items()]
        if len(lines) == 1:
            title = next(iter(self._titles.values()))
            raise self._errors[0].within(title) if title else self._errors[0]
        if lines:
            raise MistakesError(lines)


def check(condition: bool, message: str, kind: type[UserError] = UserError) -> None:
    """Raise `kind(message)` unless `condition` holds.

    Example: `check(epochs > 0, "epochs is 0", SettingError)`.
    """
    if not condition:
        raise kind(message)


def look_up(what: str, name: str, rows: Mapping[str, Row]) -> Row:
    """Return `rows[name]`. Raise `UnknownNameError` with the nearest known name if there is no such row.

    Example: "unknown dataset 'osi'. Did you mean 'osie'? (known: salicon, osie)".
    """
    try:
        return rows[name]
    except KeyError:
        raise UnknownNameError(
            f"unknown {what} {name!r}{nearest(name, rows)} (known: {', '.join(rows)})"
        ) from None


def check_choice(what: str, value: str, choices: Iterable[str]) -> None:
    """Raise `SettingError` with all choices and the nearest one, unless `value` is one of them.

    Example: "gate is 'c'. Choose one of kld, cc. Did you mean 'cc'?".
    """
    choices = tuple(choices)
    check(
        value in choices,
        f"{what} is {value!r}. Choose one of {', '.join(choices)}{nearest(value, choices)}",
        SettingError,
    )
