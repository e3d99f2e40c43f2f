"""What a training measures of itself: its speed, its memory, and the time it waits for data."""

import os
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from trainer.training import host

GIGABYTE = 1e9
WORTH_SAYING = 0.05
"""Smallest share of the time spent waiting for data that the progress line names."""


class Meter:
    """Speed, waiting time and memory of the latest chunk of steps.

    Args:
        batch_size: images of a step over all replicas.
    """

    def __init__(self, batch_size: int) -> None:
        self._batch_size = batch_size
        self.scalars: dict[str, float] = {}
        """By TensorBoard tag."""
        self.text = ""
        """For the progress line. Often empty."""

    def add(self, steps: int, seconds: float, waited_s: float) -> None:
        """Measure a chunk of `steps` steps that took `seconds`, including `waited_s` of waiting for data."""
        seconds = max(seconds, 1e-9)
        images_per_s, waiting = steps * self._batch_size / seconds, min(1.0, waited_s / seconds)
        memory = device_memory()
        self.scalars = {
            "speed/images_per_s": images_per_s,
            "speed/step_s": seconds / steps,
            "speed/waiting_for_data": waiting,
        } | {f"memory/{name}_gb": n_bytes / GIGABYTE for name, n_bytes in memory.items()}
        self.text = f"{waiting:.0%} waiting for data" if waiting >= WORTH_SAYING else ""


def device_memory() -> dict[str, int]:
    """Measure the bytes in use `now` and at the `peak`, as far as they are known.

    On GPUs and TPUs, of the device that uses most. Memory that TensorFlow has reserved but does not use is not
    counted. On a CPU, the resident memory of this process.
    """
    devices = [device for kind in ("GPU", "TPU") for device in tf.config.list_logical_devices(kind)]
    if not devices:
        return _resident_bytes()
    infos = []
    for device in devices:
        try:
            infos.append(tf.config.experimental.get_memory_info(device.name))
        except (ValueError, tf.errors.OpError):  # the device does not report it
            return {}
    return {name: max(info[key] for info in infos) for name, key in (("now", "current"), ("peak", "peak"))}


def _resident_bytes() -> dict[str, int]:
    unit = 1 if sys.platform == "darwin" else 1024  # see getrusage(2) of each system
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return {"now": host.resident_bytes(os.getpid()), "peak": peak}


def timed_next(iterator: Iterator[Any], after: Sequence[tf.Tensor] = ()) -> tuple[Any, tf.Tensor]:
    """Return the next batch, and the seconds spent waiting for it, () float64, in a compiled loop.

    Args:
        iterator: of a dataset, distributed or not.
        after: results of the previous step. TensorFlow starts an iteration of a loop before the previous one has
            ended. With `after`, the clock starts when the previous step has ended. A CPU needs this: otherwise the
            measured time would include computation. For an accelerator leave it empty, or the host would wait for
            each step instead of preparing the next one. The host then measures its own waiting time: about 0 as
            long as data arrive faster than they are used.
    """
    with tf.control_dependencies(after):
        start = _clock()
    with tf.control_dependencies([start]):
        batch = next(iterator)
    with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)):
        end = _clock()
    with tf.control_dependencies([end]):  # so that the clock is read before the step
        return tf.nest.map_structure(_on_its_device, batch, expand_composites=True), end - start


def _on_its_device(values: tf.Tensor) -> tf.Tensor:
    with tf.device(values.device):
        return tf.identity(values)


def _clock() -> tf.Tensor:
    """Seconds, () float64. TensorFlow refuses its own clock, tf.timestamp, if operations must be deterministic."""
    return tf.ensure_shape(tf.numpy_function(time.monotonic, [], tf.float64), ())
