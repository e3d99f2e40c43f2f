"""Facts that Linux reports of this machine: its CPU's instruction sets, and the memory available and in use."""

import os
import pathlib
import resource
import subprocess

CPU_INFO = pathlib.Path("/proc/cpuinfo")


def instruction_sets() -> frozenset[str]:
    """Instruction sets that the CPU reports; empty if it reports none, as on ARM or a Mac."""
    try:
        lines = CPU_INFO.read_text().splitlines()
    except OSError:  # not Linux
        return frozenset()
    fields = (line.partition(":") for line in lines)
    return next((frozenset(names.split()) for key, _, names in fields if key.strip() == "flags"), frozenset())


PROC = pathlib.Path("/proc")
CGROUPS = pathlib.Path("/sys/fs/cgroup")


def available_bytes(proc: pathlib.Path = PROC, cgroups: pathlib.Path = CGROUPS) -> int:
    """Bytes that can be allocated now without swapping and without an out-of-memory kill.

    The minimum of the machine's MemAvailable and of the free memory of each control group above this process: its
    limit minus its use. Inactive file pages do not count as use, because the kernel drops them on demand. Control
    groups of versions 1 and 2 are read, also in a container that sees its own group as the root. On a machine
    without procfs the result is half of its memory.

    Args:
        proc: where procfs is mounted.
        cgroups: where the control groups are mounted.
    """
    if not (proc / "meminfo").exists():
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    room = [_fields(proc / "meminfo")["MemAvailable:"] * 1024]
    for folder in _memory_groups((proc / "self" / "cgroup").read_text(), cgroups):
        room += _left(folder, "memory.max", "memory.current", "inactive_file")
        room += _left(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    return max(0, min(room))


def _memory_groups(own: str, cgroups: pathlib.Path) -> list[pathlib.Path]:
    """Folders of the groups of `own`, the content of /proc/self/cgroup, and of all groups above them."""
    folders = []
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers or "memory" in controllers.split(","):
            root = cgroups / ("memory" if controllers else "")
            group = root / path.lstrip("/")
            folders += [folder for folder in (group, *group.parents) if folder.is_relative_to(root)]
    return folders


def _left(folder: pathlib.Path, limit: str, usage: str, droppable: str) -> list[int]:
    """Free memory of one group in bytes; empty if the group does not exist or has no limit."""
    if not (folder / limit).exists() or (maximum := (folder / limit).read_text().strip()) == "max":
        return []
    used = int((folder / usage).read_text()) - _fields(folder / "memory.stat").get(droppable, 0)
    return [int(maximum) - used]


def _fields(path: pathlib.Path) -> dict[str, int]:
    """Parse lines of a name, a number and possibly a unit."""
    return {words[0]: int(words[1]) for line in path.read_text().splitlines() if (words := line.split())}


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
