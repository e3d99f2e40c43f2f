"""Keras' files are read as Keras writes them, and nothing outside of them is."""

import h5py
import numpy as np
import pytest

from trainer.errors import ContentError, UserError
from trainer.model import build_model
from trainer.models import keras_file, weights

NAME = "layers/conv2d/vars/0"
SHAPE = (3, 3, 3, 64)
SECRET = np.arange(np.prod(SHAPE), dtype=np.float32)


@pytest.fixture(scope="module")
def network():
    return build_model((None, None), seed=3)


@pytest.fixture(scope="module")
def arrays(network):
    return {f"{layer.name}/{each.name}": each.numpy() for layer in network.layers for each in layer.weights}


@pytest.fixture(scope="module")
def content(arrays):
    return bytes(keras_file.encode(arrays))


@pytest.fixture
def path(tmp_path, content):
    """A file of weights without the first kernel; beside it, other files of the machine."""
    path = tmp_path / "x.weights.h5"
    path.write_bytes(content)
    with h5py.File(path, "r+") as file:
        del file[NAME]
    (tmp_path / "other.bin").write_bytes(SECRET.tobytes())
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = SECRET.reshape(SHAPE)
    return path


def external(file, folder):
    file.create_dataset(NAME, SHAPE, "f4", external=[(str(folder / "other.bin"), 0, h5py.h5f.UNLIMITED)])


def virtual(file, folder):
    layout = h5py.VirtualLayout(SHAPE, "f4")
    layout[...] = h5py.VirtualSource(str(folder / "other.h5"), "x", SHAPE)
    file.create_virtual_dataset(NAME, layout)


def link(file, folder):
    file[NAME] = h5py.ExternalLink(str(folder / "other.h5"), "/x")


def link_to_a_group(file, folder):
    file["elsewhere"] = h5py.ExternalLink(str(folder / "other.h5"), "/")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (external, f"has the values of /{NAME} in another file"),
        (virtual, f"has the values of /{NAME} in another file"),
        (link, f"has a link to another place at {NAME}"),
        (link_to_a_group, "has a link to another place at elsewhere"),
    ],
)
def test_what_leads_out_of_the_file_is_refused(path, change, message):
    with h5py.File(path, "r+") as file:
        change(file, path.parent)
    with pytest.raises(ContentError, match=rf"x\.weights\.h5 {message}"):
        keras_file.read(path)


@pytest.mark.parametrize("shape", [(2**40,), (9, 9, 9, 2**30)])
def test_no_memory_is_taken_for_an_array_of_a_shape_that_no_layer_has(path, network, shape):
    with h5py.File(path, "r+") as file:
        file.create_dataset(NAME, shape, "f4", chunks=tuple(min(side, 9) for side in shape))
    _, found = keras_file.read(path)
    with pytest.raises(UserError, match=rf"{NAME} is \({shape[0]},.*, conv1_conv1_1/\w+ is"):
        weights.match(found, weights.shapes(network), "it")


def test_compressed_arrays_are_read(path):
    with h5py.File(path, "r+") as file:
        file.create_dataset(NAME, SHAPE, "f4", data=SECRET.reshape(SHAPE), compression="gzip")
    _, found = keras_file.read(path)
    (value,) = (array.read() for array in found if array.name == NAME)
    np.testing.assert_array_equal(value, SECRET.reshape(SHAPE))


def test_keras_itself_reads_what_is_written(arrays, content, tmp_path):
    (tmp_path / "x.weights.h5").write_bytes(content)
    other = build_model((None, None), seed=4)
    other.load_weights(tmp_path / "x.weights.h5")
    for layer in other.layers:
        for each in layer.weights:
            np.testing.assert_array_equal(each.numpy(), arrays[f"{layer.name}/{each.name}"])
