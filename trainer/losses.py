"""The training loss: KLD (Kroner et al. 2020, equation 1), and terms that can be added. Keras operations only."""

from typing import Any

from keras import ops

EPSILON = 1e-7


def kld(targets: Any, predictions: Any) -> Any:
    """Kullback-Leibler divergence of the predicted from the true saliency of each image.

    Both maps are divided by 1e-7 + their sum. The divergence is the sum of t * log(1e-7 + t / (1e-7 + p)) over the
    pixels. The evaluation metric of the same name (`trainer.metrics.kld`) has a different epsilon.

    Args:
        targets: (B, H, W, 1), the ground truth, at least 0, of any scale.
        predictions: (B, H, W, 1), at least 0, of any scale.

    Returns:
        (B,) float32, in nats.
    """
    targets, predictions = (_distribution(ops.cast(maps, "float32")) for maps in (targets, predictions))
    return ops.sum(targets * ops.log(EPSILON + targets / (EPSILON + predictions)), axis=(1, 2, 3))


def cc(targets: Any, predictions: Any) -> Any:
    """Pearson's correlation of the pixels of the two maps of each image; 0 where a map is constant.

    Args:
        targets: (B, H, W, 1), the ground truth, of any scale.
        predictions: (B, H, W, 1), of any scale.

    Returns:
        (B,) float32 in [-1, 1].
    """
    targets, predictions = (_standard(ops.cast(maps, "float32")) for maps in (targets, predictions))
    return ops.mean(targets * predictions, axis=(1, 2, 3))


def sim(targets: Any, predictions: Any) -> Any:
    """Similarity, the sum of the smaller one of the two distributions at each pixel; arguments as of `kld`.

    Returns:
        (B,) float32 in [0, 1].
    """
    targets, predictions = (_distribution(ops.cast(maps, "float32")) for maps in (targets, predictions))
    return ops.sum(ops.minimum(targets, predictions), axis=(1, 2, 3))


def weighted(targets: Any, predictions: Any, cc_weight: float = 0.0, sim_weight: float = 0.0) -> Any:
    """KLD + cc_weight * (1 - CC) + sim_weight * (1 - SIM) of each image, (B,) float32; arguments as of `kld`.

    SAM (Cornia et al. 2018, "Predicting Human Eye Fixations via an LSTM-based Saliency Attentive Model") and
    TranSalNet (Lou et al. 2022) train with sums of such metrics: SAM with 10 KLD - 2 CC - NSS, which would be a
    cc_weight of 0.2. NSS is left out: it needs fixations, and taken over a density it is CC up to a factor of the
    image.
    """
    loss = kld(targets, predictions)
    if cc_weight:
        loss = loss + cc_weight * (1.0 - cc(targets, predictions))
    if sim_weight:
        loss = loss + sim_weight * (1.0 - sim(targets, predictions))
    return loss


def _standard(maps: Any) -> Any:
    """Mean 0 and standard deviation 1 within each image; 0 for a constant map."""
    maps = maps / (EPSILON + ops.max(ops.abs(maps), axis=(1, 2, 3), keepdims=True))
    maps = maps - ops.mean(maps, axis=(1, 2, 3), keepdims=True)
    return maps / ops.sqrt(EPSILON**2 + ops.mean(maps * maps, axis=(1, 2, 3), keepdims=True))


def _distribution(maps: Any) -> Any:
    return maps / (EPSILON + ops.sum(maps, axis=(1, 2, 3), keepdims=True))
