"""Texts as a terminal may show them: names, other programs' messages, lists, durations."""

import datetime
import difflib
import re
import unicodedata
from collections.abc import Iterable, Sequence

__all__ = [
    "first_line",
    "format_duration",
    "nearest",
    "now",
    "printable",
    "readable",
    "shown",
    "some",
    "visible",
]

OPERATION = re.compile(r"^\{\{function_node [^}]*\}\} | \[Op:\w+\]")
"""The operation that TensorFlow names around its message."""
SHOWN = 200
"""Number of characters of a server's text that a message shows."""
LINE_CHARACTERS, MOST_LINES = 2000, 200
"""What is shown of an error's message, which may quote any input."""
HIDDEN = ("Cc", "Cf", "Cs")
"""Categories of characters that steer a terminal, turn the direction of text, or cannot be encoded."""


def printable(name: str) -> str:
    """A file's name as one printable line. File systems, archives and buckets allow any bytes."""
    return name if name.isprintable() else ascii(name)


def shown(text: str) -> str:
    """A server's text as one short line. Example: `a b` for `a` and `b` on two lines."""
    clean = "".join(c if c.isprintable() and unicodedata.category(c) not in HIDDEN else " " for c in text)
    line = " ".join(clean.split())
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 3]}..."


def visible(text: str) -> str:
    """A text of lines in which characters that control a terminal are escaped as in Python's source."""
    if text.isprintable():
        return text
    return "".join(
        c.encode("unicode_escape").decode() if c not in "\n\t" and unicodedata.category(c) in HIDDEN else c
        for c in text
    )


def readable(text: str) -> str:
    """A text as `visible` returns it, with at most LINE_CHARACTERS in each line and MOST_LINES lines.

    What is left out is in the middle, where its size stands instead. Example: `... (12,345 characters) ...`.
    """
    lines = visible(text).split("\n")
    if (left_out := len(lines) - MOST_LINES) > 0:
        half = MOST_LINES // 2
        lines[half:-half] = [f"... ({left_out:,} lines) ..."]
    return "\n".join(map(_short, lines))


def _short(line: str) -> str:
    left_out = len(line) - LINE_CHARACTERS
    if left_out <= 0:
        return line
    half = LINE_CHARACTERS // 2
    return f"{line[:half]} ... ({left_out:,} characters) ... {line[-half:]}"


def first_line(error: Exception) -> str:
    """The first line of a library's error message, at most 300 characters, to quote it in our own message.

    Example: `No such file: a.h5` of a message with a traceback below.

    TensorFlow's name of the operation before and after its message is left out.
    """
    text = OPERATION.sub("", getattr(error, "message", "") or str(error))
    return visible((text.splitlines() or [type(error).__name__])[0][:300])


def some(names: Sequence[str], most: int = 3) -> str:
    """The first `most` names for a message. Example: `a, b, c and 2 more`."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def nearest(name: str, choices: Iterable[str]) -> str:
    """Suggest choices in any case, as `. Did you mean 'x'?`: all that end nearly with `name`, or the closest.

    Returns an empty text if none is close.
    """
    folded = {choice.casefold(): choice for choice in choices}
    bare = name.casefold().lstrip("-")
    endings = {
        each[start:] for each in folded for start in range(len(each)) if re.search("[_-]$|^$", each[:start])
    }
    for ending in difflib.get_close_matches(bare, endings, n=1, cutoff=0.8):
        whole = [choice for each, choice in folded.items() if each.lstrip("-") == ending]
        last = f"_{ending}", f"-{ending}"
        longer = whole or [choice for each, choice in folded.items() if each.endswith(last)]
        if 1 <= len(longer) <= 3:  # such as base_epochs and finetune_epochs
            return f". Did you mean {' or '.join(map(repr, longer))}?"
    # In a name of two characters, one may be wrong.
    close = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.5 if len(name) == 2 else 0.6)
    return f". Did you mean {folded[close[0]]!r}?" if close else ""


def format_duration(seconds: float) -> str:
    """`65 s`, `7 min` or `3 h 25 min`: seconds up to two minutes, minutes from there."""
    if round(seconds) < 120:
        return f"{round(seconds)} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def now() -> str:
    """The date and time in UTC, such as `2026-01-31 12:05 UTC`."""
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC"
