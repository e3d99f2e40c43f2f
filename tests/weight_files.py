"""Files of the golden weights in the layouts of other programs."""

import contextlib
from collections.abc import Iterator

import h5py
import keras
import numpy as np
import pytest

from tests import reference_graph
from tests.golden.weights import golden_weights as golden_weights  # tests patch it here
from tests.narrow import narrowed
from trainer.network.msinet.architecture import LAYERS
from trainer.network.msinet.keras_model import build_model
from trainer.network.networks import DEFAULT_NETWORK


@contextlib.contextmanager
def narrow_weights() -> Iterator[None]:
    """In place of the golden weights, seeded ones of the narrow network: files of a hundred megabytes have six."""
    with narrowed(), pytest.MonkeyPatch.context() as patch:
        random = np.random.default_rng(5)
        shapes = {
            name: value.shape for name, value in reference_graph.weights_of(build_model((None, None))).items()
        }
        weights = {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}
        for module in (reference_graph.__name__, __name__):
            patch.setattr(f"{module}.golden_weights", lambda: weights)
        yield


def by_layer():
    """Layer -> its golden kernel and bias, in the reference's order."""
    return {
        layer: tuple(golden_weights()[f"{reference(layer)}/{role}"] for role in ("kernel", "bias"))
        for layer in LAYERS
    }


def reference(layer):
    """The reference's name of a layer: `conv1_conv1_1` is `conv1/conv1_1`."""
    return layer.replace("_", "/", 1)


class Port(keras.Model):
    """The layers of the TF2 port, as attributes of the same names."""

    def __init__(self):
        super().__init__()
        for attribute, layer in DEFAULT_NETWORK.attributes.items():
            kernel, bias = by_layer()[layer]
            convolution = keras.layers.Conv2D(bias.size, kernel.shape[0], name=layer)
            convolution.build((None, None, None, kernel.shape[2]))
            convolution.set_weights([kernel, bias])
            setattr(self, attribute, convolution)
        self.built = True

    def call(self, images):
        return images


def write_port(path):
    """The file that the port's training writes with Keras 3."""
    Port().save_weights(path)
    return path


def write_unnamed_port(path):
    """The same before Keras 3.6, which did not write the layers' names."""
    write_port(path)
    with h5py.File(path, "r+") as file:
        file.visit(lambda name: file[name].attrs.pop("name", None) and None)
    return path


def write_numbered_port(path):
    """The same with Keras 2.13 to 2.15: layers in a list, by number, and an optimizer's state."""
    with h5py.File(path, "w") as file:
        for number, weights in enumerate(by_layer().values()):
            for index, value in enumerate(weights):
                file[f"layers/conv2d{f'_{number}' if number else ''}/vars/{index}"] = value
        file["optimizer/vars/1"] = np.zeros((3, 3, 3, 64), np.float32)
    return path


def write_legacy(path, layers=None, group="", roles=("kernel:0", "bias:0"), scope="msinet"):
    """An HDF5 file of Keras 2: the names of the layers and of their weights as attributes."""
    layers = by_layer() if layers is None else layers
    with h5py.File(path, "w") as file:
        root = file.create_group(group) if group else file
        root.attrs["layer_names"] = np.array([*layers, "pool"], dtype="S")
        for layer, weights in {**layers, "pool": ()}.items():
            inner = root.create_group(layer)
            names = [f"{scope}/{layer}/{role}" for role in roles][: len(weights)]
            inner.attrs["weight_names"] = np.array([name.encode() for name in names], dtype="S")
            for name, value in zip(names, weights, strict=True):
                inner[name] = value
    return path
