"""The loop of a training: epochs of compiled steps, a validation after each, checkpoints, and the history."""

import dataclasses
import functools
import math
import signal
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
import tensorflow as tf

from trainer.artifacts import Manifest, StrPath
from trainer.config import TrainConfig
from trainer.data import batches, tfrecords
from trainer.data.batches import Split
from trainer.errors import UserError
from trainer.progress import Tracker
from trainer.runtime import announce
from trainer.training import exits, step
from trainer.training.checkpoints import Checkpoints, Progress
from trainer.training.exits import Stop
from trainer.training.meter import Meter, timed_next
from trainer.training.step import Batch, Network
from trainer.training.strategy import Devices
from trainer.training.tensorboard import Board

SUM = tf.distribute.ReduceOp.SUM
CHUNK_S = 1.0
"""Approximate time of a chunk of steps; the host shows progress and saves checkpoints between two chunks."""
SAVING_SHARE = 0.01
"""Largest share of the time that checkpoints at the ends of short epochs may take."""
MAX_SHOWN = 4
"""Validation images whose predictions are logged after each epoch."""


@dataclasses.dataclass
class Data:
    """The decoded images of a prepared dataset, with its folder and manifest."""

    folder: str
    manifest: Manifest
    train: Split
    valid: Split

    @classmethod
    def load(cls, folder: StrPath, manifest: Manifest, cache: str = "auto") -> Self:
        """Decode both splits; arguments and errors are those of `Split.load`."""
        train, valid = (Split.load(folder, manifest, name, cache) for name in ("train", "valid"))
        return cls(str(folder), manifest, train, valid)


class Loop:
    """One training, from the state of `progress` to its last epoch.

    Args:
        config: the settings, with the batch size in use.
        data: the prepared dataset.
        devices: run the steps.
        network: made within the strategy's scope.
        checkpoints: save the network and the progress.
        progress: what `checkpoints` restored, together with the network, or that of a new training.
        board: gets the logs for TensorBoard.
        stop: says when the training shall save its state and end.
    """

    def __init__(
        self,
        config: TrainConfig,
        data: Data,
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
        self.compiled = CompiledSteps(devices, network, config)
        self._steps_per_epoch = data.manifest.counts["train"] // config.batch_size
        self._chunk_steps = 1
        self._saved_at = time.monotonic()
        self._save_duration_s = 0.0

    def run(self) -> Progress:
        """Train the remaining epochs; return the progress after the last one."""
        if not self.is_over:
            announce("compiling the training step")
        while not self.is_over:
            epoch = self.progress.epoch
            self.train_epoch(epoch)
            self._finish_epoch(epoch, self.validate(epoch))
        return self.progress

    @property
    def is_over(self) -> bool:
        """Whether all epochs are done, or `patience` ended the training early."""
        return self.progress.is_over(self.config.epochs, self.config.patience)

    def train_epoch(self, epoch: int) -> None:
        """Take the remaining steps of an epoch, and save checkpoints when they are due."""
        config, progress = self.config, self.progress
        iterator = self._iterator(
            lambda **replicas: batches.training_batches(
                self.data.train,
                config.batch_size,
                config.seed,
                epoch,
                progress.step,
                flip=config.flip,
                **replicas,
            )
        )
        meter = Meter(config.batch_size)
        title = f"training, epoch {epoch + 1}/{config.epochs}"
        later = (config.epochs - 1 - epoch) * self._steps_per_epoch
        with Tracker(title, self._steps_per_epoch, "steps", progress.step, later) as tracker:
            while progress.step < self._steps_per_epoch:
                steps, seconds = self._run_chunk(epoch, iterator, meter)
                loss = f"loss {progress.loss_sum / progress.step:.4f}"
                tracker.advance(steps, ", ".join(filter(None, [loss, meter.text])))
                self._synchronize(steps, seconds)
                if self._unsaved_s() > 60 * config.checkpoint_minutes:
                    self._save()
        self.board.update_profile((epoch + 1) * self._steps_per_epoch)

    def _run_chunk(self, epoch: int, iterator: Iterator[Any], meter: Meter) -> tuple[int, float]:
        """Take and record the next steps of an epoch; return their number and the seconds that they took."""
        progress = self.progress
        done = epoch * self._steps_per_epoch + progress.step
        steps = self.board.limit_to_profile(done, min(self._chunk_steps, self._steps_per_epoch - progress.step))
        self.board.update_profile(done)
        start = time.monotonic()
        step_losses, waited = self.compiled.train(iterator, tf.constant(steps))
        step_losses = step_losses.numpy()
        seconds = time.monotonic() - start
        self._check_finite(epoch, progress.step, step_losses)
        progress.step += steps
        progress.loss_sum += float(step_losses.sum(dtype=np.float64))
        progress.seconds += seconds
        meter.add(steps, seconds, float(waited))
        self.board.chunk(done + steps, step_losses, self.network.optimizer, meter.scalars)
        return steps, seconds

    def validate(self, epoch: int) -> float:
        """Compute the mean loss over the validation images."""
        count, batch_size = self.data.manifest.counts["valid"], self.config.batch_size
        iterator = self._iterator(
            lambda **replicas: batches.validation_batches(self.data.valid, batch_size, **replicas)
        )
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
            raise UserError(
                f"the validation loss after epoch {epoch + 1} is {total}; lower learning_rate "
                f"(now {self.config.learning_rate:g})"
            )
        return total / count

    def _iterator(self, dataset: Callable[..., tf.data.Dataset]) -> Iterator[Any]:
        """Return the batches for all replicas of this machine, each on its own device."""

        def of_machine(context: tf.distribute.InputContext) -> tf.data.Dataset:
            n_replicas_here = context.num_replicas_in_sync // context.num_input_pipelines
            return dataset(
                n_replicas_here=n_replicas_here,
                first_replica=n_replicas_here * context.input_pipeline_id,
                n_replicas=context.num_replicas_in_sync,
            )

        return iter(self.devices.strategy.distribute_datasets_from_function(of_machine))

    def _finish_epoch(self, epoch: int, valid_loss: float) -> None:
        """Record and print the result of an epoch, and save the state."""
        progress, steps = self.progress, self._steps_per_epoch
        best = valid_loss < progress.best_loss
        row = {
            "epoch": epoch + 1,
            "steps": steps,
            "loss": progress.loss_sum / steps,
            "valid_loss": valid_loss,
            "seconds": round(progress.seconds, 3),
            "images_per_s": round(steps * self.config.batch_size / max(progress.seconds, 1e-9), 3),
            "best": best,
            "weights_crc32": self._weights_checksum(),
        }
        print(
            f"epoch {epoch + 1}/{self.config.epochs}: loss {row['loss']:.4f}, validation {valid_loss:.4f}"
            f"{' (best so far)' if best else ''}, {row['images_per_s']:.3g} images/s",
            flush=True,
        )
        self.board.epoch(epoch + 1, (epoch + 1) * steps, row)
        self._show((epoch + 1) * steps)
        if best:
            self.checkpoints.keep_best()
            progress.best_epoch, progress.best_loss = epoch + 1, valid_loss
        self.progress = Progress(
            epoch + 1,
            best_epoch=progress.best_epoch,
            best_loss=progress.best_loss,
            history=[*progress.history, row],
        )
        if self.is_over or self._save_duration_s <= SAVING_SHARE * self._unsaved_s():
            self._save()

    def _show(self, steps_done: int) -> None:
        if self.board.quiet or self.devices.cluster.size > 1:  # all machines would have to predict
            return
        first_images = slice(0, min(MAX_SHOWN, self.data.manifest.counts["valid"]))
        stimuli = self.data.valid.stimulus[first_images]
        predictions = self.compiled.predict(stimuli).numpy()
        self.board.images(steps_done, stimuli, self.data.valid.density[first_images], predictions)

    def _weights_checksum(self) -> str:
        """Compute the CRC-32 of all weights; it must be the same on all machines."""
        checksum = 0
        for variable in self.network.model.variables:
            checksum = zlib.crc32(variable.value.read_value().numpy().tobytes(), checksum)
        checksums = self.devices.gather([float(checksum)])
        if (checksums != checksum).any():  # the losses alone would not show it
            raise RuntimeError(
                f"the weights differ between machines: CRC-32 {checksums.ravel().astype(int).tolist()}"
            )
        return f"{checksum:08x}"

    # === Between chunks of steps ===

    def _synchronize(self, steps: int, seconds: float) -> None:
        """Agree with the other machines on the length of the next chunk, and on whether to stop."""
        of_machines = self.devices.gather([seconds, float(self.stop.requested)])
        self._resize_chunk(steps, float(of_machines[:, 0].max()))
        if of_machines[:, 1].any():
            self._save_and_exit()

    def _resize_chunk(self, steps: int, seconds: float) -> None:
        """Choose the number of steps that take CHUNK_S, or twice those of the last chunk if that is less."""
        fitting = int(steps * CHUNK_S / max(seconds, 1e-9))
        self._chunk_steps = max(1, min(2 * self._chunk_steps, fitting))

    def _save_and_exit(self) -> None:
        """Save the state and end the process, since a machine of the job was asked to stop."""
        self._save()
        self.checkpoints.wait()
        print("saved; run the same command again to resume", flush=True)
        raise SystemExit(self.stop.exit_status if self.stop.requested else exits.stopped(signal.SIGTERM))

    def _save(self) -> None:
        start = time.monotonic()
        self.checkpoints.save(self.progress)
        self._saved_at = time.monotonic()
        self._save_duration_s = self._saved_at - start

    def _unsaved_s(self) -> float:
        return time.monotonic() - self._saved_at

    def _check_finite(self, epoch: int, first_step: int, step_losses: np.ndarray) -> None:
        """Stop at the first loss that is not finite; name the images in that batch."""
        bad = np.flatnonzero(~np.isfinite(step_losses))
        if not bad.size:
            return
        bad_step, config = first_step + int(bad[0]), self.config
        order = batches.epoch_order(len(self.data.train), config.seed, epoch)
        indices = set(order[bad_step * config.batch_size : (bad_step + 1) * config.batch_size].tolist())
        names = [example.name for example in tfrecords.read(self.data.folder, "train") if example.index in indices]
        raise UserError(
            f"the loss is {step_losses[bad[0]]} at step {bad_step + 1} of epoch {epoch + 1}, on the images "
            f"{', '.join(names)}; lower learning_rate (now {config.learning_rate:g}), or check these images"
        )


class CompiledSteps:
    """The steps of a network. Each is traced once: all shapes are static, and numbers of steps are tensors.

    The loops are `tf.while_loop` rather than loops of Python for AutoGraph to convert, because AutoGraph rewrites
    Python's syntax trees, which change with each release: that of TensorFlow 2.20 warns on 3.13 and fails on 3.15.

    Args:
        devices: run the steps. On GPUs, XLA compiles the gradients, because it fuses many kernels into one; it
            cannot compile the all-reduce between replicas. TPUStrategy compiles everything. On CPUs, XLA is slower
            than TensorFlow's own kernels.
        network: made within the strategy's scope.
        config: the settings, with the batch size in use.
    """

    def __init__(self, devices: Devices, network: Network, config: TrainConfig) -> None:
        self._strategy, self._network = devices.strategy, network
        compute = functools.partial(
            step.gradients,
            network,
            batch_size=config.batch_size,
            accumulation=config.accumulation,
        )
        self._compute = (
            tf.function(compute, jit_compile=True, autograph=False) if devices.kind == "gpu" else compute
        )
        self._waits = devices.kind == "cpu"  # an accelerator computes while its host continues
        self.train = tf.function(self._train, autograph=False)
        self.validate = tf.function(self._validate, autograph=False)
        self.predict = tf.function(self._predict, autograph=False)

    def replica_step(self, batch: Batch) -> tf.Tensor:
        """Take one step on one replica; return its share of the loss over the global batch."""
        loss, computed = self._compute(batch)
        step.apply_gradients(self._network, computed)
        return loss

    def _train(self, iterator: Any, steps: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Take `steps` steps: the loss before each, (steps,), and the seconds spent waiting for data."""

        def take(index: tf.Tensor, step_losses: tf.TensorArray, waited: tf.Tensor, loss: tf.Tensor) -> Any:
            batch, seconds = timed_next(iterator, after=[loss] if self._waits else [])
            loss = self._strategy.reduce(SUM, self._strategy.run(self.replica_step, args=(batch,)), axis=None)
            return index + 1, step_losses.write(index, loss), waited + seconds, loss

        step_losses = tf.TensorArray(tf.float32, size=steps)
        start = tf.constant(0), step_losses, tf.constant(0.0, tf.float64), tf.constant(0.0)
        _, step_losses, waited, _ = tf.while_loop(lambda index, *_: index < steps, take, start)
        return step_losses.stack(), waited

    def _validate(self, iterator: Any, steps: tf.Tensor) -> tf.Tensor:
        """Sum the loss over the images of the next `steps` batches, () float64."""

        def take(index: tf.Tensor, total: tf.Tensor) -> Any:
            sums = self._strategy.run(self._validation_step, args=(next(iterator),))
            return index + 1, total + tf.cast(self._strategy.reduce(SUM, sums, axis=None), tf.float64)

        start = tf.constant(0), tf.constant(0.0, tf.float64)
        return tf.while_loop(lambda index, _: index < steps, take, start)[1]

    def _validation_step(self, batch: Batch) -> tf.Tensor:
        return step.validation_loss(self._network.model, batch)

    def _predict(self, stimuli: tf.Tensor) -> tf.Tensor:
        """Predict the maps, (n, H, W, 1), of stimuli (n, H, W, 3) uint8."""
        maps = self._strategy.run(lambda: self._network.model(tf.cast(stimuli, tf.float32)))
        return self._strategy.experimental_local_results(maps)[0]
