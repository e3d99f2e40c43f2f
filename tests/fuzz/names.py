"""Names of files, members, arrays and models that people did not think of, and some that they did.

None of them is an address that a server would have to be asked for.
"""

import random

STEMS = (
    "a b",
    "quote'\"`$(touch x)",
    "-rf",
    "--help",
    "*",
    "[x]",
    "a?b",
    "~",
    "~nobody-such",
    "..",
    "../up",
    "a/../../b",
    "/absolute",
    "C:\\drive",
    "back\\slash",
    "con",
    ".hidden",
    ".partial-1",
    "line\nbreak",
    "return\rback",
    "tab\tstop",
    "\x1b]0;title\x07\x1b[2J\x1b[31mred",
    "bell\x07",
    "\x9b31mC1",
    "right\u202eto left",
    "zero\u200bwidth",
    "caf\u00e9",
    "cafe\u0301",
    "\u6f22\u5b57",
    "\U0001f600",
    "not utf-8 \udcff\udcfe",
    "%s%n{}{0}",
    "<img src=x onerror=alert(1)>",
    "nul\0inside",
    "a" * 255,
    "a" * 300,
    "/".join(["deep"] * 40),
    "/".join(["b" * 200] * 25),
    "trailing.",
    "trailing ",
    "",
    "@",
    "model@",
    "@latest",
    "9" * 5000,
    "gs://",
    "gs:///x",
    "file://" + "/etc/passwd",
    "https://",
    "drive:",
    "author:",
    "author:nobody",
)


def name(source: random.Random) -> str:
    """A name that may hold any character; those behind U+DC80 stand for bytes that are not UTF-8."""
    if source.random() < 0.7:
        return source.choice(STEMS)
    characters = [chr(source.choice((source.randrange(1, 128), source.randrange(0xA0, 0x2FF)))) for _ in range(12)]
    return "".join(characters[: source.randint(1, 12)])


def stem(source: random.Random) -> str:
    """A name that one folder can hold: without slashes and NUL, at most 240 bytes."""
    while True:
        candidate = name(source).replace("/", "_").replace("\0", "")
        if candidate not in ("", ".", "..") and len(candidate.encode(errors="surrogateescape")) <= 240:
            return candidate
