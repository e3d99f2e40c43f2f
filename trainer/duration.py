"""Durations and the time as text for people."""

import datetime


def format_duration(seconds: float) -> str:
    """`65 s`, `7 min` or `3 h 25 min`: seconds up to two minutes, minutes from there."""
    if round(seconds) < 120:
        return f"{round(seconds)} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def now() -> str:
    """The date and time in UTC, such as `2026-01-31 12:05 UTC`."""
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC"
