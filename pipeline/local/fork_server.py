"""Runs the tasks of a local run as forks of one process, the server, which has imported what they import.

As with kfp.local's own runner, each task is a process of its own in the group of the worker. It has its own
memory, environment, output and exit status. But it need not import TensorFlow, nor take it apart at its end. Each
would take seconds. The server has begun no work and no thread when it forks.
"""

import atexit
import contextlib
import functools
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, Pipe
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any, NamedTuple

from trainer.errors import reported
from trainer.machine import is_for_tpu, load_tensorflow

WAITING = "waiting for TensorFlow, which all steps share: up to a minute in a first run"


class _Task(NamedTuple):
    source: str
    """Python module with the function of the component."""
    arguments: list[str]
    """The arguments of kfp's executor."""
    variables: dict[str, str]
    """Further environment variables. The task also has the variables of the worker."""


# === In the worker ===


@contextlib.contextmanager
def forked_tasks() -> Iterator[None]:
    """Have kfp.local run tasks by a server, which ends with this context, and leave Ctrl-C to the running task.

    In two cases, kfp.local starts a new Python for each task:

    - Without Linux, TensorFlow may not survive a fork.
    - The driver of a TPU begins with the import.
    """
    if sys.platform != "linux" or is_for_tpu():
        from kfp.local import subprocess_task_handler

        run: Callable[..., int] = subprocess_task_handler.run_local_subprocess
        subprocess_task_handler.run_local_subprocess = _interrupted_by_its_task(run)
        yield
        return
    ours, theirs = Pipe()
    with theirs:
        command = (sys.executable, "-m", __name__, str(theirs.fileno()))
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),))
    from kfp.local import subprocess_task_handler  # while the server imports

    run = functools.partial(_run, ours, server.pid)
    wait = functools.partial(_wait, ours, [WAITING])
    subprocess_task_handler.run_local_subprocess = _interrupted_by_its_task(run, wait)
    with server, ours:
        try:
            yield
        except KeyboardInterrupt:  # no task runs
            server.terminate()
            raise


def _interrupted_by_its_task(
    run: Callable[..., int], wait: Callable[[], None] = lambda: None
) -> Callable[..., int]:
    """`run` that Ctrl-C ends once the task has ended: until then, somebody must read what the task says.

    `wait` is called before, and Ctrl-C ends that at once.
    """

    def until_its_end(*args: Any, **kwargs: Any) -> int:
        wait()
        received: list[int] = []
        previous = signal.signal(signal.SIGINT, lambda number, _: received.append(number))
        try:
            status = run(*args, **kwargs)
        finally:
            signal.signal(signal.SIGINT, previous)
        if received:
            raise KeyboardInterrupt
        return status

    return until_its_end


def _wait(server: "Connection[Any, Any]", waiting: list[str]) -> None:
    """Wait for the server before the first task. `waiting` has what to say, and is empty afterwards."""
    if waiting:
        if not server.poll():
            print(waiting.pop())
        with contextlib.suppress(EOFError, ConnectionError):  # `_run` says so
            server.recv()
        waiting.clear()


def _run(
    server: "Connection[Any, Any]", pid: int, full_command: list[str], env_vars: dict[str, str] | None = None
) -> int:
    """Run the command of a component, print its output line by line, and return its exit status, such as 0."""
    first = full_command.index("--executor_input")
    output, theirs = os.pipe()
    with os.fdopen(output, errors="replace") as lines:
        try:
            server.send(_Task(full_command[first - 1], full_command[first:], env_vars or {}))
            send_handle(server, theirs, pid)
            os.close(theirs)
            for line in lines:
                print(line, end="")
            print()  # the last line may have no end
            status: int = server.recv()
        except (EOFError, ConnectionError):
            raise SystemExit("error: the process that runs the tasks has ended. See the lines above") from None
    return status


# === In the server, and in its forks ===


def main(connection: int) -> None:
    """Import what tasks import, run those that the worker sends, and end with the worker.

    Args:
        connection: file descriptor.
    """
    statuses = [1]
    atexit.register(_leave, statuses)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for the task. The worker waits for its end
    os.environ["_KFP_RUNTIME"] = "true"  # as kfp's command does
    load_tensorflow()
    from kfp.dsl.executor_main import executor_main

    import trainer.training.train  # noqa: F401

    with Connection(connection) as worker:
        task = _next_task(worker)
    if task:
        os.environ.update(task.variables)
        with tempfile.TemporaryDirectory() as folder:
            module = pathlib.Path(folder, "ephemeral_component.py")
            module.write_text(task.source)
            sys.argv = ["executor_main", "--component_module_path", str(module), *task.arguments]
            try:
                executor_main()
                statuses.append(0)
            except SystemExit as end:
                if end.code is None or isinstance(end.code, int):
                    statuses.append(end.code or 0)
                raise
    else:
        statuses.append(0)


def _next_task(worker: "Connection[Any, Any]") -> _Task | None:
    """Fork for each task, and return the task in the fork. The server returns None when the worker has ended."""
    with contextlib.suppress(EOFError, ConnectionError):
        worker.send(None)  # it is ready
        while True:
            task: _Task = worker.recv()
            output = recv_handle(worker)
            child = os.fork()
            if child == 0:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                for stream in (sys.stdout, sys.stderr):
                    os.dup2(output, stream.fileno())
                sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # one order with stderr
                os.close(output)
                return task
            os.close(output)
            worker.send(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    return None


def _leave(statuses: list[int]) -> None:
    """End this process at once with the last of `statuses`: to take TensorFlow apart would take seconds.

    It is registered before all other exit handlers, and so runs as the last of them.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(statuses[-1])


if __name__ == "__main__":
    with reported():
        main(int(sys.argv[1]))
