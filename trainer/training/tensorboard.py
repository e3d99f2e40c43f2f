"""TensorBoard logs of a training: scalars, predictions, and a profile of chosen steps."""

import os
import queue
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer.errors import PlaceError, SettingError
from trainer.places import stored_at
from trainer.prediction import HEAT
from trainer.texts import first_line
from trainer.training.settings import parse_profile_steps

VERTEX_LOGS = "AIP_TENSORBOARD_LOG_DIR"
FLUSH_S = 5.0
"""Seconds between flushes. Cloud Storage accepts about one write of an object per second."""
FILE_S = 60.0
"""Seconds until a file of events is closed and the next one begins. On a mounted bucket a file becomes readable
only when it is closed, and on `gs://` each flush uploads the whole file again."""
BUFFERED = 1000
"""Summaries in the buffer at most: more than FLUSH_S brings, so that the time decides when to flush."""
CLOSE_S = 5.0
"""Longest wait for the last events. A preempted machine has 30 s, and needs them for its checkpoint."""
GAP_PX = 4
"""White between the images of a panel."""


def folder_for(logs: str) -> str:
    """Choose the folder of TensorBoard logs: `logs`, else the folder that Vertex AI sets, else an empty text.

    If a bucket of Cloud Storage is mounted, its address becomes the path of the mount.
    """
    folder = (logs or os.environ.get(VERTEX_LOGS, "")).rstrip("/")
    place = stored_at(folder)
    return str(place.mounted) if place.is_mounted else folder


class Board:
    """Logs a training for TensorBoard, as a context manager.

    It does not slow the training down, because a thread writes the logs. `tf.summary` flushes within the call
    that fills its buffer. On Cloud Storage that takes seconds, and minutes of retries if the network fails.
    If writing fails, one warning is printed and logging stops. A resumed training begins with a mark
    (SessionLog.START), by which TensorBoard drops the points that the earlier run wrote after the checkpoint.
    TensorBoard's fast loader drops them curve by curve, from the first new point on, and keeps those between
    the checkpoint and that point.

    Args:
        logs: folder or gs:// address. See `folder_for`. If it is empty, nothing is written.
        profile_steps: see `parse_profile_steps`.
        writable: whether this machine of a job writes. All machines divide their steps in the same way.

    Raises:
        UserError: if the folder cannot be written, or if `profile_steps` is malformed or has no folder.
    """

    def __init__(self, logs: str = "", profile_steps: str = "", writable: bool = True) -> None:
        self._profile = parse_profile_steps(profile_steps)
        self._folder = folder_for(logs) if writable else ""
        if self._profile and writable and not self._folder:
            raise SettingError(
                f"profile_steps is {profile_steps}, but there is no folder for the profile: pass a folder for "
                "TensorBoard logs"
            )
        self.quiet = not self._folder
        """Whether nothing is written: there is no folder, or writing to it has failed."""
        self._started = self._profiling = self._profile_failed = False
        self._done = 0
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_calls, daemon=True)
        if self.quiet:
            return
        try:
            self._open()
        except tf.errors.OpError as error:
            raise PlaceError(
                f"cannot write TensorBoard logs to {self._folder} ({first_line(error)}): use a folder you can "
                "write to"
            ) from None
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop_profile()
        if self._profile and self._started and kind is None and self._done < self._profile[0]:
            first, last = self._profile
            print(f"no profile: profile_steps is {first}-{last}, but the last step was {self._done}")
        if not self.quiet:
            self._calls.put(None)
            self._thread.join(CLOSE_S)
            if self._thread.is_alive():
                self._give_up(
                    f"writing the last TensorBoard logs to {self._folder} takes longer than {CLOSE_S:g} s"
                )

    def limit_to_profile(self, done: int, at_most: int) -> int:
        """Return how many steps to take after `done`: `at_most`, or fewer if a profile begins or ends earlier.

        Example: with a profile of 10-20 and 5 done, it is at most 4.
        """
        ends = (self._profile[0] - 1, self._profile[1]) if self._profile else ()
        return min([at_most, *(end - done for end in ends if end > done)])

    def update_profile(self, done: int) -> None:
        """Note that `done` steps have been taken. Begin or end the profile if it is time.

        Call it before each chunk of steps, and after the last one of an epoch: a profile that ends there shall not
        hold the validation. At the first call a resumed training writes its mark.
        """
        self._done = done
        if not self._started:
            self._started = True
            self._put(lambda: self._mark_start(done + 1))
        if self._profile and self._profile[0] - 1 <= done < self._profile[1]:
            self._start_profile()
        else:
            self._stop_profile()

    def chunk(
        self, step: int, losses: npt.NDArray[np.floating], optimizer: Any, measured: Mapping[str, float]
    ) -> None:
        """Log a chunk of steps.

        Args:
            step: number of its last step, counted from 1 at the beginning of the training.
            losses: of its steps, (n,). Their mean is logged.
            optimizer: its learning rate, and in float16 its loss scale, of the next step are logged.
            measured: further numbers of the chunk, by tag.
        """
        if self.quiet:
            return
        scalars = {"training/loss": losses.mean(), "training/learning_rate": _number(optimizer.learning_rate)}
        if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
            scalars["training/loss_scale"] = _number(optimizer.dynamic_scale)
        self._scalars(step, {**scalars, **measured})

    def epoch(self, epoch: int, step: int, row: dict[str, Any]) -> None:
        """Log an epoch, counted from 1, that ended with `step`: `loss`, `valid_loss` and `seconds` of `row`."""
        scalars = {f"epoch/{name}": row[name] for name in ("loss", "valid_loss", "seconds")}
        self._scalars(step, {"epoch/number": epoch, **scalars})

    def images(
        self,
        step: int,
        stimuli: npt.NDArray[np.uint8],
        densities: npt.NDArray[np.uint8],
        predictions: npt.NDArray[np.floating],
    ) -> None:
        """Log predictions after `step`, each next to its stimulus and the true map.

        Args:
            step: as in `chunk`.
            stimuli: (n, H, W, 3).
            densities: true maps, (n, H, W, 1).
            predictions: predicted maps, (n, H, W, 1), of any scale.
        """

        def write() -> None:
            for number, maps in enumerate(zip(stimuli, densities, predictions, strict=True), 1):
                tf.summary.image(f"stimulus, truth, prediction/{number}", panel(*maps)[None], step=step)

        self._put(write)

    def _scalars(self, step: int, scalars: dict[str, float]) -> None:
        def write() -> None:
            for name, value in scalars.items():
                tf.summary.scalar(name, value, step=step)

        self._put(write)

    def _put(self, call: Callable[[], None]) -> None:
        """Have the thread run `call`, with the writer as the default of `tf.summary`."""
        if not self.quiet:
            self._calls.put(call)

    # === The profile ===

    def _start_profile(self) -> None:
        if not (self._profiling or self._profile_failed or self.quiet):
            try:
                tf.profiler.experimental.start(self._folder)
                self._profiling = True
            except (RuntimeError, tf.errors.OpError) as error:
                self._profile_failed = True
                print(f"no profile: {first_line(error)}", flush=True)

    def _stop_profile(self) -> None:
        if self._profiling:
            self._profiling = False
            try:
                tf.profiler.experimental.stop()
                print(f"wrote the profile up to step {self._done} to {self._folder}", flush=True)
            except (RuntimeError, tf.errors.OpError) as error:
                print(f"no profile: {first_line(error)}", flush=True)

    # === In the thread ===

    def _open(self) -> None:
        self._writer = tf.summary.create_file_writer(self._folder, BUFFERED, round(1000 * FLUSH_S))
        self._opened_at = time.monotonic()

    def _write_calls(self) -> None:
        try:
            while (call := self._calls.get()) is not None:
                if time.monotonic() - self._opened_at > FILE_S:
                    self._writer.close()
                    self._open()
                self._writer.set_as_default()  # of this thread, since `as_default` would flush each time
                call()
            self._writer.close()
        except tf.errors.OpError as error:
            self._give_up(f"cannot write TensorBoard logs to {self._folder} any more ({first_line(error)})")

    def _mark_start(self, step: int) -> None:
        """Write the mark by which TensorBoard drops the points of an earlier run from `step` on."""
        start = tf.compat.v1.SessionLog(status=tf.compat.v1.SessionLog.START)
        event = tf.compat.v1.Event(wall_time=time.time(), step=step, session_log=start)
        # tf.summary has no public function for it.
        tf.raw_ops.ImportEvent(writer=self._writer._resource, event=event.SerializeToString())

    def _give_up(self, reason: str) -> None:
        self.quiet = True
        print(f"{reason}. The training continues without TensorBoard", flush=True)


def panel(
    stimulus: npt.NDArray[np.uint8], density: npt.NDArray[np.uint8], prediction: npt.NDArray[np.floating]
) -> npt.NDArray[np.uint8]:
    """Stimulus (H, W, 3), true and predicted map (H, W, 1) side by side: (H, 3 W + 2 GAP_PX, 3).

    The heat colours of each map are scaled to its own maximum.
    """
    gap = np.full((stimulus.shape[0], GAP_PX, 3), 255, np.uint8)
    return np.concatenate([stimulus, gap, _heat(density), gap, _heat(prediction)], axis=1)


def _heat(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    scaled = np.asarray(values[..., 0], float)
    return HEAT(scaled / max(scaled.max(), 1e-12))


def _number(value: Any) -> float:
    return float(keras.ops.convert_to_numpy(value))
