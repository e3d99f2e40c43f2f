"""The layers of MSI-Net, rearranged to move fewer bytes. Keras operations only, for any Keras backend.

Three rearrangements compute the same function as the plain layers (research/benchmarks.md has the savings):

- Bias and ReLU follow the max-pooling instead of preceding it. Both commute with a maximum. Only a quarter of the
  values is left to add and to clip, and the gradient needs no mask of the large map.
- A convolution of a map doubled in height and width becomes a convolution of the small map. Each small pixel
  yields four pixels as channels (*phases*), so the large map is never written.
- If some channels of a map are the same in all pixels, its 1x1 convolution becomes two: one of the other channels,
  and one of a single pixel of these.
"""

from typing import Any

import keras
import numpy as np
from keras import ops

from trainer.network.architecture import EPSILON
from trainer.network.convolution import convolve

own_gradient: bool | None = None
"""Whether `max_pool` has the gradient of this module. None means if this machine has a GPU."""

# === Max-pooling ===


def max_pool(x: Any, stride: int) -> Any:
    """Maximum of each 2 x 2 window.

    XLA's own gradient is a scatter. Its order is fixed on TPUs but not on GPUs, where XLA refuses to compile it if
    operations must be deterministic. The gradient of this module reads and writes each pixel once. A TPU keeps
    XLA's, which moves fewer bytes there (research/log.md).

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


# === Sums of gradients ===


def fan_out(x: Any, count: int) -> list[Any]:
    """Copies of `x`, one for each of its `count` uses, so that their gradients are added in pairs, last two first.

    Example: for three uses, a + (b + c).

    Otherwise TensorFlow adds all gradients in one operation, which starts with any tensor whose memory it can
    reuse. On a CPU, sums of three or more tensors then differ in the last bits between runs (research/log.md).
    """
    uses = [x]
    while len(uses) < count:
        uses.append(ops.copy(uses[-1]))
    return uses


# === Phases ===

# Weights of the small axis in each tap of a 3-tap kernel over the doubled axis, [tap, offset, end, phase], with
# zeros beyond the border. Phase 0 is the even pixel, x[i] of the small axis. Phase 1 is the odd one, (x[i] +
# x[i+1]) / 2.
DOUBLED = np.array(
    [[[[0.5, 0]], [[0.5, 1]], [[0, 0]]], [[[0, 0]], [[1, 0.5]], [[0, 0.5]]], [[[0, 0]], [[0.5, 0]], [[0.5, 1]]]],
    np.float32,
)
# Corrections of DOUBLED in the first and the last small pixel. With x[-1] = 0, a tap sees half of x[0] before the
# first pixel instead of 0. With x[n] = 0, the last odd pixel, which repeats its neighbour, is halved.
AT_ENDS = np.array([[[[-0.5, 0], [0, 0]]], [[[0, 0], [0, 0.5]]], [[[0, 0], [0.5, 0]]]], np.float32)
# A 3-tap kernel over an axis with pairs of pixels as channels: [tap, offset in pairs, input phase, output phase].
PAIRED = np.zeros((3, 3, 2, 2), np.float32)
for _tap, _phase in np.ndindex(3, 2):
    PAIRED[_tap, (_phase + _tap - 1) // 2 + 1, (_phase + _tap - 1) % 2, _phase] = 1


def convolve_doubled(x: Any, kernel: Any, training: bool = False) -> Any:
    """A 3x3 convolution of `x` doubled in height and width. The result is in phases.

    The doubling is bilinear as in TensorFlow 1: out[2i] = in[i], out[2i + 1] = (in[i] + in[i + 1]) / 2, the last
    row and column repeated. Doubling and convolution are linear and separable in height and width.

    Args:
        x: (B, h, w, C).
        kernel: (3, 3, C, F), any float. Transformed in its own type.
        training: as in `trainer.network.convolution.convolve`.

    Returns:
        (B, h, w, 4 F) of x's type. The order of the channels is (row, column, filter).
    """
    kernels = iter(fan_out(kernel, 4))

    def part(region: Any, rows: np.ndarray, columns: np.ndarray) -> Any:
        transformed = ops.einsum("klcf,ktep,lugq->tucgepqf", next(kernels), rows, columns)
        shape = (rows.shape[1], columns.shape[1], kernel.shape[2], -1)
        return convolve(region, ops.cast(ops.reshape(transformed, shape), x.dtype), training=training)

    x, *uses = fan_out(x, 5)
    sides, (top_and_bottom, *borders) = _ends(uses[:2], 2), fan_out(_ends(uses[2:], 1), 3)
    corners = _ends(borders, 2)
    inner = _add_at_ends(part(x, DOUBLED, DOUBLED), part(sides, DOUBLED, AT_ENDS), 2)
    outer = _add_at_ends(part(top_and_bottom, AT_ENDS, DOUBLED), part(corners, AT_ENDS, AT_ENDS), 2)
    return _add_at_ends(inner, outer, 1)


def _ends(uses: list[Any], axis: int) -> Any:
    """The first pixel along `axis` of the first use of a map, and the last pixel of the second use."""
    first, last = [slice(None)] * 4, [slice(None)] * 4
    first[axis], last[axis] = slice(0, 1), slice(-1, None)
    return ops.concatenate([uses[0][tuple(first)], uses[1][tuple(last)]], axis=axis)


def _add_at_ends(x: Any, ends: Any, axis: int) -> Any:
    """Add the border corrections along `axis`: the first C channels of `ends` at index 0 to the first pixel of x,
    the last C channels at index 1 to the last pixel. The other two blocks are by-products, and dropped.
    """
    channels, size = x.shape[3], ops.shape(x)[axis]
    for end, padding in enumerate(((0, size - 1), (size - 1, 0))):
        index = [slice(None)] * 3 + [slice(end * channels, (end + 1) * channels)]
        index[axis] = slice(end, end + 1)
        paddings: list[Any] = [(0, 0)] * 4
        paddings[axis] = padding
        x = x + ops.pad(ends[tuple(index)], paddings)
    return x


def convolve_phases(x: Any, kernel: Any, training: bool = False) -> Any:
    """A 3x3 convolution of phases to phases.

    Args:
        x: (B, h, w, 4 C).
        kernel: (3, 3, C, F), any float. Transformed in its own type.
        training: as in `trainer.network.convolution.convolve`.

    Returns:
        (B, h, w, 4 F) of x's type.
    """
    transformed = ops.einsum("klcf,ktpq,lurs->tuprcqsf", kernel, PAIRED, PAIRED)
    shape = (3, 3, 4 * kernel.shape[2], 4 * kernel.shape[3])
    return convolve(x, ops.cast(ops.reshape(transformed, shape), x.dtype), training=training)


# === Layers ===


@keras.saving.register_keras_serializable("msinet")
class Conv2D(keras.layers.Conv2D):  # type: ignore[misc]
    """A convolution with stride 1 and zero padding, optional max-pooling, bias and activation.

    It has the name of Keras' layer, because weight files count the layers of each class name.

    Args:
        filters: channels of the result.
        kernel_size: side in pixels.
        pool: stride of a 2x2 max-pooling of the result (2 drops an odd last row or column, 1 keeps the size).
            None for no pooling.
            of: the input: `pixels`, `phases`, or `small`, pixels to double first, with a result in phases.
        kwargs: as in `keras.layers.Conv2D`.
    """

    def __init__(
        self, filters: int, kernel_size: int, pool: int | None = None, of: str = "pixels", **kwargs: Any
    ) -> None:
        # No autocast: kernels are transformed in float32, and cast after that.
        super().__init__(filters, kernel_size, padding="same", autocast=False, **kwargs)
        self._pool, self._of = pool, of
        self.input_spec = None  # Keras expects one input

    def build(self, input_shape: Any) -> None:
        """Create a kernel (k, k, channels, filters), with the channels of all inputs, or of one phase."""
        if isinstance(input_shape, list):
            input_shape = (*input_shape[0][:3], sum(shape[3] for shape in input_shape))
        if self._of == "phases":
            input_shape = (*input_shape[:3], input_shape[3] // 4)
        super().build(input_shape)
        self.input_spec = None

    def call(self, inputs: Any, training: bool = False) -> Any:
        """(B, h, w, C), or a list of such maps with (B, 1, 1, C) at its end, to (B, h', w', filters)."""
        x = self._convolved(inputs, bool(training))
        if self._pool:
            x = max_pool(x, self._pool)
        bias = ops.cast(self.bias, x.dtype)
        return self.activation(x + (bias if self._of == "pixels" else ops.tile(bias, 4)))

    def _convolved(self, inputs: Any, training: bool) -> Any:
        if isinstance(inputs, list):
            *maps, constant = (ops.cast(values, self.compute_dtype) for values in inputs)
            x, kernel = ops.concatenate(maps, axis=3), ops.cast(self.kernel, self.compute_dtype)
            channels = x.shape[3]
            return convolve(x, kernel[:, :, :channels]) + convolve(constant, kernel[:, :, channels:])
        x = ops.cast(inputs, self.compute_dtype)
        if self._of == "small":
            return convolve_doubled(x, self.kernel, training)
        if self._of == "phases":
            return convolve_phases(x, self.kernel, training)
        return convolve(x, ops.cast(self.kernel, x.dtype), self.dilation_rate[0], training)

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, ...]:
        """(B, h', w', filters), or four times as many channels for phases."""
        batch, height, width, _ = input_shape[0] if isinstance(input_shape, list) else input_shape
        if self._pool == 2:
            height, width = height and height // 2, width and width // 2
        return batch, height, width, self.filters * (1 if self._of == "pixels" else 4)


@keras.saving.register_keras_serializable("msinet")
class Pixels(keras.layers.Layer):  # type: ignore[misc]
    """Phases to pixels (depth to space)."""

    def call(self, phases: Any) -> Any:
        """(B, h, w, 4 C) to (B, 2h, 2w, C) of the same type."""
        _, height, width, _ = ops.shape(phases)
        channels = phases.shape[3] // 4
        x = ops.reshape(phases, (-1, height, width, 2, 2, channels))
        return ops.reshape(ops.transpose(x, (0, 1, 3, 2, 4, 5)), (-1, 2 * height, 2 * width, channels))

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """(B, 2h, 2w, C)."""
        batch, height, width, channels = input_shape
        return batch, height and 2 * height, width and 2 * width, channels and channels // 4


@keras.saving.register_keras_serializable("msinet")
class Normalize(keras.layers.Layer):  # type: ignore[misc]
    """Shift and scale the map of each image to 0..1, in float32: first x -= min, then x /= 1e-7 + max."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(dtype="float32", **kwargs)

    def call(self, maps: Any) -> Any:
        """(B, H, W, 1), any float, to (B, H, W, 1) float32 in [0, 1]."""
        maps = maps - ops.min(maps, axis=(1, 2, 3), keepdims=True)
        return maps / (EPSILON + ops.max(maps, axis=(1, 2, 3), keepdims=True))
