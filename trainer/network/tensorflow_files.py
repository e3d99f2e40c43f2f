"""Read arrays by name from files of weights of every kind.

Read here are the constants of frozen TensorFlow graphs (a SavedModel or a bare .pb), which are never run.
Read are also TensorFlow checkpoints (version 1 and object-based, also inside a SavedModel).
`trainer.network.hdf5_files` reads the HDF5 files of Keras. Neither knows the network. `trainer.network.load` does.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from tensorflow.core.framework import graph_pb2, node_def_pb2, tensor_pb2, types_pb2
from tensorflow.core.protobuf import saved_model_pb2, trackable_object_graph_pb2

from trainer.errors import ContentError, NotFoundError
from trainer.network import compact, hdf5_files
from trainer.network.arrays import Array, Shape, fitting
from trainer.network.weight_files import SAVED_MODEL, Kind, kind_of_weights
from trainer.texts import first_line

FLOATS = (types_pb2.DT_FLOAT, types_pb2.DT_HALF, types_pb2.DT_DOUBLE, types_pb2.DT_BFLOAT16)
VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"


@dataclasses.dataclass(frozen=True)
class Contents:
    """Contents of a file of weights."""

    kind: str
    arrays: list[Array]


def read_contents(path: pathlib.Path) -> Contents:
    """All float arrays in the file, folder or checkpoint at `path`. Their values are read later.

    Raises:
        ContentError: it is damaged.
        UserError: it does not exist, or is of an unknown kind.
    """
    kind, path = kind_of_weights(path)
    if kind is Kind.SAVED_MODEL:
        return _saved_model(path)
    if kind is Kind.CHECKPOINT:
        return Contents("TensorFlow checkpoint", list(_checkpoint(path)))
    if kind is Kind.HDF5:
        return Contents(*hdf5_files.read_hdf5(path))
    if kind is Kind.COMPACT:
        weights = compact.expanded(compact.read_compact(path, compact.decode_compact))
        return Contents("compact form", [Array.of("/".join(key), value) for key, value in weights.items()])
    return Contents("frozen graph", list(_constants(_read_graph(path))))


def read_fitting_tensorflow(path: pathlib.Path, shapes: Collection[Shape]) -> list[Array]:
    """Read weights of any kind as `trainer.network.arrays.fitting` does."""
    return fitting(read_contents(path).arrays, shapes)


def _saved_model(folder: pathlib.Path) -> Contents:
    prefix = folder / "variables" / "variables"
    kept = list(_checkpoint(prefix)) if prefix.with_suffix(".index").is_file() else []
    if kept:
        return Contents("SavedModel with variables", kept)
    return Contents("frozen SavedModel", list(_constants(_read_saved_model(folder / SAVED_MODEL))))


def _checkpoint(prefix: pathlib.Path) -> Iterator[Array]:
    with _explained(prefix):
        reader = tf.train.load_checkpoint(str(prefix))
        shapes = reader.get_variable_to_shape_map()
        types = reader.get_variable_to_dtype_map()
        has_objects = types.get(OBJECTS) == tf.string and not shapes[OBJECTS]
        full_names = _full_names(reader.get_tensor(OBJECTS)) if has_objects else {}
    for name in sorted(shapes):
        if types[name].is_floating:
            read = functools.partial(_tensor, prefix, reader, name)
            yield Array(name, tuple(shapes[name]), read, full_names.get(name, name), name.removesuffix(VALUE))


def _tensor(prefix: pathlib.Path, reader: Any, name: str) -> np.ndarray:
    with _explained(prefix):
        return np.asarray(reader.get_tensor(name))


@contextmanager
def _explained(prefix: pathlib.Path) -> Iterator[None]:
    """Translate the errors of a checkpoint that is read inside the block."""
    try:
        yield
    except (tf.errors.OpError, ValueError, IndexError, RuntimeError, DecodeError) as error:
        raise ContentError(
            f"{prefix} is damaged or not a checkpoint ({first_line(error)}). Copy its .index and .data files again"
        ) from None


def _full_names(graph: bytes) -> dict[str, str]:
    """Key of an object-based checkpoint, a path of objects -> the variable's own name.

    Example: `model/conv1/kernel/.ATTRIBUTES/VARIABLE_VALUE` -> `conv1/conv1_1/kernel`.
    """
    nodes = trackable_object_graph_pb2.TrackableObjectGraph.FromString(graph).nodes
    attributes = (attribute for node in nodes for attribute in node.attributes)
    return {attribute.checkpoint_key: attribute.full_name for attribute in attributes if attribute.full_name}


def _constants(graph: graph_pb2.GraphDef) -> Iterator[Array]:
    """Each float constant, in the graph and in its functions. Its values are checked when they are read."""
    for node in _nodes(graph):
        tensor = node.attr["value"].tensor
        if node.op == "Const" and tensor.dtype in FLOATS and not tensor.tensor_shape.unknown_rank:
            shape = tuple(dimension.size for dimension in tensor.tensor_shape.dim)
            yield Array(node.name, shape, functools.partial(_value, node.name, tensor), node.name)


def _value(name: str, tensor: tensor_pb2.TensorProto) -> np.ndarray:
    try:
        return np.asarray(tf.make_ndarray(tensor))
    except (TypeError, ValueError) as error:
        raise ContentError(
            f"the constant {name} does not have the values that it declares ({first_line(error)}). Copy the graph "
            "again"
        ) from None


def _nodes(graph: graph_pb2.GraphDef) -> Iterator[node_def_pb2.NodeDef]:
    yield from graph.node
    for function in graph.library.function:
        yield from function.node_def


def _read_graph(path: pathlib.Path) -> graph_pb2.GraphDef:
    graph = _parse(path, graph_pb2.GraphDef)
    if not graph.node:
        raise ContentError(f"{path} holds no graph. Give a frozen graph, or the folder of a SavedModel")
    return graph


def _read_saved_model(path: pathlib.Path) -> graph_pb2.GraphDef:
    graphs = _parse(path, saved_model_pb2.SavedModel).meta_graphs
    if not graphs:
        raise ContentError(f"{path} holds no SavedModel. Copy it again")
    return graphs[0].graph_def


def _parse(path: pathlib.Path, kind: type) -> Any:
    try:
        return kind.FromString(path.read_bytes())  # type: ignore[attr-defined]
    except DecodeError as error:
        raise ContentError(
            f"{path} is damaged or not a graph of TensorFlow ({first_line(error)}). Copy it again"
        ) from None
    except OSError as error:
        raise NotFoundError(f"cannot read {path}: {error.strerror}") from None
