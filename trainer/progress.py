"""Show the progress of long work: a bar on a terminal, plain lines in a log."""

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from trainer.text import visible

LOG_EVERY_S = 5.0


class Tracker:
    """Shows the progress of `description` over `total` units, None if nobody knows; a context manager.

    On a terminal it draws a bar with the remaining time. Otherwise it prints a line every `LOG_EVERY_S` seconds at
    most, and one at the end, so that a log stays short.
    """

    def __init__(self, description: str, total: int | None, unit: str, done: int = 0) -> None:
        self._description, self._total, self._unit = visible(description), total, unit
        self._start_done = self._done = done
        self._details = ""
        self._started = time.monotonic()
        self._logged = -LOG_EVERY_S
        self._logged_done = -1
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        if sys.stdout.isatty():
            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn(self._unit, markup=False),
                TimeRemainingColumn(),
                TextColumn("{task.fields[details]}", markup=False),
            )
            self._bar = Progress(*columns, console=Console(file=sys.stdout))
            self._task = self._bar.add_task(self._description, total=self._total, completed=self._done, details="")
            self._bar.start()
        return self

    def advance(self, count: int = 1, details: str = "") -> None:
        """Add `count` finished units; `details` is shown after the count."""
        self._done += count
        self._details = details
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, details=details)
        elif time.monotonic() - self._logged >= LOG_EVERY_S:
            self._log()

    def _log(self) -> None:
        self._logged, self._logged_done = time.monotonic(), self._done
        seconds = self._logged - self._started
        rate = (self._done - self._start_done) / seconds if seconds > 0.5 else 0
        speed = f", {rate:.3g} {self._unit}/s" if rate else ""
        details = f", {self._details}" if self._details else ""
        count = str(self._done) if self._total is None else f"{self._done}/{self._total}"
        print(f"{self._description}: {count} {self._unit}{speed}{details}", flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif kind is None and self._logged_done < self._done:
            self._log()
