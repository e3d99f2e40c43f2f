"""TensorFlow 1's bicubic interpolation with aligned corners, for a part of the resized map.

TensorFlow must resize the whole map before a part can be cropped: for a banner of 20,000 x 10 pixels 300 million
values, of which 200,000 are kept. Here memory grows with the part only, and the bits are the same (docs/log.md).
"""

import tensorflow as tf

SHARPNESS = -0.75
"""The parameter *a* of TensorFlow 1's kernel (Keys 1981, "Cubic convolution interpolation", equation 15)."""
STEPS = 1024
"""Steps from one pixel to the next in the table from which TensorFlow reads the kernel."""


def resize_part(map: tf.Tensor, whole: tf.Tensor, start: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Resize a map and keep a part of it.

    Args:
        map: (H, W) float32.
        whole: (2,) int32, height and width of the resized map, pixels.
        start: (2,) int32, first row and column of the part.
        size: (2,) int32, (h, w) of the part.

    Returns:
        (h, w) float32; the kernel overshoots, so values can be outside the map's range.
    """
    height, width = tf.unstack(tf.shape(map))
    rows = _resize_rows(map, *taps(height, whole[0], start[0], size[0]))
    # Rows first, as TensorFlow does. Columns are transposed to rows, because whole rows are gathered faster.
    return tf.transpose(_resize_rows(tf.transpose(rows), *taps(width, whole[1], start[1], size[1])))


def _resize_rows(map: tf.Tensor, places: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Resize rows: (n, m) to (kept, m)."""
    resized = weights[0][:, None] * tf.gather(map, places[0])
    for tap in range(1, 4):
        with tf.control_dependencies([resized]):  # a graph would gather all four at once, for more memory
            gathered = tf.gather(map, places[tap])
        resized += weights[tap][:, None] * gathered
    return resized


def taps(length: tf.Tensor, whole: tf.Tensor, start: tf.Tensor, kept: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Source indices and weights of `kept` values, from `start` on, of a line resized from `length` to `whole`.

    Returns:
        Indices in the line, (4, kept) int32, and the weights of the values there, (4, kept) float32.
    """
    step = tf.math.divide_no_nan(tf.cast(length - 1, tf.float32), tf.cast(whole - 1, tf.float32))
    at = tf.cast(tf.range(start, start + kept), tf.float32) * step
    first = tf.floor(at)
    # In single precision the weights, and some grey levels with them, would differ from TensorFlow's.
    x = tf.cast(tf.round((at - first) * STEPS), tf.float64) / STEPS
    weights = tf.stack([_far(x + 1), _near(x), _near(1 - x), _far(2 - x)])
    places = tf.cast(first, tf.int32) + tf.range(-1, 3)[:, None]
    return tf.clip_by_value(places, 0, length - 1), tf.cast(weights, tf.float32)


def _near(x: tf.Tensor) -> tf.Tensor:
    """The kernel at a distance of 0 to 1 pixel."""
    return ((SHARPNESS + 2) * x - (SHARPNESS + 3)) * x * x + 1


def _far(x: tf.Tensor) -> tf.Tensor:
    """The kernel at a distance of 1 to 2 pixels."""
    return ((SHARPNESS * x - 5 * SHARPNESS) * x + 8 * SHARPNESS) * x - 4 * SHARPNESS
