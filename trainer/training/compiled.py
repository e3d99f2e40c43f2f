"""Training, validation and prediction steps as compiled functions over all replicas."""

import functools
from typing import Any

import tensorflow as tf

from trainer.config import TrainConfig
from trainer.training import step
from trainer.training.meter import timed_next
from trainer.training.step import Batch, Network
from trainer.training.strategy import Devices

SUM = tf.distribute.ReduceOp.SUM


class Compiled:
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
            network.model,
            network.optimizer,
            batch_size=config.batch_size,
            accumulation=config.accumulation,
        )
        self._compute = (
            tf.function(compute, jit_compile=True, autograph=False) if devices.kind == "gpu" else compute
        )
        self._waits = devices.kind == "cpu"  # an accelerator computes while its host continues
        self.train = tf.function(self._train, autograph=False)
        """(iterator, number of steps) -> loss before each step (steps,), and seconds spent waiting for data."""
        self.validate = tf.function(self._validate, autograph=False)
        """(iterator, number of steps) -> sum of the loss over the images of these batches."""
        self.predict = tf.function(self._predict, autograph=False)
        """stimuli (n, H, W, 3) uint8 -> maps (n, H, W, 1)."""

    def step(self, batch: Batch) -> tf.Tensor:
        """Take one step on one replica; return its share of the loss over the global batch."""
        return step.train_step(self._network.model, self._network.optimizer, batch, self._compute)

    def _train(self, batches: Any, steps: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        def take(index: tf.Tensor, step_losses: tf.TensorArray, waited: tf.Tensor, loss: tf.Tensor) -> Any:
            batch, seconds = timed_next(batches, after=[loss] if self._waits else [])
            loss = self._strategy.reduce(SUM, self._strategy.run(self.step, args=(batch,)), axis=None)
            return index + 1, step_losses.write(index, loss), waited + seconds, loss

        step_losses = tf.TensorArray(tf.float32, size=steps)
        start = tf.constant(0), step_losses, tf.constant(0.0, tf.float64), tf.constant(0.0)
        _, step_losses, waited, _ = tf.while_loop(lambda index, *_: index < steps, take, start)
        return step_losses.stack(), waited

    def _validate(self, batches: Any, steps: tf.Tensor) -> tf.Tensor:
        def take(index: tf.Tensor, total: tf.Tensor) -> Any:
            sums = self._strategy.run(self._validation_step, args=(next(batches),))
            return index + 1, total + tf.cast(self._strategy.reduce(SUM, sums, axis=None), tf.float64)

        start = tf.constant(0), tf.constant(0.0, tf.float64)
        return tf.while_loop(lambda index, _: index < steps, take, start)[1]

    def _validation_step(self, batch: Batch) -> tf.Tensor:
        return step.validation_step(self._network.model, batch)

    def _predict(self, stimuli: tf.Tensor) -> tf.Tensor:
        maps = self._strategy.run(lambda: self._network.model(tf.cast(stimuli, tf.float32)))
        return self._strategy.experimental_local_results(maps)[0]
