"""Temporary folders of a process; if it is killed, the next one removes them. Standard library only.

The process that makes a folder locks the file `HELD` in it, and the system ends the lock with the process,
however it ends and whatever its id was. The name of a folder tells the machine too, because a file system may
keep the locks of its machines apart: what another one left is removed only after `OTHERS_S` without a change.
"""

import atexit
import fcntl
import functools
import hashlib
import os
import pathlib
import re
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

PARTIAL, FETCH, TEST_SET = ".partial-", ".fetch-", ".test-set-"
"""Beginnings of the names of folders that are next to an output."""
HIDDEN = (PARTIAL, FETCH, TEST_SET)
LOCAL = "msinet-"
"""The same in the system's folder for temporary files."""
NAME = re.compile(rf"(?:{'|'.join(map(re.escape, (*HIDDEN, LOCAL)))})([0-9a-f]{{8}})-\w{{8}}")
"""Name of a folder; group 1 is the machine."""
HELD = ".held"
OTHERS_S = 24 * 3600.0
BOOT = pathlib.Path("/proc/sys/kernel/random/boot_id")

_swept: set[pathlib.Path] = set()
_sweeping = threading.Lock()


@functools.cache
def machine() -> str:
    """Eight letters for this machine since its last start, the same in all containers on it."""
    try:
        identity = BOOT.read_text()
    except OSError:  # not Linux
        identity = socket.gethostname()
    return hashlib.sha256(identity.encode()).hexdigest()[:8]


@contextmanager
def folder(kind: str, parent: str | os.PathLike[str] | None = None) -> Iterator[pathlib.Path]:
    """A new folder in `parent`, which is removed at the end; those that killed processes left there are removed.

    Args:
        kind: one of HIDDEN, or LOCAL.
        parent: an existing folder; None for the system's folder for temporary files, of LOCAL alone.

    Raises:
        OSError: nothing can be written there.
    """
    place = pathlib.Path(tempfile.gettempdir() if parent is None else parent).absolute()
    _sweep(place)
    path, held = _made(place, kind)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(held)


def folder_for_now() -> pathlib.Path:
    """A new temporary folder that is removed when this process ends."""
    stack = ExitStack()
    atexit.register(stack.close)
    place = stack.enter_context(folder(LOCAL)) / "files"  # without HELD, since what is here is listed
    place.mkdir()
    return place


def remove_leftovers(place: pathlib.Path) -> None:
    """Remove the folders in `place` whose processes have ended; those of living ones stay."""
    with suppress(OSError):  # `place` may not be listed
        for path in place.iterdir():
            if match := NAME.fullmatch(path.name):
                _remove_if_left(path, match[1] == machine())


def _sweep(place: pathlib.Path) -> None:
    """`remove_leftovers`, once in a process: a folder may get thousands of outputs."""
    with _sweeping:
        if place in _swept:
            return
        _swept.add(place)
    remove_leftovers(place)


def _made(place: pathlib.Path, kind: str) -> tuple[pathlib.Path, int]:
    """A new folder, and its open `HELD`."""
    while True:
        path = pathlib.Path(tempfile.mkdtemp(prefix=f"{kind}{machine()}-", dir=place))
        held = None
        # Another process may take the folder for a leftover until it is locked.
        with suppress(FileNotFoundError, BlockingIOError):
            held = os.open(path / HELD, os.O_RDWR | os.O_CREAT, 0o600)
            _lock(held)
            if os.path.samestat(os.fstat(held), (path / HELD).stat()):
                return path, held
        if held is not None:
            os.close(held)


def _lock(file: int) -> bool:
    """Lock an open file, unless its file system has no locks; raises `BlockingIOError` if another has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


def _remove_if_left(path: pathlib.Path, is_of_this_machine: bool) -> None:
    """Remove a folder unless its process is alive, or may be, or is another user's."""
    with suppress(OSError):
        try:
            held = os.open(path / HELD, os.O_RDWR | os.O_NOFOLLOW)
        except FileNotFoundError:
            path.rmdir()  # if it is empty; its process, if it is alive, makes another
            return
        try:
            if _lock(held) and (is_of_this_machine or time.time() - _changed_s(path) > OTHERS_S):
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(held)


def _changed_s(path: pathlib.Path) -> float:
    """When something in a folder was changed last, seconds since the epoch."""
    return max(below.lstat().st_mtime for below in (path, *path.rglob("*")))
