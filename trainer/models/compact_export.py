"""Export a network in compact form, and measure what the 8 bits change in its maps."""

import pathlib
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from trainer.artifacts import MODEL_CONFIG
from trainer.files import replacing
from trainer.model import build_model
from trainer.models import compact, weights

IMAGES = 3
"""Random images whose maps are compared."""
PATCH_PX = 8
"""Sides of the uniform patches that the random images consist of."""


def write_compact(
    model: keras.Model, image_size: tuple[int, int], folder: pathlib.Path, config: Mapping[str, Any]
) -> tuple[float, float]:
    """Write a model in compact form, read it back, and compare its maps with those of the network.

    Args:
        model: the network, of free size.
        image_size: (H, W) of the random images, pixels, divisible by 8.
        folder: to write.
        config: content of the model's MODEL_CONFIG, which is kept.

    Returns:
        Maximum and mean absolute difference of the maps of IMAGES random images, on 0..1.

    Raises:
        UserError: it cannot be written.
    """
    arrays = {
        f"{layer}/{role}": getattr(model.get_layer(layer), role).numpy() for layer, role in weights.shapes(model)
    }
    with replacing(folder, last=MODEL_CONFIG) as partial:
        partial.mkdir()
        compact.write(partial, arrays, config)
        rounded = build_model((None, None), "float32")
        for name, value in compact.read(partial).items():
            layer, _, role = name.rpartition("/")
            getattr(rounded.get_layer(layer), role).assign(value)
    height, width = (side // PATCH_PX for side in image_size)
    patches = np.random.default_rng(0).integers(0, 256, (IMAGES, height, width, 3))
    images = patches.repeat(PATCH_PX, axis=1).repeat(PATCH_PX, axis=2).astype(np.float32)
    differences = np.abs(rounded(images).numpy() - model(images).numpy())
    return float(differences.max()), float(differences.mean())
