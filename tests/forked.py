"""Processes that have loaded TensorFlow: forks of one that has not begun to use it, since that takes seconds."""

import multiprocessing
import os
import pathlib
import signal
from collections.abc import Callable
from typing import Any

TIMEOUT_S = 900
"""A guard against a process that never ends; 240 s were not enough once, with other work on both cores."""


class Forked:
    """A process that calls a function of a module, as a program of its own would: no state of this one is in it.

    Args:
        log: file that takes all it says.
        function: what it calls, with `arguments`.
        environment: variables beside those of this process.
        folder: where it runs.
    """

    def __init__(
        self,
        log: pathlib.Path,
        function: Callable[..., None],
        *arguments: Any,
        environment: dict[str, str] | None = None,
        folder: pathlib.Path | None = None,
    ) -> None:
        self._log = log
        log.touch()
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["trainer.training.train", "tests.trainer.virtual"])
        variables = os.environ | (environment or {})
        self._process = context.Process(
            target=_call, args=(log, dict(variables), folder or pathlib.Path.cwd(), function, arguments)
        )
        self._process.start()
        self.pid = self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def kill(self, number: signal.Signals) -> None:
        if self.alive:
            os.kill(self.pid, number)

    def wait(self, seconds: float = TIMEOUT_S) -> None:
        self._process.join(seconds)

    def end(self) -> tuple[int, str]:
        """Wait for the end; the exit status (the negative of the signal that it died of), and what it said."""
        self.wait()
        status = self._process.exitcode
        assert status is not None, f"still running after {TIMEOUT_S} s: {self.said()}"
        self._process.close()
        return status, self.said()

    def said(self) -> str:
        return self._log.read_text()


def _call(
    log: pathlib.Path,
    variables: dict[str, str],
    folder: pathlib.Path,
    function: Callable[..., None],
    arguments: tuple[Any, ...],
) -> None:
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    function(*arguments)
