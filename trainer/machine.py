"""Facts about this machine that a training depends on: its user, limits, devices and mounts, and its files.

On Vertex AI none of them can be seen from outside the container.
"""

import dataclasses
import getpass
import os
import pathlib
import platform
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator

from trainer import loading

GOOD, BAD, NOTE = "good", "bad", "note"
"""A fact is as it should be; training cannot work; or it is worth knowing."""
DEVICES = ("nvidia[0-9]*", "accel*", "vfio/*")
"""Device files of GPUs and TPUs, below /dev."""
REQUIRED = ("mkdir", "write", "read", "rename a file", "remove")
"""Operations on files that the trainer needs in the folder of a run; it does without the others."""


@dataclasses.dataclass(frozen=True)
class Fact:
    """One fact, and what it means for a training."""

    name: str
    value: str
    state: str = GOOD
    means: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.value}" + (f" ({self.means})" if self.means else "")


def facts(folder: pathlib.Path) -> Iterator[Fact]:
    """All facts about this machine that need no TensorFlow; files are tried in `folder`, which is made."""
    yield Fact("machine", f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    yield user()
    yield locked_memory()
    yield devices()
    yield from mounts()
    yield Fact("folder", str(folder))
    yield from file_operations(folder)


def user() -> Fact:
    """The user of this process."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container need not know its user by name
        name = "without a name"
    means = "root" if not os.getuid() else "not root: it changes only files and devices that are open to it"
    return Fact("user", f"{os.getuid()}:{os.getgid()} ({name})", means=means)


def resident_bytes(pid: int) -> int:
    """Resident memory of a process; 0 if there is no such process."""
    statm = pathlib.Path(f"/proc/{pid}/statm")  # proc(5): the second number is resident pages; only on Linux
    try:
        if statm.parent.parent.joinpath("self").exists():
            return int(statm.read_text().split()[1]) * resource.getpagesize()
        listed = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True)
        return int(listed.stdout or 0) * 1024
    except (FileNotFoundError, ProcessLookupError):
        return 0


def locked_memory() -> Fact:
    """The limit of locked memory, through which a TPU's driver transfers data."""
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    limits = " of ".join("unlimited" if limit < 0 else f"{limit} bytes" for limit in (soft, hard))
    if not loading.locked_memory_is_low():
        return Fact("locked memory", limits)
    means = "enough for CPUs and GPUs; a TPU needs more"
    if not loading.is_for_tpu():
        return Fact("locked memory", limits, means=means)
    loading.raise_locked_memory()
    is_low = loading.locked_memory_is_low()
    outcome = "this process may not raise it" if is_low else "the training raises it, which works here"
    return Fact("locked memory", limits, NOTE if is_low else GOOD, f"{means}; {outcome}")


def devices() -> Fact:
    """The device files of GPUs and TPUs, with their modes."""
    paths = sorted(path for pattern in DEVICES for path in pathlib.Path("/dev").glob(pattern))
    shown = [f"{path} {path.stat().st_mode & 0o777:o}" for path in paths]
    closed = [path.name for path in paths if not os.access(path, os.R_OK | os.W_OK)]
    means = f"this user may not open {', '.join(closed)}" if closed else ""
    return Fact("devices", ", ".join(shown) or "none of GPUs or TPUs", NOTE if closed else GOOD, means)


def mounts(table: pathlib.Path = pathlib.Path("/proc/mounts")) -> Iterator[Fact]:
    """Each FUSE mount, such as Vertex AI's of Cloud Storage, with its options."""
    lines = table.read_text().splitlines() if table.exists() else []
    found = [line.split() for line in lines]
    fuse = [Fact("mount", f"{place} {kind} {options}") for _, place, kind, options, *_ in found if "fuse" in kind]
    yield from fuse or [
        Fact("mount", "no FUSE mount", NOTE, "in a job of Vertex AI, Cloud Storage is mounted by FUSE")
    ]


def file_operations(folder: pathlib.Path) -> Iterator[Fact]:
    """Whether each operation on files works below `folder`."""
    place = folder / f"probe-{os.getpid()}"
    operations: dict[str, Callable[[], object]] = {
        "mkdir": lambda: (place / "folder").mkdir(parents=True),
        "write": lambda: (place / "folder" / "file").write_bytes(b"written"),
        "read": lambda: (place / "folder" / "file").read_bytes(),
        "rename a file": lambda: (place / "folder" / "file").replace(place / "folder" / "renamed"),
        "rename a folder": lambda: (place / "folder").replace(place / "moved"),
        "chmod": lambda: place.chmod(0o755),
        "utime": lambda: os.utime(place),
        "remove": lambda: shutil.rmtree(place),
    }
    for name, operation in operations.items():
        try:
            operation()
        except OSError as error:
            is_required = name in REQUIRED
            means = "a training cannot write there" if is_required else "not needed"
            yield Fact(name, f"{error.strerror or error}", BAD if is_required else NOTE, means)
        else:
            yield Fact(name, "works")
