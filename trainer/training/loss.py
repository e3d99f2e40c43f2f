"""The loss of a training. Keras operations only, so that it runs on any Keras backend."""

from typing import Any

from keras import ops

EPSILON = 1e-7
"""Keeps the quotients of the loss finite. The reference's value."""


def kld_loss(targets: Any, predictions: Any) -> Any:
    """The training loss (equation 1): the Kullback-Leibler divergence of the predicted from the true saliency.

    Both maps are divided by 1e-7 + their sum. The divergence is the sum of t * log(1e-7 + t / (1e-7 + p)) over the
    pixels. The evaluation metric of the same name (`trainer.metrics.metrics.kld`) has a different epsilon.

    Args:
        targets: (B, H, W, 1), the ground truth, at least 0, of any scale.
        predictions: (B, H, W, 1), at least 0, of any scale.

    Returns:
        (B,) float32, in nats.
    """
    targets, predictions = (_distribution(ops.cast(maps, "float32")) for maps in (targets, predictions))
    return ops.sum(targets * ops.log(EPSILON + targets / (EPSILON + predictions)), axis=(1, 2, 3))


def _distribution(maps: Any) -> Any:
    return maps / (EPSILON + ops.sum(maps, axis=(1, 2, 3), keepdims=True))
