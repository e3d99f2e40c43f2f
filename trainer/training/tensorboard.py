"""What TensorBoard shows of a training: scalars, predictions, and a profile of chosen steps."""

import math
import os
import queue
import socket
import threading
import time
from types import TracebackType
from typing import Any, Self

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from tensorboard.compat.proto import event_pb2, summary_pb2  # type: ignore[import-untyped]
from tensorboard.plugins.image import metadata  # type: ignore[import-untyped]
from tensorboard.plugins.scalar.summary_v2 import scalar_pb  # type: ignore[import-untyped]
from tensorboard.util import tensor_util  # type: ignore[import-untyped]

from trainer import storage
from trainer.config import parse_profile_steps
from trainer.errors import UserError, first_line
from trainer.heat import HEAT
from trainer.training.meter import Meter

VERTEX_LOGS = "AIP_TENSORBOARD_LOG_DIR"
FLUSH_S = 5.0
"""Events are sent on so often; Cloud Storage takes about one write of an object a second."""
FILE_S = 60.0
"""A file of events is closed after so long and another begun. What is mounted from Cloud Storage can be read only
when it is closed, and what is written to `gs://` is sent whole at each flush."""
CLOSE_S = 5.0
"""Longest wait for the last events; a machine that is taken away has 30 s, for its checkpoint above all."""
GAP_PX = 4
"""White between the pictures of a panel."""


def folder_for(logs: str) -> str:
    """Where TensorBoard's files go: `logs`, else where Vertex AI wants them; empty if neither is given.

    An address on Cloud Storage becomes the path at which its bucket is mounted, if it is.
    """
    folder = (logs or os.environ.get(VERTEX_LOGS, "")).rstrip("/")
    if storage.is_remote(folder):
        bucket, _, path = folder.removeprefix(storage.REMOTE).partition("/")
        if bucket and (storage.MOUNT / bucket).is_dir():
            return str(storage.MOUNT / bucket / path)
    return folder


class Board:
    """Writes for TensorBoard what a training does; a context manager.

    It does not hold training up: events are written by a thread, and when that fails there is one warning, and
    nothing more is written. A training that goes on from a checkpoint begins with the mark by which TensorBoard
    drops what came after it (SessionLog.START). Its fast loader does so curve by curve, from the first new
    point on: what the run before wrote between the checkpoint and there stays.

    Args:
        logs: folder or gs:// address; see `folder_for`. Without one nothing is written.
        profile_steps: see `parse_profile_steps`.
        writable: whether this machine of a job writes. One that does not divides its steps like the one that does.

    Raises:
        UserError: if the folder cannot be written, or if `profile_steps` is malformed or has no folder.
    """

    def __init__(self, logs: str = "", profile_steps: str = "", writable: bool = True) -> None:
        self._profile = parse_profile_steps(profile_steps)
        self.folder = folder_for(logs) if writable else ""
        if self._profile and writable and not self.folder:
            raise UserError(
                f"profile_steps is {profile_steps}, but there is no folder to write the profile to; name one for "
                "TensorBoard's logs"
            )
        self._events = _Events(self.folder) if self.folder else None
        self._started = self._profiling = self._profile_failed = False
        self._done = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop_profile()
        if self._profile and self._started and kind is None and self._done < self._profile[0]:
            print(f"profile_steps is {self._profile[0]}-{self._profile[1]}: the last step was {self._done}")
        if self._events is not None:
            self._events.close()
            self._check()

    @property
    def quiet(self) -> bool:
        """Whether nothing is written: there is no folder, or not any more."""
        return self._events is None

    def until(self, done: int, at_most: int) -> int:
        """How many steps to take next after `done`: `at_most`, or fewer to end where a profile begins or ends."""
        ends = (self._profile[0] - 1, self._profile[1]) if self._profile else ()
        return min([at_most, *(end - done for end in ends if end > done)])

    def step_done(self, done: int) -> None:
        """Note that `done` steps have been taken; begin or end the profile if it is time.

        The first call, before the first step, says where a training that goes on does so.
        """
        self._done = done
        if not self._started:
            self._started = True
            self._write(done + 1, session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START))
        if self._profile and self._profile[0] - 1 <= done < self._profile[1]:
            self._start_profile()
        else:
            self._stop_profile()

    def chunk(self, step: int, losses: npt.NDArray[np.floating], optimizer: Any, meter: Meter) -> None:
        """Show a chunk of steps.

        Args:
            step: number of its last step, counted from 1 at the beginning of the training.
            losses: of its steps, (n,); their mean is shown.
            optimizer: whose learning rate, and in float16 whose scale of the loss, for the next step is shown.
            meter: to which the chunk was added.
        """
        if self.quiet:
            return
        scalars = {"training/loss": losses.mean(), "training/learning_rate": _number(optimizer.learning_rate)}
        if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
            scalars["training/loss_scale"] = _number(optimizer.dynamic_scale)
        self._scalars(step, scalars | meter.scalars)

    def epoch(self, epoch: int, step: int, row: dict[str, Any]) -> None:
        """Show an epoch, counted from 1, that ended with `step`: `loss`, `valid_loss` and `seconds` of `row`."""
        scalars = {f"epoch/{name}": row[name] for name in ("loss", "valid_loss", "seconds")}
        self._scalars(step, {"epoch/number": epoch, **scalars})

    def images(
        self,
        step: int,
        stimuli: npt.NDArray[np.uint8],
        densities: npt.NDArray[np.uint8],
        predictions: npt.NDArray[np.floating],
    ) -> None:
        """Show predictions, each beside its stimulus and the truth, after `step`.

        Args:
            step: as of `chunk`.
            stimuli: (n, H, W, 3).
            densities: true maps, (n, H, W, 1).
            predictions: predicted ones, (n, H, W, 1), of any scale.
        """
        if self.quiet:
            return
        summary = summary_pb2.Summary()
        for number, each in enumerate(zip(stimuli, densities, predictions, strict=True), 1):
            shown = panel(*each)
            size = (str(shown.shape[1]).encode(), str(shown.shape[0]).encode())
            # The image plugin's form, as `tf.summary.image` writes it: width, height, and the files.
            content = np.array([*size, tf.io.encode_png(shown).numpy()], object)
            summary.value.add(
                tag=f"stimulus, truth, prediction/{number}",
                metadata=metadata.create_summary_metadata(display_name=None, description=None),
                tensor=tensor_util.make_tensor_proto(content),
            )
        self._write(step, summary=summary)

    def _scalars(self, step: int, scalars: dict[str, float]) -> None:
        summary = summary_pb2.Summary()
        for name, value in scalars.items():
            summary.MergeFrom(scalar_pb(name, float(value)))
        self._write(step, summary=summary)

    def _write(self, step: int, **content: Any) -> None:
        self._check()
        if self._events is not None:
            self._events.put(event_pb2.Event(wall_time=time.time(), step=step, **content))

    def _check(self) -> None:
        if self._events is not None and self._events.failure:
            print(f"{self._events.failure}; training goes on without TensorBoard", flush=True)
            self._events = None

    def _start_profile(self) -> None:
        if self._profiling or self._profile_failed or self.quiet:
            return
        self._profiling = True
        try:
            tf.profiler.experimental.start(self.folder)
        except (RuntimeError, tf.errors.OpError) as error:
            self._no_profile(error)

    def _stop_profile(self) -> None:
        if not self._profiling:
            return
        self._profiling = False
        try:
            tf.profiler.experimental.stop()
            print(f"wrote the profile up to step {self._done} to {self.folder}", flush=True)
        except (RuntimeError, tf.errors.OpError) as error:
            self._no_profile(error)

    def _no_profile(self, error: Exception) -> None:
        print(f"no profile: {first_line(error)}", flush=True)
        self._profiling, self._profile_failed = False, True


class _Events:
    """Files of events in `folder`, written by a thread; `failure` is empty, or what went wrong there.

    They are named so that TensorBoard, which goes by their names, reads them in the order of time.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.failure = ""
        try:
            tf.io.gfile.makedirs(folder)
            self._file = self._begin()
        except tf.errors.OpError as error:
            raise UserError(
                f"cannot write TensorBoard's logs to {folder} ({first_line(error)}); "
                "name a folder you can write to"
            ) from None
        self._waiting: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def put(self, event: event_pb2.Event) -> None:
        """Have an event written."""
        self._waiting.put(event.SerializeToString())

    def close(self) -> None:
        """Have all events written; gives up after `CLOSE_S`."""
        self._waiting.put(None)
        self._thread.join(CLOSE_S)
        if self._thread.is_alive():
            self.failure = f"{self._folder} does not take the last of TensorBoard's logs within {CLOSE_S:g} s"

    def _begin(self) -> tf.io.TFRecordWriter:
        name = f"events.out.tfevents.{time.time():017.6f}.{socket.gethostname()}.{os.getpid()}"
        file = tf.io.TFRecordWriter(f"{self._folder}/{name}")
        file.write(event_pb2.Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())
        file.flush()
        self._begun, self._flushed = time.monotonic(), -math.inf
        return file

    def _run(self) -> None:
        try:
            while (event := self._waiting.get()) is not None:
                if time.monotonic() - self._begun > FILE_S:
                    self._file.close()
                    self._file = self._begin()
                self._file.write(event)
                if time.monotonic() - self._flushed > FLUSH_S:
                    self._file.flush()
                    self._flushed = time.monotonic()
            self._file.close()
        except tf.errors.OpError as error:
            self.failure = f"cannot write TensorBoard's logs to {self._folder} any more ({first_line(error)})"


def panel(
    stimulus: npt.NDArray[np.uint8], density: npt.NDArray[np.uint8], prediction: npt.NDArray[np.floating]
) -> npt.NDArray[np.uint8]:
    """Stimulus (H, W, 3), true and predicted map (H, W, 1) side by side: (H, 3 W + 2 GAP_PX, 3).

    Each map is in heat colours of its own, its maximum the brightest.
    """
    gap = np.full((stimulus.shape[0], GAP_PX, 3), 255, np.uint8)
    return np.concatenate([stimulus, gap, _heat(density), gap, _heat(prediction)], axis=1)


def _heat(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    scaled = np.asarray(values[..., 0], float)
    return np.asarray(HEAT(scaled / max(scaled.max(), 1e-12), bytes=True)[..., :3], np.uint8)


def _number(value: Any) -> float:
    return float(keras.ops.convert_to_numpy(value))
