"""What this process runs on: TensorFlow and OpenVINO, imported late, the CPU's instruction sets, and the memory.

TensorFlow takes seconds to load. A command checks its arguments before it calls `load_tensorflow`, so that
mistakes are reported at once.
"""

import gc
import importlib
import os
import pathlib
import resource
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

LOADING = "loading TensorFlow"
ERRORS_ALONE = "2"
"""Value of TF_CPP_MIN_LOG_LEVEL: 0 for everything, 1 for warnings and errors, 2 for errors."""
TPU_LOCKED_BYTES = 68_719_476_736_000
"""Limit of locked memory that the driver of a TPU v5e needs to exchange data with the chips by DMA (Google's page
"Deploy a model to Cloud TPU VMs", where `ulimit -l 68719476736` counts in KiB)."""
CPU_INFO = pathlib.Path("/proc/cpuinfo")
_CORES: list[Any] = []
_LOADING_OPENVINO = threading.Lock()
PROC = pathlib.Path("/proc")
CGROUPS = pathlib.Path("/sys/fs/cgroup")
ALL_USERS = ["0", "0", "4294967295"]
"""/proc/self/uid_map outside of user namespaces: from 0, to 0, all ids."""


# === TensorFlow and OpenVINO ===


def load_tensorflow() -> None:
    """Import TensorFlow, after a line on stderr. Do nothing if it is already loaded.

    What TensorFlow's C++ writes to stderr is limited to errors, unless the environment has another level.
    """
    if "tensorflow" in sys.modules:
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", ERRORS_ALONE)
    announce(LOADING)
    if is_for_tpu():
        raise_locked_memory()
    with _without("matplotlib.pyplot"), _without_garbage_collection():
        importlib.import_module("tensorflow")


def announce(work: str) -> None:
    """Say on stderr what takes a while, such as `loading TensorFlow`. Call it before work without progress."""
    print(f"{work} ...", file=sys.stderr, flush=True)


def is_for_tpu() -> bool:
    """Whether this process is set up for a TPU, as images/Dockerfile does it."""
    return os.environ.get("PJRT_DEVICE") == "TPU"


def locked_memory_is_low() -> bool:
    """Whether this process may lock less memory than a TPU needs."""
    return 0 <= resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] < TPU_LOCKED_BYTES  # unlimited is negative


def raise_locked_memory() -> None:
    """Raise the limit to the hard limit, and to TPU_LOCKED_BYTES if this process may.

    More than the hard limit needs the capability SYS_RESOURCE among the users of the host. Root has it unless its
    container gave it up or has users of its own (`has_own_users`).
    """
    _, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    for limit in (hard, TPU_LOCKED_BYTES):
        if locked_memory_is_low():
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))


def has_own_users(proc: pathlib.Path = PROC) -> bool:
    """Whether this process is in a user namespace, as in a pod with `hostUsers: false`.

    There root is nobody to the host, whatever its capabilities, and may not raise the limit of locked memory.
    Outside of user namespaces all ids are mapped to themselves (user_namespaces(7)). Without procfs the answer is
    False.

    Args:
        proc: where procfs is mounted.
    """
    ids = proc / "self" / "uid_map"
    return ids.exists() and ids.read_text().split() != ALL_USERS


def load_openvino() -> Any:
    """Import OpenVINO without its converters of other formats: they take longer than the rest, and their telemetry
    asks a server. Any thread may call it.

    OpenVINO 2026.4 makes a table of types when a tensor first becomes an array. Two threads that do so at once
    would wait forever: one for the table, and the other, which makes it, for the lock of Python.
    """
    with _LOADING_OPENVINO, _without("openvino.tools.ovc"):
        openvino = importlib.import_module("openvino")
        _ = openvino.Tensor(openvino.Type.f32, [1]).data
        return openvino


def openvino_core() -> Any:
    """OpenVINO's runtime, one for this process. Any thread may call it.

    It is never freed. OpenVINO 2026.4 gives the thread that first uses it a stack for handlers of signals, and
    frees that stack with the runtime. If another thread did so, the next signal would end the process.
    """
    openvino = load_openvino()
    with _LOADING_OPENVINO:
        if not _CORES:
            _CORES.append(openvino.Core())
        return _CORES[0]


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Disable garbage collection inside the block: it takes a quarter of an import's time and finds nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def _without(name: str) -> Iterator[None]:
    """Make the import of an optional module fail inside the block.

    Keras imports pyplot for a function that this project does not use. That takes a fifth of the loading time.
    """
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # `import` then raises ImportError
    try:
        yield
    finally:
        del sys.modules[name]


# === The CPU and the memory ===


def instruction_sets() -> frozenset[str]:
    """Instruction sets that the CPU reports, such as `avx512f`. Empty if it reports none, as on ARM or a Mac."""
    try:
        lines = CPU_INFO.read_text().splitlines()
    except OSError:  # not Linux
        return frozenset()
    fields = (line.partition(":") for line in lines)
    return next((frozenset(names.split()) for key, _, names in fields if key.strip() == "flags"), frozenset())


def multiplies_bfloat16() -> bool:
    """Whether the CPU has instructions for bfloat16 (AVX512_BF16, AMX) that oneDNN may use.

    oneDNN, which TensorFlow and OpenVINO compute with, fails on bfloat16 if ONEDNN_MAX_CPU_ISA restricts it to
    older instructions.
    """
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "DEFAULT").upper()
    if limit not in ("DEFAULT", "ALL") and not any(name in limit for name in ("BF16", "FP16", "AMX", "AVX10")):
        return False
    return bool(instruction_sets() & {"avx512_bf16", "amx_bf16"})


def n_cpus(cgroups: pathlib.Path = CGROUPS) -> int:
    """Number of processors that this process may use at a time, at least 1.

    A container may have a share of them, which only its control group (version 2) says. Example: 2 of 64 for a pod
    with the limit `cpu: "2"`.

    Args:
        cgroups: where the control groups are mounted.
    """
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cgroups / "cpu.max"
    spent, _, period = quota.read_text().partition(" ") if quota.exists() else ("max", "", "")
    return own if spent == "max" else max(1, min(own, int(spent) // int(period)))


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
    """Free memory of one group in bytes. Empty if the group does not exist or has no limit."""
    if not (folder / limit).exists() or (maximum := (folder / limit).read_text().strip()) == "max":
        return []
    used = int((folder / usage).read_text()) - _fields(folder / "memory.stat").get(droppable, 0)
    return [int(maximum) - used]


def _fields(path: pathlib.Path) -> dict[str, int]:
    """Parse lines of a name, a number and possibly a unit. Example: `MemAvailable: 8123456 kB`."""
    return {words[0]: int(words[1]) for line in path.read_text().splitlines() if (words := line.split())}
