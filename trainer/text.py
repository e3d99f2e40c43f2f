"""Names and texts of others, as a message, a terminal or a log may show them."""

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
