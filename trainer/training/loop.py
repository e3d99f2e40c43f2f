"""The loop of a training: epochs of compiled steps, a validation after each, checkpoints, and the history.

`Loop.run` tells it from the first epoch to the last, and `compile_steps` has what TensorFlow compiles for it. The
way to the gradient: `Loop.run` (epochs, and in them chunks of steps), `train_steps` (a chunk), `take` (a step),
`replica_step` (a step on one device), `step.gradients`.
"""

import functools
import math
import signal
import time
import zlib
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from trainer.data import PreparedData, TrainingData
from trainer.errors import FailedError
from trainer.machine import Tracker, announce
from trainer.training import exits, hypertune, step
from trainer.training.checkpoints import Checkpoints, Progress
from trainer.training.exits import Stop
from trainer.training.meter import Meter, timed_next
from trainer.training.settings import TrainConfig
from trainer.training.step import Batch, Network
from trainer.training.strategy import Devices
from trainer.training.tensorboard import Board

SUM = tf.distribute.ReduceOp.SUM
CHUNK_S = 1.0
"""Approximate time of a chunk of steps. The host shows progress and saves checkpoints between two chunks."""
SAVING_SHARE = 0.01
"""Largest share of the time that checkpoints at the ends of short epochs may take."""
MAX_SHOWN = 4
"""Validation images whose predictions are logged after each epoch."""


class Loop:
    """One training, from the state of `progress` to its last epoch.

    Args:
        config: the settings, with the batch size in use.
        data: the prepared dataset.
        devices: run the steps.
        network: made within the strategy's scope.
        checkpoints: save the network and the progress.
        progress: what `checkpoints` restored, together with the network, or a new training's.
        board: gets the logs for TensorBoard.
        stop: says when the training shall save its state and end.
    """

    def __init__(
        self,
        config: TrainConfig,
        data: TrainingData,
        devices: Devices,
        network: Network,
        checkpoints: Checkpoints,
        progress: Progress,
        board: Board,
        stop: Stop,
    ) -> None:
        self.config, self.data, self.devices, self.network = config, data, devices, network
        self.checkpoints, self.board, self.stop = checkpoints, board, stop
        self.progress = progress  # a new one follows each epoch
        self.compiled = compile_steps(devices, network, config)
        self._steps_per_epoch = data.manifest.counts["train"] // config.batch_size
        self._chunk_steps = 1
        self._saved_at = time.monotonic()
        self._save_duration_s = 0.0

    def run(self) -> Progress:
        """Train the remaining epochs. Return the progress after the last one."""
        config, board, per_epoch = self.config, self.board, self._steps_per_epoch
        meter = Meter(config.batch_size)
        announce("compiling the training step")
        while not self.is_over:  # ends early after `patience` epochs without a better one
            progress, epoch = self.progress, self.progress.epoch
            # The seed and the epoch decide the order of the images, so that a resumed epoch goes on at its step.
            iterator = self.devices.iterate(
                self.data.train.training_batches,
                config.batch_size,
                config.seed,
                epoch,
                skip_steps=progress.step,
                flip=config.flip,
            )
            title, later = f"training, epoch {epoch + 1}/{config.epochs}", (config.epochs - 1 - epoch) * per_epoch
            with Tracker(title, per_epoch, "steps", progress.step, later) as tracker:
                while progress.step < per_epoch:
                    # Several steps in one call of TensorFlow: the host is needed about once a second.
                    done = epoch * per_epoch + progress.step
                    steps = board.limit_to_profile(done, min(self._chunk_steps, per_epoch - progress.step))
                    board.update_profile(done)
                    start = time.monotonic()
                    step_losses, waited_s = self.compiled.train(iterator, tf.constant(steps))
                    step_losses = step_losses.numpy()  # waits for the devices
                    seconds = time.monotonic() - start

                    self._check_finite(epoch, progress.step, step_losses)
                    progress.step += steps
                    progress.loss_sum += float(step_losses.sum(dtype=np.float64))
                    progress.seconds += seconds
                    meter.add(steps, seconds, float(waited_s))
                    board.chunk(done + steps, step_losses, self.network.optimizer, meter.scalars)
                    loss = f"loss {progress.loss_sum / progress.step:.4f}"
                    tracker.advance(steps, ", ".join(filter(None, [loss, meter.text])))

                    self._synchronize(steps, seconds)  # saves and exits if a machine of the job was told to stop
                    if self._unsaved_s() > 60 * config.checkpoint_minutes:
                        self._save()
            board.update_profile((epoch + 1) * per_epoch)
            del iterator  # that of a stream holds a block of images

            # Each epoch ends with a validation. The weights with the lowest loss become the model.
            row = self._report(epoch, self.validate(epoch))
            if row["best"]:
                self.checkpoints.keep_best()
            self.progress = progress.after_epoch(row)
            if self.devices.is_chief:
                hypertune.report(self.progress.history)
            # A checkpoint after each epoch, unless epochs are so short that saving would take much of the time.
            if self.is_over or self._save_duration_s <= SAVING_SHARE * self._unsaved_s():
                self._save()
        return self.progress

    @property
    def is_over(self) -> bool:
        """Whether all epochs are done, or `patience` ended the training early."""
        return self.progress.is_over(self.config.epochs, self.config.patience)

    def validate(self, epoch: int) -> float:
        """Compute the mean loss over the validation images."""
        count, batch_size = self.data.manifest.counts["valid"], self.config.batch_size
        iterator = self.devices.iterate(self.data.valid.validation_batches, batch_size)
        total, done, steps_left = 0.0, 0, -(-count // batch_size)
        with Tracker(f"validation, epoch {epoch + 1}/{self.config.epochs}", count, "images") as tracker:
            while steps_left:
                steps = min(self._chunk_steps, steps_left)
                start = time.monotonic()
                total += float(self.compiled.validate(iterator, tf.constant(steps)))
                steps_left -= steps
                images = min(steps * batch_size, count - done)
                done += images
                tracker.advance(images)
                self._synchronize(steps, time.monotonic() - start)
        if not math.isfinite(total):
            raise FailedError(
                f"the validation loss after epoch {epoch + 1} is {total}: lower learning_rate "
                f"(now {self.config.learning_rate:g})"
            )
        return total / count

    # === Between chunks of steps ===

    def _check_finite(self, epoch: int, first_step: int, step_losses: np.ndarray) -> None:
        """Stop at the first loss that is not finite. Name the images in that batch.

        Example: "the loss is nan at step 3 of epoch 1, on the images 0017.png, 0102.png".
        """
        bad = np.flatnonzero(~np.isfinite(step_losses))
        if not bad.size:
            return
        bad_step, config = first_step + int(bad[0]), self.config
        order = self.data.train.order(config.seed, epoch).images
        indices = set(order[bad_step * config.batch_size : (bad_step + 1) * config.batch_size].tolist())
        names = [
            example.name
            for example in PreparedData(self.data.folder).examples("train")
            if example.index in indices
        ]
        raise FailedError(
            f"the loss is {step_losses[bad[0]]} at step {bad_step + 1} of epoch {epoch + 1}, on the images "
            f"{', '.join(names)}: lower learning_rate (now {config.learning_rate:g}), or check these images"
        )

    def _synchronize(self, steps: int, seconds: float) -> None:
        """Agree with the other machines on the length of the next chunk, and on whether to stop."""
        of_machines = self.devices.gather([seconds, float(self.stop.requested)])
        self._resize_chunk(steps, float(of_machines[:, 0].max()))
        if of_machines[:, 1].any():
            self._save_and_exit()

    def _resize_chunk(self, steps: int, seconds: float) -> None:
        """Choose the number of steps that take CHUNK_S, or twice the last chunk's if that is less.

        Example: after 10 steps in 0.1 s the next chunk has 20, not 100.
        """
        fitting = int(steps * CHUNK_S / max(seconds, 1e-9))
        self._chunk_steps = max(1, min(2 * self._chunk_steps, fitting))

    def _save_and_exit(self) -> None:
        """Save the state and end the process, since a machine of the job was asked to stop."""
        self._save()
        self.checkpoints.wait()
        print(
            f"saved at step {self.progress.step} of {self._steps_per_epoch}, epoch {self.progress.epoch + 1} of "
            f"{self.config.epochs}: the same command goes on there, or RESUME of a pipeline",
            flush=True,
        )
        raise SystemExit(self.stop.exit_status if self.stop.requested else exits.stopped(signal.SIGTERM))

    def _save(self) -> None:
        start = time.monotonic()
        self.checkpoints.save(self.progress)
        self._saved_at = time.monotonic()
        self._save_duration_s = self._saved_at - start

    def _unsaved_s(self) -> float:
        return time.monotonic() - self._saved_at

    # === The end of an epoch ===

    def _report(self, epoch: int, valid_loss: float) -> dict[str, Any]:
        """Print and log the result of an epoch. Return it as a row of the history."""
        progress, steps = self.progress, self._steps_per_epoch
        row = {
            "epoch": epoch + 1,
            "steps": steps,
            "loss": progress.loss_sum / steps,
            "valid_loss": valid_loss,
            "seconds": round(progress.seconds, 3),
            "images_per_s": round(steps * self.config.batch_size / max(progress.seconds, 1e-9), 3),
            "best": valid_loss < progress.best_loss,
            "weights_crc32": self._weights_checksum(),
        }
        print(
            f"epoch {epoch + 1}/{self.config.epochs}: loss {row['loss']:.4f}, validation {valid_loss:.4f}"
            f"{' (best so far)' if row['best'] else ''}, {row['images_per_s']:.3g} images/s",
            flush=True,
        )
        self.board.epoch(epoch + 1, (epoch + 1) * steps, row)
        self._show((epoch + 1) * steps)
        return row

    def _show(self, steps_done: int) -> None:
        """Log the predictions for the first validation images."""
        if self.board.quiet or self.devices.cluster.size > 1:  # all machines would have to predict
            return
        stimuli, densities = self.data.valid.first(MAX_SHOWN)
        predictions = self.compiled.predict(stimuli).numpy()
        self.board.images(steps_done, stimuli, densities, predictions)

    def _weights_checksum(self) -> str:
        """Compute the CRC-32 of all weights, such as `8d3f02c1`. It must be the same on all machines."""
        checksum = 0
        for variable in self.network.model.variables:
            checksum = zlib.crc32(variable.value.read_value().numpy().tobytes(), checksum)
        checksums = self.devices.gather([float(checksum)])
        if (checksums != checksum).any():  # the losses alone would not show it
            raise RuntimeError(
                f"the weights differ between machines: CRC-32 {checksums.ravel().astype(int).tolist()}"
            )
        return f"{checksum:08x}"


# === What TensorFlow compiles ===


class CompiledSteps(NamedTuple):
    """Functions of TensorFlow. Each is traced once: all shapes are static, and numbers of steps are tensors."""

    train: Any
    """Takes an iterator and a number of steps, () int32. Returns the loss before each step, (steps,) float32, and
    the seconds spent waiting for data, () float64."""
    validate: Any
    """Takes an iterator and a number of batches, () int32. Returns the sum of the loss over their images, ()
    float64."""
    predict: Any
    """Takes stimuli, (n, H, W, 3) uint8. Returns their maps, (n, H, W, 1)."""


def compile_steps(devices: Devices, network: Network, config: TrainConfig) -> CompiledSteps:
    """Make the functions of a training that TensorFlow compiles when they are first called.

    Their loops are `tf.while_loop` rather than loops of Python for AutoGraph to convert. AutoGraph rewrites
    Python's syntax trees, and they change with each release: in TensorFlow 2.20 it warns on 3.13 and fails on
    3.15.

    Args:
        devices: run the steps. On GPUs, XLA compiles the gradients, because it fuses many kernels into one. It
            cannot compile the all-reduce between replicas. TPUStrategy compiles everything. On CPUs, XLA is slower
            than TensorFlow's own kernels.
        network: made within the strategy's scope.
        config: the settings, with the batch size in use.
    """
    strategy = devices.strategy
    waits = devices.kind == "cpu"  # an accelerator computes while its host continues
    gradients = functools.partial(
        step.gradients, network, batch_size=config.batch_size, accumulation=config.accumulation
    )
    if devices.kind == "gpu":
        gradients = tf.function(gradients, jit_compile=True, autograph=False)

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def train_steps(iterator: Any, steps: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        def take(index: tf.Tensor, step_losses: tf.TensorArray, waited: tf.Tensor, loss: tf.Tensor) -> Any:
            batch, seconds = timed_next(iterator, after=[loss] if waits else [])
            loss = strategy.reduce(SUM, strategy.run(replica_step, args=(batch,)), axis=None)
            return index + 1, step_losses.write(index, loss), waited + seconds, loss

        step_losses = tf.TensorArray(tf.float32, size=steps)
        start = tf.constant(0), step_losses, tf.constant(0.0, tf.float64), tf.constant(0.0)
        _, step_losses, waited, _ = tf.while_loop(lambda index, *_: index < steps, take, start)
        return step_losses.stack(), waited

    def replica_step(batch: Batch) -> tf.Tensor:
        """Take one step on one replica. Return its share of the loss over the global batch."""
        loss, computed = gradients(batch)
        step.apply_gradients(network, computed)
        return loss

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def validate_steps(iterator: Any, steps: tf.Tensor) -> tf.Tensor:
        def take(index: tf.Tensor, total: tf.Tensor) -> Any:
            sums = strategy.run(replica_loss, args=(next(iterator),))
            return index + 1, total + tf.cast(strategy.reduce(SUM, sums, axis=None), tf.float64)

        start = tf.constant(0), tf.constant(0.0, tf.float64)
        return tf.while_loop(lambda index, _: index < steps, take, start)[1]

    def replica_loss(batch: Batch) -> tf.Tensor:
        """Sum the loss over the images of one replica."""
        return step.validation_loss(network.model, batch)

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def predict(stimuli: tf.Tensor) -> tf.Tensor:
        maps = strategy.run(lambda: network.model(tf.cast(stimuli, tf.float32)))
        return strategy.experimental_local_results(maps)[0]

    return CompiledSteps(train_steps, validate_steps, predict)
