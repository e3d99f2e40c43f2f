"""The initial weights of a network."""

import os
import pathlib

import keras

from trainer.artifacts import WEIGHTS
from trainer.config import TrainConfig
from trainer.errors import UserError, check, first_line
from trainer.model import build_model
from trainer.models import weight_files, weight_sources
from trainer.models.arrays import Array
from trainer.models.load import assign_arrays, load_weights


def initial_model(
    config: TrainConfig, image_size: tuple[int, int], policy: str, base_model: str | os.PathLike[str] | None
) -> keras.Model:
    """A network with its initial weights.

    They come from the base model if there is one, else from `config.initial_weights`: a VGG16 encoder (the other
    layers Glorot-uniform, as in the reference), a whole network, or none (He-normal kernels in all layers, because
    without an encoder the network does not learn from Glorot-uniform kernels; docs/log.md).

    Args:
        config: the settings.
        image_size: (H, W) of the input in pixels.
        policy: Keras precision policy.
        base_model: folder of a model whose weights to start from.

    Raises:
        UserError: if weights are missing, cannot be downloaded, or belong to another network.
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
        with weight_sources.opened(source) as weights:
            assign_arrays(model, weight_files.read(weights.path).arrays, source)
    return model


def fingerprint(config: TrainConfig, base_model: str | os.PathLike[str] | None, expected: str = "") -> str:
    """Digest of the weight file that `initial_model` reads; empty if it reads none.

    Args:
        config: the settings.
        base_model: folder of a model whose weights to start from.
        expected: required digest; empty for any.

    Raises:
        UserError: if weights are missing, or if their digest is not `expected`.
    """
    if base_model is not None:
        return ""
    source = config.initial_weights
    digest = weight_sources.fingerprint_of_initial(source)
    check(
        not expected or digest == expected,
        f"the weights at {source} changed since the run was planned (their digest was {expected}, now it is "
        f"{digest or 'none'}); run the pipeline again",
    )
    return digest


def _imagenet() -> list[Array]:
    try:
        network = keras.applications.VGG16(include_top=False, weights="imagenet")
    except Exception as error:  # Keras passes on any error of its download and of h5py, even plain Exception
        raise UserError(
            f"Keras could not download the ImageNet weights of VGG16: {first_line(error)}. Without a network "
            "connection, set initial_weights to the path of vgg16_weights_tf_dim_ordering_tf_kernels_notop.h5, or "
            "to none"
        ) from None
    return [
        Array.of(f"{layer.name}/{variable.name}", variable.numpy())
        for layer in network.layers
        for variable in layer.weights
    ]
