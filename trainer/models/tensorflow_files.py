"""Read arrays by name from files of weights of every kind, and run the graphs that some of them hold.

Read here are frozen TensorFlow 1 graphs (a SavedModel or a bare .pb) and TensorFlow checkpoints (version 1 and
object-based, also those inside a SavedModel); Keras' HDF5 files are read by `trainer.models.weight_files`. Neither
knows the network; `trainer.models.load` does.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from tensorflow.core.framework import graph_pb2, node_def_pb2, tensor_pb2, types_pb2
from tensorflow.core.protobuf import rewriter_config_pb2, saved_model_pb2, trackable_object_graph_pb2

from trainer.errors import ContentError, UserError, first_line
from trainer.models import weight_files
from trainer.models.weight_files import SAVED_MODEL, Array, Kind, Shape, kind_of

v1 = tf.compat.v1
FLOATS = (types_pb2.DT_FLOAT, types_pb2.DT_HALF, types_pb2.DT_DOUBLE, types_pb2.DT_BFLOAT16)
INPUTS = ("Placeholder", "PlaceholderWithDefault")
SIGNATURE = "serving_default"
HARMLESS = {
    "Add", "AddN", "AddV2", "AvgPool", "BatchToSpaceND", "BiasAdd", "Cast", "ConcatV2", "Const", "Conv2D",
    "Div", "Equal", "ExpandDims", "Fill", "FloorDiv", "FloorMod", "GatherV2", "Identity", "IdentityN", "Max",
    "MaxPool", "Maximum", "Mean", "Min", "Minimum", "Mod", "Mul", "Neg", "NoOp", "Pack", "Pad", "PadV2",
    "PartitionedCall", "Placeholder", "PlaceholderWithDefault", "Prod", "Range", "RealDiv", "Relu", "Reshape",
    "ResizeBilinear", "Shape", "ShapeN", "Slice", "SpaceToBatchND", "Split", "Squeeze",
    "StatefulPartitionedCall", "StridedSlice", "Sub", "Sum", "Tile", "Transpose", "Unpack", "ZerosLike",
}  # fmt: skip
"""Operations that an untrusted graph may have to be run here: no files, no Python, no state."""
VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"


@dataclasses.dataclass(frozen=True)
class Contents:
    """Contents of a file of weights."""

    kind: str
    arrays: list[Array]
    graph: "Graph | None" = None
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
        return Contents(*weight_files.read(path))
    graph = read_graph(path)
    return Contents("frozen graph", list(graph.constants()), graph)


def read_fitting(path: pathlib.Path, shapes: Collection[Shape]) -> list[Array]:
    """Read weights of any kind as `weight_files.fitting` does."""
    return weight_files.fitting(read(path).arrays, shapes)


def _saved_model(folder: pathlib.Path) -> Contents:
    prefix = folder / "variables" / "variables"
    kept = list(_checkpoint(prefix)) if prefix.with_suffix(".index").is_file() else []
    if kept:
        return Contents("SavedModel with variables", kept)
    graph = read_saved_model(folder / SAVED_MODEL)
    return Contents("frozen SavedModel", list(graph.constants()), graph)


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


@dataclasses.dataclass(frozen=True)
class Graph:
    """A graph, and its tensors for the images and the maps."""

    definition: graph_pb2.GraphDef
    input: str
    output: str
    """Names of tensors; empty if unknown."""

    def constants(self) -> Iterator[Array]:
        """Each float constant, in the graph and in its functions; its values are checked when they are read."""
        for node in _nodes(self.definition):
            tensor = node.attr["value"].tensor
            if node.op == "Const" and tensor.dtype in FLOATS and not tensor.tensor_shape.unknown_rank:
                shape = tuple(dimension.size for dimension in tensor.tensor_shape.dim)
                yield Array(node.name, shape, functools.partial(_value, node.name, tensor), node.name)

    @property
    def obstacle(self) -> str:
        """The reason why the graph cannot be run here; empty if it can."""
        if not (self.input and self.output):
            return "its input or its output is unknown"
        names = {function.signature.name for function in self.definition.library.function}
        others = sorted({node.op for node in _nodes(self._needed())} - HARMLESS - names)
        if others:
            return f"it has operations that are not allowed in an untrusted graph: {', '.join(others[:10])}"
        return ""

    def run(self, images: np.ndarray) -> np.ndarray:
        """Predict the maps (1, H, W, 1) of images (1, H, W, 3) float32 in 0..255.

        Raises:
            ValueError: the graph does not run with them.
        """
        config = v1.ConfigProto(allow_soft_placement=True)
        # CPUs have no kernels for graphs made for GPUs, with channels first; Grappler converts these graphs.
        rewriting = config.graph_options.rewrite_options
        rewriting.cpu_layout_conversion = rewriter_config_pb2.RewriterConfig.NCHW_TO_NHWC
        try:
            with tf.Graph().as_default(), v1.Session(config=config) as session:
                tf.import_graph_def(self._needed(), name="")
                return np.asarray(session.run(self.output, {self.input: images}))
        except (tf.errors.OpError, TypeError, LookupError) as error:
            raise ValueError(first_line(error)) from None

    def _needed(self) -> graph_pb2.GraphDef:
        """The part of the graph that the output needs. A SavedModel also has nodes that read and write files."""
        nodes = {node.name: node for node in self.definition.node}
        reached, pending = set[str](), [self.output]
        while pending:
            name = pending.pop().lstrip("^").partition(":")[0]
            if name in nodes and name not in reached:
                reached.add(name)
                pending += nodes[name].input
        needed = graph_pb2.GraphDef(versions=self.definition.versions)
        needed.node.extend(node for node in self.definition.node if node.name in reached)
        functions = {function.signature.name: function for function in self.definition.library.function}
        used, called = set[str](), _called(needed.node) & set(functions)
        while called:
            used |= called
            called = set().union(*(_called(functions[name].node_def) for name in called)) & set(functions) - used
        needed.library.function.extend(function for name, function in functions.items() if name in used)
        return needed


def _value(name: str, tensor: tensor_pb2.TensorProto) -> np.ndarray:
    try:
        return np.asarray(tf.make_ndarray(tensor))
    except (TypeError, ValueError) as error:
        raise ContentError(
            f"the constant {name} does not have the values that it declares ({first_line(error)}); copy the graph "
            "again"
        ) from None


def _nodes(definition: graph_pb2.GraphDef) -> Iterator[node_def_pb2.NodeDef]:
    yield from definition.node
    for function in definition.library.function:
        yield from function.node_def


def _called(nodes: Iterable[node_def_pb2.NodeDef]) -> set[str]:
    """Names of the functions that nodes call."""
    return {node.op for node in nodes} | {
        function.name
        for node in nodes
        for value in node.attr.values()
        for function in (value.func, *value.list.func)
        if function.name
    }


def read_graph(path: pathlib.Path) -> Graph:
    """The graph in a .pb file; `ContentError` if it holds none, `UserError` if it cannot be read."""
    definition = _parse(path, graph_pb2.GraphDef)
    if not definition.node:
        raise ContentError(f"{path} holds no graph; give a frozen graph, or the folder of a SavedModel")
    inputs = [node.name for node in definition.node if node.op in INPUTS]
    used = {name.split(":")[0].lstrip("^") for node in definition.node for name in node.input}
    ends = [node.name for node in definition.node if node.name not in used and node.op not in ("Const", "NoOp")]
    named = [name for name in ends if name.rpartition("/")[2] == "output"]
    return Graph(definition, _only(inputs), _only(named or ends))


def read_saved_model(path: pathlib.Path) -> Graph:
    """The graph of a SavedModel's `saved_model.pb`; errors are those of `read`."""
    graphs = _parse(path, saved_model_pb2.SavedModel).meta_graphs
    if not graphs:
        raise ContentError(f"{path} holds no SavedModel; copy it again")
    signatures = graphs[0].signature_def
    chosen = signatures[SIGNATURE] if SIGNATURE in signatures else next(iter(signatures.values()), None)
    sides = (chosen.inputs, chosen.outputs) if chosen else ({}, {})
    names = ([tensor.name for tensor in side.values()] for side in sides)
    first, last = (tensors[0] if len(tensors) == 1 else "" for tensors in names)
    return Graph(graphs[0].graph_def, first, last)


def _only(names: list[str]) -> str:
    return f"{names[0]}:0" if len(names) == 1 else ""


def _parse(path: pathlib.Path, kind: type) -> graph_pb2.GraphDef:
    try:
        return kind.FromString(path.read_bytes())  # type: ignore[attr-defined]
    except DecodeError as error:
        raise ContentError(
            f"{path} is damaged or not a graph of TensorFlow ({first_line(error)}); copy it again"
        ) from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
