"""Measure how fast a training runs: steps of the training loop, on images that are made in memory."""

import dataclasses
import datetime
import time
from typing import Any

import tensorflow as tf

from trainer.data import Manifest, TrainingData
from trainer.machine import Tracker, code_version
from trainer.training import host
from trainer.training.loop import CHUNK_S, compile_steps
from trainer.training.meter import device_memory
from trainer.training.settings import TrainConfig
from trainer.training.step import Network
from trainer.training.strategy import Devices
from trainer.training.train import Job, make_network, reset_and_connect


def measure_speed(
    config: TrainConfig, image_size: tuple[int, int], steps: int, accelerator: str = ""
) -> dict[str, Any]:
    """Train for one step, which compiles, and then for `steps` more, which are timed.

    Args:
        config: the settings. Batch size and precision are resolved as in a training, and the initial weights are
            random.
        image_size: (H, W) of the images in pixels.
        steps: number of timed steps.
        accelerator: as for `trainer.training.train.train`.

    Returns:
        `images_per_s` over all devices. `memory_bytes` at the peak, of one device or on a CPU of this
        process, or None. `first_step_at`, when the first step had ended, such as `2026-11-28T12:00:00+00:00`.
        The settings in use, and versions.
    """
    config = dataclasses.replace(config, epochs=1, initial_weights="none")
    devices = reset_and_connect(config, accelerator)
    # As many images as fit into any batch, until the batch is known.
    job = Job.resolve(config, _manifest(image_size, 2**20), devices, accelerator)
    job = dataclasses.replace(job, manifest=_manifest(image_size, (steps + 1) * job.config.batch_size))
    with devices.strategy.scope():
        network = make_network(job, None)
    print(job.summary(), flush=True)
    with job.errors_explained():
        first_step_at, seconds = _train(job, network, steps)
    return {
        "images_per_s": round(steps * job.config.batch_size / seconds, 4),
        "memory_bytes": device_memory().get("peak"),
        "first_step_at": first_step_at,
        "steps": steps,
        "image_size": list(image_size),
        "batch_size": job.config.batch_size,
        "accumulation": job.config.accumulation,
        "precision": job.precision,
        "devices": _named(devices),
        "versions": f"{code_version()}, TensorFlow {tf.__version__}",
    }


def _train(job: Job, network: Network, steps: int) -> tuple[str, float]:
    """Return when the first step had ended, as ISO 8601, and the seconds that `steps` more took."""
    config, devices = job.config, job.devices
    compiled = compile_steps(devices, network, config)
    images = TrainingData.noise(job.manifest).train
    iterator = devices.iterate(images.training_batches, config.batch_size, config.seed, epoch=0, flip=config.flip)

    def timed(chunk: int) -> float:
        start = time.monotonic()
        step_losses, _ = compiled.train(iterator, tf.constant(chunk))
        step_losses.numpy()  # waits for the devices
        return time.monotonic() - start

    with Tracker("measuring", steps, "steps") as tracker:
        timed(1)
        first_step_at = datetime.datetime.now(datetime.UTC).isoformat()
        taken, chunk, seconds = 0, 1, 0.0
        while taken < steps:
            seconds += timed(chunk)
            taken += chunk
            tracker.advance(chunk)
            slowest = float(devices.gather([seconds]).max())  # all machines must take the same number of steps
            chunk = min(steps - taken, max(1, int(CHUNK_S * taken / slowest)))
    return first_step_at, seconds


def _named(devices: Devices) -> str:
    """The number of the devices, and their name as far as it is known, such as `2 x NVIDIA L4`."""
    if devices.kind == "cpu":
        return host.cpu_name()
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
        code_version=code_version(),
    )
