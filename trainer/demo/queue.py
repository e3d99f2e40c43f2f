"""Runs one prediction at a time in a thread, and limits the number of requests that wait."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class FullError(Exception):
    """The queue has no free place."""


class Queue:
    """Runs functions one after the other in its own thread.

    Args:
        places: how many requests may be read, wait or run at once, which bounds their memory.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "prediction")

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place in the queue. Raises `FullError` if none is free."""
        if not self._free:
            raise FullError
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1

    async def run(self, function: Callable[[], T], disconnected: Coroutine[Any, Any, object]) -> T | None:
        """Run a function when it is its turn.

        A function that has started runs to its end, even if its client disconnects; the next one waits for it.

        Returns:
            The function's result; None if `disconnected` ended first, in which case the function never runs.
        """
        # Submitted only when it can start: the thread's own queue would keep cancelled functions in memory.
        turn = asyncio.ensure_future(self._turn.acquire())
        leaving: asyncio.Future[Any] = asyncio.ensure_future(disconnected)
        try:
            await asyncio.wait({turn, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not turn.done():
                return None
            return await asyncio.wrap_future(self._thread.submit(function))
        finally:
            leaving.cancel()
            if not turn.cancel():  # the lock had been acquired
                self._turn.release()

    def close(self) -> None:
        """Wait for the running function; no other one starts."""
        self._thread.shutdown(wait=True, cancel_futures=True)
