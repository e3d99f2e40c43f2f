"""One step of one replica: what is computed of a batch, whatever the device and whoever calls it."""

from typing import Any

import keras
import tensorflow as tf

from trainer import losses

Batch = dict[str, tf.Tensor]


def gradients(
    model: keras.Model, optimizer: Any, batch: Batch, batch_size: int
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Share of this replica in the loss over the global batch, and in its gradients.

    Args:
        model: the network.
        optimizer: scales the loss, in float16.
        batch: stimulus (b, H, W, 3) uint8 and density (b, H, W, 1) uint8.
        batch_size: images of the step over all replicas; b of them are here.

    Returns:
        The sum of the loss over b images over `batch_size`, () float32; and the gradients of that by
        `model.trainable_variables`, float32, times the optimizer's scale.
    """
    with tf.GradientTape() as tape:
        predictions = model(tf.cast(batch["stimulus"], tf.float32), training=True)
        loss = tf.reduce_sum(losses.kld(batch["density"], predictions)) / batch_size
        scaled = optimizer.scale_loss(loss)
    return loss, tape.gradient(scaled, model.trainable_variables)


def train_step(model: keras.Model, optimizer: Any, batch: Batch, batch_size: int) -> tf.Tensor:
    """Update the weights with the gradients of all replicas; returns this one's share of the loss."""
    loss, computed = gradients(model, optimizer, batch, batch_size)
    optimizer.apply(computed, model.trainable_variables)
    return loss


def validation_step(model: keras.Model, batch: Batch) -> tf.Tensor:
    """Sum of the loss over the images of a batch whose `mask` (b,) float32 is 1."""
    predictions = model(tf.cast(batch["stimulus"], tf.float32))
    return tf.reduce_sum(losses.kld(batch["density"], predictions) * batch["mask"])
