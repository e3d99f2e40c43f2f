"""Cron expressions: five fields, checked, and the times they name in a time zone."""

import dataclasses
import datetime
import re
import zoneinfo
from collections.abc import Iterator

from trainer.errors import UserError, check, nearest

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
EXAMPLE = "write five fields, as '0 3 * * 1' for Mondays at 3:00 (minute, hour, day of month, month, day of week)"
LONGEST_DAYS = 9 * 366
"""No two times are further apart: from one 29 February to the next it is eight years at most."""


@dataclasses.dataclass(frozen=True)
class Field:
    """One field: its numbers, and the names they may have."""

    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()

    def parse(self, text: str) -> frozenset[int]:
        """The numbers that `text` names: a list of *, numbers and ranges, these with or without a step."""
        return frozenset(number for term in text.split(",") for number in self._term(term))

    def _term(self, term: str) -> range:
        found = re.fullmatch(r"(\*|\w+)(?:-(\w+))?(?:/(\d+))?", term, re.ASCII)
        if found is None or (found[1] == "*" and found[2]):
            raise UserError(f"{self.name} {term!r} is none")
        first, last, step = found.groups()
        check(step is None or int(step) > 0, f"{self.name} {term!r} has a step of 0")
        begin = self.least if first == "*" else self._number(first)
        # N/step goes on to the end, as */step does.
        end = self._number(last) if last else begin if step is None and first != "*" else self.most
        check(begin <= end, f"{self.name} {term!r} ends before it begins")
        return range(begin, end + 1, int(step or 1))

    def _number(self, text: str) -> int:
        if text.lower() in self.names:
            return self.names.index(text.lower()) + self.least
        names = f", or {self.names[0]} to {self.names[-1]}" if self.names else ""
        fits = text.isdecimal() and self.least <= int(text) <= self.most
        check(fits, f"{self.name} is {text!r}; it must be {self.least} to {self.most}{names}")
        return int(text)


FIELDS = (
    Field("minute", 0, 59),
    Field("hour", 0, 23),
    Field("day of month", 1, 31),
    Field("month", 1, 12, MONTHS),
    Field("day of week", 0, 7, WEEKDAYS),
)


@dataclasses.dataclass(frozen=True)
class Cron:
    """A cron expression and the numbers that its fields name; Sunday is 0."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]

    def names_day(self, day: datetime.date) -> bool:
        """Whether something happens on a day: where both kinds of day are given, one of them is enough."""
        by_month = day.day in self.days
        by_week = day.isoweekday() % 7 in self.weekdays
        fields = self.text.split()
        either = fields[2] != "*" and fields[4] != "*"
        return day.month in self.months and ((by_month or by_week) if either else (by_month and by_week))


def parse(text: str) -> Cron:
    """The expression `text`; a `UserError` says which field is wrong."""
    fields = text.split()
    if len(fields) != len(FIELDS):
        raise UserError(f"cron {text!r} has {len(fields)} fields; {EXAMPLE}")
    try:
        minutes, hours, days, months, weekdays = (
            field.parse(given) for field, given in zip(FIELDS, fields, strict=True)
        )
    except UserError as error:
        raise UserError(f"cron {text!r}: {error}; {EXAMPLE}") from None
    by_month, by_week = fields[2], fields[4]
    for mine, other in ((by_month, by_week), (by_week, by_month)):
        check(
            not mine.startswith("*/") or other == "*",
            f"cron {text!r}: {mine!r} beside {other!r} means both days to some and either day to others; write "
            f"the days out, as {'1-31' if mine == by_month else '0-6'}{mine[1:]}, which means either",
        )
    cron = Cron(" ".join(fields), minutes, hours, days, months, frozenset(day % 7 for day in weekdays))
    check(next(times(cron, datetime.UTC), None) is not None, f"cron {text!r} names a day that never comes")
    return cron


def zone(name: str) -> zoneinfo.ZoneInfo:
    """The time zone `name` of the IANA database; a `UserError` with the nearest one where it is unknown."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        known = zoneinfo.available_timezones()
        missing = "" if known else " (this machine has no time zone database; install tzdata)"
        raise UserError(
            f"unknown time zone {name!r}{nearest(name, known)}{missing}; write one as Europe/London or UTC"
        ) from None


def times(
    cron: Cron, place: datetime.tzinfo, after: datetime.datetime | None = None
) -> Iterator[datetime.datetime]:
    """The times of `cron` by the clocks of `place`, after `after` (now), in order.

    A time that the clocks leave out when they are put forward does not happen; one that they show twice when
    they are put back happens twice.
    """
    after = after or datetime.datetime.now(datetime.UTC)
    first = after.astimezone(place).date()
    for number in range(LONGEST_DAYS):
        day = first + datetime.timedelta(days=number)
        if cron.names_day(day):
            for moment in _moments(cron, day, place):
                if moment > after:
                    yield moment.astimezone(place)


def _moments(cron: Cron, day: datetime.date, place: datetime.tzinfo) -> list[datetime.datetime]:
    """The times of a day, in UTC."""
    found = set()
    for hour in cron.hours:
        for minute in cron.minutes:
            shown = datetime.datetime.combine(day, datetime.time(hour, minute))
            for fold in (0, 1):
                moment = shown.replace(tzinfo=place, fold=fold).astimezone(datetime.UTC)
                if moment.astimezone(place).replace(tzinfo=None, fold=0) == shown:
                    found.add(moment)
    return sorted(found)
