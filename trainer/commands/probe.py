"""\
Show what a training depends on here: user, limits, devices, mounts, files; then train one step on eight images.

`python -m pipeline doctor --live` runs this on Vertex AI. The exit status is 1 if a training cannot work here.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from trainer import storage
from trainer.artifacts import HISTORY
from trainer.config import SAMPLE
from trainer.errors import check
from trainer.machine import BAD, Fact, facts

HELP = "show what a training depends on here, and train one step"
REPORT = "probe.jsonl"
"""File of the facts, one JSON object in a line."""
IMAGES = 8
DATASET = "fixationadd1000"
TPU_VARIABLES = ("PJRT_DEVICE", "NEXT_PLUGGABLE_DEVICE_USE_C_API", "TF_PLUGGABLE_DEVICE_LIBRARY_PATH")
"""Of the image for TPUs: with them, the process that draws the images would take the TPU."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--folder",
        default="",
        metavar="DIR",
        help=f"Folder or gs:// address to try, the latter below the mount /gcs; {REPORT} is written there "
        "(default: a temporary folder, which is removed).",
    )
    parser.add_argument("--accelerator", default="", metavar="NAME", help="Accelerator, such as l4-2.")
    parser.add_argument("--image-size", default="72x96", metavar="HxW", help="(default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="Print JSON lines.")


def execute(parsed: argparse.Namespace) -> None:
    found = []
    with tempfile.TemporaryDirectory(prefix="probe-") as scratch:
        folder = parsed.folder or scratch
        for fact in probe(folder, parsed.accelerator, parsed.image_size):
            print(json.dumps(dataclasses.asdict(fact)) if parsed.json else fact, flush=True)
            found.append(fact)
        _write(folder, found)
    bad = ", ".join(fact.name for fact in found if fact.state == BAD)
    check(not bad, f"a training cannot work here: {bad} (see above)")


def probe(folder: str, accelerator: str, image_size: str) -> Iterator[Fact]:
    """The facts about this machine, and how one training step on it ended."""
    yield from facts(_mounted(folder))
    with tempfile.TemporaryDirectory(prefix="probe-") as scratch:
        yield _training(pathlib.Path(scratch), accelerator, image_size)


def _training(scratch: pathlib.Path, accelerator: str, image_size: str) -> Fact:
    """Train for one step on images that are drawn here, by the same commands as a run."""
    drawn = {"dataset": DATASET, "source": SAMPLE, "image-size": image_size, "max-examples": IMAGES}
    trained = {"epochs": 1, "batch-size": IMAGES, "initial-weights": "none", "dataset-dir": scratch / "data"}
    if accelerator:
        trained["accelerator"] = accelerator
    started = time.monotonic()
    without_devices = {name: value for name, value in os.environ.items() if name not in TPU_VARIABLES}
    for command, flags, variables in (
        ("fetch", {**drawn, "output-dir": scratch / "data"}, {**without_devices, "CUDA_VISIBLE_DEVICES": "-1"}),
        ("train", {**trained, "output-dir": scratch / "model"}, dict(os.environ)),
    ):
        status = _call([command, *(f"--{name}={value}" for name, value in flags.items())], variables)
        if status:
            return Fact("training", f"`{command}` ended with status {status}", BAD, "its messages are above")
    seconds = time.monotonic() - started
    history = (scratch / "model" / HISTORY).read_text().splitlines()
    loss = json.loads(history[-1])["loss"]
    value = f"one step on {IMAGES} images, loss {loss:.3f}, {seconds:.0f} s with the start"
    return Fact("training", value, means="a training works here")


def _call(arguments: list[str], variables: dict[str, str]) -> int:
    """Run a command of the trainer in a process of its own, whose crash ends nothing else; its exit status.

    What it prints goes to stderr, without the next command, whose folders are removed.
    """
    command = [sys.executable, "-m", "trainer", *arguments]
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        assert process.stdout
        for line in process.stdout:
            if shown := line.partition("next: python")[0].rstrip("; \n"):
                print(shown, file=sys.stderr, flush=True)
    return process.returncode


def _mounted(folder: str) -> pathlib.Path:
    """A folder as a path: a gs:// address below the mount of Cloud Storage."""
    return (
        storage.MOUNT / folder.removeprefix(storage.REMOTE) if storage.is_remote(folder) else pathlib.Path(folder)
    )


def _write(folder: str, found: list[Fact]) -> None:
    lines = "".join(json.dumps(dataclasses.asdict(fact)) + "\n" for fact in found)
    if storage.is_remote(folder):
        # By the API, because whether the mount can be written is part of the question.
        storage.write_object(f"{folder}/{REPORT}", lines.encode(), storage.client(write=True))
    else:
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        (pathlib.Path(folder) / REPORT).write_text(lines)
