"""One training step of one replica, the same on every device."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from trainer import losses

Batch = dict[str, tf.Tensor]
Computed = tuple[tf.Tensor, list[tf.Tensor]]
"""A loss and its gradients."""


class Network(NamedTuple):
    """What a training changes."""

    model: keras.Model
    optimizer: Any
    """Built; a `LossScaleOptimizer` in float16."""


def gradients(
    model: keras.Model,
    optimizer: Any,
    batch: Batch,
    batch_size: int,
    accumulation: int = 1,
) -> Computed:
    """Loss and gradients over the global batch: the share of this replica.

    Args:
        model: the network.
        optimizer: scales the loss in float16.
        batch: stimulus (b, H, W, 3) uint8 and density (b, H, W, 1) uint8.
        batch_size: images of the step over all replicas; this replica has b of them.
        accumulation: number of parts into which this replica splits its images; divides b. It computes one after
            another, adds up loss and gradients, and holds the activations of one part in memory.

    Returns:
        The sum of the loss over b images divided by `batch_size`, () float32; and its gradients with respect to
        `model.trainable_variables`, float32, times the optimizer's loss scale.
    """
    if accumulation == 1:
        return _part_gradients(model, optimizer, batch, batch_size)
    loss, sums = tf.constant(0.0), [tf.zeros_like(variable) for variable in model.trainable_variables]
    share = batch["stimulus"].shape[0] // accumulation
    for first in range(0, accumulation * share, share):
        # Unrolled in Python: a tf.while_loop over the parts sometimes fails inside the loop over the steps.
        with tf.control_dependencies([loss, *sums]):
            part = {key: tf.identity(batch[key][first : first + share]) for key in ("stimulus", "density")}
        part_loss, computed = _part_gradients(model, optimizer, part, batch_size)
        loss, sums = loss + part_loss, [total + gradient for total, gradient in zip(sums, computed, strict=True)]
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
    """Update the weights with the gradients of all replicas; return this replica's share of the loss."""
    loss, computed = compute(batch)
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        computed = _finite_together(computed)
    optimizer.apply(computed, model.trainable_variables)
    return loss


def _finite_together(computed: list[tf.Tensor]) -> list[tf.Tensor]:
    """Make the gradients of all replicas non-finite if those of one replica are.

    Keras' optimizer skips a step if the gradients of its own replica are not finite. If only some replicas skipped
    a step, their weights would differ from then on.
    """
    finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in computed])
    replicas = tf.distribute.get_replica_context()
    bad = replicas.all_reduce(tf.distribute.ReduceOp.SUM, 1.0 - tf.cast(finite, tf.float32))
    return [computed[0] + tf.where(bad > 0, float("nan"), 0.0), *computed[1:]]


def validation_step(model: keras.Model, batch: Batch) -> tf.Tensor:
    """Sum of KLD over the images of a batch; `mask` (b,) float32 is 1 for images and 0 for padding."""
    predictions = model(tf.cast(batch["stimulus"], tf.float32))
    return tf.reduce_sum(losses.kld(batch["density"], predictions) * batch["mask"])
