"""Available memory, from files in the layouts of both versions of control groups, and OpenVINO's runtime."""

import os
import subprocess
import sys

import pytest

from trainer.machine.runtime import PROC, available_bytes, n_cpus
from trainer.models import find_model

MEMINFO = """MemTotal:       24689768 kB
MemFree:         1000000 kB
MemAvailable:    8000000 kB
HugePages_Total:       0
DirectMap2M:    25036800 kB
"""
MACHINE = 8_000_000 * 1024
NO_LIMIT = "9223372036854771712"  # version 1 without a limit


@pytest.fixture
def machine(tmp_path):
    """Writes the files of a machine; `proc` and `cgroups` are its mounts."""

    def write(own, **groups):
        for name, text in {"proc/meminfo": MEMINFO, "proc/self/cgroup": own}.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        for path, files in groups.items():
            folder = tmp_path / "cgroups" / path
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in files.items():
                (folder / name).write_text(f"{text}\n")
        return available_bytes(tmp_path / "proc", tmp_path / "cgroups")

    return write


def test_without_procfs_half_of_the_memory_is_available(tmp_path):
    total = int((PROC / "meminfo").read_text().split()[1]) * 1024
    assert available_bytes(tmp_path) == pytest.approx(total / 2, rel=0.05)


def second(limit, current, inactive_file):
    stat = f"anon 1000\nfile 2000\ninactive_anon 77\nactive_anon 0\ninactive_file {inactive_file}\nactive_file 0"
    return {"memory.max": limit, "memory.current": current, "memory.stat": stat}


def first(limit, usage, inactive_file):
    stat = f"cache 5\ninactive_file 1\nhierarchical_memory_limit {limit}\ntotal_inactive_file {inactive_file}"
    return {"memory.limit_in_bytes": limit, "memory.usage_in_bytes": usage, "memory.stat": stat}


@pytest.mark.parametrize(
    ("own", "groups", "available"),
    [
        ("0::/kubepods/pod1/main\n", {"kubepods/pod1/main": second(10**9, 7 * 10**8, 3 * 10**8)}, 6 * 10**8),
        ("0::/\n", {".": second(10**9, 250_000_000, 0)}, 750_000_000),  # in a container, the group is the root
        ("0::/user.slice\n", {"user.slice": second("max", 700_000_000, 0)}, MACHINE),
        ("0::/\n", {".": second(10**9, 11 * 10**8, 0)}, 0),  # above its limit
        (
            "0::/a/b\n",  # the tightest of the groups above counts
            {"a": second(2 * 10**9, 19 * 10**8, 0), "a/b": second("max", 0, 0)},
            10**8,
        ),
        (
            "8:pids:/x\n4:cpu,memory:/docker/abc\n1:name=systemd:/\n0::/\n",  # next to an empty version 2
            {"memory/docker/abc": first(3 * 10**9, 10**9, 5 * 10**8), "memory": first(NO_LIMIT, 10**10, 0)},
            25 * 10**8,
        ),
        # in a container, which knows only the host's name of its group
        ("4:memory:/docker/abc\n", {"memory": first(3 * 10**9, 10**9, 0)}, 2 * 10**9),
        ("4:memory:/\n", {"memory": first(NO_LIMIT, 10**10, 0)}, MACHINE),
    ],
)
def test_control_groups_limit_what_is_available(own, groups, available, machine):
    assert machine(own, **groups) == available


@pytest.mark.parametrize(("quota", "expected"), [("max 100000", None), ("100000 100000", 1), ("50000 100000", 1)])
def test_a_container_has_its_share_of_the_processors(tmp_path, quota, expected):
    own = n_cpus(tmp_path)
    assert own == len(os.sched_getaffinity(0))
    (tmp_path / "cpu.max").write_text(f"{quota}\n")
    assert n_cpus(tmp_path) == (expected or own)


FREED = """
import gc, signal, sys, threading
import numpy as np
from trainer.network import Inference

networks = [Inference(sys.argv[1], (16, 16))]
networks[0](np.zeros((1, 16, 16, 3)))
thread = threading.Thread(target=networks.clear)
thread.start()
thread.join()
gc.collect()
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_process_survives_a_signal_after_another_thread_has_freed_a_network():
    # OpenVINO frees a stack for handlers of signals with its runtime.
    command = [sys.executable, "-P", "-c", FREED, str(find_model("pretrained"))]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "interrupted\n"
