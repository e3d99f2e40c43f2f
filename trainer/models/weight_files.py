"""Read arrays by name from files of weights.

Frozen TensorFlow 1 graphs (a SavedModel or a bare .pb), TensorFlow checkpoints (version 1 and object-based, also
those inside a SavedModel), and Keras' HDF5 files (the current layout and the legacy one). This module does not
know the network; `trainer/models/weights.py` does.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from tensorflow.core.protobuf import trackable_object_graph_pb2

from trainer.errors import ContentError, first_line
from trainer.models import frozen_graph, keras_file
from trainer.models.arrays import Array
from trainer.models.frozen_graph import Graph
from trainer.models.local_weights import SAVED_MODEL, Kind, kind_of

VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"


@dataclasses.dataclass(frozen=True)
class Contents:
    """Contents of a file of weights."""

    kind: str
    arrays: list[Array]
    graph: Graph | None = None
    """The network itself, if the file has it with its weights as constants."""


def read(path: pathlib.Path) -> Contents:
    """All float arrays in the file, folder or checkpoint at `path`; their values are read later.

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
        return Contents(*keras_file.read(path))
    graph = frozen_graph.read(path)
    return Contents("frozen graph", list(_constants(graph)), graph)


def _constants(graph: Graph) -> Iterator[Array]:
    for name, shape, read in graph.constants():
        yield Array(name, shape, read, name)


def _saved_model(folder: pathlib.Path) -> Contents:
    prefix = folder / "variables" / "variables"
    kept = list(_checkpoint(prefix)) if prefix.with_suffix(".index").is_file() else []
    if kept:
        return Contents("SavedModel with variables", kept)
    graph = frozen_graph.read_saved_model(folder / SAVED_MODEL)
    return Contents("frozen SavedModel", list(_constants(graph)), graph)


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
            f"{prefix} is damaged or not a checkpoint ({first_line(error)}); copy its .index and .data files again"
        ) from None


def _full_names(graph: bytes) -> dict[str, str]:
    """Key of an object-based checkpoint, which is a path of objects -> the variable's own name."""
    nodes = trackable_object_graph_pb2.TrackableObjectGraph.FromString(graph).nodes
    attributes = (attribute for node in nodes for attribute in node.attributes)
    return {attribute.checkpoint_key: attribute.full_name for attribute in attributes if attribute.full_name}
