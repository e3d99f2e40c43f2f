"""One piece of work at a time, in a thread. Those who wait for it are told what they wait for."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from typing import Any, TypeVar

OTHERS = "Waiting for another image…"
"""What is told to those who wait for the work of others."""
Tell = Callable[[str], None]
"""Says what is waited for. It raises `StoppedError` where nobody waits any more, which ends the work."""
Result = TypeVar("Result")


class StoppedError(Exception):
    """Nobody waits for the work any more, or the server stops."""


class Turns:
    """Does pieces of work one after the other, and none for those who have left."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._waiting: set[asyncio.Queue[Any]] = set()
        self._has_stopped = False
        self._tasks: set[asyncio.Task[None]] = set()  # else they may be collected while they run

    async def take(self, work: Callable[[Tell], Result]) -> AsyncGenerator[str | Result, None]:
        """Do the work in its turn. Yields texts of what is waited for, and last the result.

        Work that nobody reads any further ends when it tells something, and the next one begins then.

        Raises:
            StoppedError: the server stops.
            Exception: what the work raises.
        """
        if self._has_stopped:
            raise StoppedError
        loop = asyncio.get_running_loop()
        news: asyncio.Queue[str | Result | Exception] = asyncio.Queue()
        left = threading.Event()

        def tell(text: str) -> None:
            if left.is_set():
                raise StoppedError
            loop.call_soon_threadsafe(news.put_nowait, text)

        async def run() -> None:
            async with self._turn:
                if left.is_set():
                    return
                try:
                    news.put_nowait(await asyncio.to_thread(work, tell))
                except Exception as error:  # it is raised where somebody waits
                    news.put_nowait(error)

        if self._turn.locked():
            yield OTHERS
        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._waiting.add(news)
        try:
            while isinstance(told := await news.get(), str):
                yield told
            if isinstance(told, Exception):
                raise told
            yield told
        finally:
            self._waiting.remove(news)
            left.set()

    def stop(self) -> None:
        """End all work: what runs ends when it tells something, and nobody waits for it."""
        self._has_stopped = True
        for news in self._waiting:
            news.put_nowait(StoppedError())
