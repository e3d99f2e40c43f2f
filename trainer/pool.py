"""Threads that map a function in order, and no further ahead than the results are taken."""

import collections
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


@contextmanager
def open_pool(n_threads: int | None = None) -> Iterator[ThreadPoolExecutor]:
    """Threads, by default one for each CPU; at the end, also after an error, cancels calls that have not begun."""
    pool = ThreadPoolExecutor(n_threads or os.cpu_count())
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def map_ahead(
    pool: ThreadPoolExecutor, function: Callable[[Item], Result], items: Iterable[Item], max_pending: int
) -> Iterator[Result]:
    """Map a function over items in threads, in order; at most `max_pending` results are computed ahead."""
    pending: collections.deque[Future[Result]] = collections.deque()
    for item in items:
        pending.append(pool.submit(function, item))
        if len(pending) >= max_pending:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()
