"""Arrays by name, from the files in which weights of this network are published or kept.

Frozen TensorFlow 1 graphs (a SavedModel or a bare .pb), TensorFlow checkpoints (of version 1 and of objects, those
inside a SavedModel too), and Keras' HDF5 files (its present layout and its legacy one). Nothing here knows what
the arrays are for, see `trainer/models/weights.py`.
"""

import dataclasses
import pathlib
from collections.abc import Iterator

import h5py  # type: ignore[import-untyped]
import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from tensorflow.core.protobuf import trackable_object_graph_pb2

from trainer.errors import UserError, first_line
from trainer.models import frozen_graph
from trainer.models.frozen_graph import Graph
from trainer.models.weight_sources import SAVED_MODEL, Kind, kind_of

VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"


@dataclasses.dataclass(frozen=True)
class Array:
    """One array of a file."""

    name: str
    """As the file has it."""
    value: np.ndarray
    called: str
    """`layer/kernel`, maybe with scopes before, where the file says what the layer is called; else empty."""
    place: str = ""
    """`attribute/kernel`, the way to the layer from object to object, where the file says that."""


@dataclasses.dataclass(frozen=True)
class Contents:
    """What a file holds."""

    kind: str
    arrays: list[Array]
    graph: Graph | None = None
    """The network itself, where the file has it with its weights as constants."""


def read(path: pathlib.Path) -> Contents:
    """All arrays of floats in the file, folder or checkpoint at `path`.

    Raises:
        UserError: there is none, it is of no kind that is known, or it is damaged.
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
        raise UserError(
            f"{prefix} is damaged or no checkpoint ({first_line(error)}); copy its .index and .data files again"
        ) from None


def _full_names(graph: bytes) -> dict[str, str]:
    """The variables' own names by those in a checkpoint of objects, which go by the way from object to object."""
    nodes = trackable_object_graph_pb2.TrackableObjectGraph.FromString(graph).nodes
    return {each.checkpoint_key: each.full_name for node in nodes for each in node.attributes if each.full_name}


# === HDF5 ===


def _hdf5(path: pathlib.Path) -> Contents:
    try:
        with h5py.File(path) as file:
            if "layer_names" in file.attrs or "model_weights" in file:
                return Contents("HDF5 file of Keras' legacy layout", list(_legacy(file)))
            return Contents("HDF5 file of Keras", list(_keras(file)))
    except (OSError, KeyError, RuntimeError) as error:
        raise UserError(
            f"{path} is damaged or no HDF5 file of Keras ({first_line(error)}); copy it again"
        ) from None


def _legacy(file: h5py.File) -> Iterator[Array]:
    """What `save_weights` of Keras 1 and 2 and `save` write: the layers by name, in each its weights in order."""
    root = file.get("model_weights", file)
    for layer in map(_text, root.attrs["layer_names"]):
        group = root[layer]
        for name in map(_text, group.attrs["weight_names"]):
            value = np.asarray(group[name])
            yield Array(f"{layer}/{name}", value, f"{layer}/{_role(value)}")


def _keras(file: h5py.File) -> Iterator[Array]:
    """What `save_weights` of Keras 3, and of 2.13 on for .weights.h5, writes: groups `vars` by way of attribute.

    The group has the layer's name from Keras 3.6 on; before, a layer in a list is known by its place alone.
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
    """What an array of a convolution is, where only its place says so."""
    return "kernel" if value.ndim > 1 else "bias"


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
