"""The layers of MSI-Net, in the arrangement that moves the fewest bytes. Keras operations, for any Keras backend.

Three arrangements, each the same function as what it stands for (docs/benchmarks.md has what each is worth):

- Bias and ReLU after the max-pooling instead of before: both commute with a maximum, which leaves a quarter of the
  values to add and to clip, and no mask of the large map to keep for the gradient.
- A convolution of a map that was doubled in height and width as one of the small map, the four pixels that come of
  each as channels (*phases*): the large map is never written.
- A 1x1 convolution of a map with channels that are the same everywhere as two, of the map and of one pixel.
"""

from typing import Any

import keras
import numpy as np
from keras import ops

from trainer.convolution import convolve
from trainer.pooling import max_pool

EPSILON = 1e-7

# === Sums of gradients ===


def fan_out(x: Any, count: int) -> list[Any]:
    """`x` for each of its `count` uses, so that their gradients are added two at a time, the last two first.

    Left to itself, TensorFlow adds all of them in one operation, which starts with whichever's memory it may take
    over: on a processor, sums of three and more have other bits in some runs (docs/log.md).
    """
    uses = [x]
    while len(uses) < count:
        uses.append(ops.copy(uses[-1]))
    return uses


# === Phases ===

# What each tap of a 3-tap kernel over the doubled axis takes of the small one, [tap, offset, end, phase], with
# zeros beyond the border. Phase 0 is the even pixel, x[i] of the small axis; phase 1 the odd, (x[i] + x[i+1]) / 2.
DOUBLED = np.array(
    [[[[0.5, 0]], [[0.5, 1]], [[0, 0]]], [[[0, 0]], [[1, 0.5]], [[0, 0.5]]], [[[0, 0]], [[0.5, 0]], [[0.5, 1]]]],
    np.float32,
)
# What this lacks in the first and the last small pixel. With x[-1] = 0 a tap sees half of x[0] before the first
# pixel instead of nothing; with x[n] = 0 the last odd pixel, which repeats its neighbour, is halved.
AT_ENDS = np.array([[[[-0.5, 0], [0, 0]]], [[[0, 0], [0, 0.5]]], [[[0, 0], [0.5, 0]]]], np.float32)
# A 3-tap kernel over an axis whose pairs of pixels are channels: [tap, offset in pairs, phase in, phase out].
PAIRED = np.zeros((3, 3, 2, 2), np.float32)
for _tap, _phase in np.ndindex(3, 2):
    PAIRED[_tap, (_phase + _tap - 1) // 2 + 1, (_phase + _tap - 1) % 2, _phase] = 1


def convolve_doubled(x: Any, kernel: Any, training: bool = False) -> Any:
    """A 3x3 convolution of `x` doubled in height and width, as phases.

    The doubling is TensorFlow 1's bilinear one: out[2i] = in[i], out[2i + 1] = (in[i] + in[i + 1]) / 2, the last
    row and column repeated. That and the convolution are linear, along height and width apart.

    Args:
        x: (B, h, w, C).
        kernel: (3, 3, C, F), any float; it is transformed in its own type.
        training: as in `trainer.convolution.convolve`.

    Returns:
        (B, h, w, 4 F) of x's type, channels in the order (row, column, filter).
    """
    kernels = iter(fan_out(kernel, 4))

    def part(region: Any, rows: np.ndarray, columns: np.ndarray) -> Any:
        transformed = ops.einsum("klcf,ktep,lugq->tucgepqf", next(kernels), rows, columns)
        shape = (rows.shape[1], columns.shape[1], kernel.shape[2], -1)
        return convolve(region, ops.cast(ops.reshape(transformed, shape), x.dtype), training=training)

    x, *uses = fan_out(x, 5)
    sides, (top_and_bottom, *ends) = _ends(uses[:2], 2), fan_out(_ends(uses[2:], 1), 3)
    corners = _ends(ends, 2)
    inner = _add_at_ends(part(x, DOUBLED, DOUBLED), part(sides, DOUBLED, AT_ENDS), 2)
    outer = _add_at_ends(part(top_and_bottom, AT_ENDS, DOUBLED), part(corners, AT_ENDS, AT_ENDS), 2)
    return _add_at_ends(inner, outer, 1)


def _ends(uses: list[Any], axis: int) -> Any:
    """The first pixel along `axis` of one use of a map, and the last of another."""
    first, last = [slice(None)] * 4, [slice(None)] * 4
    first[axis], last[axis] = slice(0, 1), slice(-1, None)
    return ops.concatenate([uses[0][tuple(first)], uses[1][tuple(last)]], axis=axis)


def _add_at_ends(x: Any, ends: Any, axis: int) -> Any:
    """Add to the first pixel along `axis` the first half of the channels of `ends`' first, to the last the second
    half of the last; the other halves are what the filters of one end make of the other.
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
    """A 3x3 convolution of a map given as phases, as phases: (B, h, w, 4 C) and (3, 3, C, F) to (B, h, w, 4 F)."""
    transformed = ops.einsum("klcf,ktpq,lurs->tuprcqsf", kernel, PAIRED, PAIRED)
    shape = (3, 3, 4 * kernel.shape[2], 4 * kernel.shape[3])
    return convolve(x, ops.cast(ops.reshape(transformed, shape), x.dtype), training=training)


# === Layers ===


@keras.saving.register_keras_serializable("msinet")
class Conv2D(keras.layers.Conv2D):  # type: ignore[misc]
    """A convolution of stride 1, zeros beyond the border, and what follows it.

    It has the name of Keras' layer because files of weights count the layers of each name.

    Args:
        filters: channels of the result.
        kernel_size: side in pixels.
        pool: stride of a 2x2 max-pooling of the result (2 drops an odd last row or column, 1 keeps the size); none
            without it.
        of: what the input is: `pixels`; `small`, pixels to be doubled first, the result as phases; or `phases`.
        kwargs: those of `keras.layers.Conv2D`.
    """

    def __init__(
        self, filters: int, kernel_size: int, pool: int | None = None, of: str = "pixels", **kwargs: Any
    ) -> None:
        # Kernels are transformed in float32 and cast then, not before.
        super().__init__(filters, kernel_size, padding="same", autocast=False, **kwargs)
        self._pool, self._of = pool, of
        self.input_spec = None  # Keras expects one input

    def build(self, input_shape: Any) -> None:
        """Make a kernel of (k, k, channels, filters): those of all inputs, or of one phase."""
        if isinstance(input_shape, list):
            input_shape = (*input_shape[0][:3], sum(shape[3] for shape in input_shape))
        if self._of == "phases":
            input_shape = (*input_shape[:3], input_shape[3] // 4)
        super().build(input_shape)
        self.input_spec = None

    def call(self, inputs: Any, training: bool = False) -> Any:
        """(B, h, w, C), or a list of such and at its end (B, 1, 1, C) for all pixels, to (B, h', w', filters)."""
        x = self._convolved(inputs, bool(training))
        if self._pool:
            x = max_pool(x, self._pool)
        bias = ops.cast(self.bias, x.dtype)
        return self.activation(x + (bias if self._of == "pixels" else ops.tile(bias, 4)))

    def _convolved(self, inputs: Any, training: bool) -> Any:
        if isinstance(inputs, list):
            *maps, everywhere = (ops.cast(each, self.compute_dtype) for each in inputs)
            x, kernel = ops.concatenate(maps, axis=3), ops.cast(self.kernel, self.compute_dtype)
            channels = x.shape[3]
            return convolve(x, kernel[:, :, :channels]) + convolve(everywhere, kernel[:, :, channels:])
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
    """Phases put side by side."""

    def call(self, phases: Any) -> Any:
        """(B, h, w, 4 C) to (B, 2h, 2w, C), the same type."""
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
    """Shift and scale each image's map to 0..1: x -= min; x /= 1e-7 + max. In float32."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(dtype="float32", **kwargs)

    def call(self, maps: Any) -> Any:
        """(B, H, W, 1) any float to (B, H, W, 1) float32 in [0, 1]."""
        maps = maps - ops.min(maps, axis=(1, 2, 3), keepdims=True)
        return maps / (EPSILON + ops.max(maps, axis=(1, 2, 3), keepdims=True))
