"""Where a network's weights come from before its first step."""

import os
import pathlib
import re
import warnings

import keras
import numpy as np

from trainer.artifacts import WEIGHTS
from trainer.config import TrainConfig
from trainer.errors import UserError
from trainer.model import VGG16_BLOCKS, build_model, encoder_layer


def initial_model(
    config: TrainConfig, image_size: tuple[int, int], policy: str, base_model: str | os.PathLike[str] | None
) -> keras.Model:
    """A network of `image_size` with the weights that the configuration asks for.

    A base model's weights come first; else `config.initial_weights` says: a VGG16 encoder (the other layers
    Glorot-uniform, as in the reference), or none (He-normal kernels throughout, because from Glorot-uniform
    ones the network does not get going without an encoder; docs/log.md).

    Raises:
        UserError: if weights are missing, cannot be had, or are of another network.
    """
    source = str(pathlib.Path(config.initial_weights).expanduser())
    from_scratch = source == "none" and base_model is None
    initializer = "he_normal" if from_scratch else "glorot_uniform"
    model = build_model(image_size, policy, initializer, config.seed)
    if base_model is not None:
        load_weights(model, pathlib.Path(base_model) / WEIGHTS)
    elif source.endswith(".weights.h5"):
        load_weights(model, pathlib.Path(source))
    elif not from_scratch:
        _set_encoder(model, _vgg16(source))
    return model


def load_weights(model: keras.Model, path: pathlib.Path) -> None:
    """Read weights of MSI-Net that this project wrote.

    Raises:
        UserError: if there are none at `path` or they are of another network.
    """
    if not path.is_file():
        raise UserError(f"{path} does not exist; give the folder of a model that `train` wrote")
    try:
        with warnings.catch_warnings(record=True) as missing:  # Keras only warns of layers that the file lacks
            warnings.simplefilter("always")
            model.load_weights(path)
        if missing:
            raise ValueError(str(missing[0].message))
    except (ValueError, OSError, KeyError) as error:
        raise UserError(
            f"{path} does not hold the weights of MSI-Net: {_reason(error)}. "
            "Give weights that this project's training wrote, or start from initial_weights"
        ) from None


def _vgg16(source: str) -> keras.Model:
    if source != "imagenet" and not pathlib.Path(source).is_file():
        raise UserError(
            f"initial_weights is {source!r}, and there is no such file; give imagenet, none, a VGG16 no-top .h5 "
            "file in Keras' layout, or a .weights.h5 file of MSI-Net"
        )
    try:
        return keras.applications.VGG16(include_top=False, weights=source)
    except Exception as error:  # Keras raises whatever its download or h5py does, plain Exception included
        if source == "imagenet":
            raise UserError(
                f"Keras could not download the ImageNet weights of VGG16: {_reason(error)}. Offline, "
                "give initial_weights the path of vgg16_weights_tf_dim_ordering_tf_kernels_notop.h5, or none"
            ) from None
        raise UserError(
            f"{source} does not hold the weights of VGG16 without its top: {_reason(error)}. "
            "Give a no-top .h5 file in Keras' layout"
        ) from None


def _set_encoder(model: keras.Model, vgg16: keras.Model) -> None:
    for block, widths in enumerate(VGG16_BLOCKS, 1):
        for index in range(1, len(widths) + 1):
            kernel, bias = vgg16.get_layer(f"block{block}_conv{index}").get_weights()
            if block == index == 1:
                kernel = np.ascontiguousarray(kernel[:, :, ::-1])  # Keras' VGG16 takes BGR, MSI-Net takes RGB
            model.get_layer(encoder_layer(block, index)).set_weights([kernel, bias])


def _reason(error: Exception) -> str:
    """What Keras says, on one line and without the values and the list of objects that follow."""
    text = re.split("Target variable:|List of objects", str(error))[0]
    return " ".join(text.split()).rstrip(".")[:400] or type(error).__name__
