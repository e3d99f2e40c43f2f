"""Runs one prediction at a time in a thread."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class Queue:
    """Runs functions one after the other in its own thread."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "prediction")

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
