"""Dilated convolution, also where Keras' own way through TensorFlow is the slow one."""

from typing import Any

import keras
from keras import ops

direct: bool | None = None
"""Whether TensorFlow's operation takes the dilation; None: where there is a GPU or a TPU. Set it to lower a step
for a chip that is not here."""


def convolve(x: Any, kernel: Any, dilation: int) -> Any:
    """(B, h, w, C) and (k, k, C, F) to (B, h, w, F), stride 1, zeros beyond the border, any Keras backend.

    `tf.nn.convolution`, which Keras calls, cuts a map into `dilation` squared maps, pads each to the same size,
    and puts the results together again: at dilation 12 on 30 x 40 pixels that is 44% more arithmetic, and three
    copies. TensorFlow's operation takes the dilation itself, but not well on processors: Eigen's has no gradient,
    and the gradient of oneDNN's has other bits in every run, deterministic operations asked for or not
    (docs/log.md).
    """
    if dilation > 1 and keras.backend.backend() == "tensorflow" and (_on_chip() if direct is None else direct):
        import tensorflow as tf

        return tf.nn.conv2d(x, kernel, strides=1, padding="SAME", dilations=dilation)
    return ops.conv(x, kernel, padding="same", dilation_rate=dilation, data_format="channels_last")


def _on_chip() -> bool:
    import tensorflow as tf

    return bool(tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("TPU"))
