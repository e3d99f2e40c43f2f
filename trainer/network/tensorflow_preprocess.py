"""The resizing of `trainer.network.preprocess` in TensorFlow operations, for models exported to servers."""

from typing import Any

import tensorflow as tf

from trainer.network.preprocess import SHARPNESS, STEPS, STIMULUS_PADDING, Size


def prepare_stimulus(image: tf.Tensor, size: Size) -> tf.Tensor:
    """Fit an image (h, w, 3) into the network's input, (H, W, 3), as `preprocess.Frame.image` does."""
    return _fit(image, size, STIMULUS_PADDING)


def restore_map(values: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Resize a predicted map to the size of its image, (2,) int32, as `preprocess.restore_map` does."""
    return tf.cast(tf.round(tf.clip_by_value(_overfill(values, size) * 255, 0, 255)), tf.uint8)


def _scaled(original_size: tf.Tensor, ratio: tf.Tensor) -> tf.Tensor:
    """The size times the ratio, rounded (half to even, as NumPy and TensorFlow 1 do), at least one pixel."""
    return tf.maximum(1, tf.cast(tf.round(tf.cast(original_size, tf.float64) * ratio), tf.int32))


def _ratios(original_size: tf.Tensor, size: Any) -> tf.Tensor:
    return tf.cast(size, tf.float64) / tf.cast(original_size, tf.float64)


def _placement(original_size: tf.Tensor, size: Size) -> tuple[tf.Tensor, tf.Tensor]:
    """(height, width) of the fitted image and its (top, left) in the frame."""
    fitted = _scaled(original_size, tf.reduce_min(_ratios(original_size, size)))
    return fitted, (tf.constant(size) - fitted) // 2


def _resize(image: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """(h, w, c) to (size, c): area averaging if it shrinks, else bicubic. Corners are aligned."""
    batch = image[None]  # not cast: both operations return float32, and a large image needs less memory as it is
    shrinks = tf.reduce_all(size <= tf.shape(image)[:2]) & tf.reduce_any(size < tf.shape(image)[:2])
    resized = tf.cond(
        shrinks,
        lambda: tf.raw_ops.ResizeArea(images=batch, size=size, align_corners=True),
        lambda: tf.raw_ops.ResizeBicubic(images=batch, size=size, align_corners=True),
    )
    return resized[0]


def _fit(image: Any, size: Size, padding: float) -> tf.Tensor:
    image = tf.convert_to_tensor(image)
    fitted, offset = _placement(tf.shape(image)[:2], size)
    resized = tf.clip_by_value(_resize(image, fitted), 0, 255)
    after = tf.constant(size) - fitted - offset
    paddings = tf.stack([tf.stack([offset[0], after[0]]), tf.stack([offset[1], after[1]]), tf.zeros(2, tf.int32)])
    padded = tf.pad(resized, paddings, constant_values=padding)
    return tf.ensure_shape(padded, (*size, image.shape[-1]))


def _overfill(prediction: Any, size: Any) -> tf.Tensor:
    """Resize until both sides cover `size`, then crop the centre: the inverse of fitting and padding."""
    levels = tf.cast(prediction, tf.float32)
    if len(levels.shape) == 3:
        return _overfill(levels[..., 0], size)[..., None]
    size = tf.convert_to_tensor(size, tf.int32)
    ratio = tf.reduce_max(_ratios(tf.shape(levels), size))
    whole = _scaled(tf.shape(levels), ratio)
    start = (whole - size) // 2

    def shrunk() -> tf.Tensor:
        (top, left), (height, width) = tf.unstack(start), tf.unstack(size)
        return _resize(levels[..., None], whole)[top : top + height, left : left + width, 0]

    return tf.cond(ratio < 1, shrunk, lambda: resize_part(levels, whole, start, size))


# === TensorFlow 1's bicubic interpolation with aligned corners, for a part of the resized map ===
#
# TensorFlow must resize the whole map before a part can be cropped: for a banner of 20,000 x 10 pixels 300 million
# values, of which 200,000 are kept. Here memory grows with the part only, and the bits are the same (see
# research/log.md).


def resize_part(values: tf.Tensor, whole: tf.Tensor, start: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Resize a map and keep a part of it.

    Args:
        values: (H, W) float32.
        whole: (2,) int32, height and width of the resized map, pixels.
        start: (2,) int32, first row and column of the part.
        size: (2,) int32, (h, w) of the part.

    Returns:
        (h, w) float32. The kernel overshoots, so values can be outside the map's range.
    """
    height, width = tf.unstack(tf.shape(values))
    rows = _resize_rows(values, *taps(height, whole[0], start[0], size[0]))
    # Rows first, as TensorFlow does. Columns are transposed to rows, because whole rows are gathered faster.
    return tf.transpose(_resize_rows(tf.transpose(rows), *taps(width, whole[1], start[1], size[1])))


def _resize_rows(values: tf.Tensor, places: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Resize rows: (n, m) to (kept, m)."""
    resized = weights[0][:, None] * tf.gather(values, places[0])
    for tap in range(1, 4):
        with tf.control_dependencies([resized]):  # a graph would gather all four at once, for more memory
            gathered = tf.gather(values, places[tap])
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
