"""How fast a training is, how long it waits for data, and what memory it takes."""

import pathlib
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

GIGABYTE = 1e9


def timed_next(iterator: Iterator[Any], after: Sequence[tf.Tensor] = ()) -> tuple[Any, tf.Tensor]:
    """The next batch, and for how many seconds it was waited for, () float64; within a compiled loop.

    Args:
        iterator: of a data set, a distributed one too.
        after: what the step before has computed. TensorFlow begins a round of a loop before the one before has
            ended; without this, time is counted in which that still computes, or not counted at all. With it, the
            host waits for the step, which on an accelerator costs time: it then cannot prepare the next step
            meanwhile. So it is for processors; without it an accelerator's host tells how long it waited itself,
            which is close to nothing while data arrive faster than they are used.
    """
    with tf.control_dependencies(after):
        start = _clock()
    with tf.control_dependencies([start]):
        batch = next(iterator)
    with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)):
        end = _clock()
    with tf.control_dependencies([end]):  # the clock is read before the step, not whenever a thread is free
        return tf.nest.map_structure(_in_place, batch, expand_composites=True), end - start


def _in_place(values: tf.Tensor) -> tf.Tensor:
    with tf.device(values.device):
        return tf.identity(values)


def _clock() -> tf.Tensor:
    """Seconds, () float64. TensorFlow's own clock is refused where operations are to be deterministic."""
    return tf.ensure_shape(tf.numpy_function(time.monotonic, [], tf.float64), ())


class Meter:
    """Speed, waiting and memory of the newest chunk of steps.

    Args:
        batch_size: images of a step, over all replicas.
    """

    def __init__(self, batch_size: int) -> None:
        self._batch_size = batch_size
        self.scalars: dict[str, float] = {}
        """By TensorBoard's name."""
        self.text = ""
        """For a line of progress."""

    def add(self, steps: int, seconds: float, waited_s: float) -> None:
        """Note a chunk of `steps` steps in `seconds`, of which `waited_s` went by until their data were there."""
        seconds = max(seconds, 1e-9)
        images_per_s, waiting = steps * self._batch_size / seconds, min(1.0, waited_s / seconds)
        memory = memory_bytes()
        self.scalars = {
            "speed/images_per_s": images_per_s,
            "speed/step_s": seconds / steps,
            "speed/waiting_for_data": waiting,
        } | {f"memory/{name}_gb": each / GIGABYTE for name, each in memory.items()}
        used = next(iter(memory.values()), None)
        shown = "" if used is None else f", {used / GIGABYTE:.1f} GB"
        self.text = f"{images_per_s:.3g} images/s, {waiting:.0%} waiting for data{shown}"


def memory_bytes() -> dict[str, int]:
    """Bytes in use `now` and at the `peak`, as far as they are known.

    On GPUs and TPUs, of the fullest of them here, without what TensorFlow has reserved and does not use; on
    processors, all that this process has in memory.
    """
    accelerators = [each for kind in ("GPU", "TPU") for each in tf.config.list_logical_devices(kind)]
    if not accelerators:
        return _resident_bytes()
    told = []
    for device in accelerators:
        try:
            told.append(tf.config.experimental.get_memory_info(device.name))
        except (ValueError, tf.errors.OpError):  # it does not count
            return {}
    return {name: max(each[key] for each in told) for name, key in (("now", "current"), ("peak", "peak"))}


def _resident_bytes() -> dict[str, int]:
    unit = 1 if sys.platform == "darwin" else 1024  # getrusage(2) of either
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    statm = pathlib.Path("/proc/self/statm")  # proc(5): the second number is resident pages; Linux alone has it
    if not statm.exists():
        return {"peak": peak}
    return {"now": int(statm.read_text().split()[1]) * resource.getpagesize(), "peak": peak}
