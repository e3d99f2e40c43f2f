"""Temporary folders, whose names tell their process, so that the next one removes what a killed one has left."""

import atexit
import functools
import hashlib
import os
import pathlib
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PARTIAL, FETCH, TEST_SET = ".partial-", ".fetch-", ".test-set-"
"""Beginnings of the names of folders that are next to an output."""
HIDDEN = (PARTIAL, FETCH, TEST_SET)
LOCAL = "msinet-"
"""Beginning of the names of folders in the system's folder for temporary files."""
NAME = re.compile(rf"(?:{'|'.join(map(re.escape, (*HIDDEN, LOCAL)))})([0-9a-f]{{8}})-(\d+)-\w{{8}}")
"""Name of a folder; group 1 is the machine, group 2 the process."""
OTHERS_S = 24 * 3600.0
"""How long a folder of another machine must be unchanged to count as left over."""
BOOT = pathlib.Path("/proc/sys/kernel/random/boot_id")
PROCESSES = pathlib.Path("/proc/self/ns/pid")


@functools.cache
def machine() -> str:
    """Identity of the machine since its last start, and of the container: there a process id names one process."""
    try:
        return f"{BOOT.read_text().strip()}/{PROCESSES.readlink()}"
    except OSError:  # not Linux
        return socket.gethostname()


def is_running(process: int) -> bool:
    """Whether a process of this machine and container runs; True if that cannot be known."""
    try:
        os.kill(process, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


@contextmanager
def folder(kind: str, parent: str | os.PathLike[str] | None = None) -> Iterator[pathlib.Path]:
    """A new folder in `parent`, which is removed at the end; those that killed processes left there are removed.

    Args:
        kind: one of HIDDEN, or LOCAL.
        parent: an existing folder; None for the system's folder for temporary files, with LOCAL alone.

    Raises:
        OSError: nothing can be written there.
    """
    place = pathlib.Path(tempfile.gettempdir() if parent is None else parent).absolute()
    _sweep(place)
    prefix = f"{kind}{_digest()}-{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=place, ignore_cleanup_errors=True) as path:
        yield pathlib.Path(path)


def folder_for_now() -> pathlib.Path:
    """A new temporary folder that is removed when this process ends."""
    made = folder(LOCAL)
    atexit.register(made.__exit__, None, None, None)
    return made.__enter__()


def remove_leftovers(place: pathlib.Path) -> None:
    """Remove the folders in `place` whose processes have ended; those of other machines after an unchanged day."""
    with suppress(OSError):  # `place` may not be listed
        for path in place.iterdir():
            if (match := NAME.fullmatch(path.name)) and not path.is_symlink():
                is_own = match[1] == _digest()
                if not is_running(int(match[2])) if is_own else time.time() - _changed_s(path) > OTHERS_S:
                    shutil.rmtree(path, ignore_errors=True)


@functools.cache
def _sweep(place: pathlib.Path) -> None:
    """Do what `remove_leftovers` does, once in a process: a folder may get thousands of outputs."""
    remove_leftovers(place)


def _digest() -> str:
    return hashlib.sha256(machine().encode()).hexdigest()[:8]


def _changed_s(path: pathlib.Path) -> float:
    """When something in a folder was changed last, seconds since the epoch."""
    return max(below.lstat().st_mtime for below in (path, *path.rglob("*")))
