"""MSI-Net (Kroner et al. 2020, "Contextual encoder-decoder network for visual saliency prediction").

Keras operations only, so that it runs on any Keras backend.
"""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import keras

from trainer.network.layers import Conv2D, Normalize, Pixels, fan_out
from trainer.network.msinet import architecture
from trainer.network.msinet.architecture import IMAGE_MEAN, STRIDE, encoder_layer


def build_model(
    image_size: tuple[int | None, int | None],
    dtype: str | None = None,
    kernel_initializer: str = "glorot_uniform",
    seed: int | None = None,
) -> keras.Model:
    """Build MSI-Net, which has 24,934,209 parameters.

    Args:
        image_size: (H, W) of the input in pixels, divisible by 8. (None, None) leaves them free.
        dtype: Keras precision policy, such as `mixed_bfloat16`. None for the global policy. Weights, the
            subtraction of the mean and the output are float32 under every policy.
        kernel_initializer: of all convolutions. The default is the reference's.
        seed: of the initial kernels. None for a different one in each call.

    Returns:
        A model from (B, H, W, 3) float RGB in 0..255 to (B, H, W, 1) float32 in [0, 1].

    Raises:
        ValueError: if height or width is not divisible by 8.
    """
    if any(side is not None and side % STRIDE for side in image_size):
        raise ValueError(f"image size {image_size} is not divisible by {STRIDE}")
    stimulus = keras.Input((*image_size, 3), name="input", dtype="float32")
    parts = _Parts(dtype, kernel_initializer, seed)
    maps = parts.decoder(parts.aspp(_vgg16(parts, stimulus)))
    return keras.Model(stimulus, Normalize(name="output")(maps), name="msinet")


@dataclasses.dataclass
class _Parts:
    """The parts of one network. Its arguments are as in `build_model`."""

    dtype: str | None
    kernel_initializer: str
    seed: int | None
    layer_numbers: Iterator[int] = dataclasses.field(default_factory=itertools.count)

    def aspp(self, features: Any) -> Any:
        """Four dilated convolutions and the mean of the map, joined: (B, h, w, 1280) to (B, h, w, 256)."""
        filters = architecture.ASPP_FILTERS
        *uses, whole = fan_out(features, 5)
        branches = [self.convolution(filters, "aspp_conv1_1", kernel=1)(uses[0])]
        for index, dilation in enumerate(architecture.ASPP_DILATIONS, 2):
            branch = self.convolution(filters, f"aspp_conv1_{index}", dilation_rate=dilation)
            branches.append(branch(uses[index - 1]))
        mean = keras.layers.GlobalAveragePooling2D(keepdims=True, dtype=self.dtype, name="aspp_mean")(whole)
        # Its ReLU is a separate layer, because weight files count layers by their distance from the output.
        context = self.convolution(filters, "aspp_conv1_5", kernel=1, relu=False)(mean)
        context = keras.layers.ReLU(dtype=self.dtype, name="aspp_context")(context)
        return self.convolution(filters, "aspp_conv2", kernel=1)([*branches, context])

    def decoder(self, x: Any) -> Any:
        """Three times a convolution of the doubled map, then the last one: (B, h, w, 256) to (B, 8h, 8w, 1)."""
        *doubled, last = architecture.DECODER_FILTERS
        for index, filters in enumerate(doubled, 1):
            x = self.convolution(filters, f"decoder_conv{index}", of="small")(x)
            x = Pixels(dtype=self.dtype, name=f"decoder_pixels{index}")(x)
        x = self.convolution(last, "decoder_conv3", of="small")(x)
        x = self.convolution(1, "decoder_conv4", of="phases", relu=False)(x)
        return Pixels(dtype=self.dtype, name="decoder_pixels3")(x)

    def convolution(self, filters: int, name: str, kernel: int = 3, relu: bool = True, **kwargs: Any) -> Conv2D:
        """The next layer, with its own seed. `kwargs` are as in `trainer.network.layers.Conv2D`."""
        initializer = keras.initializers.get(self.kernel_initializer)
        # Each layer gets its own seed: Keras would take it from Python's global generator, which other threads
        # may use as well.
        seed = None if self.seed is None else 100 * self.seed + next(self.layer_numbers)
        return Conv2D(
            filters,
            kernel,
            activation="relu" if relu else None,
            kernel_initializer=type(initializer)(seed=seed),
            dtype=self.dtype,
            name=name,
            **kwargs,
        )


def _vgg16(parts: _Parts, stimulus: Any) -> Any:
    """VGG16, its last two blocks at 1/8 resolution: (B, H, W, 3) to (B, H/8, W/8, 1280)."""
    offset = [-mean for mean in IMAGE_MEAN]
    x = keras.layers.Rescaling(1.0, offset=offset, dtype="float32", name="mean")(stimulus)
    pooled = []
    for block, widths in enumerate(architecture.VGG16_BLOCKS, 1):
        for index, filters in enumerate(widths, 1):
            pool = architecture.POOL_STRIDES[block - 1] if index == len(widths) else None
            dilation = architecture.VGG16_DILATIONS[block - 1]
            x = parts.convolution(filters, encoder_layer(block, index), pool=pool, dilation_rate=dilation)(x)
        pooled.append(x)
    return keras.layers.Concatenate(name="encoder", dtype=parts.dtype)(pooled[-architecture.JOINED_BLOCKS :])
