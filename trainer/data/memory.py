"""How much memory this process can still take, as Linux and its control groups say."""

import os
import pathlib

PROC = pathlib.Path("/proc")
CGROUPS = pathlib.Path("/sys/fs/cgroup")


def available_bytes(proc: pathlib.Path = PROC, cgroups: pathlib.Path = CGROUPS) -> int:
    """Bytes that can be allocated now without swapping and without being killed for it.

    The least of the machine's MemAvailable and of what each control group above this process leaves: its limit
    less its use, where file pages that were not used lately do not count, since the kernel drops them on demand.
    Groups of version 1 and 2 are read, and in a container that sees its own group as the root too. A machine
    without procfs is taken to have half of its memory left.

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
    """What one group leaves, in bytes; nothing where it is not there or sets no limit."""
    if not (folder / limit).exists() or (maximum := (folder / limit).read_text().strip()) == "max":
        return []
    used = int((folder / usage).read_text()) - _fields(folder / "memory.stat").get(droppable, 0)
    return [int(maximum) - used]


def _fields(path: pathlib.Path) -> dict[str, int]:
    """Lines of a name, a number and possibly a unit."""
    return {words[0]: int(words[1]) for line in path.read_text().splitlines() if (words := line.split())}
