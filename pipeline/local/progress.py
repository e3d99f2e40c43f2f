"""Shows the progress of a local run: a live table of its tasks on a terminal, plain lines in a log.

It parses the output of kfp.local, which has the lines of each task between kfp's own lines.
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

from trainer.errors import format_duration

STEPS_LINE = "pipeline steps: "
"""Prefix of the worker's first line, followed by `pipeline.local.worker.outline` as JSON."""
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
"""Lines that only the log file keeps: those of KFP's executor and of TensorFlow's C++ code."""
ERROR = "error: "
"""Prefix of a task's own error message."""
KEPT_LINES = 200
STYLES = {"waiting": "dim", "running": "bold cyan", "done": "green", "cached": "green", "failed": "bold red"}


@dataclasses.dataclass
class StepView:
    """One task of the run, as it is shown."""

    title: str
    state: str = "waiting"
    started: float = 0.0
    finished: float = 0.0
    cached_as: str = ""
    """Prefix of the file name of kfp's cache record; empty if the task was not cached."""
    lines: deque[str] = dataclasses.field(default_factory=lambda: deque(maxlen=KEPT_LINES))
    """Last lines of its output, without CHATTER."""

    @property
    def seconds(self) -> float:
        """Run time until now, or until it ended."""
        return (self.finished or time.monotonic()) - self.started if self.started else 0.0

    def failure(self) -> str:
        """Why it failed: its own error message, else its last lines."""
        lines = list(self.lines)
        if errors := [line for line in lines if line.startswith(ERROR)]:
            return errors[-1].removeprefix(ERROR)
        return "\n".join(["its last lines (without an error it was killed: out of memory?):", *lines[-15:]])


class Progress:
    """Shows a run from its output, which `feed` receives line by line; a context manager."""

    def __init__(self, console: Console) -> None:
        self.steps: dict[str, StepView] = {}
        self._groups: dict[str, list[str]] = {}
        self._console = console
        self._current: StepView | None = None
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
    def failed(self) -> list[StepView]:
        """The steps that failed, else the one that was running when the run was killed."""
        by_state = {state: [step for step in self.steps.values() if step.state == state] for state in STYLES}
        return by_state["failed"] or by_state["running"]

    def feed(self, line: str) -> None:
        """Process one line of the output, without colours."""
        if line.startswith(STEPS_LINE):
            content = json.loads(line.removeprefix(STEPS_LINE))
            self.steps = {name: StepView(title) for name, title in content["steps"].items()}
            self._groups = content["groups"]
        elif match := STARTED.match(line):
            self._current = self._enter(match[1], "running")
            self._current.started = time.monotonic()
        elif match := FINISHED.match(line):
            self._leave(match[1], "done" if match[2] == "SUCCESS" else "failed")
        elif match := CACHED.match(line):
            self._enter(match[1], "cached").cached_as = match[2]
        elif match := SKIPPED.match(line):
            for name in self._groups[match[1]]:  # the branch that does not run
                self.steps.pop(name, None)
        elif self._current is not None:
            for text in self._task_text(line):
                self._current.lines.append(text)
                if not text.startswith(ERROR):  # the reason of a failure, which is said at the end
                    self._log(self._current, text)

    def _enter(self, name: str, state: str) -> StepView:
        step = self.steps.setdefault(name, StepView(name))
        step.state = state
        self._log(step, "started" if state == "running" else "unchanged; result reused from an earlier run")
        return step

    def _leave(self, name: str, state: str) -> None:
        step, self._current = self.steps[name], None
        step.state, step.finished = state, time.monotonic()
        self._log(step, f"{state} after {format_duration(step.seconds)}")

    def _task_text(self, line: str) -> Iterator[str]:
        """`line` without kfp's indentation, if the task printed it and it is not CHATTER."""
        text = line.removeprefix("    ").rstrip()
        if self._in_json or text.startswith("[KFP Executor"):
            # The executor prints its input as JSON over several lines, up to a brace alone at the margin.
            self._in_json = text != "}" and (self._in_json or "Got executor_input" in text)
        elif text.strip() and not CHATTER.match(text) and not re.match(KFP, line):
            yield text

    def _log(self, step: StepView, text: str) -> None:
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
            time_taken = format_duration(step.seconds) if step.started else ""
            table.add_row(step.title, Text(step.state, STYLES[step.state]), time_taken, Text(last, "dim"))
        return table
