"""Texts for people: names and texts of others, as a terminal or a log may show them, durations and the time."""

import datetime
import unicodedata

SHOWN = 200
"""Number of characters of a server's text that a message shows."""
HIDDEN = ("Cc", "Cf", "Cs")
"""Categories of characters that steer a terminal, turn the direction of text, or cannot be encoded."""


def printable(name: str) -> str:
    """A file's name as one printable line; file systems, archives and buckets allow any bytes."""
    return name if name.isprintable() else ascii(name)


def shown(text: str) -> str:
    """A server's text as one short line, without the characters that control a terminal."""
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


def format_duration(seconds: float) -> str:
    """`65 s`, `7 min` or `3 h 25 min`: seconds up to two minutes, minutes from there."""
    if round(seconds) < 120:
        return f"{round(seconds)} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def now() -> str:
    """The date and time in UTC, such as `2026-01-31 12:05 UTC`."""
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC"
