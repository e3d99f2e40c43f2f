"""Times in the five fields of unix-cron, as Vertex AI takes them: checked before they are sent."""

import itertools
import re
from collections.abc import Mapping, Sequence

from trainer.errors import UserError, check, nearest

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
FIELDS: Mapping[str, tuple[int, int, Sequence[str]]] = {
    "minute": (0, 59, ()),
    "hour": (0, 23, ()),
    "day of the month": (1, 31, ()),
    "month": (1, 12, MONTHS),
    "day of the week": (0, 7, WEEKDAYS),
}
"""Name of each field, in their order -> lowest number, highest number, and the names from the lowest on."""
EXAMPLE = "write five fields, as '0 3 * * 1' for Mondays at 3:00 (minute, hour, day of month, month, day of week)"
DAYS_OF_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def check_cron(expression: str) -> None:
    """Raise `UserError` unless an expression has five fields, with times of which one comes at some time."""
    texts = expression.split()
    check(len(texts) == len(FIELDS), f"cron {expression!r} has {len(texts)} fields; {EXAMPLE}")
    fields = {name: _numbers(expression, name, text) for name, text in zip(FIELDS, texts, strict=True)}
    days, months = fields["day of the month"], fields["month"]
    # If days of the month and of the week are both restricted, either is enough.
    if texts[4].startswith("*"):
        check(
            any(day <= DAYS_OF_MONTH[month - 1] for day, month in itertools.product(days, months)),
            f"cron {expression!r} never comes: no such month has {min(days)} days; choose another day or month",
        )


def _numbers(expression: str, name: str, text: str) -> set[int]:
    """The numbers of one field. Raises `UserError` if it is malformed or out of range."""
    lowest, highest, _ = FIELDS[name]
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(?:\*|(\w+)(?:-(\w+))?)(?:/(\d+))?", part)
        if match is None:
            raise UserError(f"cron {expression!r}: {name} is {text!r}; {EXAMPLE}")
        start, end, step = match.groups()
        first = lowest if start is None else _number(expression, name, start)
        last = highest if start is None or (step and end is None) else _number(expression, name, end or start)
        check(first <= last, f"cron {expression!r}: {name} is {part!r}, from a later to an earlier one; swap them")
        check(step is None or int(step) > 0, f"cron {expression!r}: {name} is {part!r}; a step is at least 1")
        numbers |= set(range(first, last + 1, int(step or 1)))
    return numbers


def _number(expression: str, name: str, text: str) -> int:
    lowest, highest, names = FIELDS[name]
    if text.lower() in names:
        return lowest + names.index(text.lower())
    known = f", or a name such as {names[0].upper()}" if names else ""
    hint = "" if text.isdecimal() else nearest(text, names)
    check(
        text.isdecimal() and lowest <= int(text) <= highest,
        f"cron {expression!r}: {name} is {text!r}; it must be from {lowest} to {highest}{known}{hint}",
    )
    return int(text)
