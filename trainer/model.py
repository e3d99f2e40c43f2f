"""MSI-Net (Kroner et al. 2020, "Contextual encoder-decoder network for visual saliency prediction").

Keras operations only, so that it runs on any Keras backend. Layers carry the reference's names with `_` for `/`.
"""

import itertools
from typing import Any

import keras
from keras import ops

IMAGE_MEAN = (103.939, 116.779, 123.68)
"""Subtracted from R, G, B in this order, as the reference does; its published weights expect it."""
EPSILON = 1e-7
STRIDE = 8
"""Height and width of the input must be divisible by this."""

VGG16_BLOCKS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
"""Filters of the encoder's 3x3 convolutions; convolution j of block i is layer `conv{i}_conv{i}_{j}`."""


def encoder_layer(block: int, index: int) -> str:
    """Name of the encoder's convolution `index` in `block`, both counted from 1."""
    return f"conv{block}_conv{block}_{index}"


@keras.saving.register_keras_serializable("msinet")
class Normalize(keras.layers.Layer):  # type: ignore[misc]
    """Shift and scale each image's map to 0..1: x -= min; x /= 1e-7 + max. In float32."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(dtype="float32", **kwargs)

    def call(self, maps: Any) -> Any:
        """(B, H, W, 1) any float to (B, H, W, 1) float32 in [0, 1]."""
        maps = maps - ops.min(maps, axis=(1, 2, 3), keepdims=True)
        return maps / (EPSILON + ops.max(maps, axis=(1, 2, 3), keepdims=True))


@keras.saving.register_keras_serializable("msinet")
class UpsampleBilinear(keras.layers.Layer):  # type: ignore[misc]
    """Double height and width as TensorFlow 1 does: out[2i] = in[i], out[2i + 1] = (in[i] + in[i + 1]) / 2.

    The last row and column are repeated. Shift, average and interleave keep the type of the input, where
    `tf.image.resize` answers float32 and drags its neighbours along.
    """

    def call(self, features: Any) -> Any:
        """(B, h, w, C) to (B, 2h, 2w, C), the same type."""
        return self._double(self._double(features, axis=1), axis=2)

    @staticmethod
    def _double(x: Any, axis: int) -> Any:
        last = [slice(None)] * 4
        later = list(last)
        last[axis], later[axis] = slice(-1, None), slice(1, None)
        following = ops.concatenate([x[tuple(later)], x[tuple(last)]], axis=axis)
        pairs = ops.stack([x, (x + following) * 0.5], axis=axis + 1)  # (B, h, 2, w, C) or (B, h, w, 2, C)
        shape = list(ops.shape(x))
        shape[axis] = shape[axis] * 2
        shape[0], shape[3] = -1, x.shape[3]
        return ops.reshape(pairs, shape)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """(B, 2h, 2w, C)."""
        batch, height, width, channels = input_shape
        return batch, height and 2 * height, width and 2 * width, channels


@keras.saving.register_keras_serializable("msinet")
class BroadcastLike(keras.layers.Layer):  # type: ignore[misc]
    """Repeat a (B, 1, 1, C) feature over the height and width of a second one."""

    def call(self, feature: Any, like: Any) -> Any:
        """(B, 1, 1, C) and (B, h, w, _) to (B, h, w, C)."""
        _, height, width, _ = ops.shape(like)
        return ops.broadcast_to(feature, (ops.shape(feature)[0], height, width, feature.shape[3]))

    def compute_output_shape(
        self, feature_shape: tuple[int | None, ...], like_shape: tuple[int | None, ...]
    ) -> tuple[int | None, ...]:
        """(B, h, w, C)."""
        return (*like_shape[:3], feature_shape[3])


def build_model(
    image_size: tuple[int | None, int | None],
    dtype: str | None = None,
    kernel_initializer: str = "glorot_uniform",
    seed: int | None = None,
) -> keras.Model:
    """MSI-Net with 24,934,209 parameters.

    Args:
        image_size: (H, W) of the input in pixels, divisible by 8; (None, None) leaves them free.
        dtype: Keras' precision policy, such as `mixed_bfloat16`; the global one without it. Weights, the
            subtraction of the mean and the output are float32 under every policy.
        kernel_initializer: of all convolutions; the reference's is the default.
        seed: of the initial kernels; another in each call without it.

    Returns:
        A model from (B, H, W, 3) float RGB in 0..255 to (B, H, W, 1) float32 in [0, 1].

    Raises:
        ValueError: if height or width is not divisible by 8.
    """
    if any(side is not None and side % STRIDE for side in image_size):
        raise ValueError(f"image size {image_size} is not divisible by {STRIDE}")

    layer_numbers = itertools.count()

    def convolve(x: Any, filters: int, name: str, kernel: int = 3, dilation: int = 1, relu: bool = True) -> Any:
        initializer = keras.initializers.get(kernel_initializer)
        # A seed of its own for each layer: Keras would take it from Python's global generator, which any other
        # thread may draw from.
        layer_seed = None if seed is None else 100 * seed + next(layer_numbers)
        initializer = type(initializer)(seed=layer_seed)
        return keras.layers.Conv2D(
            filters,
            kernel,
            padding="same",
            dilation_rate=dilation,
            activation="relu" if relu else None,
            kernel_initializer=initializer,
            dtype=dtype,
            name=name,
        )(x)

    # === Encoder: VGG16, its last two blocks at 1/8 resolution ===
    stimulus = keras.Input((*image_size, 3), name="input", dtype="float32")
    x = keras.layers.Rescaling(1.0, offset=[-mean for mean in IMAGE_MEAN], dtype="float32", name="mean")(stimulus)
    pools = []
    for block, widths in enumerate(VGG16_BLOCKS, 1):
        for index, filters in enumerate(widths, 1):
            x = convolve(x, filters, encoder_layer(block, index), dilation=2 if block == 5 else 1)
        strides, padding = (2, "valid") if block <= 3 else (1, "same")
        x = keras.layers.MaxPooling2D(2, strides, padding, dtype=dtype, name=f"pool{block}")(x)
        pools.append(x)
    features = keras.layers.Concatenate(name="encoder", dtype=dtype)(pools[2:])  # (B, H/8, W/8, 1280)

    # === ASPP ===
    branches = [convolve(features, 256, "aspp_conv1_1", kernel=1)]
    for index, dilation in enumerate((4, 8, 12), 2):
        branches.append(convolve(features, 256, f"aspp_conv1_{index}", dilation=dilation))
    context = keras.layers.GlobalAveragePooling2D(keepdims=True, dtype=dtype, name="aspp_mean")(features)
    context = convolve(context, 256, "aspp_conv1_5", kernel=1)
    branches.append(BroadcastLike(dtype=dtype, name="aspp_broadcast")(context, features))
    x = keras.layers.Concatenate(name="aspp", dtype=dtype)(branches)
    x = convolve(x, 256, "aspp_conv2", kernel=1)

    # === Decoder ===
    for index, filters in enumerate((128, 64, 32), 1):
        x = UpsampleBilinear(dtype=dtype, name=f"decoder_upsample{index}")(x)
        x = convolve(x, filters, f"decoder_conv{index}")
    x = convolve(x, 1, "decoder_conv4", relu=False)
    return keras.Model(stimulus, Normalize(name="output")(x), name="msinet")
