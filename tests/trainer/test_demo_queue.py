"""The queue of predictions: who waits holds a place and a picture, who left neither."""

import asyncio
import threading
import weakref

import pytest

from trainer.demo.queue import FullError, Queue


class Work:
    """A function to run, and all that it holds."""

    def __init__(self):
        self.let_go = threading.Event()
        self.has_begun = threading.Event()

    def __call__(self):
        self.has_begun.set()
        assert self.let_go.wait(30)
        return self


@pytest.fixture
def queue():
    queue = Queue(2)
    yield queue
    queue.close()


async def never():
    await asyncio.Event().wait()


async def begun(queue, work, gone):
    """A task that runs `work`, which has begun."""
    task = asyncio.create_task(queue.run(work, gone))
    assert await asyncio.to_thread(work.has_begun.wait, 30)
    return task


def test_nothing_is_kept_of_those_who_leave_while_they_wait(queue):
    async def check():
        first = Work()
        running = await begun(queue, first, never())
        for _ in range(5):
            waits = Work()
            kept = weakref.ref(waits)
            assert await queue.run(waits, asyncio.sleep(0)) is None
            assert not waits.has_begun.is_set()
            del waits
            assert kept() is None
        first.let_go.set()
        assert await running is first

    asyncio.run(check())


def test_who_leaves_after_the_beginning_keeps_the_place_until_the_end(queue):
    async def check():
        first, second = Work(), Work()
        left = asyncio.Event()
        running = await begun(queue, first, left.wait())
        left.set()
        waiting = asyncio.create_task(queue.run(second, never()))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not running.done()
        assert not second.has_begun.is_set()
        first.let_go.set()
        second.let_go.set()
        assert await waiting is second
        assert await running is first

    asyncio.run(check())


def test_what_fails_or_is_called_off_lets_the_next_begin(queue):
    def fail():
        raise ValueError("no picture")

    async def check():
        first, last = Work(), Work()
        last.let_go.set()
        running = await begun(queue, first, never())
        called_off = asyncio.create_task(queue.run(Work(), never()))
        failing = asyncio.create_task(queue.run(fail, never()))
        await asyncio.sleep(0)
        called_off.cancel()
        first.let_go.set()
        await running
        with pytest.raises(ValueError, match="no picture"):
            await failing
        with pytest.raises(asyncio.CancelledError):
            await called_off
        assert await queue.run(last, never()) is last

    asyncio.run(check())


def test_places_are_counted(queue):
    with queue.place(), queue.place(), pytest.raises(FullError), queue.place():
        pass
    with queue.place():
        pass
