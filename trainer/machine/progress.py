"""Long work: its progress, as a bar on a terminal and as lines in a log, and the threads that do it."""

import collections
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from trainer.texts import format_duration, visible

if TYPE_CHECKING:
    from rich.progress import Progress

LOG_EVERY_S, LOG_AT_LEAST_EVERY_S = 5.0, 30.0
"""Shortest and longest time between two lines in a log."""
LOG_SHARE = 0.05
"""Time between two lines as a share of the time so far, between the shortest and the longest."""


class Tracker:
    """Shows the progress of `description` over `total` units, None if nobody knows. It is a context manager.

    On a terminal it draws a bar with the time left. Otherwise it prints lines, fewer as time passes,
    and one at the end, so that a log stays short. If the first unit takes long, a line says before what is done.

    Args:
        description: the work.
        total: units of the work.
        unit: name of several units.
        done: how many of them an earlier process has finished.
        later: units of work like this that follow after the last one. The time left includes them.
    """

    def __init__(self, description: str, total: int | None, unit: str, done: int = 0, later: int = 0) -> None:
        self._description, self._total, self._unit = visible(description), total, unit
        self._start_done = self._done = done
        self._later = later
        self._details = ""
        self._started = time.monotonic()
        self._first: tuple[float, int] | None = None
        self._logged = -LOG_EVERY_S
        self._logged_done = -1
        self._bar: Progress | None = None
        self._has_advanced = threading.Event()

    def __enter__(self) -> Self:
        if sys.stdout.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn(self._unit, markup=False),
                TextColumn("{task.fields[details]}", markup=False),
            )
            self._bar = Progress(*columns, console=Console(file=sys.stdout))
            self._task = self._bar.add_task(self._description, total=self._total, completed=self._done, details="")
            self._bar.start()
        else:
            threading.Thread(target=self._wait, daemon=True).start()
        return self

    def advance(self, count: int = 1, details: str = "") -> None:
        """Add `count` finished units. `details` is shown after the count, such as `loss 0.42`."""
        now = time.monotonic()
        self._has_advanced.set()
        self._done += count
        self._details = details
        left = self._left(now)
        self._first = self._first or (now, self._done)
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, details=", ".join(filter(None, [details, left])))
        elif now - self._logged >= self._pause_s(now):
            self._log(left)

    def _wait(self) -> None:
        """Say in a log what is done, until the first unit is."""
        pause_s = LOG_EVERY_S
        while not self._has_advanced.wait(pause_s):
            self._log("the first takes longer")
            pause_s = LOG_AT_LEAST_EVERY_S

    def _pause_s(self, now: float) -> float:
        """Seconds between two lines in a log."""
        return min(max(LOG_EVERY_S, LOG_SHARE * (now - self._started)), LOG_AT_LEAST_EVERY_S)

    def _left(self, now: float) -> str:
        """Estimate such as `about 9 min left`. Empty before the second advance: the first has preparations."""
        if self._total is None or self._first is None or self._done <= self._first[1]:
            return ""
        n_left = self._total - self._done + self._later
        seconds = n_left * (now - self._first[0]) / (self._done - self._first[1])
        return f"about {format_duration(seconds)} left" if seconds >= 1 else ""

    def _log(self, left: str = "") -> None:
        self._logged, self._logged_done = time.monotonic(), self._done
        seconds = self._logged - self._started
        rate = (self._done - self._start_done) / seconds if seconds > 0.5 else 0
        count = str(self._done) if self._total is None else f"{self._done}/{self._total}"
        speed = f"{rate:.3g} {self._unit}/s" if rate else ""
        line = ", ".join(filter(None, [f"{count} {self._unit}", speed, self._details, left]))
        print(f"{self._description}: {line}", flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._has_advanced.set()
        if self._bar is not None:
            self._bar.stop()
        elif kind is None and self._logged_done < self._done:
            self._log()


# === Threads ===

Item = TypeVar("Item")
Result = TypeVar("Result")


@contextmanager
def open_pool(n_threads: int | None = None) -> Iterator[ThreadPoolExecutor]:
    """Threads, by default one for each CPU. The end, also by an error, cancels calls that have not begun."""
    pool = ThreadPoolExecutor(n_threads or os.cpu_count())
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def map_ahead(
    pool: ThreadPoolExecutor, function: Callable[[Item], Result], items: Iterable[Item], max_pending: int
) -> Iterator[Result]:
    """Map a function over items in threads, in order. At most `max_pending` results are computed ahead."""
    pending: collections.deque[Future[Result]] = collections.deque()
    for item in items:
        pending.append(pool.submit(function, item))
        if len(pending) >= max_pending:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()
