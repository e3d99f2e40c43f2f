"""Resize and pad images and maps to the network's input size, and resize predictions back.

The arithmetic is that of the reference (alexanderkroner/saliency, data.py): the aspect ratio is kept, sizes are
rounded, and padding is symmetric. Shrinking averages areas, enlarging is bicubic; both use TensorFlow 1's aligned
corners. All functions are TensorFlow operations, so that exported models run the same code; for a NumPy array they
return a NumPy array.
"""

from typing import Any

import tensorflow as tf

from trainer import bicubic

STIMULUS_PADDING = 126.0
MAP_PADDING = 0.0

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


def prepare_map(map: Any, size: Size) -> Any:
    """Fit a saliency map into the network's output.

    Args:
        map: (h, w) or (h, w, 1), 0..255.
        size: (H, W) of the network's output, pixels.

    Returns:
        (H, W) or (H, W, 1) like the input, float32 in 0..255, padded with 0.
    """
    if len(map.shape) == 3:
        return _like(map, _fit(map, size, MAP_PADDING))
    return _like(map, _fit(tf.convert_to_tensor(map)[..., None], size, MAP_PADDING)[..., 0])


def restore_map(map: Any, size: Size) -> Any:
    """Resize a predicted map to the size of its image, as grey levels.

    Args:
        map: (H, W) or (H, W, 1), 0..1, the network's output.
        size: (h, w) of the image, pixels.

    Returns:
        (h, w) or (h, w, 1) like the input, uint8.
    """
    levels = tf.round(tf.clip_by_value(_overfill(map, size) * 255, 0, 255))
    return _like(map, tf.cast(levels, tf.uint8))


def resize_back(map: Any, size: Size) -> Any:
    """Resize a predicted map to the size of its image in float32, neither scaled, clipped nor rounded.

    Shapes are those of `restore_map`.
    """
    return _like(map, _overfill(map, size))


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


def _like(input: Any, tensor: tf.Tensor) -> Any:
    """`tensor`, as a NumPy array unless `input` is a tensor."""
    return tensor if tf.is_tensor(input) else tensor.numpy()


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

    return tf.cond(ratio < 1, shrunk, lambda: bicubic.resize_part(levels, whole, start, size))
