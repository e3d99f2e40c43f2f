"""One prediction at a time, in a thread, and a bounded number of requests that wait for it."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class FullError(Exception):
    """So many requests wait already that one more is refused."""


class Queue:
    """Runs functions one after the other, in a thread of its own.

    Args:
        most: how many requests may be read, wait or run at once; what they hold in memory is bounded by it.
    """

    def __init__(self, most: int) -> None:
        self._free = most
        self._turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "prediction")

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place in the queue; `FullError` where none is left."""
        if not self._free:
            raise FullError
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1

    async def run(self, function: Callable[[], T], gone: Coroutine[Any, Any, object]) -> T | None:
        """What `function` returns; None if `gone` ends before it begins, and then it never does.

        One that has begun runs to its end, whoever left, and the next waits for it.
        """
        # Only what begins goes to the thread: its own queue would keep what is called off until it comes to it.
        turn = asyncio.ensure_future(self._turn.acquire())
        leaving: asyncio.Future[Any] = asyncio.ensure_future(gone)
        try:
            await asyncio.wait({turn, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not turn.done():
                return None
            return await asyncio.wrap_future(self._thread.submit(function))
        finally:
            leaving.cancel()
            if not turn.cancel():  # it came
                self._turn.release()

    def close(self) -> None:
        """Let the function that runs end; no other begins."""
        self._thread.shutdown(wait=True, cancel_futures=True)
