"""Resize and pad images and maps to the network's input size, and resize predictions back.

The arithmetic is that of the reference (alexanderkroner/saliency, data.py): the aspect ratio is kept, sizes are
rounded, and padding is symmetric. Shrinking averages areas, enlarging is bicubic; both use TensorFlow 1's aligned
corners. All functions are TensorFlow operations, so that exported models run the same code; for a NumPy array they
return a NumPy array.
"""

from typing import Any

import tensorflow as tf

STIMULUS_PADDING = 126.0
MAP_PADDING = 0.0
SHARPNESS = -0.75
"""The parameter *a* of TensorFlow 1's kernel (Keys 1981, "Cubic convolution interpolation", equation 15)."""
STEPS = 1024
"""Steps from one pixel to the next in the table from which TensorFlow reads the kernel."""

Size = tuple[int, int]


def prepare_stimulus(image: Any, size: Size) -> Any:
    """Fit an image into the network's input.

    Args:
        image: (h, w, 3) RGB, 0..255, any numeric type.
        size: (H, W) of the network's input, pixels.

    Returns:
        (H, W, 3) float32 in 0..255, padded with 126.
    """
    return _like(image, _fit(image, size, STIMULUS_PADDING))


def prepare_map(values: Any, size: Size) -> Any:
    """Fit a saliency map into the network's output.

    Args:
        values: (h, w) or (h, w, 1), 0..255.
        size: (H, W) of the network's output, pixels.

    Returns:
        (H, W) or (H, W, 1) like the input, float32 in 0..255, padded with 0.
    """
    if len(values.shape) == 3:
        return _like(values, _fit(values, size, MAP_PADDING))
    return _like(values, _fit(tf.convert_to_tensor(values)[..., None], size, MAP_PADDING)[..., 0])


def fit_map(values: Any, original_size: Size, size: Size) -> Any:
    """Fit a saliency map into a frame, without the padding.

    Args:
        values: (h, w), 0..255, of an image of any size in these proportions.
        original_size: Height and width of the image, pixels, which say what part of the frame it fills.
        size: (H, W) of the frame, pixels.

    Returns:
        (h', w') float32 in 0..255, with h' = H or w' = W.
    """
    top, left, height, width = content_box(original_size, size)
    return prepare_map(values, size)[top : top + height, left : left + width]


def restore_map(values: Any, size: Size) -> Any:
    """Resize a predicted map to the size of its image, as grey levels.

    Args:
        values: (H, W) or (H, W, 1), 0..1, the network's output.
        size: (h, w) of the image, pixels.

    Returns:
        (h, w) or (h, w, 1) like the input, uint8.
    """
    levels = tf.round(tf.clip_by_value(_overfill(values, size) * 255, 0, 255))
    return _like(values, tf.cast(levels, tf.uint8))


def resize_back(values: Any, size: Size) -> Any:
    """Resize a predicted map to the size of its image in float32, neither scaled, clipped nor rounded.

    Shapes are those of `restore_map`.
    """
    return _like(values, _overfill(values, size))


def content_box(original_size: Size, size: Size) -> tuple[int, int, int, int]:
    """The part of the padded frame that the image fills.

    Args:
        original_size: (h, w) of the image, pixels.
        size: (H, W) of the frame, pixels.

    Returns:
        (top, left, height, width), pixels of the frame.
    """
    (height, width), (top, left) = _placement(tf.constant(original_size), size)
    return int(top), int(left), int(height), int(width)


def _like(given: Any, tensor: tf.Tensor) -> Any:
    """Return `tensor`, as a NumPy array unless `given` is a tensor."""
    return tensor if tf.is_tensor(given) else tensor.numpy()


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
    """(h, w, c) to (size, c): area averaging if it shrinks, else bicubic; corners aligned."""
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
        (h, w) float32; the kernel overshoots, so values can be outside the map's range.
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
