"""Keras' files are read as Keras writes them, and nothing outside of them is."""

import h5py
import numpy as np
import pytest

from tests import weight_files as written
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
def place(tmp_path, content):
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


def soft_link(file, folder):
    file[NAME] = h5py.SoftLink("/layers/conv2d_1/vars/0")


def link_to_a_group(file, folder):
    file["elsewhere"] = h5py.ExternalLink(str(folder / "other.h5"), "/")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (external, f"has the values of /{NAME} in another file, and only what is in the file itself is read"),
        (virtual, f"has the values of /{NAME} in another file"),
        (link, f"has a link to another place at {NAME}, and only what is in the file itself is read"),
        (soft_link, f"has a link to another place at {NAME}"),
        (link_to_a_group, "has a link to another place at elsewhere"),
    ],
)
def test_what_leads_out_of_the_file_is_refused(place, change, message):
    with h5py.File(place, "r+") as file:
        change(file, place.parent)
    with pytest.raises(ContentError, match=rf"x\.weights\.h5 {message}"):
        keras_file.read(place)


@pytest.mark.parametrize("shape", [(2**30,), (2**40,), (9, 9, 9, 2**30)])
def test_no_memory_is_taken_for_an_array_of_a_shape_that_no_layer_has(place, network, shape):
    with h5py.File(place, "r+") as file:
        file.create_dataset(NAME, shape, "f4", chunks=tuple(min(side, 9) for side in shape))
    _, found = keras_file.read(place)
    with pytest.raises(UserError, match=rf"{NAME} is \({shape[0]},.*, conv1_conv1_1/\w+ is"):
        weights.match(found, weights.shapes(network), "it")


@pytest.mark.parametrize("dtype", ["S1", "i4", "c8", [("a", "f4")]])
def test_arrays_that_are_not_floats_are_no_weights(place, network, dtype):
    with h5py.File(place, "r+") as file:
        file[NAME] = np.zeros(SHAPE, dtype)
    _, found = keras_file.read(place)
    with pytest.raises(UserError, match=r"1 of 46 are missing: conv1_conv1_1/kernel"):
        weights.match(found, weights.shapes(network), "it")


def test_groups_in_a_circle_end(place):
    with h5py.File(place, "r+") as file:
        file["layers/again"] = file["layers"]
        file["layers/conv2d/whole"] = file["/"]
    assert len(keras_file.read(place)[1]) == 45


def test_compressed_arrays_are_read(place):
    with h5py.File(place, "r+") as file:
        file.create_dataset(NAME, SHAPE, "f4", data=SECRET.reshape(SHAPE), compression="gzip")
    _, found = keras_file.read(place)
    (value,) = (array.read() for array in found if array.name == NAME)
    np.testing.assert_array_equal(value, SECRET.reshape(SHAPE))


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("layer_names", h5py.Empty("f4")),
        ("layer_names", np.arange(5)),
        ("layer_names", np.array(["a", "b"], object)),
        ("layer_names", np.array([b"nowhere"])),
        ("layer_names", np.array([b"\xff"])),
    ],
)
def test_names_that_are_none_are_refused(tmp_path, attribute, value):
    path = written.write_legacy(tmp_path / "x.h5", {"pool": ()})
    with h5py.File(path, "r+") as file:
        del file.attrs[attribute]
        file.attrs[attribute] = value
    with pytest.raises(ContentError, match="is damaged or not an HDF5 file of Keras"):
        keras_file.read(path)


def test_keras_itself_reads_what_is_written(arrays, content, tmp_path):
    (tmp_path / "x.weights.h5").write_bytes(content)
    other = build_model((None, None), seed=4)
    other.load_weights(tmp_path / "x.weights.h5")
    for layer in other.layers:
        for each in layer.weights:
            np.testing.assert_array_equal(each.numpy(), arrays[f"{layer.name}/{each.name}"])
