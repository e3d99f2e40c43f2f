"""The networks of `trainer.network.networks` in Keras, for trainings and SavedModels. Loads TensorFlow."""

from collections.abc import Callable

import keras

from trainer.network.architecture import Architecture
from trainer.network.msinet.keras_model import build_model

BUILDERS: dict[str, Callable[..., keras.Model]] = {"msinet": build_model}
"""Name of a network -> what builds it, with the arguments of `build_network`."""


def build_network(
    architecture: Architecture,
    image_size: tuple[int | None, int | None],
    dtype: str | None = None,
    kernel_initializer: str = "glorot_uniform",
    seed: int | None = None,
) -> keras.Model:
    """Build a network, called by its name, from images to float32 maps in [0, 1].

    Args:
        architecture: the network.
        image_size: (H, W) of the input in pixels, such as (240, 320). (None, None) leaves them free.
        dtype: Keras precision policy, such as `mixed_bfloat16`. None for the global policy.
        kernel_initializer: of all convolutions.
        seed: of the initial kernels. None for a different one in each call.
    """
    return BUILDERS[architecture.name](image_size, dtype, kernel_initializer, seed)
