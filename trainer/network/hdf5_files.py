"""Read and write weights in HDF5 files as Keras writes them.

HDF5 can lead out of a file, to other files of the machine, by links and by datasets with their values elsewhere.
Keras writes neither. Links are not followed, and such datasets are refused.
"""

import functools
import io
import pathlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

import h5py  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt

from trainer.errors import ContentError
from trainer.machine import Limits, call_untrusted
from trainer.network.arrays import Array, Shape, fitting
from trainer.texts import first_line

LIMITS = Limits(60, 3 * 10**9)
"""What a file may take to be read. MSI-Net's takes 1 s and 0.4 GB."""
REMEDY = "get the weights again from where they were published"
MOST_GROUPS = 50
"""How deep groups may be nested. Keras writes a level for each model or layer within another."""
LAYERS, VARS, NAME = "layers", "vars", "name"
LAYER_NAMES, WEIGHT_NAMES, OF_MODEL = "layer_names", "weight_names", "model_weights"


def read_in_worker(path: pathlib.Path, shapes: Collection[Shape], what: str) -> list[Array]:
    """Read an HDF5 file as `fitting` does, in the worker of `trainer.machine.untrusted`.

    Args:
        path: the file.
        shapes: the arrays of these shapes are read. Of all others only names and shapes are.
        what: the weights, for messages.

    Raises:
        ContentError: it is damaged, or takes more time or memory than LIMITS.
    """
    function = "trainer.network.hdf5_files.read_fitting_hdf5"
    arrays: list[Array] = call_untrusted(
        function, path, frozenset(shapes), file=what, remedy=REMEDY, limits=LIMITS
    )
    return arrays


def read_fitting_hdf5(path: pathlib.Path, shapes: Collection[Shape]) -> list[Array]:
    """Read an HDF5 file as `fitting` does."""
    return fitting(read_hdf5(path)[1], shapes)


def read_hdf5(path: pathlib.Path) -> tuple[str, list[Array]]:
    """The layout of an HDF5 file, for messages, and its arrays of floats. Their values are read later.

    Raises:
        ContentError: it is damaged, not a file of Keras, or has values in another file.
    """
    with _reading(path) as file:
        objects = {"": file["/"]}

        def add(name: str, item: h5py.Group | h5py.Dataset) -> None:
            if name.count("/") >= MOST_GROUPS:  # each level takes longer than the one before it
                raise ContentError(f"{path} has groups in more than {MOST_GROUPS} others: {REMEDY}")
            objects[name] = item

        file.visititems(add)  # each object once, behind no link that leads elsewhere
        objects = dict(sorted(objects.items()))
        if LAYER_NAMES in file.attrs or OF_MODEL in objects:
            return "HDF5 file of Keras' legacy layout", list(_legacy(objects, path))
        return "HDF5 file of Keras", list(_current(objects, path))


def encode_hdf5(arrays: Mapping[str, npt.NDArray[np.float32]]) -> bytes:
    """The content of a file as `keras.Model.save_weights` writes it: the same bytes for the same arrays.

    Example: `conv1_conv1_1/kernel` becomes `layers/conv2d/vars/0`, and the group has the layer's name.

    It is made in memory: a file that HDF5 cannot write, as on a full disk, ends the process when HDF5 closes it.

    Args:
        arrays: `layer/kernel` and `layer/bias`, in the order of the network's layers. Keras numbers them.
    """
    numbers: dict[str, str] = {}
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        for name, value in arrays.items():
            layer, _, role = name.rpartition("/")
            number = numbers.setdefault(layer, f"conv2d_{len(numbers)}" if numbers else "conv2d")
            group = file.require_group(f"{LAYERS}/{number}/{VARS}")
            group.attrs[NAME] = layer
            group[{"kernel": "0", "bias": "1"}[role]] = value
    return content.getvalue()  # no copy, in spite of the name, but a view would outlive the file object


@contextmanager
def _reading(path: pathlib.Path) -> Iterator[h5py.File]:
    """Open a file, and translate the errors of what is read from it inside the block."""
    try:
        with h5py.File(path) as file:
            yield file
    except (OSError, KeyError, RuntimeError, ValueError, TypeError, AttributeError) as error:
        raise ContentError(
            f"{path} is damaged or not an HDF5 file of Keras ({first_line(error)}). Copy it again"
        ) from None


def _legacy(objects: dict[str, h5py.Group | h5py.Dataset], path: pathlib.Path) -> Iterator[Array]:
    """Read files of `save` and `save_weights` of Keras 1 and 2: layers by name, each with its weights in order."""
    root = OF_MODEL if OF_MODEL in objects else ""
    for layer in _names(objects[root], LAYER_NAMES):
        group = f"{root}/{layer}".lstrip("/")
        for name in _names(objects[group], WEIGHT_NAMES):
            dataset = objects[f"{group}/{name}"]
            if _has_floats(dataset, path):
                read = functools.partial(_values, path, f"{group}/{name}")
                yield Array(f"{layer}/{name}", dataset.shape, read, f"{layer}/{_role(dataset)}")


def _current(objects: dict[str, h5py.Group | h5py.Dataset], path: pathlib.Path) -> Iterator[Array]:
    """Read the layout of `save_weights` of Keras 3, and of 2.13 for .weights.h5: groups `vars` by attribute path.

    Since Keras 3.6 a group has the layer's name. Before, a layer in a list is known only by its path.
    """
    for name, dataset in objects.items():
        group, _, index = name.rpartition("/")
        if group.rpartition("/")[2] != VARS or not _has_floats(dataset, path):
            continue
        object_path, attributes = group.removesuffix(VARS).rstrip("/"), objects[group].attrs
        called = _text(attributes[NAME]) if NAME in attributes else ""
        role = _role(dataset) if index in ("0", "1") else index
        read = functools.partial(_values, path, name)
        yield Array(name, dataset.shape, read, f"{called}/{role}" if called else "", f"{object_path}/{role}")


def _has_floats(item: h5py.Group | h5py.Dataset, path: pathlib.Path) -> bool:
    """Whether this is an array of floats. Raises `ContentError` if its values are elsewhere."""
    if not isinstance(item, h5py.Dataset) or item.shape is None or item.dtype.kind != "f":
        return False
    stored = item.id.get_create_plist()
    if stored.get_layout() == h5py.h5d.VIRTUAL or stored.get_external_count():
        raise ContentError(f"{path} has the values of {item.name} in another file. Write the weights with values")
    return True


def _values(path: pathlib.Path, name: str) -> np.ndarray:
    with _reading(path) as file:
        return np.asarray(file[name])


def _role(dataset: h5py.Dataset) -> str:
    """Role of an array of a convolution, from its shape, such as `bias` for (64,)."""
    return "kernel" if len(dataset.shape) > 1 else "bias"


def _names(group: h5py.Group, attribute: str) -> list[str]:
    """The names in an attribute."""
    return [_text(name) for name in np.atleast_1d(group.attrs[attribute]).flat]


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
