"""The queue of predictions: a waiting client holds an image, a disconnected one does not."""

import asyncio
import threading
import weakref

import pytest

from trainer.demo.queue import Queue


class Work:
    """A function to run, with the memory that it holds."""

    def __init__(self):
        self.let_go = threading.Event()
        self.has_started = threading.Event()

    def __call__(self):
        self.has_started.set()
        assert self.let_go.wait(30)
        return self


@pytest.fixture
def queue():
    queue = Queue()
    yield queue
    queue.close()


async def never():
    await asyncio.Event().wait()


async def start(queue, work, disconnected):
    """A task that runs `work`, which has started."""
    task = asyncio.create_task(queue.run(work, disconnected))
    assert await asyncio.to_thread(work.has_started.wait, 30)
    return task


def test_nothing_is_kept_of_clients_that_disconnect_while_they_wait(queue):
    async def check():
        first = Work()
        running = await start(queue, first, never())
        for _ in range(5):
            waits = Work()
            kept = weakref.ref(waits)
            assert await queue.run(waits, asyncio.sleep(0)) is None
            assert not waits.has_started.is_set()
            del waits
            assert kept() is None
        first.let_go.set()
        assert await running is first

    asyncio.run(check())


def test_client_that_disconnects_after_the_start_keeps_its_place_until_the_end(queue):
    async def check():
        first, second = Work(), Work()
        left = asyncio.Event()
        running = await start(queue, first, left.wait())
        left.set()
        waiting = asyncio.create_task(queue.run(second, never()))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not running.done()
        assert not second.has_started.is_set()
        first.let_go.set()
        second.let_go.set()
        assert await waiting is second
        assert await running is first

    asyncio.run(check())


def test_next_function_runs_after_a_failure_or_a_cancellation(queue):
    def fail():
        raise ValueError("not an image")

    async def check():
        first, last = Work(), Work()
        last.let_go.set()
        running = await start(queue, first, never())
        cancelled = asyncio.create_task(queue.run(Work(), never()))
        failing = asyncio.create_task(queue.run(fail, never()))
        await asyncio.sleep(0)
        cancelled.cancel()
        first.let_go.set()
        await running
        with pytest.raises(ValueError, match="not an image"):
            await failing
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert await queue.run(last, never()) is last

    asyncio.run(check())
