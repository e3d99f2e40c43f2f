"""Where a network's weights come from before its first step."""

import os
import pathlib

import keras

from trainer.artifacts import WEIGHTS
from trainer.config import TrainConfig
from trainer.errors import UserError, check, first_line
from trainer.model import build_model
from trainer.models import weight_files, weight_sources
from trainer.models.load import assign_arrays, load_weights
from trainer.models.weight_files import Array


def initial_model(
    config: TrainConfig, image_size: tuple[int, int], policy: str, base_model: str | os.PathLike[str] | None
) -> keras.Model:
    """A network of `image_size` with the weights that the configuration asks for.

    A base model's weights come first; else `config.initial_weights` says: a VGG16 encoder (the other layers
    Glorot-uniform, as in the reference), a whole network, or none (He-normal kernels throughout, because from
    Glorot-uniform ones the network does not get going without an encoder; docs/log.md).

    Raises:
        UserError: if weights are missing, cannot be had, or are of another network.
    """
    source = config.initial_weights
    from_scratch = source == "none" and base_model is None
    initializer = "he_normal" if from_scratch else "glorot_uniform"
    model = build_model(image_size, policy, initializer, config.seed)
    if base_model is not None:
        load_weights(model, pathlib.Path(base_model) / WEIGHTS)
    elif source == "imagenet":
        assign_arrays(model, _imagenet(), "ImageNet's VGG16")
    elif not from_scratch:
        with weight_sources.opened(source) as found:
            assign_arrays(model, weight_files.read(found.path).arrays, source)
    return model


def fingerprint(config: TrainConfig, base_model: str | os.PathLike[str] | None, expected: str = "") -> str:
    """Digest of the file of weights that `initial_model` reads by the configuration; empty where it reads none.

    Raises:
        UserError: if weights are missing, or have another digest than `expected`, which is empty for any.
    """
    if base_model is not None:
        return ""
    source = config.initial_weights
    found = weight_sources.fingerprint_of_initial(source)
    changed = f"the weights at {source} changed since the run was planned (their digest was {expected}, now it is "
    check(not expected or found == expected, f"{changed}{found or 'none'}); run the pipeline again")
    return found


def _imagenet() -> list[Array]:
    try:
        network = keras.applications.VGG16(include_top=False, weights="imagenet")
    except Exception as error:  # Keras raises whatever its download or h5py does, plain Exception included
        raise UserError(
            f"Keras could not download the ImageNet weights of VGG16: {first_line(error)}. Offline, "
            "give initial_weights the path of vgg16_weights_tf_dim_ordering_tf_kernels_notop.h5, or none"
        ) from None
    return [
        Array(f"{layer.name}/{variable.name}", variable.numpy(), f"{layer.name}/{variable.name}")
        for layer in network.layers
        for variable in layer.weights
    ]
