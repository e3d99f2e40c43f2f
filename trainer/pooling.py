"""Max-pooling, with a gradient that XLA compiles for GPUs to the same bits in every run."""

from typing import Any

import keras
import numpy as np
from keras import ops

own_gradient: bool | None = None
"""Whether the gradient is the one here; None: where there is a GPU."""


def max_pool(x: Any, stride: int) -> Any:
    """Largest of each 2 x 2 pixels: (B, h, w, C) to (B, h // 2, w // 2, C) for stride 2, to the same size for 1.

    XLA's own gradient scatters, which has an order on TPUs and none on GPUs: where operations are to be
    deterministic it refuses to compile it. The one here reads and writes each pixel once. A TPU keeps XLA's, which
    moves fewer bytes there (docs/log.md).
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
    """`dy` (B, h', w', C) at the first of the largest pixels of each window, as TensorFlow does: (B, h, w, C)."""
    _, height, width, channels = ops.shape(x)
    _, rows, columns, _ = ops.shape(y)
    if stride == 1:
        x = ops.pad(x, ((0, 0), (0, 1), (0, 1), (0, 0)), constant_values=-np.inf)
    free, parts = True, []
    for row, column in np.ndindex(2, 2):
        here = x[:, row : row + stride * rows : stride, column : column + stride * columns : stride]
        taken = ops.logical_and(free, ops.equal(here, y))
        free = ops.logical_and(free, ops.logical_not(taken))
        parts.append(ops.where(taken, dy, ops.zeros_like(dy)))
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
