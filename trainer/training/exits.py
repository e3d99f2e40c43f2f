"""How a training ends early: requests to stop, and exit statuses from which it can resume.

Vertex AI decides by the status whether a custom job goes on (its page "Understand the custom training service"):

| status | the service |
|---|---|
| 0 of the chief | ends the job as succeeded, and stops all other machines |
| 134 (128 + SIGABRT), 139 (128 + SIGSEGV) | may be transient: restarts the job up to three times |
| any other | ends the job as failed |

On other platforms the status tells an interrupted training from a finished one (0) and a failed one (1).

A crash in a library of the hardware ends the process without an error of Python. `watch_training` lets another one
say it.
"""

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

JOB = "CLOUD_ML_JOB_ID"
"""Vertex AI sets this variable in its custom jobs, to the job's number."""
SHELL_SIGNAL_BASE = 128
"""A shell reports this plus the signal's number for a process that a signal ended."""
TRANSIENT = SHELL_SIGNAL_BASE + signal.SIGABRT
"""The status in a custom job of Vertex AI, which then restarts and resumes from the last checkpoint."""
OTHER_LOST = 75
"""EX_TEMPFAIL, the same command may succeed later."""
POD = "KFP_POD_NAME"
"""Kubeflow Pipelines sets this variable in the pods of its tasks."""
CAUSES = {
    signal.SIGSEGV: "A library crashed, mostly one of the accelerator: TensorFlow, its driver or libtpu",
    signal.SIGABRT: "A library gave up, and mostly says why in the lines above",
    signal.SIGBUS: "A file that is mapped into memory was cut off, or shared memory (/dev/shm) is full",
    signal.SIGILL: "TensorFlow needs an instruction that this CPU does not have (AVX)",
    signal.SIGKILL: "The memory is mostly full: take a larger machine or pod, or a smaller batch_size",
}
"""Signal that ends a training -> its usual cause, for people who read the log of a job."""
SIGNALS = (signal.SIGTERM, signal.SIGINT)
"""Requests to stop: a preempted machine gets SIGTERM 30 s before its end, and Ctrl-C sends SIGINT."""


def stopped(number: int) -> int:
    """Return the exit status after a signal asked a machine to stop: 143 for SIGTERM, 130 for Ctrl-C."""
    return TRANSIENT if JOB in os.environ else SHELL_SIGNAL_BASE + number


def machine_lost() -> int:
    """Return the exit status after another machine of the job was lost."""
    return TRANSIENT if JOB in os.environ else OTHER_LOST


def watch_training() -> None:
    """Continue in a child of this process in a job of Vertex AI or a pod of Kubeflow, where only a log is left.

    This process passes SIGTERM and SIGINT on to the child, ends with its status, and explains a signal that ended
    it. Python's stack at a crash is printed, too. Call this before TensorFlow is loaded or a thread is started.
    """
    if not {JOB, POD} & os.environ.keys():
        return
    child = os.fork()
    if child == 0:
        faulthandler.enable()
        return
    for number in SIGNALS:
        signal.signal(number, lambda number, _: os.kill(child, number))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status < 0:
        print(f"error: {ended_by(signal.Signals(-status))}", file=sys.stderr, flush=True)
    os._exit(status if status >= 0 else SHELL_SIGNAL_BASE - status)


def ended_by(ending: signal.Signals) -> str:
    """Explain for the log of a job what ended the training, why, and what to look at."""
    cause = CAUSES.get(ending, "Something outside of the training ended it")
    return (
        f"the training was ended by {ending.name} (exit status {SHELL_SIGNAL_BASE + ending}), not by an error of "
        f"Python. {cause}. Python's stack above, if there is one, names the step that it happened in. "
        "`python -m pipeline doctor --live` tries the same image and accelerator with one step. A job that is "
        "started again resumes from its last checkpoint"
    )


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
        return stopped(self._signal)

    def _request(self, number: int, frame: FrameType | None) -> None:
        self._signal = number
        for signal_number in SIGNALS:
            signal.signal(signal_number, signal.SIG_DFL)  # a second signal ends the process at once
        # Not `print`, which fails if the signal interrupts another print.
        message = f"{signal.Signals(number).name}: saving the state, then stopping. Repeat to stop at once\n"
        os.write(2, message.encode())


@contextmanager
def watched() -> Iterator[Stop]:
    """Catch SIGTERM and Ctrl-C. The caller checks `Stop.requested`. A second signal ends the process at once.

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
