"""Shows what a training depends on here, and trains one step: `python -m trainer.probe`, for `doctor --live`."""

import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from trainer import storage
from trainer.artifacts import HISTORY
from trainer.config import SAMPLE
from trainer.errors import check, reported
from trainer.machine import BAD, Fact, facts

REPORT = "probe.jsonl"
"""File of the facts, one JSON object in a line."""
IMAGES = 8
DATASET = "fixationadd1000"
TPU_VARIABLES = ("PJRT_DEVICE", "NEXT_PLUGGABLE_DEVICE_USE_C_API", "TF_PLUGGABLE_DEVICE_LIBRARY_PATH")
"""Variables of the image for TPUs: with them, the process that draws the images would take the TPU."""


def main(arguments: list[str]) -> None:
    """Print the facts about this machine, and write them to REPORT in a folder.

    Raises `UserError` if a training cannot work here.
    """
    parser = argparse.ArgumentParser(prog="python -m trainer.probe")
    parser.add_argument("--folder", required=True, help="gs:// address to try, below the mount /gcs")
    parser.add_argument("--accelerator", required=True)
    parser.add_argument("--image-size", default="72x96")
    parsed = parser.parse_args(arguments)
    found = []
    with tempfile.TemporaryDirectory(prefix="probe-") as scratch:
        for fact in facts(pathlib.Path(storage.MOUNT, parsed.folder.removeprefix(storage.REMOTE))):
            print(fact, flush=True)
            found.append(fact)
        found.append(train_a_step(pathlib.Path(scratch), parsed.accelerator, parsed.image_size))
        print(found[-1], flush=True)
    lines = "".join(json.dumps(dataclasses.asdict(fact)) + "\n" for fact in found)
    # By the API, because whether the mount can be written is part of the question.
    storage.write_object(f"{parsed.folder}/{REPORT}", lines.encode(), storage.client(write=True))
    bad = ", ".join(fact.name for fact in found if fact.state == BAD)
    check(not bad, f"a training cannot work here: {bad} (see above)")


def train_a_step(scratch: pathlib.Path, accelerator: str, image_size: str) -> Fact:
    """Train for one step on images that are drawn here, by the same commands as a run.

    Each command is a process of its own, whose crash ends nothing else.
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
    loss = json.loads((scratch / "model" / HISTORY).read_text().splitlines()[-1])["loss"]
    value = f"one step on {IMAGES} images, loss {loss:.3f}, {seconds:.0f} s with the start"
    return Fact("training", value, means="a training works here")


if __name__ == "__main__":
    with reported():
        main(sys.argv[1:])
