"""Requests to stop: SIGTERM, which a preempted machine gets 30 s before its end, and Ctrl-C."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from trainer.training import exits

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """Whether a stop was requested, and by which signal."""

    def __init__(self) -> None:
        self._signal = 0

    @property
    def requested(self) -> bool:
        """Whether a signal has arrived."""
        return self._signal != 0

    @property
    def exit_status(self) -> int:
        """Exit status of the process once the state is saved."""
        assert self.requested
        return exits.stopped(self._signal)

    def _request(self, number: int, frame: FrameType | None) -> None:
        self._signal = number
        for signal_number in SIGNALS:
            signal.signal(signal_number, signal.SIG_DFL)  # a second signal ends the process at once
        # Not `print`, which fails if the signal interrupts another print.
        message = f"{signal.Signals(number).name}: saving the state, then stopping; repeat to stop at once\n"
        os.write(2, message.encode())


@contextmanager
def watched() -> Iterator[Stop]:
    """Catch SIGTERM and Ctrl-C; the caller checks `Stop.requested`. A second signal ends the process at once.

    Python handles signals in the main thread only: in any other thread nothing is caught.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    previous = {number: signal.signal(number, stop._request) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
