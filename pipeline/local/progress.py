"""What a local run shows: a table that follows each step on a terminal, plain lines in a log.

It reads the output of kfp.local, in which the lines of each task stand between kfp's own.
"""

import dataclasses
import json
import re
import time
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

STEPS_LINE = "pipeline steps: "
"""Begins the first line of the worker's output; behind it `pipeline.local.worker.outline`, as JSON."""
ANSI = re.compile(r"\x1b\[[0-9;]*m")
KFP = r"^[\d:.,\- ]+ - [A-Z]+ - "
STARTED = re.compile(KFP + r"Executing task '([\w-]+)'")
FINISHED = re.compile(KFP + r"Task '([\w-]+)' finished with status (SUCCESS|FAILURE)")
CACHED = re.compile(KFP + r"Task ([\w-]+) cache hit \(key=(\w+)\)")
SKIPPED = re.compile(KFP + r"Skipping conditional task ([\w-]+)")
CHATTER = re.compile(
    r"\[KFP Executor|WARNING: All log messages before absl|[IWEF]\d{4} [\d:.]+|\d{4}-\d\d-\d\d [\d:.]+: [IWE] "
    r"|To enable the following instructions"
)
"""Lines of tasks that only the log file keeps: KFP's executor, and TensorFlow's C++ side."""
KEPT_LINES = 200
STYLES = {"waiting": "dim", "running": "bold cyan", "done": "green", "cached": "green", "failed": "bold red"}


@dataclasses.dataclass
class Step:
    """One task of the run."""

    title: str
    state: str = "waiting"
    started: float = 0.0
    finished: float = 0.0
    cached_as: str = ""
    """Where it was cached, what the name of kfp's record begins with."""
    lines: deque[str] = dataclasses.field(default_factory=lambda: deque(maxlen=KEPT_LINES))
    """The last lines of its output, without chatter."""

    @property
    def seconds(self) -> float:
        """How long it has run, or ran."""
        return (self.finished or time.monotonic()) - self.started if self.started else 0.0

    def failure(self) -> str:
        """Why it failed: what it says itself, else the traceback of a defect, else its last lines."""
        lines = list(self.lines)
        if said := [line for line in lines if line.startswith("error: ")]:
            return said[-1].removeprefix("error: ")
        if starts := [index for index, line in enumerate(lines) if line.startswith("Traceback ")]:
            return "\n".join(["an unexpected error, a defect of this program.", *lines[starts[-1] :]])
        return "\n".join(["it was ended from outside (out of memory?). Its last lines:", *lines[-15:]])


class Progress:
    """Follows a run; a context manager. Give it each line of the output by `feed`."""

    def __init__(self, console: Console) -> None:
        self.steps: dict[str, Step] = {}
        self._groups: dict[str, list[str]] = {}
        self._console = console
        self._current: Step | None = None
        self._in_json = False
        self._live = Live(console=console, get_renderable=self._table, refresh_per_second=4, transient=False)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    @property
    def failed(self) -> Step | None:
        """The step that failed, or was running when the run ended without saying so."""
        return next((step for step in self.steps.values() if step.state in ("failed", "running")), None)

    def feed(self, line: str) -> None:
        """Take one line of the output, without colours."""
        if line.startswith(STEPS_LINE):
            content = json.loads(line.removeprefix(STEPS_LINE))
            self.steps = {name: Step(title) for name, title in content["steps"].items()}
            self._groups = content["groups"]
        elif match := STARTED.match(line):
            self._current = self._enter(match[1], "running")
            self._current.started = time.monotonic()
        elif match := FINISHED.match(line):
            self._leave(match[1], "done" if match[2] == "SUCCESS" else "failed")
        elif match := CACHED.match(line):
            self._enter(match[1], "cached").cached_as = match[2]
        elif match := SKIPPED.match(line):
            for name in self._groups[match[1]]:  # a branch that is not taken
                self.steps.pop(name, None)
        elif self._current is not None:
            for said in self._said(line):
                self._current.lines.append(said)
                self._log(self._current, said)

    def _enter(self, name: str, state: str) -> Step:
        step = self.steps.setdefault(name, Step(name))
        step.state = state
        self._log(step, "started" if state == "running" else "nothing changed; taken from an earlier run")
        return step

    def _leave(self, name: str, state: str) -> None:
        step, self._current = self.steps[name], None
        step.state, step.finished = state, time.monotonic()
        self._log(step, f"{state} after {duration(step.seconds)}")

    def _said(self, line: str) -> Iterator[str]:
        """`line` without kfp's indentation, if it is the task's own and no chatter."""
        said = line.removeprefix("    ").rstrip()
        if self._in_json or said.startswith("[KFP Executor"):
            # The executor prints its input as JSON over several lines; a brace alone at the margin ends it.
            self._in_json = said != "}" and (self._in_json or "Got executor_input" in said)
        elif said.strip() and not CHATTER.match(said) and not re.match(KFP, line):
            yield said

    def _log(self, step: Step, text: str) -> None:
        if not self._console.is_terminal:
            self._console.print(Text(f"[{step.title}] {text}"), soft_wrap=True)

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False, expand=True)
        table.add_column("step", no_wrap=True)
        table.add_column("state", no_wrap=True)
        table.add_column("time", justify="right", no_wrap=True)
        table.add_column("last line", ratio=1, no_wrap=True, overflow="ellipsis")
        for step in self.steps.values():
            last = step.lines[-1] if step.lines else ""
            time_taken = duration(step.seconds) if step.started else ""
            table.add_row(step.title, Text(step.state, STYLES[step.state]), time_taken, Text(last, "dim"))
        return table


def duration(seconds: float) -> str:
    """`12 s`, `3 min 05 s` or `2 h 07 min`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes_left = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes_left:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
