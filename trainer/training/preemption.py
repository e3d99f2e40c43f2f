"""The wish to stop: SIGTERM, which a machine that is taken away gets 30 s before its end, and Ctrl-C."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)
SHELL_SIGNAL_BASE = 128
"""The status a shell gives to a process that a signal ended is 128 plus its number: 143 for SIGTERM, 130 for
Ctrl-C. Whoever started the training sees that it has neither finished (0) nor an error to mend (1), and Vertex AI
restarts a worker whose status is not 0 (its documentation, "Understand the custom training service")."""


class Stop:
    """Whether somebody asked to stop, and how."""

    def __init__(self) -> None:
        self._signal = 0

    @property
    def requested(self) -> bool:
        """True from the first signal on."""
        return self._signal != 0

    @property
    def exit_status(self) -> int:
        """What the process should exit with, once the state is saved."""
        assert self.requested
        return SHELL_SIGNAL_BASE + self._signal

    def _request(self, number: int, frame: FrameType | None) -> None:
        self._signal = number
        for each in SIGNALS:
            signal.signal(each, signal.SIG_DFL)  # the second one is meant
        # Not `print`, which fails where the signal comes in the middle of another print.
        os.write(2, f"{signal.Signals(number).name}: saving the state, then stopping; again: at once\n".encode())


@contextmanager
def watched() -> Iterator[Stop]:
    """Catch SIGTERM and Ctrl-C; the caller looks at `Stop.requested`. A second signal ends the process at once.

    Python has signals in the main thread alone: elsewhere nothing is caught, and nothing is ever requested.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    previous = {each: signal.signal(each, stop._request) for each in SIGNALS}
    try:
        yield stop
    finally:
        for each, handler in previous.items():
            signal.signal(each, handler)
