"""Read arrays by name from files of weights.

Frozen TensorFlow 1 graphs (a SavedModel or a bare .pb), TensorFlow checkpoints (version 1 and object-based, also
those inside a SavedModel), and Keras' HDF5 files (the current layout and the legacy one). This module does not
know the network; `trainer/models/weights.py` does.
"""

import dataclasses
import pathlib
from collections.abc import Iterator

import h5py  # type: ignore[import-untyped]
import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from tensorflow.core.protobuf import trackable_object_graph_pb2

from trainer.errors import ContentError, first_line
from trainer.models import frozen_graph
from trainer.models.frozen_graph import Graph
from trainer.models.local_weights import SAVED_MODEL, Kind, kind_of

VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"


@dataclasses.dataclass(frozen=True)
class Array:
    """One array of a file."""

    name: str
    """The name in the file."""
    value: np.ndarray
    called: str
    """`layer/kernel`, possibly behind scopes, if the file has the layer's name; else empty."""
    place: str = ""
    """`attribute/kernel`, the path of objects to the layer, if the file has it."""


@dataclasses.dataclass(frozen=True)
class Contents:
    """Contents of a file of weights."""

    kind: str
    arrays: list[Array]
    graph: Graph | None = None
    """The network itself, if the file has it with its weights as constants."""


def read(path: pathlib.Path) -> Contents:
    """All float arrays in the file, folder or checkpoint at `path`.

    Raises:
        ContentError: it is damaged.
        UserError: it does not exist, or is of an unknown kind.
    """
    kind, path = kind_of(path)
    if kind is Kind.SAVED_MODEL:
        return _saved_model(path)
    if kind is Kind.CHECKPOINT:
        return Contents("TensorFlow checkpoint", list(_checkpoint(path)))
    if kind is Kind.HDF5:
        return _hdf5(path)
    graph = frozen_graph.read(path)
    return Contents("frozen graph", list(_constants(graph)), graph)


def _constants(graph: Graph) -> Iterator[Array]:
    for name, value in graph.constants():
        yield Array(name, value, name)


def _saved_model(folder: pathlib.Path) -> Contents:
    prefix = folder / "variables" / "variables"
    kept = list(_checkpoint(prefix)) if prefix.with_suffix(".index").is_file() else []
    if kept:
        return Contents("SavedModel with variables", kept)
    graph = frozen_graph.read_saved_model(folder / SAVED_MODEL)
    return Contents("frozen SavedModel", list(_constants(graph)), graph)


# === Checkpoints ===


def _checkpoint(prefix: pathlib.Path) -> Iterator[Array]:
    try:
        reader = tf.train.load_checkpoint(str(prefix))
        shapes = reader.get_variable_to_shape_map()
        types = reader.get_variable_to_dtype_map()
        full_names = _full_names(reader.get_tensor(OBJECTS)) if OBJECTS in shapes else {}
        for name in sorted(shapes):
            if types[name].is_floating:
                value = np.asarray(reader.get_tensor(name))
                yield Array(name, value, full_names.get(name, name), name.removesuffix(VALUE))
    except (tf.errors.OpError, ValueError, IndexError, RuntimeError, DecodeError) as error:
        raise ContentError(
            f"{prefix} is damaged or not a checkpoint ({first_line(error)}); copy its .index and .data files again"
        ) from None


def _full_names(graph: bytes) -> dict[str, str]:
    """Key of an object-based checkpoint, which is a path of objects -> the variable's own name."""
    nodes = trackable_object_graph_pb2.TrackableObjectGraph.FromString(graph).nodes
    attributes = (attribute for node in nodes for attribute in node.attributes)
    return {attribute.checkpoint_key: attribute.full_name for attribute in attributes if attribute.full_name}


# === HDF5 ===


def _hdf5(path: pathlib.Path) -> Contents:
    try:
        with h5py.File(path) as file:
            if "layer_names" in file.attrs or "model_weights" in file:
                return Contents("HDF5 file of Keras' legacy layout", list(_legacy(file)))
            return Contents("HDF5 file of Keras", list(_keras(file)))
    except (OSError, KeyError, RuntimeError) as error:
        raise ContentError(
            f"{path} is damaged or not an HDF5 file of Keras ({first_line(error)}); copy it again"
        ) from None


def _legacy(file: h5py.File) -> Iterator[Array]:
    """Read files of `save` and `save_weights` of Keras 1 and 2: layers by name, each with its weights in order."""
    root = file.get("model_weights", file)
    for layer in map(_text, root.attrs["layer_names"]):
        group = root[layer]
        for name in map(_text, group.attrs["weight_names"]):
            value = np.asarray(group[name])
            yield Array(f"{layer}/{name}", value, f"{layer}/{_role(value)}")


def _keras(file: h5py.File) -> Iterator[Array]:
    """Read the layout of `save_weights` of Keras 3, and of 2.13 for .weights.h5: groups `vars` by attribute path.

    Since Keras 3.6 a group has the layer's name; before, a layer in a list is known only by its place.
    """
    groups: list[str] = []
    file.visit(lambda name: groups.append(name) if name == "vars" or name.endswith("/vars") else None)
    for name in groups:
        place, group = name.removesuffix("vars").rstrip("/"), file[name]
        called = _text(group.attrs["name"]) if "name" in group.attrs else ""
        for index in sorted(group, key=int):
            value = np.asarray(group[index])
            role = _role(value) if int(index) < 2 else index
            yield Array(f"{name}/{index}", value, f"{called}/{role}" if called else "", f"{place}/{role}")


def _role(value: np.ndarray) -> str:
    """Role of an array of a convolution, from its shape."""
    return "kernel" if value.ndim > 1 else "bias"


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
