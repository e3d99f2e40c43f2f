"""Decode what others made in a worker: one process beside this one, with limits of time, memory and written bytes.

What a hostile file does to its decoder, it does to the worker alone, and is reported as one `ContentError`. The
worker begins with the first call, in a third of a second, and serves all threads, one call after the other, until
this process ends. It is no sandbox: code that a file could make a decoder run would have the rights of this user.
"""

import atexit
import contextlib
import dataclasses
import errno
import importlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from multiprocessing.connection import Connection, Pipe
from typing import Any, NamedTuple

from trainer.errors import ContentError, FailedError, UserError
from trainer.texts import first_line

GIGABYTE = 10**9
REMEDY = "get it again from where it was published"
STDERR = 2
"""File descriptor of the standard error."""
BEGIN = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from trainer.machine import untrusted; untrusted.serve_calls(int(sys.argv[1]))"
)
"""What the worker runs: `serve_calls`, with the search path of this process."""
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "RUST_BACKTRACE": "0"}
"""Each thread of OpenBLAS would take memory of the limit at once. A panic of Polars is said in a sentence."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """What one call may take."""

    seconds: float = 6
    """Processor time of all threads, so that a busy machine does not count."""
    memory_bytes: int = 3 * GIGABYTE // 2
    """Memory of the worker's own, also what it held before the call. Linux enforces it. macOS does not."""
    written_bytes: int = GIGABYTE
    """Size of any one file."""


class _Call(NamedTuple):
    function: str
    arguments: tuple[object, ...]
    limits: Limits


class _Answer(NamedTuple):
    result: Any = None
    error: Exception | None = None
    """To be raised as it is."""
    problem: str = ""
    """The end of a sentence about the file, if the function failed in another way."""
    details: str = ""
    """The traceback."""
    is_full: bool = False
    """Whether the worker ran out of memory. It may still hold some."""


def call_untrusted(
    function: str, *arguments: object, file: str, remedy: str = REMEDY, limits: Limits | None = None
) -> Any:
    """The result of a function that runs in the worker.

    What it prints goes to stderr. Ctrl-C, SIGTERM and the end of this process end the worker, too.

    Args:
        function: its dotted name, such as `trainer.data.matlab.read_one`. Only the worker imports its module.
        arguments: of the function. They and its result are pickled.
        file: the name of what it decodes, for messages.
        remedy: end of the messages.
        limits: what it may take. None for the limits of a small file.

    Raises:
        ContentError: the function exceeds a limit, crashes the worker, or fails with an error of its own.
        UserError: the function raises it, or the worker was ended from outside.
        OSError: the system's, such as a full disk.
    """
    limits = limits or Limits()
    answer = _worker.ask(_Call(function, arguments, limits))
    if isinstance(answer, int):
        raise _ended(answer, limits, file, remedy)
    if answer.error:
        raise answer.error
    if answer.problem:
        error = ContentError(f"{file} {answer.problem}: {remedy}")
        error.add_note(answer.details)
        raise error
    return answer.result


def end_untrusted() -> None:
    """End the worker, for the memory that it holds. The next call begins another one."""
    _worker.end()


def _ended(status: int, limits: Limits, file: str, remedy: str) -> UserError:
    """The error about a worker that ended with a status (negative for a signal) instead of an answer."""
    name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    if status == -signal.SIGPROF:
        return ContentError(f"{file} takes more than {limits.seconds:g} s of processor time to read: {remedy}")
    if -status in (signal.SIGKILL, signal.SIGTERM):
        return FailedError(
            f"what read {file} was ended from outside ({name}), perhaps because this machine has too little "
            "memory. Free some, and try again"
        )
    return ContentError(f"{file} crashes what reads it ({name}): {remedy}")


# === In this process ===


class _Worker:
    """The worker of this process, if one has begun."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start without a worker."""
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def ask(self, request: _Call) -> _Answer | int:
        """The answer to a call, or the exit status of a worker that ended instead, such as -9."""
        with self._lock:
            is_new = self._process is None
            answer = self._exchange(request)
            is_full = answer == -signal.SIGABRT if isinstance(answer, int) else answer.is_full
            if is_full and not is_new:  # perhaps of what earlier calls have left in its memory
                answer = self._exchange(request)
            return answer

    def _exchange(self, request: _Call) -> _Answer | int:
        process, connection = self._begun()
        signal.siginterrupt(signal.SIGINT, True)  # Polars, once imported, has reads go on after Ctrl-C
        try:
            connection.send(request)
            answer: _Answer = connection.recv()
        except (EOFError, ConnectionError):
            status = process.wait()
            self._end()
            return status
        except BaseException:  # such as Ctrl-C, after which an answer would be that to another call
            self._end()
            raise
        if answer.is_full:
            self._end()
        return answer

    def end(self) -> None:
        with self._lock:
            self._end()

    def _begun(self) -> tuple["subprocess.Popen[bytes]", "Connection[Any, Any]"]:
        if self._process and self._process.poll() is not None:  # ended between two calls
            self._end()
        if not (self._process and self._connection):
            ours, theirs = Pipe()
            with theirs:
                self._process = subprocess.Popen(
                    (sys.executable, "-P", "-c", BEGIN, str(theirs.fileno()), *sys.path),
                    stdin=subprocess.DEVNULL,
                    stdout=STDERR,
                    pass_fds=(theirs.fileno(),),
                    env={**os.environ, **ENVIRONMENT},
                )
            self._connection = ours
        return self._process, self._connection

    def _end(self) -> None:
        process, connection, self._process, self._connection = self._process, self._connection, None, None
        if process and connection:
            connection.close()
            process.kill()
            process.wait()


_worker = _Worker()
atexit.register(_worker.end)
os.register_at_fork(after_in_child=_worker.forget)  # a child would read answers to its parent


# === In the worker ===


def serve_calls(connection: int) -> None:
    """Answer calls until the process that makes them ends.

    Args:
        connection: file descriptor.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for the other process, which ends this one
    threading.Thread(target=end_with_parent, daemon=True).start()
    with Connection(connection) as calls, contextlib.suppress(EOFError, ConnectionError):
        while True:
            answer = _answer(calls.recv())
            sys.stderr.flush()
            calls.send(answer)


def _answer(request: _Call) -> _Answer:
    module, _, name = request.function.rpartition(".")
    try:
        function = getattr(importlib.import_module(module), name)
        with _limited(request.limits):
            return _Answer(function(*request.arguments))
    except MemoryError:
        most = _gigabytes(request.limits.memory_bytes)
        return _Answer(problem=f"takes more than {most} of memory to read", is_full=True)
    except UserError as error:
        return _Answer(error=error)
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.EFBIG:
            return _Answer(problem=f"unpacks to more than {_gigabytes(request.limits.written_bytes)}")
        if isinstance(error, OSError) and error.errno:  # the system's. Libraries raise it for damaged files, too
            return _Answer(error=error)
        reason = f"{type(error).__name__}: {first_line(error)}"
        return _Answer(problem=f"cannot be read ({reason})", details=traceback.format_exc()[-10_000:])


@contextlib.contextmanager
def _limited(limits: Limits) -> Iterator[None]:
    """Let the system hold the limits inside the block.

    A signal ends the process after the time. More memory is a `MemoryError`, and a longer file an `OSError`.
    """
    bounds = {resource.RLIMIT_DATA: limits.memory_bytes, resource.RLIMIT_FSIZE: limits.written_bytes}
    before = {kind: resource.getrlimit(kind) for kind in bounds}
    for kind, most in bounds.items():
        with contextlib.suppress(ValueError, OSError):  # it is lower already, or this system has no such limit
            resource.setrlimit(kind, (most, before[kind][1]))
    signal.setitimer(signal.ITIMER_PROF, limits.seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        for kind, pair in before.items():
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(kind, pair)


def _gigabytes(n_bytes: int) -> str:
    return f"{n_bytes / GIGABYTE:.3g} GB"


def end_with_parent() -> None:
    """End this process within a second of its parent, also in the middle of a call."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
