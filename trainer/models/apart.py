"""Call a function in a process of its own, with limits of its time and its memory.

For files of unknown origin: what ends the process, or fills its memory, does so to that process alone.
"""

import contextlib
import dataclasses
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from typing import Any, TypeVar

from trainer import machine
from trainer.errors import ContentError, UserError

Result = TypeVar("Result")
PROCESSES: SpawnContext | ForkServerContext = multiprocessing.get_context("spawn")
"""How a process is started: without the threads and locks of this one."""
POLL_S = 0.05
GIGABYTE = 10**9


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a function may take, of time and of the resident memory of its process."""

    seconds: float
    memory_bytes: int
    usual_bytes: int
    """Memory that it takes, for the message when somebody else ends its process."""

    def plus(self, other: "Limits", times: int) -> "Limits":
        """These, and another's so many times."""
        return Limits(
            self.seconds + other.seconds * times,
            self.memory_bytes + other.memory_bytes * times,
            self.usual_bytes + other.usual_bytes * times,
        )


def call(function: Callable[..., Result], *arguments: object, limits: Limits, doing: str, remedy: str) -> Result:
    """The function's result; it, its arguments and its result are pickled.

    What the function prints goes to stderr. Ctrl-C, SIGTERM and the end of this process end it too.

    Args:
        function: of a module that can be imported.
        arguments: of the function.
        limits: its process is ended when it exceeds one.
        doing: for messages, such as `the import of model.pb`.
        remedy: end of the messages about a limit or a crash.

    Raises:
        ContentError: the function exceeds a limit, or crashes its process.
        UserError: its process was ended from outside.
        Exception: what the function raises.
    """
    receiver, sender = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=_answer, args=(sender, function, arguments), daemon=True)
    process.start()
    sender.close()  # or the end of the process would not be noticed
    try:
        _wait(receiver, process.pid or 0, limits, doing, remedy)
        try:
            result, error = receiver.recv()
        except EOFError:
            process.join()
            raise _ended(process.exitcode or 0, limits, doing, remedy) from None
    finally:
        process.kill()  # at once: it has answered, or nobody waits for it any more
        process.join()
        receiver.close()
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]


def _wait(receiver: Connection, pid: int, limits: Limits, doing: str, remedy: str) -> None:
    """Wait until the process answers or ends."""
    end = time.monotonic() + limits.seconds
    while not receiver.poll(POLL_S):
        if time.monotonic() > end:
            raise ContentError(f"{doing} took more than {limits.seconds:.0f} s, and was ended: {remedy}")
        if machine.resident_bytes(pid) > limits.memory_bytes:
            most = _gigabytes(limits.memory_bytes)
            raise ContentError(f"{doing} took more than {most} of memory, and was ended: {remedy}")


def _gigabytes(n_bytes: int) -> str:
    return f"{n_bytes / GIGABYTE:.3g} GB"


def _ended(status: int, limits: Limits, doing: str, remedy: str) -> UserError:
    """The error about a process that ended without an answer."""
    name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    if -status in (signal.SIGKILL, signal.SIGTERM):
        needed = _gigabytes(limits.usual_bytes)
        return UserError(
            f"{doing} was ended from outside ({name}), perhaps because it needs {needed} of memory; free some, "
            "and try again"
        )
    return ContentError(f"{doing} crashed ({name}): {remedy}")


def _answer(sender: Connection, function: Callable[..., Any], arguments: tuple[object, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for the process that waits for this one
    threading.Thread(target=_end_with_parent, daemon=True).start()
    answer: tuple[Any, BaseException | None]
    try:
        with contextlib.redirect_stdout(sys.stderr):
            answer = function(*arguments), None
    except (UserError, OSError) as error:
        answer = None, error
    except MemoryError:
        answer = None, UserError("there is not enough memory; free some, and try again")
    except BaseException:  # not every exception can be pickled
        answer = None, RuntimeError(traceback.format_exc())
    sys.stderr.flush()
    sender.send(answer)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
