"""The page of a local run while it runs: which step runs, the loss so far, and the pages of its data.

It is the file of the report, and exists from the start of the run. The report takes its place.
"""

import dataclasses
import re
import shutil
import time
from collections import deque
from collections.abc import Mapping, Sequence

from pipeline.local.run_folder import SHOWN, Run
from trainer.io import replacing
from trainer.reports import write_run
from trainer.texts import format_duration

ERROR = "error: "
"""Prefix of a task's own error message."""
KEPT_LINES = 200
EVERY_S = 5.0
"""The page is written again after so many seconds, and when a step or an epoch ends."""
REPORT = "evaluate-model", "report"
EPOCH = re.compile(r"epoch (\d+)/\d+: loss ([\d.]+), validation ([\d.]+)")
"""What a training prints at the end of an epoch."""


@dataclasses.dataclass
class TaskView:
    """One task of the run, as it is shown."""

    title: str
    state: str = "waiting"
    started: float = 0.0
    finished: float = 0.0
    cached_as: str = ""
    """Prefix of the file name of kfp's cache record. Empty if the task was not cached."""
    lines: deque[str] = dataclasses.field(default_factory=lambda: deque(maxlen=KEPT_LINES))
    """Last lines of its output, without CHATTER."""

    @property
    def seconds(self) -> float:
        """Run time until now, or until it ended."""
        return (self.finished or time.monotonic()) - self.started if self.started else 0.0

    def failure(self) -> str:
        """Why it failed: its own error message, else its last lines. Example: `there are 3 images`."""
        lines = list(self.lines)
        if errors := [line for line in lines if line.startswith(ERROR)]:
            return errors[-1].removeprefix(ERROR)
        return "\n".join(["its last lines (without an error it was killed: out of memory?):", *lines[-15:]])


class RunPage:
    """Writes the page of a run, and copies the reports of the tasks into the run's folder."""

    def __init__(self, run: Run) -> None:
        self.path = run.folder / SHOWN[REPORT]
        self._run = run
        self._losses: dict[str, dict[int, tuple[float, float]]] = {}
        self._news: list[tuple[str, int]] = []
        self._tasks: Mapping[str, TaskView] = {}
        self._written = 0.0
        self._write("plain", "Running", ["The steps are being started."])

    def follow(self, tasks: Mapping[str, TaskView]) -> None:
        """Show what the tasks do now."""
        self._tasks = tasks
        running = [task for task in tasks.values() if task.state == "running"]
        for task in running:
            if task.lines and (match := EPOCH.match(task.lines[-1])):
                self._losses.setdefault(task.title, {})[int(match[1])] = float(match[2]), float(match[3])
        news = [(task.state, len(self._losses.get(task.title, ()))) for task in tasks.values()]
        if news != self._news:
            self.copy_shown()
        if news != self._news or time.monotonic() - self._written >= EVERY_S:
            self._news = news
            lines = [f"{task.title}: {task.lines[-1] if task.lines else 'started'}" for task in running]
            self._write("plain", "Running", lines)

    def end(self, tone: str, headline: str, sentences: Sequence[str]) -> None:
        """Say how the run ended, unless its report is there."""
        self._write(tone, headline, sentences, is_running=False)

    def copy_shown(self) -> None:
        """Copy the reports of the tasks into the run's folder."""
        for (task, output), name in SHOWN.items():
            view = self._tasks.get(task)
            key = view.cached_as if view else ""
            path = self._run.cached_output(key, output) if key else self._run.output(task, output)
            if path is not None:
                with replacing(self._run.folder / name) as partial:
                    shutil.copy(path, partial)

    def _write(self, tone: str, headline: str, sentences: Sequence[str], is_running: bool = True) -> None:
        if self._run.output(*REPORT) is not None:
            return
        self._written = time.monotonic()
        titles = {name: self._tasks[task].title for (task, _), name in SHOWN.items() if task in self._tasks}
        write_run(
            self.path,
            name=self._run.folder.name,
            model=self._run.model_name,
            tone=tone,
            headline=headline,
            sentences=sentences,
            is_running=is_running,
            steps=[
                (
                    task.title,
                    task.state,
                    format_duration(task.seconds) if task.started else "",
                    task.lines[-1] if task.lines else "",
                )
                for task in self._tasks.values()
            ],
            links={
                title: name
                for name, title in titles.items()
                if name != self.path.name and (self._run.folder / name).exists()
            },
            losses=self._losses,
        )
