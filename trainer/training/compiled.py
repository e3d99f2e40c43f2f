"""Training, validation and prediction steps as compiled functions over all replicas."""

import functools
from typing import Any

import keras
import tensorflow as tf

from trainer.tracing import without_autograph
from trainer.training import step
from trainer.training.meter import timed_next
from trainer.training.step import Batch
from trainer.training.strategy import Devices

SUM = tf.distribute.ReduceOp.SUM


class Compiled:
    """The steps of a network. Each is traced once: all shapes are static, and numbers of steps are tensors.

    Args:
        devices: run the steps. On GPUs, XLA compiles the gradients, because it fuses many kernels into one; it
            cannot compile the all-reduce between replicas. TPUStrategy compiles everything. On CPUs, XLA is slower
            than TensorFlow's own kernels.
        model: made within the strategy's scope.
        optimizer: made within the strategy's scope, and built.
        batch_size: images of a step over all replicas.
        accumulation: parts into which a replica splits its images.
    """

    def __init__(
        self,
        devices: Devices,
        model: keras.Model,
        optimizer: Any,
        batch_size: int,
        accumulation: int,
    ) -> None:
        self._strategy, self._model, self._optimizer = devices.strategy, model, optimizer
        compute = functools.partial(
            step.gradients, model, optimizer, batch_size=batch_size, accumulation=accumulation
        )
        self._compute = (
            tf.function(compute, jit_compile=True, autograph=False) if devices.kind == "gpu" else compute
        )
        self._waits = devices.kind == "cpu"  # an accelerator computes while its host continues
        self.train = tf.function(self._train)
        """(iterator, number of steps) -> loss before each step (steps,), and seconds spent waiting for data."""
        self.validate = tf.function(self._validate)
        """(iterator, number of steps) -> sum of the loss over the images of these batches."""
        self.predict = tf.function(self._predict, autograph=False)
        """stimuli (n, H, W, 3) uint8 -> maps (n, H, W, 1)."""

    @without_autograph
    def step(self, batch: Batch) -> tf.Tensor:
        """Take one step on one replica; return its share of the loss over the global batch."""
        return step.train_step(self._model, self._optimizer, batch, self._compute)

    def _train(self, batches: Any, steps: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        losses = tf.TensorArray(tf.float32, size=steps)
        waited, loss = tf.constant(0.0, tf.float64), tf.constant(0.0)
        for index in tf.range(steps):
            batch, seconds = timed_next(batches, after=[loss] if self._waits else [])
            loss = self._strategy.reduce(SUM, self._strategy.run(self.step, args=(batch,)), axis=None)
            losses = losses.write(index, loss)
            waited += seconds
        return losses.stack(), waited

    def _validate(self, batches: Any, steps: tf.Tensor) -> tf.Tensor:
        total = tf.constant(0.0, tf.float64)
        for _ in tf.range(steps):
            sums = self._strategy.run(self._validation_step, args=(next(batches),))
            total += tf.cast(self._strategy.reduce(SUM, sums, axis=None), tf.float64)
        return total

    @without_autograph
    def _validation_step(self, batch: Batch) -> tf.Tensor:
        return step.validation_step(self._model, batch)

    def _predict(self, stimuli: tf.Tensor) -> tf.Tensor:
        maps = self._strategy.run(lambda: self._model(tf.cast(stimuli, tf.float32)))
        return self._strategy.experimental_local_results(maps)[0]
