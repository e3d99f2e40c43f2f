"""What is shown of one task of a local run."""

import dataclasses
import time
from collections import deque

ERROR = "error: "
"""Prefix of a task's own error message."""
KEPT_LINES = 200


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
    """Last lines of its output, without chatter of libraries."""

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
