"""Max-pooling with a gradient that is deterministic on GPUs under XLA."""

from typing import Any

import keras
import numpy as np
from keras import ops

own_gradient: bool | None = None
"""Whether to use the gradient of this module; None: if this machine has a GPU."""


def max_pool(x: Any, stride: int) -> Any:
    """Maximum of each 2 x 2 window.

    XLA's own gradient is a scatter. Its order is fixed on TPUs but not on GPUs, where XLA refuses to compile it if
    operations must be deterministic. The gradient of this module reads and writes each pixel once. A TPU keeps
    XLA's, which moves fewer bytes there (docs/log.md).

    Args:
        x: (B, h, w, C).
        stride: 2, or 1.

    Returns:
        (B, h // 2, w // 2, C) for stride 2, (B, h, w, C) for stride 1.
    """
    padding = "valid" if stride == 2 else "same"
    if not (_on_gpu() if own_gradient is None else own_gradient):
        return ops.max_pool(x, 2, stride, padding, "channels_last")

    @ops.custom_gradient  # type: ignore[untyped-decorator]
    def pool(x: Any) -> Any:
        y = ops.max_pool(x, 2, stride, padding, "channels_last")
        return y, lambda dy: _gradient(x, y, dy, stride)

    return pool(x)


def _gradient(x: Any, y: Any, dy: Any, stride: int) -> Any:
    """`dy` (B, h', w', C) at the first maximum of each window, as in TensorFlow: (B, h, w, C)."""
    _, height, width, channels = ops.shape(x)
    _, rows, columns, _ = ops.shape(y)
    if stride == 1:
        x = ops.pad(x, ((0, 0), (0, 1), (0, 1), (0, 0)), constant_values=-np.inf)
    is_open, parts = True, []  # whether the maximum of a window is still to come
    for row, column in np.ndindex(2, 2):
        pixels = x[:, row : row + stride * rows : stride, column : column + stride * columns : stride]
        is_maximum = ops.logical_and(is_open, ops.equal(pixels, y))
        is_open = ops.logical_and(is_open, ops.logical_not(is_maximum))
        parts.append(ops.where(is_maximum, dy, ops.zeros_like(dy)))
    if stride == 1:
        total = ops.zeros_like(x)
        for (row, column), part in zip(np.ndindex(2, 2), parts, strict=True):
            total = total + ops.pad(part, ((0, 0), (row, 1 - row), (column, 1 - column), (0, 0)))
        return total[:, :height, :width]
    pairs = ops.stack([ops.stack(parts[:2], axis=3), ops.stack(parts[2:], axis=3)], axis=2)
    whole = ops.reshape(pairs, (-1, 2 * rows, 2 * columns, channels))
    return ops.pad(whole, ((0, 0), (0, height - 2 * rows), (0, width - 2 * columns), (0, 0)))


def _on_gpu() -> bool:
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return bool(tf.config.list_logical_devices("GPU"))
