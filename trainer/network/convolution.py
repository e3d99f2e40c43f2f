"""Convolutions of stride 1, with the fastest gradients for this device.

Keras and TensorFlow are slow on a CPU in two places (docs/adr/0011-right-and-fast-on-any-cpu.md has the figures):

- For a dilated convolution Keras calls `tf.nn.convolution`. It cuts the map into `dilation` squared maps, pads
  them to the same size, and joins the results: at dilation 12 on 30 x 40 pixels that costs 44% more arithmetic and
  three copies. `tf.nn.conv2d` accepts the dilation directly.
- On CPUs with AVX2 and without AVX-512, oneDNN's gradient with respect to the kernel reaches a fifth to two thirds
  of the speed of a matrix product. Matrix products of shifted maps reach nine tenths. On AVX-512 they are faster
  than oneDNN in the deeper layers, and about as fast in the first ones.
"""

import functools
from typing import Any

import keras
from keras import ops

chip: bool | None = None
"""Whether the step runs on a GPU or a TPU, which compile TensorFlow's own operations.

None means if this machine has one. Set it to compile a step for a chip that this machine does not have.
"""
MIN_CHANNELS = 16
"""Fewest channels at which matrix products of shifted maps are faster than oneDNN's gradient."""


def convolve(x: Any, kernel: Any, dilation: int = 1, training: bool = False) -> Any:
    """Convolve with zero padding, on any Keras backend.

    Args:
        x: (B, h, w, C), any float.
        kernel: (k, l, C, F) of x's type, where k and l are odd, such as 3.
        dilation: distance of neighbouring taps in pixels, along both axes.
        training: whether gradients will be computed. Their values do not depend on it.

    Returns:
        (B, h, w, F) of x's type.
    """
    if keras.backend.backend() != "tensorflow":
        return _by_keras(x, kernel, dilation)
    on_chip = _has_chip() if chip is None else chip
    if dilation > 1 and not on_chip and not _has_dilated_gradient(keras.backend.standardize_dtype(x.dtype)):
        return _by_keras(x, kernel, dilation)
    if training and not on_chip and _is_faster(x.shape, kernel.shape):
        return _with_own_gradient(x, kernel, dilation)
    return _by_tensorflow(x, kernel, dilation)


def _by_keras(x: Any, kernel: Any, dilation: int) -> Any:
    return ops.conv(x, kernel, padding="same", dilation_rate=dilation, data_format="channels_last")


def _by_tensorflow(x: Any, kernel: Any, dilation: int) -> Any:
    import tensorflow as tf

    return tf.nn.conv2d(x, kernel, strides=1, padding="SAME", dilations=dilation)


def _is_faster(shape: Any, kernel_shape: Any) -> bool:
    """Whether our gradient with respect to the kernel is faster than TensorFlow's."""
    rows, columns, channels, filters = kernel_shape
    is_static = shape[1] is not None and shape[2] is not None
    return bool(is_static and (rows > 1 or columns > 1) and min(channels, filters) >= MIN_CHANNELS)


def _with_own_gradient(x: Any, kernel: Any, dilation: int) -> Any:
    import tensorflow as tf

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def convolution(x: Any, kernel: Any) -> Any:
        def gradients(dy: Any) -> tuple[Any, Any]:
            dx = tf.nn.conv2d_transpose(dy, kernel, tf.shape(x), strides=1, padding="SAME", dilations=dilation)
            return dx, kernel_gradient(x, dy, kernel.shape[:2], dilation)

        return _by_tensorflow(x, kernel, dilation), gradients

    return convolution(x, kernel)


def kernel_gradient(x: Any, dy: Any, size: tuple[int, int], dilation: int = 1) -> Any:
    """Gradient of `convolve` with respect to its kernel: one matrix product per row of the kernel, in TensorFlow.

    The map is shifted by each of the row's columns and concatenated as channels, once for all rows. The axis of
    lines comes first, so that the lines that a row covers need no copy. Taps that never overlap the map have
    gradient 0 and cost nothing: at dilation 12 and 9 x 12 pixels that is every tap except the middle one.

    Args:
        x: (B, h, w, C), input of the convolution, where h and w are static.
        dy: (B, h, w, F), gradient with respect to the result.
        size: (k, l), rows and columns of the kernel, both odd.
        dilation: as in `convolve`.

    Returns:
        (k, l, C, F) of x's type.
    """
    import tensorflow as tf

    height, width, channels, filters = x.shape[1], x.shape[2], x.shape[3], dy.shape[3]
    # Taps on either side of the middle that overlap the map.
    above, left = (min(k // 2, (side - 1) // dilation) for k, side in zip(size, (height, width), strict=True))
    x, dy = (tf.transpose(maps, (1, 0, 2, 3)) for maps in (x, dy))  # lines first, which copies nothing if B is 1
    padded = tf.pad(x, ((0, 0), (0, 0), (left * dilation, left * dilation), (0, 0)))
    columns = range(0, (2 * left + 1) * dilation, dilation)
    shifted = tf.concat([padded[:, :, column : column + width] for column in columns], axis=3)
    products = []
    for offset in range(-above * dilation, above * dilation + 1, dilation):
        first, last = max(0, -offset), height - max(0, offset)  # lines of dy for which the tap lies on the map
        matrix = tf.reshape(shifted[first + offset : last + offset], (-1, (2 * left + 1) * channels))
        products.append(tf.matmul(matrix, tf.reshape(dy[first:last], (-1, filters)), transpose_a=True))
    gradient = tf.reshape(tf.concat(products, axis=0), (2 * above + 1, 2 * left + 1, channels, filters))
    beyond = [(count, count) for count in (size[0] // 2 - above, size[1] // 2 - left)]
    return tf.pad(gradient, (*beyond, (0, 0), (0, 0)))


def _has_chip() -> bool:
    import tensorflow as tf

    return bool(tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("TPU"))


@functools.cache
def _has_dilated_gradient(dtype: str) -> bool:
    """Whether TensorFlow has a gradient of dilated convolutions in `dtype` on this CPU.

    oneDNN has one, in the types that the CPU can multiply. Eigen has none.
    """
    import tensorflow as tf

    with tf.init_scope():
        x, kernel = tf.ones((1, 2, 2, 1), dtype), tf.ones((3, 3, 1, 1), dtype)
        try:
            tf.nn.conv2d_transpose(x, kernel, (1, 2, 2, 1), strides=1, padding="SAME", dilations=2)
        except tf.errors.OpError:
            return False
    return True
