"""Measure how fast a training runs: steps of the training loop, on images that are made in memory."""

import dataclasses
import datetime
import tempfile
from typing import Any

import numpy as np
import tensorflow as tf

from trainer import runtime
from trainer.artifacts import Manifest, code_version
from trainer.config import TrainConfig
from trainer.data.batches import Split
from trainer.training.checkpoints import Checkpoints, Progress
from trainer.training.exits import Stop
from trainer.training.loop import Data, Loop
from trainer.training.meter import memory_bytes
from trainer.training.strategy import Devices
from trainer.training.tensorboard import Board
from trainer.training.train import Job, connect, make_network

MADE = 16
"""Different images; they are repeated, because the speed does not depend on what they show."""


class _TimedLoop(Loop):
    """A loop that keeps the steps and the seconds of each chunk, and when the first chunk had ended."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.chunks: list[tuple[int, float]] = []
        self.first_step_at = ""

    def _run_chunk(self, *arguments: Any) -> tuple[int, float]:
        chunk = super()._run_chunk(*arguments)
        self.chunks.append(chunk)
        self.first_step_at = self.first_step_at or datetime.datetime.now(datetime.UTC).isoformat()
        return chunk


def measure(config: TrainConfig, image_size: tuple[int, int], steps: int, accelerator: str = "") -> dict[str, Any]:
    """Train for one step, which compiles, and then for `steps` more, which are timed.

    Args:
        config: the settings; batch size and precision are resolved as in a training, and the initial weights are
            random.
        image_size: (H, W) of the images in pixels.
        steps: number of timed steps.
        accelerator: as for `trainer.training.train.train`.

    Returns:
        `images_per_s` over all devices; `memory_bytes` at the peak, of one device or on a CPU of this process, or
        None; `first_step_at`, when the first step had ended, as ISO 8601; the settings in use; and versions.
    """
    config = dataclasses.replace(config, epochs=1, initial_weights="none")
    devices = connect(config, accelerator)
    # As many images as fit into any batch, until the batch is known.
    job = Job.resolve(config, _manifest(image_size, 2**20), devices, accelerator)
    job = dataclasses.replace(job, manifest=_manifest(image_size, (steps + 1) * job.config.batch_size))
    with devices.strategy.scope():
        network = make_network(job, None)
    print(job.summary(), flush=True)
    data = Data("", job.manifest, _images(job.manifest, "train"), _images(job.manifest, "valid"))
    with (
        tempfile.TemporaryDirectory() as folder,
        Checkpoints(folder, network, {}) as checkpoints,
        Board() as board,
        job.errors_explained(),
    ):
        loop = _TimedLoop(job.config, data, devices, network, checkpoints, Progress(), board, Stop())
        loop.train_epoch(0)
    return {
        "images_per_s": round(steps * job.config.batch_size / sum(seconds for _, seconds in loop.chunks[1:]), 4),
        "memory_bytes": memory_bytes().get("peak"),
        "first_step_at": loop.first_step_at,
        "steps": steps,
        "image_size": list(image_size),
        "batch_size": job.config.batch_size,
        "accumulation": job.config.accumulation,
        "precision": job.precision,
        "devices": _named(devices),
        "versions": f"{code_version()}, TensorFlow {tf.__version__}",
    }


def _named(devices: Devices) -> str:
    """The number of the devices, and their name as far as it is known."""
    if devices.kind == "cpu":
        return runtime.cpu_name()
    gpus = [tf.config.experimental.get_device_details(gpu) for gpu in tf.config.list_physical_devices("GPU")]
    return f"{devices.replicas} x {gpus[0].get('device_name', 'GPU') if gpus else devices.kind.upper()}"


def _manifest(image_size: tuple[int, int], images: int) -> Manifest:
    counts = {"train": images, "valid": 1}
    return Manifest(
        dataset="noise",
        source="",
        fingerprint="",
        image_size=image_size,
        counts=counts,
        expected_counts=counts,
        split="folders",
        ground_truth="density",
        blur_sigma_px=0.0,
        has_fixations=False,
        original_sizes={},
        shards={},
        originals=[],
        objects=[],
        code_version=code_version(),
    )


def _images(manifest: Manifest, split: str) -> Split:
    """Noise in place of images and of maps."""
    random, images = np.random.default_rng(0), Split.allocate(manifest, split)
    for array in (images.stimulus, images.density):
        made = random.integers(0, 256, (MADE, *array.shape[1:]), np.uint8)
        for first in range(0, len(array), MADE):
            array[first : first + MADE] = made[: len(array) - first]
    return images
