"""Keras' files are read as Keras writes them, and nothing outside of them is."""

import time

import h5py
import numpy as np
import pytest

from tests.refusals import refused
from trainer.errors import ContentError
from trainer.network import hdf5_files, matching, weight_files
from trainer.network.msinet import architecture
from trainer.network.msinet.keras_model import build_model
from trainer.network.networks import DEFAULT_NETWORK

pytestmark = pytest.mark.usefixtures("narrow")

NAME = "layers/conv2d/vars/0"
SHAPE = (3, 3, 3, 16)
SECRET = np.arange(np.prod(SHAPE), dtype=np.float32)


@pytest.fixture(scope="module")
def network(narrow):
    return build_model((None, None), seed=3)


@pytest.fixture(scope="module")
def arrays(network):
    return {f"{layer.name}/{each.name}": each.numpy() for layer in network.layers for each in layer.weights}


@pytest.fixture(scope="module")
def content(arrays):
    return bytes(hdf5_files.encode_hdf5(arrays))


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


@pytest.mark.parametrize("name", ["x.keras", "x.npz", "x.tflite", ""])
def test_another_form_is_refused_with_the_forms_that_are_read(name, tmp_path):
    path = tmp_path / name
    path.touch()
    with refused(ContentError, path, weight_files.LocalWeights.FORMS):
        weight_files.kind_of_weights(path)


def test_groups_that_are_nested_without_end_are_refused_at_once(tmp_path):
    def seconds(depth):
        path = tmp_path / f"{depth}.h5"
        with h5py.File(path, "w") as file:
            group = file
            for _ in range(depth):
                group = group.create_group("g")
        begin = time.process_time()
        with refused(ContentError, path, hdf5_files.MOST_GROUPS):
            hdf5_files.read_hdf5(path)
        return time.process_time() - begin

    short, long = seconds(200), seconds(2000)
    assert long < 10 * 3 * max(short, 1e-3)  # quadratic: 100 times


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
    ("change", "named"),
    [
        (external, NAME),
        (virtual, NAME),
        (link, "conv1_conv1_1/kernel"),
        (link_to_a_group, "conv1_conv1_1/kernel"),
    ],
)
def test_values_in_other_files_of_the_machine_are_not_read(path, network, change, named):
    with h5py.File(path, "r+") as file:
        change(file, path.parent)
    with refused(ContentError, named):
        matching.match(DEFAULT_NETWORK, hdf5_files.read_hdf5(path)[1], "it")


@pytest.mark.parametrize("shape", [(2**40,), (9, 9, 9, 2**30)])
def test_no_memory_is_taken_for_an_array_of_a_shape_that_no_layer_has(path, network, shape):
    with h5py.File(path, "r+") as file:
        file.create_dataset(NAME, shape, "f4", chunks=tuple(min(side, 9) for side in shape))
    expected = architecture.weight_shapes()
    found = weight_files.LocalWeights(path).read(expected.values(), "it")
    with refused(ContentError, NAME, shape[0]):
        matching.match(DEFAULT_NETWORK, found, "it")


def test_an_array_that_unpacks_to_more_than_the_memory_of_the_worker_is_refused(path):
    shape = (2**16, 2**16)
    with h5py.File(path, "r+") as file:
        file.create_dataset(NAME, shape, "f4", chunks=(2**10, 2**10), compression="gzip")  # 16 GB of zeros
    with refused(ContentError, "it", "3 GB"):
        weight_files.LocalWeights(path).read([shape], "it")


def test_compressed_arrays_are_read(path):
    with h5py.File(path, "r+") as file:
        file.create_dataset(NAME, SHAPE, "f4", data=SECRET.reshape(SHAPE), compression="gzip")
    _, found = hdf5_files.read_hdf5(path)
    (value,) = (array.read() for array in found if array.name == NAME)
    np.testing.assert_array_equal(value, SECRET.reshape(SHAPE))


def test_keras_itself_reads_what_is_written(arrays, content, tmp_path):
    (tmp_path / "x.weights.h5").write_bytes(content)
    other = build_model((None, None), seed=4)
    other.load_weights(tmp_path / "x.weights.h5")
    for layer in other.layers:
        for each in layer.weights:
            np.testing.assert_array_equal(each.numpy(), arrays[f"{layer.name}/{each.name}"])
