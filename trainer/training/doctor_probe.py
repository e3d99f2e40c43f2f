"""Shows what a training depends on here, and trains a step: `python -m trainer.training.doctor_probe`."""

import argparse
import dataclasses
import getpass
import json
import os
import pathlib
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

from trainer.data import SAMPLE
from trainer.errors import FailedError, check, reported
from trainer.machine import is_for_tpu, locked_memory_is_low, raise_locked_memory
from trainer.network import ModelFolder
from trainer.places import BucketPlace, stored_at
from trainer.training import host

GOOD, BAD, NOTE = "good", "bad", "note"
"""A fact is as it should be, training cannot work, or it is worth knowing."""
DEVICES = ("nvidia[0-9]*", "accel*", "vfio/*")
"""Device files of GPUs and TPUs, below /dev."""
REQUIRED = ("mkdir", "write", "read", "rename a file", "remove")
"""Operations on files that the trainer needs in the folder of a run. It does without the others."""
REPORT = "probe.jsonl"
"""File of the facts, one JSON object in a line."""
IMAGES = 8
DATASET = "fixationadd1000"
TPU_VARIABLES = ("PJRT_DEVICE", "NEXT_PLUGGABLE_DEVICE_USE_C_API", "TF_PLUGGABLE_DEVICE_LIBRARY_PATH")
"""Variables of the image for TPUs: with them, the process that draws the images would take the TPU."""


@dataclasses.dataclass(frozen=True)
class Fact:
    """One fact, and what it means for a training, such as `user: 0:0 (root)`."""

    name: str
    value: str
    state: str = GOOD
    means: str = ""

    @property
    def is_bad(self) -> bool:
        """Whether training cannot work with it."""
        return self.state == BAD

    def __str__(self) -> str:
        return f"{self.name}: {self.value}" + (f" ({self.means})" if self.means else "")


def read_facts(folder: BucketPlace) -> list[Fact]:
    """The facts that `main` wrote into a folder. Raises `UserError` if it did not come so far."""
    return [Fact(**json.loads(line)) for line in folder.read(REPORT).splitlines()]


def main(arguments: list[str]) -> None:
    """Print the facts about this machine, and write them to REPORT in a folder.

    Raises `UserError` if a training cannot work here.
    """
    parser = argparse.ArgumentParser(prog="python -m trainer.training.doctor_probe")
    parser.add_argument("--folder", required=True, help="gs:// address to try, below the mount /gcs")
    parser.add_argument("--accelerator", required=True)
    parser.add_argument("--image-size", default="72x96")
    parsed = parser.parse_args(arguments)
    folder, shown = stored_at(parsed.folder), []
    with tempfile.TemporaryDirectory(prefix="probe-") as scratch:
        for fact in machine_facts(folder.mounted):
            print(fact, flush=True)
            shown.append(fact)
        shown.append(train_a_step(pathlib.Path(scratch), parsed.accelerator, parsed.image_size))
        print(shown[-1], flush=True)
    lines = "".join(json.dumps(dataclasses.asdict(fact)) + "\n" for fact in shown)
    # By the API, because whether the mount can be written is part of the question.
    folder.write(REPORT, lambda file: file.write(lines.encode()))
    bad = ", ".join(fact.name for fact in shown if fact.is_bad)
    check(not bad, f"a training cannot work here: {bad} (see above)", FailedError)


def train_a_step(scratch: pathlib.Path, accelerator: str, image_size: str) -> Fact:
    """Train for one step on images that are drawn here, by the same commands as a run.

    Each command is a process of its own. Its crash ends nothing else.
    """
    drawn = {"dataset": DATASET, "source": SAMPLE, "image-size": image_size, "max-examples": IMAGES}
    trained = {"epochs": 1, "batch-size": IMAGES, "initial-weights": "none", "dataset-dir": scratch / "data"}
    started = time.monotonic()
    without_devices = {name: value for name, value in os.environ.items() if name not in TPU_VARIABLES}
    for command, flags, variables in (
        ("fetch", {**drawn, "output-dir": scratch / "data"}, {**without_devices, "CUDA_VISIBLE_DEVICES": "-1"}),
        ("train", {**trained, "output-dir": scratch / "model", "accelerator": accelerator}, dict(os.environ)),
    ):
        words = [command, *(f"--{name}={value}" for name, value in flags.items())]
        if status := subprocess.run([sys.executable, "-m", "trainer", *words], env=variables).returncode:
            return Fact("training", f"`{command}` ended with status {status}", BAD, "its messages are above")
    seconds = time.monotonic() - started
    loss = ModelFolder(scratch / "model").history("train again")[-1]["loss"]
    value = f"one step on {IMAGES} images, loss {loss:.3f}, {seconds:.0f} s with the start"
    return Fact("training", value, means="a training works here")


def machine_facts(folder: pathlib.Path) -> Iterator[Fact]:
    """All facts about this machine that need no TensorFlow. Files are tried in `folder`, a new one."""
    yield Fact("machine", f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    yield user()
    yield locked_memory()
    yield shared_memory()
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


def locked_memory() -> Fact:
    """The limit of locked memory, through which a TPU's driver transfers data."""
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    limits = " of ".join("unlimited" if limit < 0 else f"{limit} bytes" for limit in (soft, hard))
    if not locked_memory_is_low():
        return Fact("locked memory", limits)
    means = "enough for CPUs and GPUs. A TPU needs more"
    if not is_for_tpu():
        return Fact("locked memory", limits, means=means)
    raise_locked_memory()
    is_low = locked_memory_is_low()
    outcome = "this process may not raise it" if is_low else "the training raises it, which works here"
    return Fact("locked memory", limits, NOTE if is_low else GOOD, f"{means}. {outcome[0].upper()}{outcome[1:]}")


def shared_memory() -> Fact:
    """The size of the shared memory, through which NCCL connects the GPUs of a machine."""
    size = host.shared_memory_bytes()
    shown = f"{size / 2**20:.0f} MiB at {host.SHARED_MEMORY}"
    if size >= host.NCCL_SHARED_BYTES:
        return Fact("shared memory", shown)
    means = f"enough for one GPU or TPU. Several GPUs should have {host.NCCL_SHARED_BYTES / 2**20:.0f} MiB"
    return Fact("shared memory", shown, NOTE, means)


def devices() -> Fact:
    """The device files of GPUs and TPUs with their modes, such as `/dev/nvidia0 666`."""
    paths = sorted(path for pattern in DEVICES for path in pathlib.Path("/dev").glob(pattern))
    shown = [f"{path} {path.stat().st_mode & 0o777:o}" for path in paths]
    closed = [path.name for path in paths if not os.access(path, os.R_OK | os.W_OK)]
    means = f"this user may not open {', '.join(closed)}" if closed else ""
    return Fact("devices", ", ".join(shown) or "none of GPUs or TPUs", NOTE if closed else GOOD, means)


def mounts(table: pathlib.Path = pathlib.Path("/proc/mounts")) -> Iterator[Fact]:
    """Each FUSE mount, such as Vertex AI's of Cloud Storage, with its options."""
    lines = table.read_text().splitlines() if table.exists() else []
    rows = [line.split() for line in lines]
    fuse = [Fact("mount", f"{path} {kind} {options}") for _, path, kind, options, *_ in rows if "fuse" in kind]
    yield from fuse or [
        Fact("mount", "no FUSE mount", NOTE, "in a job of Vertex AI, Cloud Storage is mounted by FUSE")
    ]


def file_operations(folder: pathlib.Path) -> Iterator[Fact]:
    """Whether each operation on files works below `folder`."""
    own = folder / f"probe-{os.getpid()}"
    operations: dict[str, Callable[[], object]] = {
        "mkdir": lambda: (own / "folder").mkdir(parents=True),
        "write": lambda: (own / "folder" / "file").write_bytes(b"written"),
        "read": lambda: (own / "folder" / "file").read_bytes(),
        "rename a file": lambda: (own / "folder" / "file").replace(own / "folder" / "renamed"),
        "rename a folder": lambda: (own / "folder").replace(own / "moved"),
        "chmod": lambda: own.chmod(0o755),
        "utime": lambda: os.utime(own),
        "remove": lambda: shutil.rmtree(own),
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


if __name__ == "__main__":
    with reported():
        main(sys.argv[1:])
