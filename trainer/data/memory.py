"""Available memory of this process, from Linux and its control groups."""

import os
import pathlib

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
