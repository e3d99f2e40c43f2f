"""Train MSI-Net: the loop, the validation, and what is kept of them."""

import dataclasses
import json
import math
import os
import pathlib
import shutil
import time
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from trainer import accelerators, data, precision, step, tfrecords
from trainer.artifacts import HISTORY, MODEL_CONFIG, WEIGHTS, Manifest, code_version, read_json, replacing
from trainer.checkpoint import Checkpoints, Progress
from trainer.config import TrainConfig
from trainer.errors import UserError
from trainer.export import write_model
from trainer.initial import initial_model
from trainer.progress import Tracker
from trainer.step import Batch

ADAM_EPSILON = 1e-8
"""TensorFlow 1's default, which the reference trained with; Keras' is 1e-7."""
CHUNK_S = 1.0
"""Steps run without the host in between for about so long; then progress is shown and checkpoints are due."""

Path = str | os.PathLike[str]


def train(
    config: TrainConfig, dataset: Path, output: Path, checkpoints: Path, base_model: Path | None = None
) -> dict[str, Any]:
    """Train on a prepared data set, or go on with a training that was cut off, and write the best model.

    Args:
        config: the settings.
        dataset: folder of a prepared data set.
        output: folder of the model to write (see `trainer.artifacts`).
        checkpoints: folder that keeps the state of the run; the same call with the same folder goes on there.
        base_model: folder of a model whose weights to start from.

    Returns:
        What MODEL_CONFIG holds: settings, data, and `best_epoch` with its `valid_loss`.

    Raises:
        UserError: if settings, data and weights do not fit together, or if the loss is not finite.
    """
    manifest = Manifest.load(dataset)
    if not config.batch_size:
        config = dataclasses.replace(config, batch_size=accelerators.get("cpu").chip.per_replica_batch)
    _check_fit(config, manifest)
    if config.deterministic:
        _make_deterministic()
    keras.utils.clear_session()
    keras.utils.set_random_seed(config.seed)
    training = Training(config, dataset, manifest, checkpoints, base_model)
    training.check_output(output)
    with data.damage_reported(dataset):
        for epoch in range(training.progress.epoch, config.epochs):
            training.train_epoch(epoch)
    return training.write(output)


def _check_fit(config: TrainConfig, manifest: Manifest) -> None:
    if config.batch_size > manifest.counts["train"]:
        raise UserError(
            f"batch_size is {config.batch_size}, but {manifest.dataset} has {manifest.counts['train']} training "
            "images; make it smaller, or prepare more images (max_examples)"
        )
    if not manifest.counts["valid"]:
        raise UserError(f"{manifest.dataset} has no validation images, by which the best epoch is chosen")


def _make_deterministic() -> None:
    """Ask TensorFlow for the same bits in every run.

    Its own switch is not enough on a CPU: oneDNN's convolutions split their sums by how many threads are free, so
    that gradients of operations that run side by side differ in the last bits. One operation at a time, on all
    threads, does not, and costs nothing in a network that is a chain.
    """
    tf.config.experimental.enable_op_determinism()
    try:
        tf.config.threading.set_inter_op_parallelism_threads(1)
    except RuntimeError:  # TensorFlow has started, as in a notebook
        if os.environ.get("TF_NUM_INTEROP_THREADS") != "1":
            print(
                "TensorFlow runs already: set TF_NUM_INTEROP_THREADS=1 before it does for the same bits each run"
            )


class Training:
    """The state of one training: network, optimizer, checkpoints, history, and the compiled steps."""

    def __init__(
        self,
        config: TrainConfig,
        dataset: Path,
        manifest: Manifest,
        checkpoints: Path,
        base_model: Path | None,
    ) -> None:
        self._config, self._dataset, self._manifest = config, dataset, manifest
        self._precision = precision.resolve(config.precision)
        self._lineage = _lineage(config, manifest, self._precision, base_model)
        self._strategy = tf.distribute.get_strategy()
        with self._strategy.scope():
            policy = precision.POLICIES[self._precision]
            self._model = initial_model(config, manifest.image_size, policy, base_model)
            self._optimizer = keras.optimizers.Adam(config.learning_rate, epsilon=ADAM_EPSILON)
            self._optimizer.build(self._model.trainable_variables)
        self._checkpoints = Checkpoints(checkpoints, self._model, self._optimizer, self._lineage["identity"])
        self.progress = self._checkpoints.restore()
        self._history = self._checkpoints.folder / HISTORY
        self._keep_history(self.progress.epoch)
        self._steps_per_epoch = manifest.counts["train"] // config.batch_size
        self._chunk = 1
        self._train_steps = tf.function(self._train_steps_eager)
        self._validation_loss = tf.function(self._validation_loss_eager)
        self._saved = time.monotonic()
        print(
            f"{manifest.dataset}: {manifest.counts['train']} training and {manifest.counts['valid']} validation "
            f"images at {manifest.image_size[0]}x{manifest.image_size[1]}, batch {config.batch_size}, "
            f"{self._steps_per_epoch} steps an epoch, {self._precision}",
            flush=True,
        )

    # === Steps, compiled ===

    def _train_steps_eager(self, batches: Any, steps: tf.Tensor) -> tf.Tensor:
        """Take `steps` steps; the loss before each of them, (steps,) float32."""
        step_losses = tf.TensorArray(tf.float32, size=steps)
        for index in tf.range(steps):
            replica_losses = self._strategy.run(self.step, args=(next(batches),))
            loss = self._strategy.reduce(tf.distribute.ReduceOp.SUM, replica_losses, axis=None)
            step_losses = step_losses.write(index, loss)
        return step_losses.stack()

    def step(self, batch: Batch) -> tf.Tensor:
        """One step of one replica; its share of the loss over the global batch."""
        return step.train_step(self._model, self._optimizer, batch, self._config.batch_size)

    def _validation_loss_eager(self, batches: Any) -> tf.Tensor:
        """Sum of the loss over the images of the next batch."""
        replica_sums = self._strategy.run(self._validation_step, args=(next(batches),))
        return self._strategy.reduce(tf.distribute.ReduceOp.SUM, replica_sums, axis=None)

    def _validation_step(self, batch: Batch) -> tf.Tensor:
        return step.validation_step(self._model, batch)

    # === Epochs ===

    def train_epoch(self, epoch: int) -> None:
        """Train, validate, and keep what came of it."""
        self.take_steps(epoch)
        progress = self.progress
        valid_loss = self._validate(epoch)
        best = valid_loss < progress.best_loss
        if best:
            with replacing(self._checkpoints.best_weights) as partial:
                self._model.save_weights(partial)
            progress.best_epoch, progress.best_loss = epoch + 1, valid_loss
        images = self._steps_per_epoch * self._config.batch_size
        row = {
            "epoch": epoch + 1,
            "steps": self._steps_per_epoch,
            "loss": progress.loss_sum / self._steps_per_epoch,
            "valid_loss": valid_loss,
            "seconds": round(progress.seconds, 3),
            "images_per_s": round(images / max(progress.seconds, 1e-9), 3),
            "best": best,
        }
        with self._history.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(
            f"epoch {epoch + 1}/{self._config.epochs}: loss {row['loss']:.4f}, validation {valid_loss:.4f}"
            f"{' (best so far)' if best else ''}, {row['images_per_s']:.3g} images/s",
            flush=True,
        )
        self.progress = Progress(epoch + 1, best_epoch=progress.best_epoch, best_loss=progress.best_loss)
        self._save()

    def take_steps(self, epoch: int) -> None:
        """Take the steps of an epoch that are still to take, and save the state whenever it is due."""
        config, progress = self._config, self.progress
        batches = iter(
            data.training_batches(
                self._dataset, self._manifest, config.batch_size, config.seed, epoch, progress.step
            )
        )
        title = f"training, epoch {epoch + 1}/{config.epochs}"
        with Tracker(title, self._steps_per_epoch, "steps", progress.step) as tracker:
            while progress.step < self._steps_per_epoch:
                steps = min(self._chunk, self._steps_per_epoch - progress.step)
                start = time.monotonic()
                step_losses = self._train_steps(batches, tf.constant(steps)).numpy()
                seconds = time.monotonic() - start
                self._check_finite(epoch, progress.step, step_losses)
                progress.step += steps
                progress.loss_sum += float(step_losses.sum(dtype=np.float64))
                progress.seconds += seconds
                self._chunk = max(1, min(2 * self._chunk, int(steps * CHUNK_S / seconds)))
                tracker.advance(steps, f"loss {progress.loss_sum / progress.step:.4f}")
                if time.monotonic() - self._saved > 60 * config.checkpoint_minutes:
                    self._save()

    def _validate(self, epoch: int) -> float:
        """Mean loss over the validation images."""
        count, batch_size = self._manifest.counts["valid"], self._config.batch_size
        batches = iter(data.validation_batches(self._dataset, self._manifest, batch_size))
        total = 0.0
        with Tracker(f"validation, epoch {epoch + 1}/{self._config.epochs}", count, "images") as tracker:
            for first in range(0, count, batch_size):
                total += float(self._validation_loss(batches))
                tracker.advance(min(batch_size, count - first))
        if not math.isfinite(total):
            raise UserError(
                f"the validation loss after epoch {epoch + 1} is {total}; lower learning_rate "
                f"(now {self._config.learning_rate:g})"
            )
        return total / count

    def _check_finite(self, epoch: int, first_step: int, step_losses: np.ndarray) -> None:
        """Stop at the first loss that is not a number; name the images in that batch."""
        bad = np.flatnonzero(~np.isfinite(step_losses))
        if not bad.size:
            return
        position = first_step + int(bad[0])
        batch = next(
            iter(
                data.training_batches(
                    self._dataset,
                    self._manifest,
                    self._config.batch_size,
                    self._config.seed,
                    epoch,
                    skip_steps=position,
                )
            )
        )
        indices = set(batch["index"].numpy().tolist())
        names = [each.name for each in tfrecords.read(self._dataset, "train") if each.index in indices]
        raise UserError(
            f"the loss is {step_losses[bad[0]]} at step {position + 1} of epoch {epoch + 1}, on the images "
            f"{', '.join(names)}; lower learning_rate (now {self._config.learning_rate:g}), or look at them"
        )

    # === What is kept ===

    def check_output(self, output: Path) -> None:
        """Raise `UserError` if there is something at `output` that is not the model of this very run."""
        folder = pathlib.Path(output)
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return
        config = folder / MODEL_CONFIG
        identity = read_json(config, "remove the folder").get("identity") if config.is_file() else None
        if identity != json.loads(json.dumps(self._lineage["identity"])):
            raise UserError(
                f"{output} exists already, and is not the model of this run; remove it, or name another"
            )

    def _save(self) -> None:
        self._checkpoints.save(self.progress)
        self._saved = time.monotonic()

    def _keep_history(self, epochs: int) -> None:
        """Drop what was written of an epoch after the checkpoint: that epoch is run again."""
        lines = self._history.read_text().splitlines(keepends=True) if self._history.exists() else []
        with replacing(self._history) as partial:
            partial.write_text("".join(lines[:epochs]))

    def write(self, output: Path) -> dict[str, Any]:
        """Write the model folder: best weights, their SavedModel, the history and the configuration."""
        summary = {
            **self._lineage,
            "best_epoch": self.progress.best_epoch,
            "valid_loss": self.progress.best_loss,
        }
        with replacing(output) as folder:
            folder.mkdir()
            shutil.copy(self._history, folder / HISTORY)
            shutil.copy(self._checkpoints.best_weights, folder / WEIGHTS)
            write_model(folder, self._manifest.image_size, summary)
            shutil.rmtree(output, ignore_errors=True)  # an earlier end of this run
        print(
            f"wrote the weights of epoch {summary['best_epoch']} (validation {summary['valid_loss']:.4f}) "
            f"to {output}",
            flush=True,
        )
        return summary


def _lineage(
    config: TrainConfig, manifest: Manifest, resolved_precision: str, base_model: Path | None
) -> dict[str, Any]:
    """What the result rests on; `identity` is the part that a checkpoint must agree with."""
    base = None
    if base_model is not None:
        base = read_json(pathlib.Path(base_model) / MODEL_CONFIG, "give the folder of a model that `train` wrote")
    settings = dataclasses.asdict(config)
    changeable = ("epochs", "checkpoint_minutes", "precision")
    identity = {key: value for key, value in settings.items() if key not in changeable}
    identity |= {
        "precision": resolved_precision,
        "image_size": list(manifest.image_size),
        "n_train": manifest.counts["train"],
        "fingerprint": manifest.fingerprint,
        "base": base and [base["identity"], base["best_epoch"]],
    }
    return {
        "dataset": manifest.dataset,
        "source": manifest.source,
        "fingerprint": manifest.fingerprint,
        "counts": manifest.counts,
        "image_size": list(manifest.image_size),
        "precision": resolved_precision,
        "settings": settings,
        "code_version": code_version(),
        "base_model": base,
        "identity": identity,
    }
