"""Fit the calibration of a trained network to validation images, and keep it if other images gain by it.

Few images cannot determine seven numbers alone. So the numbers have the highest posterior probability. A
Gaussian prior weighs as much as a few images, and little beside many. Its mean is the calibration of the base
model.
"""

import itertools
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from scipy import optimize, stats

from trainer.data import PreparedData
from trainer.machine import Tracker
from trainer.network import Calibration, Positions
from trainer.training.loss import kld_loss

MOST_IMAGES = 200
FEWEST_IMAGES = 15
"""With fewer, a gain of the halves is seldom significant, and says little about other images."""
SHRINKING = 4
"""Factor by which maps are shrunk for the fit: they are smooth, and it is 16 times as fast."""
BATCH_SIZE = 8
PRIOR = Calibration(exponent=0.8, bias_logit=0.0, bias_slope=1.5, bias_height=0.2, bias_width=0.2)
"""Mean of the prior where the base model has no calibration."""
DEVIATIONS = np.array([0.5, 2.0, 1.5, 0.5, 0.5, 0.15, 0.15])
"""Standard deviations of the prior, in the order of `Calibration.numbers`."""
PENALTY = 0.03
"""KLD, in nats and summed over the images, that a number costs at one standard deviation from its prior."""

Data = tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]
"""Maps of the network and of the dataset, (N, h, w), and the `Positions` of their rows and columns."""


def calibrate(
    network: Callable[[tf.Tensor], tf.Tensor],
    dataset: pathlib.Path,
    n_images: int,
    prior: Calibration | None = None,
) -> Calibration | None:
    """Fit a calibration to the validation images of a prepared dataset, and say what it gains.

    Args:
        network: Callable[[tf.Tensor], tf.Tensor]s maps that are not calibrated.
        dataset: Folder of the dataset.
        n_images: Number of its validation images. At most about MOST_IMAGES are used.
        prior: Calibration of the base model. PRIOR if there is none.

    Returns:
        The calibration with the lowest KLD. None with fewer than FEWEST_IMAGES, or if the calibrations fitted to
        the two halves of the images do not lower the KLD of the other half significantly.
    """
    if n_images < FEWEST_IMAGES:
        print(f"not calibrated: that takes {FEWEST_IMAGES} validation images, and there are {n_images}")
        return None
    examples = PreparedData(dataset).some_examples("valid", MOST_IMAGES)
    predicted = predict_shrunk(tf.function(network, autograph=False), iter(examples), len(examples))
    return fit_calibration(predicted, prior or PRIOR)


def predict_shrunk(network: Callable[[tf.Tensor], tf.Tensor], examples: Any, n_images: int) -> Data:
    """Predict the maps of some examples, and shrink them and the dataset's maps."""
    batches = []
    with Tracker("calibrate", n_images, "images") as tracker:
        while batch := list(itertools.islice(examples, BATCH_SIZE)):
            images = np.stack([each.stimulus for each in batch]).astype(np.float32)
            densities = np.stack([each.density for each in batch]).astype(np.float32)
            rows, columns = Positions.of(images)
            batches.append(
                (
                    _shrunk(network(images)[..., 0]),
                    _shrunk(densities),
                    tf.reduce_mean(tf.reshape(rows, (len(batch), -1, SHRINKING)), axis=2),
                    tf.reduce_mean(tf.reshape(columns, (len(batch), -1, SHRINKING)), axis=2),
                )
            )
            tracker.advance(len(batch))
    maps, densities, rows, columns = (tf.concat(parts, axis=0) for parts in zip(*batches, strict=True))
    return maps, densities / tf.reduce_sum(densities, axis=(1, 2), keepdims=True), rows, columns


def _shrunk(maps: Any) -> tf.Tensor:
    """(N, H, W) to (N, H / SHRINKING, W / SHRINKING)."""
    return tf.nn.avg_pool2d(tf.convert_to_tensor(maps)[..., None], SHRINKING, SHRINKING, "VALID")[..., 0]


def fit_calibration(data: Data, prior: Calibration = PRIOR) -> Calibration | None:
    """Fit a calibration.

    None unless images gain significantly by a calibration that is fitted to the other half.
    """
    halves: list[Data] = [tuple(each[start::2] for each in data) for start in range(2)]
    before = np.concatenate([klds(half, None) for half in halves])
    after = np.concatenate([klds(half, best(other, prior)) for half, other in (halves, halves[::-1])])
    gain = stats.ttest_1samp(before - after, 0).confidence_interval(0.95)
    change = (
        f"KLD {before.mean():.3f} without, {after.mean():.3f} with a calibration that is fitted to the other half"
    )
    if not gain.low > 0:
        print(f"not calibrated: no significant gain ({change})", flush=True)
        return None
    print(f"calibrated: {change}", flush=True)
    return best(data, prior)


def best(data: Data, prior: Calibration = PRIOR) -> Calibration:
    """The calibration with the lowest mean KLD, penalized by its distance from the prior."""
    mean, n_images = prior.numbers, len(data[0])

    def loss(numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(numbers)
            penalty = PENALTY * tf.reduce_sum(((numbers - mean) / DEVIATIONS.astype(np.float32)) ** 2)
            mixed = Positions(*data[2:]).mixture(data[0], numbers)
            value = tf.reduce_mean(_klds(data, mixed)) + penalty / n_images
        return value, tape.gradient(value, numbers)

    compiled = tf.function(loss, [tf.TensorSpec(mean.shape, tf.float32)], autograph=False)

    def evaluate(numbers: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        value, gradient = compiled(tf.constant(numbers, tf.float32))
        return float(value), gradient.numpy().astype(np.float64)

    return Calibration.of_numbers(optimize.minimize(evaluate, mean, jac=True, method="L-BFGS-B").x)


def klds(data: Data, calibration: Calibration | None) -> NDArray[np.float64]:
    """Compute the KLD of each image, (N,), for the calibrated maps, or for the network's own if there is none."""
    maps = data[0]
    if calibration is None:
        predicted = maps / tf.reduce_sum(maps, axis=(1, 2), keepdims=True)
    else:
        predicted = Positions(*data[2:]).mixture(maps, tf.constant(calibration.numbers))
    return np.asarray(_klds(data, predicted), np.float64)


def _klds(data: Data, predicted: tf.Tensor) -> tf.Tensor:
    """The training loss of predicted distributions, (N, h, w)."""
    return kld_loss(data[1][..., None], predicted[..., None])
