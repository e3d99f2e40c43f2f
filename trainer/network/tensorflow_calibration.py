"""Apply a calibration to maps in TensorFlow, with gradients for its numbers."""

from typing import Any, NamedTuple, Self

import tensorflow as tf

from trainer.network import preprocess
from trainer.network.calibration import SMALL, Calibration


def calibrated(calibration: Calibration, maps: tf.Tensor, images: tf.Tensor) -> tf.Tensor:
    """Calibrate maps, (N, H, W, 1) in [0, 1], of prepared images, (N, H, W, 3).

    Returns:
        (N, H, W, 1) in [0, 1], each with a maximum of 1.
    """
    mixed = Positions.of(images).mixture(maps[..., 0], tf.constant(calibration.numbers))
    return (mixed / tf.reduce_max(mixed, axis=(1, 2), keepdims=True))[..., None]


class Positions(NamedTuple):
    """Where the rows and columns of prepared images lie: distance from the middle, divided by the image's side.

    It is -0.5 to 0.5 inside the image, and beyond in the padding. Example: 0 is the middle row.
    """

    rows: tf.Tensor
    """(N, H)."""
    columns: tf.Tensor
    """(N, W)."""

    @classmethod
    def of(cls, images: Any) -> Self:
        """The places of the rows and columns of images. Their padding is found by its colour.

        Padding has the same width on both sides, and is either above and below or left and right. Borders of that
        colour that are not so belong to the image.

        Args:
            images: (N, H, W, 3), 0..255, prepared.
        """
        inside = tf.reduce_any(tf.not_equal(images, preprocess.STIMULUS_PADDING), axis=3)
        above, left = _padding(tf.reduce_any(inside, axis=2)), _padding(tf.reduce_any(inside, axis=1))
        both = tf.reduce_any(above > 0, axis=1, keepdims=True) & tf.reduce_any(left > 0, axis=1, keepdims=True)
        height, width = tf.unstack(tf.shape(images)[1:3])
        return cls(_positions(tf.where(both, 0, above), height), _positions(tf.where(both, 0, left), width))

    def mixture(self, maps: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
        """Calibrate maps, with gradients for the numbers.

        Args:
            maps: (N, H, W), not negative.
            numbers: `Calibration.numbers`.

        Returns:
            (N, H, W). Each map sums to 1 inside the image, and goes on in the padding, so that its edge can be
            resized.
        """
        exponent, logit, slope, height, width, y, x = tf.unstack(numbers)
        is_row, is_column = (tf.cast(tf.abs(each) < 0.5, tf.float32) for each in self)
        inside = is_row[:, :, None] * is_column[:, None, :]
        logs = tf.math.log(_distribution(maps, inside) + SMALL)
        entropy = -tf.reduce_sum(inside * tf.exp(logs) * logs, axis=(1, 2))
        uniform = tf.math.log(tf.reduce_sum(inside, axis=(1, 2)))
        share = tf.sigmoid(logit - slope * (uniform - entropy))[:, None, None]
        vertical = tf.exp(-0.5 * ((self.rows - y) / tf.exp(height)) ** 2)[:, :, None]
        horizontal = tf.exp(-0.5 * ((self.columns - x) / tf.exp(width)) ** 2)[:, None, :]
        power = _distribution(tf.exp(tf.exp(exponent) * logs), inside)
        return (1 - share) * power + share * _distribution(vertical * horizontal, inside)


def _padding(inside: tf.Tensor) -> tf.Tensor:
    """The padding before and after the image, (N, 2), of (N, n) rows or columns that are inside it or not."""
    ends = tf.stack([inside, inside[:, ::-1]], axis=1)
    padding = tf.argmax(tf.cast(ends, tf.int32), axis=2, output_type=tf.int32)
    return tf.where(tf.abs(padding[:, :1] - padding[:, 1:]) <= 1, padding, 0)


def _positions(padding: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
    """The positions, (N, length), with this `padding`, (N, 2), before and after the image."""
    before, after = tf.split(tf.cast(padding, tf.float32), 2, axis=1)
    length = tf.cast(length, tf.float32)
    return (tf.range(length)[None] + 0.5 - (length + before - after) / 2) / (length - before - after)


def _distribution(maps: tf.Tensor, inside: tf.Tensor) -> tf.Tensor:
    """Maps (N, H, W) divided by their sums inside the image."""
    return maps / (tf.reduce_sum(maps * inside, axis=(1, 2), keepdims=True) + SMALL)
