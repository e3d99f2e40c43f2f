"""The identity of a process, by which others on its machine can tell whether it still runs."""

import functools
import os
import pathlib
import socket
from typing import NamedTuple, Self

BOOT = pathlib.Path("/proc/sys/kernel/random/boot_id")
PROCESSES = pathlib.Path("/proc/self/ns/pid")


class ProcessId(NamedTuple):
    """A process, such as 4711 of this machine, which started at 48213."""

    machine: str
    """The machine since its last start, and the container. There an id names one process."""
    process: int
    started: str
    """What `start_of` says. It tells a process from a later one with the same id."""

    @classmethod
    def own(cls) -> Self:
        """The process that calls this."""
        process = os.getpid()
        return cls(machine(), process, start_of(process))

    @property
    def is_running(self) -> bool:
        """Whether it still runs. It must be of this machine and container."""
        return start_of(self.process) == self.started


@functools.cache
def machine() -> str:
    """Identity of the machine since its last start, and of the container: there a process id names one process."""
    try:
        return f"{BOOT.read_text().strip()}/{PROCESSES.readlink()}"
    except OSError:  # not Linux
        return socket.gethostname()


def start_of(process: int) -> str:
    """When a process of this machine and container started. Empty if it does not run.

    On Linux it is in clock ticks since the machine started, such as `48213`. Elsewhere it is `unknown`.
    """
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return ""
    except OSError:
        pass  # it is another user's
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return "unknown"
