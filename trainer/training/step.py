"""One step of one replica: what is computed of a batch, whatever the device and whoever calls it."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from trainer import losses

Batch = dict[str, tf.Tensor]
Computed = tuple[tf.Tensor, list[tf.Tensor]]
"""A loss and its gradients."""


def gradients(
    model: keras.Model, optimizer: Any, batch: Batch, batch_size: int, accumulation: int = 1
) -> Computed:
    """Share of this replica in the loss over the global batch, and in its gradients.

    Args:
        model: the network.
        optimizer: scales the loss, in float16.
        batch: stimulus (b, H, W, 3) uint8 and density (b, H, W, 1) uint8.
        batch_size: images of the step over all replicas; b of them are here.
        accumulation: parts into which these are split, one after another; b is divisible by it. The sums are
            those of the whole, and only a part's activations are in memory at a time.

    Returns:
        The sum of the loss over b images over `batch_size`, () float32; and the gradients of that by
        `model.trainable_variables`, float32, times the optimizer's scale.
    """
    if accumulation == 1:
        return _part_gradients(model, optimizer, batch, batch_size)
    loss, sums = tf.constant(0.0), [tf.zeros_like(variable) for variable in model.trainable_variables]
    share = batch["stimulus"].shape[0] // accumulation
    for first in range(0, accumulation * share, share):
        # A loop of TensorFlow's own around the parts fails now and then within the loop around the steps.
        with tf.control_dependencies([loss, *sums]):
            part = {key: tf.identity(batch[key][first : first + share]) for key in ("stimulus", "density")}
        part_loss, computed = _part_gradients(model, optimizer, part, batch_size)
        loss, sums = loss + part_loss, [total + each for total, each in zip(sums, computed, strict=True)]
    return loss, sums


def _part_gradients(model: keras.Model, optimizer: Any, batch: Batch, batch_size: int) -> Computed:
    with tf.GradientTape() as tape:
        predictions = model(tf.cast(batch["stimulus"], tf.float32), training=True)
        loss = tf.reduce_sum(losses.kld(batch["density"], predictions)) / batch_size
        scaled = optimizer.scale_loss(loss)
    return loss, tape.gradient(scaled, model.trainable_variables)


def train_step(
    model: keras.Model, optimizer: Any, batch: Batch, compute: Callable[[Batch], Computed]
) -> tf.Tensor:
    """Update the weights with what all replicas `compute`; returns this one's share of the loss."""
    loss, computed = compute(batch)
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        computed = _finite_together(computed)
    optimizer.apply(computed, model.trainable_variables)
    return loss


def _finite_together(computed: list[tf.Tensor]) -> list[tf.Tensor]:
    """Make the gradients of all replicas not finite where those of one are not.

    Keras' optimizer looks at its own replica's alone before it leaves out a step: weights would differ for good.
    """
    finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(each)) for each in computed])
    replicas = tf.distribute.get_replica_context()
    bad = replicas.all_reduce(tf.distribute.ReduceOp.SUM, 1.0 - tf.cast(finite, tf.float32))
    return [computed[0] + tf.where(bad > 0, float("nan"), 0.0), *computed[1:]]


def validation_step(model: keras.Model, batch: Batch) -> tf.Tensor:
    """Sum of the loss over the images of a batch whose `mask` (b,) float32 is 1."""
    predictions = model(tf.cast(batch["stimulus"], tf.float32))
    return tf.reduce_sum(losses.kld(batch["density"], predictions) * batch["mask"])
