"""MSI-Net (Kroner et al. 2020, "Contextual encoder-decoder network for visual saliency prediction").

Keras operations only, so that it runs on any Keras backend. Layers carry the reference's names with `_` for `/`.
"""

import itertools
from typing import Any

import keras

from trainer.layers import Conv2D, Normalize, Pixels, fan_out

IMAGE_MEAN = (103.939, 116.779, 123.68)
"""Subtracted from R, G, B in this order, as the reference does; its published weights expect it."""
STRIDE = 8
"""Height and width of the input must be divisible by this."""

VGG16_BLOCKS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
"""Filters of the encoder's 3x3 convolutions; convolution j of block i is layer `conv{i}_conv{i}_{j}`."""
ASPP_FILTERS = 256
"""Of each branch, and of the layer that joins them."""
DECODER_FILTERS = (128, 64, 32)
"""Of the layers before the last one, which has one filter."""


def encoder_layer(block: int, index: int) -> str:
    """Name of the encoder's convolution `index` in `block`, both counted from 1."""
    return f"conv{block}_conv{block}_{index}"


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

    def convolution(filters: int, name: str, kernel: int = 3, relu: bool = True, **kwargs: Any) -> Conv2D:
        initializer = keras.initializers.get(kernel_initializer)
        # A seed of its own for each layer: Keras would take it from Python's global generator, which any other
        # thread may draw from.
        layer_seed = None if seed is None else 100 * seed + next(layer_numbers)
        return Conv2D(
            filters,
            kernel,
            activation="relu" if relu else None,
            kernel_initializer=type(initializer)(seed=layer_seed),
            dtype=dtype,
            name=name,
            **kwargs,
        )

    # === Encoder: VGG16, its last two blocks at 1/8 resolution ===
    stimulus = keras.Input((*image_size, 3), name="input", dtype="float32")
    x = keras.layers.Rescaling(1.0, offset=[-mean for mean in IMAGE_MEAN], dtype="float32", name="mean")(stimulus)
    pooled = []
    for block, widths in enumerate(VGG16_BLOCKS, 1):
        for index, filters in enumerate(widths, 1):
            pool = (2 if block <= 3 else 1) if index == len(widths) else None
            dilation = 2 if block == 5 else 1
            x = convolution(filters, encoder_layer(block, index), pool=pool, dilation_rate=dilation)(x)
        pooled.append(x)
    features = keras.layers.Concatenate(name="encoder", dtype=dtype)(pooled[2:])  # (B, H/8, W/8, 1280)

    # === ASPP ===
    *uses, everywhere = fan_out(features, 5)
    branches = [convolution(ASPP_FILTERS, "aspp_conv1_1", kernel=1)(uses[0])]
    for index, dilation in enumerate((4, 8, 12), 2):
        branches.append(convolution(ASPP_FILTERS, f"aspp_conv1_{index}", dilation_rate=dilation)(uses[index - 1]))
    context = keras.layers.GlobalAveragePooling2D(keepdims=True, dtype=dtype, name="aspp_mean")(everywhere)
    # Its ReLU is a layer of its own because files of weights count layers by their distance from the output.
    context = convolution(ASPP_FILTERS, "aspp_conv1_5", kernel=1, relu=False)(context)
    context = keras.layers.ReLU(dtype=dtype, name="aspp_context")(context)
    x = convolution(ASPP_FILTERS, "aspp_conv2", kernel=1)([*branches, context])

    # === Decoder ===
    *doubled, last = DECODER_FILTERS
    for index, filters in enumerate(doubled, 1):
        x = convolution(filters, f"decoder_conv{index}", of="small")(x)
        x = Pixels(dtype=dtype, name=f"decoder_pixels{index}")(x)
    x = convolution(last, "decoder_conv3", of="small")(x)
    x = convolution(1, "decoder_conv4", of="phases", relu=False)(x)
    x = Pixels(dtype=dtype, name="decoder_pixels3")(x)
    return keras.Model(stimulus, Normalize(name="output")(x), name="msinet")
