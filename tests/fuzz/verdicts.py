"""What came of an input: accepted and right, refused in a sentence, or one of the failures."""

import dataclasses
import pathlib
import re
import sys
import traceback
import warnings
from collections.abc import Callable

ACCEPTED, REFUSED = "accepted", "refused"
TRACEBACK, HANG, SIGNAL, DIFFERENT, UNTIDY = "traceback", "hang", "signal", "different", "untidy"
FAILURES = (TRACEBACK, HANG, SIGNAL, DIFFERENT, UNTIDY)
"""`different`: accepted, but not what an independent reader makes of it, or sound and refused. `untidy`: without a
sentence, with an escape for the terminal, or with something half-written left behind."""
BROKEN = "broken"
"""The input could not be made: a mistake of these tests."""
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
WARNING = re.compile(r"^.*\b\w*Warning: .*$|^TIFF\w+: .*$", re.MULTILINE)
"""Lines that libraries print, which are no sentence for people."""
TRACE = "Traceback (most recent call last)"


class RefusedError(Exception):
    """The input was refused; why was printed, or is the message."""


class DifferentError(Exception):
    """The input was accepted, and is not what it should be: the message says in what."""


@dataclasses.dataclass(frozen=True)
class Input:
    """An input, ready to be given to its target."""

    kind: str
    run: Callable[[], None]
    """Returns if it is accepted; raises `RefusedError` if not."""
    compare: Callable[[], None] = lambda: None
    """Called if it is accepted; raises `DifferentError`."""
    is_sound: bool = False
    """Whether to refuse it is wrong."""
    names: tuple[str, ...] = ()
    """Names in it; those that are not printable must not be printed as they are."""
    outputs: pathlib.Path | None = None
    """Folder that must be empty after it is refused."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    kind: str
    verdict: str
    detail: str = ""


def judge(made: Input, said: Callable[[], str]) -> Verdict:
    """Run an input; `said` returns all that has been printed since."""
    with warnings.catch_warnings():  # each input's are shown, also if an earlier one had the same
        verdict, detail = _tried(made.run)
    text = said()
    if verdict == ACCEPTED:
        verdict, detail = _tried(made.compare)
    if verdict in (ACCEPTED, REFUSED) and TRACE in text:
        return Verdict(made.kind, TRACEBACK, _last(text[text.index(TRACE) :]))
    if verdict == REFUSED:
        verdict, detail = _refused(made, f"{text}{detail}")
    if verdict in (ACCEPTED, REFUSED) and (fault := _untidy(made, f"{text}{detail}")):
        verdict, detail = UNTIDY, fault
    return Verdict(made.kind, verdict, detail[-2000:])


def _tried(call: Callable[[], None]) -> tuple[str, str]:
    try:
        call()
    except RefusedError as error:
        return REFUSED, str(error)
    except DifferentError as error:
        return DIFFERENT, str(error)
    except BaseException as error:  # whatever it is, a user would have seen it
        traceback.print_exc()
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if "/trainer/" in frame.filename or "/pipeline/" in frame.filename]
        where = f" at {pathlib.Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else " in the test"
        return TRACEBACK, f"{type(error).__name__}{where}: {error}"[:400]
    return ACCEPTED, ""


def _refused(made: Input, text: str) -> tuple[str, str]:
    if "error" not in text:
        return UNTIDY, f"refused without a sentence: {text[-300:]!r}"
    if made.is_sound:
        return DIFFERENT, f"refused, and it is sound: {text[-600:]}"
    left = sorted(str(path.relative_to(made.outputs)) for path in made.outputs.rglob("*")) if made.outputs else []
    if left:
        return UNTIDY, f"left behind: {', '.join(left[:5])}"
    return REFUSED, text[-600:]


def _untidy(made: Input, text: str) -> str:
    if found := CONTROLS.search(text):
        return f"prints {found[0]!r}: {text[max(0, found.start() - 200) : found.end() + 100]!r}"
    if unsafe := next((name for name in made.names if not name.isprintable() and name in text), ""):
        return f"prints the name {unsafe!r} as it is"
    if line := WARNING.search(text):
        return f"prints what a library says: {line[0][:300]}"
    return ""


def _last(text: str) -> str:
    return text.strip().splitlines()[-1][:400]


def command(*arguments: str) -> None:
    """Run `python -m trainer` in this process, with its sentence on stderr as Python would print it."""
    from trainer.__main__ import main

    try:
        main([each.replace("\0", "") for each in arguments])  # no command line holds a NUL
    except SystemExit as left:
        if isinstance(left.code, str):
            print(left.code, file=sys.stderr)
        if left.code:
            raise RefusedError from None


def expect(condition: object, message: str) -> None:
    """Raise `DifferentError` unless a condition holds."""
    if not condition:
        raise DifferentError(message)
