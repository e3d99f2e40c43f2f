"""What a training says and checks of its machine: shared memory, the name of the CPUs, memory in use."""

import os
import pathlib
import platform
import resource
import shutil
import subprocess

from trainer.machine import CPU_INFO

SHARED_MEMORY = pathlib.Path("/dev/shm")  # noqa: S108
NCCL_SHARED_BYTES = 2**30
"""Shared memory that NCCL should have to connect a machine's GPUs (its user guide, "Troubleshooting"). Without
NVLink it takes 10 MB for each channel (NVIDIA/nccl issue 525). A container has 64 MB unless it asks for more."""


def shared_memory_bytes() -> int:
    """Size of the shared memory of this machine or container, such as 2**26 in Docker. 0 if it has none."""
    return shutil.disk_usage(SHARED_MEMORY).total if SHARED_MEMORY.is_dir() else 0


def cpu_name() -> str:
    """The number and the model of this machine's CPUs, such as `2 x AMD EPYC`."""
    lines = CPU_INFO.read_text().splitlines() if CPU_INFO.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{os.cpu_count()} x {names[0] if names else platform.machine()}"


def resident_bytes(pid: int) -> int:
    """Resident memory of a process, 0 if there is no such process."""
    statm = pathlib.Path(f"/proc/{pid}/statm")  # proc(5): the second number is resident pages. Only on Linux
    try:
        if statm.parent.parent.joinpath("self").exists():
            return int(statm.read_text().split()[1]) * resource.getpagesize()
        listed = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True)
        return int(listed.stdout or 0) * 1024
    except (FileNotFoundError, ProcessLookupError):
        return 0
