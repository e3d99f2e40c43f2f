"""Runs the tasks of a local run as forks of one process, the server, which has imported what they import.

As by kfp.local, each task is a process of its own in the group of the worker, with its own memory, environment,
output and exit status. It only takes none of the seconds in which Python imports TensorFlow and takes it apart at
the end. The server has begun no work and no thread when it forks.
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
from collections.abc import Iterator
from multiprocessing.connection import Connection, Pipe
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any, NamedTuple

from trainer.io.runtime import is_for_tpu, load_tensorflow


class _Task(NamedTuple):
    source: str
    """Python module with the function of the component."""
    arguments: list[str]
    """Of kfp's executor."""
    variables: dict[str, str]
    """Environment variables beside those of the worker."""


# === In the worker ===


@contextlib.contextmanager
def forked_tasks() -> Iterator[None]:
    """Have kfp.local run tasks by a server, which ends with this context.

    Without Linux, where TensorFlow may not survive a fork, and with a TPU, whose driver begins with the import,
    kfp.local starts a new Python for each task.
    """
    if sys.platform != "linux" or is_for_tpu():
        yield
        return
    ours, theirs = Pipe()
    with theirs:
        command = (sys.executable, "-m", __name__, str(theirs.fileno()))
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),))
    from kfp.local import subprocess_task_handler  # while the server imports

    subprocess_task_handler.run_local_subprocess = functools.partial(_run, ours, server.pid)
    with server, ours:
        yield


def _run(
    server: "Connection[Any, Any]", pid: int, full_command: list[str], env_vars: dict[str, str] | None
) -> int:
    """Run the command of a component, print what it says line by line, and return its exit status."""
    first = full_command.index("--executor_input")
    output, theirs = os.pipe()
    server.send(_Task(full_command[first - 1], full_command[first:], env_vars or {}))
    send_handle(server, theirs, pid)
    os.close(theirs)
    with os.fdopen(output, errors="replace") as lines:
        for line in lines:
            print(line, end="")
    print()  # the last line may have no end
    status: int = server.recv()
    return status


# === In the server, and in its forks ===


def main(connection: int) -> None:
    """Import what tasks import, run those that the worker sends, and end with the worker.

    Args:
        connection: file descriptor.
    """
    succeeded: list[bool] = []
    atexit.register(_leave, succeeded)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for the task, whose end the worker waits for
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
            executor_main()
    succeeded.append(True)


def _next_task(worker: "Connection[Any, Any]") -> _Task | None:
    """Fork for each task; return it in the fork, and None in the server when the worker has ended."""
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            task: _Task = worker.recv()
            output = recv_handle(worker)
            child = os.fork()
            if child == 0:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                for stream in (sys.stdout, sys.stderr):
                    os.dup2(output, stream.fileno())
                os.close(output)
                return task
            os.close(output)
            worker.send(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    return None


def _leave(succeeded: list[bool]) -> None:
    """End this process as the last of its exit handlers, since it was the first: Python would take seconds."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(not succeeded)


if __name__ == "__main__":
    main(int(sys.argv[1]))
