"""Files of weights: HDF5, frozen graphs and checkpoints, with parts of other shapes, types, sizes and places."""

import dataclasses
import pathlib
import random
import shutil
from collections.abc import Callable

import h5py
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.core.framework import graph_pb2, node_def_pb2, types_pb2
from tensorflow.core.protobuf import saved_model_pb2

from tests import reference_graph, weight_files
from tests.fuzz.mutate import cut, mutated
from tests.fuzz.names import stem

Arrays = dict[str, NDArray[np.float32]]
EDGE_BYTES = 20_000
"""In files of weights, most bytes are weights; what says where they are is at the ends."""


@dataclasses.dataclass(frozen=True)
class Weights:
    """A file or a folder of weights."""

    kind: str
    path: pathlib.Path
    is_sound: bool = False
    is_edited: bool = True
    """Whether it was changed in known ways: then the values that are read are those of the network."""


class Maker:
    """Makes files of the weights of one network; `saved` is what Keras wrote of it."""

    def __init__(self, network: object, saved: pathlib.Path) -> None:
        self._saved = saved
        self.arrays: Arrays = reference_graph.weights_of(network)
        self._graph = reference_graph.frozen(
            weights={name.partition(":")[0]: v for name, v in self.arrays.items()}
        )

    def make(self, folder: pathlib.Path, source: random.Random) -> Weights:
        """Weights of a random kind, in a folder."""
        makers = (
            self._sound,
            self._edited,
            self._edited,
            self._damaged,
            self._damaged,
            self._graphs,
            self._graphs,
        )
        return source.choice((*makers, self._checkpoint))(folder, source)

    # === HDF5 ===

    def _copy(self, folder: pathlib.Path) -> pathlib.Path:
        return pathlib.Path(shutil.copy(self._saved, folder / "x.weights.h5"))

    def _legacy(self, folder: pathlib.Path) -> pathlib.Path:
        layers: dict[str, tuple[NDArray[np.float32], ...]] = {}
        for name, value in self.arrays.items():
            layer = name.rpartition("/")[0].replace("/", "_")
            layers[layer] = (*layers.get(layer, ()), value)
        return weight_files.write_legacy(folder / "legacy.h5", layers)

    def _sound(self, folder: pathlib.Path, source: random.Random) -> Weights:
        kind = source.choice(("h5", "legacy", "pb", "saved_model"))
        if kind == "pb":
            return Weights("sound pb", reference_graph.write_graph(folder / "x.pb", self._graph), True)
        if kind == "saved_model":
            return Weights("sound saved_model", _saved_model(folder, self._graph), True)
        return Weights(f"sound {kind}", (self._copy if kind == "h5" else self._legacy)(folder), True)

    def _edited(self, folder: pathlib.Path, source: random.Random) -> Weights:
        """With a dataset, a group, a link or an attribute that such files do not have."""
        path = self._copy(folder)
        edit = source.choice(EDITS)
        with h5py.File(path, "r+") as file:
            names: list[str] = []
            file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
            edit(file, source.choice(names), source)
        return Weights(f"h5 {edit.__name__.strip('_')}", path)

    def _damaged(self, folder: pathlib.Path, source: random.Random) -> Weights:
        whole = self._sound(folder, source)
        if whole.path.is_dir():
            return _damage(whole, whole.path / "saved_model.pb", source)
        return _damage(whole, whole.path, source)

    # === Graphs ===

    def _graphs(self, folder: pathlib.Path, source: random.Random) -> Weights:
        """With constants, operations and functions that cost memory or end a process."""
        graph = graph_pb2.GraphDef()
        graph.CopyFrom(self._graph)
        edit = source.choice(GRAPH_EDITS)
        edit(graph, source)
        path = folder / "x.pb"
        if source.random() < 0.3:
            path = _saved_model(folder, graph)
        else:
            path.write_bytes(graph.SerializePartialToString())
        return Weights(f"graph {edit.__name__.strip('_')}", path)

    # === Checkpoints ===

    def _checkpoint(self, folder: pathlib.Path, source: random.Random) -> Weights:
        prefix = folder / "model.ckpt"
        names, arrays = list(self.arrays), list(self.arrays.values())
        names = [name.partition(":")[0] for name in names]
        tf.raw_ops.SaveV2(
            prefix=str(prefix), tensor_names=names, shape_and_slices=[""] * len(names), tensors=arrays
        )
        whole = Weights("sound checkpoint", prefix, True)
        if source.random() < 0.2:
            return whole
        part = source.choice(sorted(folder.glob("model.ckpt.*")))
        if source.random() < 0.1:
            part.unlink()
            return Weights("checkpoint without a part", prefix)
        return _damage(whole, part, source)


def _damage(whole: Weights, file: pathlib.Path, source: random.Random) -> Weights:
    data = file.read_bytes()
    if source.random() < 0.2:
        data = cut(data, source)
    else:
        edge = mutated(data[:EDGE_BYTES], source)
        data = edge + data[EDGE_BYTES:] if source.random() < 0.7 else mutated(data, source)
    file.write_bytes(data)
    return Weights(whole.kind.replace("sound", "damaged"), whole.path, is_edited=False)


def _saved_model(folder: pathlib.Path, graph: graph_pb2.GraphDef) -> pathlib.Path:
    saved = saved_model_pb2.SavedModel(saved_model_schema_version=1)
    inner = saved.meta_graphs.add()
    inner.graph_def.CopyFrom(graph)
    inner.meta_info_def.tags.append("serve")
    signature = inner.signature_def["serving_default"]
    signature.inputs["input"].name, signature.outputs["output"].name = "input:0", "output:0"
    (folder / "published").mkdir()
    (folder / "published" / "saved_model.pb").write_bytes(saved.SerializePartialToString())
    return folder / "published"


# === Edits of HDF5 ===


def _other_values(file: h5py.File, name: str, source: random.Random) -> None:
    file[name][...] = source.choice((np.nan, np.inf, 1e38, 0))


def _other_type(file: h5py.File, name: str, source: random.Random) -> None:
    shape = file[name].shape
    kinds = ("f2", "f8", ">f4", "i4", "c8", "S4", "b1", [("a", "f4"), ("b", "i2")], h5py.string_dtype())
    del file[name]
    file.create_dataset(name, shape=shape, dtype=source.choice(kinds), chunks=shape if len(shape) > 1 else None)


def _other_shape(file: h5py.File, name: str, source: random.Random) -> None:
    shape = file[name].shape
    del file[name]
    shapes = ((), (0,), (*shape, 1), shape[::-1], (1,) * 32, (2,), (3, 3, 3, 3))
    file.create_dataset(name, shape=source.choice(shapes), dtype="f4")


def _vast(file: h5py.File, name: str, source: random.Random) -> None:
    del file[name]
    shape = source.choice(((2**30,), (2**33,), (2**20, 2**20), (3, 3, 2**20, 2**10), (2**62,)))
    file.create_dataset(name, shape=shape, dtype="f4", chunks=(1,) * len(shape), compression="gzip")


def _vast_beside(file: h5py.File, name: str, source: random.Random) -> None:
    file.create_dataset("layers/other/vars/0", shape=(2**31,), dtype="f4", chunks=(1024,), compression="gzip")


def _external(file: h5py.File, name: str, source: random.Random) -> None:
    shape = file[name].shape
    del file[name]
    file.create_dataset(name, shape=shape, dtype="f4", external=[("/proc/self/exe", 4096, h5py.h5f.UNLIMITED)])


def _virtual(file: h5py.File, name: str, source: random.Random) -> None:
    shape = file[name].shape
    other = pathlib.Path(file.filename).with_name("other.h5")
    with h5py.File(other, "w") as written:
        written["x"] = np.full(shape, 7, np.float32)
    del file[name]
    layout = h5py.VirtualLayout(shape=shape, dtype="f4")
    layout[...] = h5py.VirtualSource(str(other), "x", shape=shape)
    file.create_virtual_dataset(name, layout)


def _external_link(file: h5py.File, name: str, source: random.Random) -> None:
    other = pathlib.Path(file.filename).with_name("other.h5")
    with h5py.File(other, "w") as written:
        written["x"] = np.full(file[name].shape, 7, np.float32)
    del file[name]
    file[name] = h5py.ExternalLink(str(other), "/x")


def _soft_link(file: h5py.File, name: str, source: random.Random) -> None:
    del file[name]
    file[name] = h5py.SoftLink(source.choice((f"/{name}", "/nowhere", "/layers")))


def _cycle(file: h5py.File, name: str, source: random.Random) -> None:
    file[f"{name.rpartition('/')[0]}/up"] = file[source.choice(("/", "layers"))]


def _missing(file: h5py.File, name: str, source: random.Random) -> None:
    del file[source.choice((name, name.rpartition("/")[0]))]


def _group_for_array(file: h5py.File, name: str, source: random.Random) -> None:
    del file[name]
    file.create_group(name)


def _array_for_group(file: h5py.File, name: str, source: random.Random) -> None:
    group = name.rpartition("/")[0]
    del file[group]
    file[group] = np.zeros(3)


def _index(file: h5py.File, name: str, source: random.Random) -> None:
    group = file[name.rpartition("/")[0]]
    group[source.choice(("a", "-1", "2", "1.5", "9" * 5000, stem(source).encode(errors="surrogateescape")))] = 1.0


def _attribute(file: h5py.File, name: str, source: random.Random) -> None:
    group = file[name.rpartition("/")[0]]
    values = (b"\xff\xfe", 5, np.zeros(4), np.array([b"a", b"b"]), h5py.Empty("f"), "x" * 60_000, "\x1b[31mred\n")
    if "name" in group.attrs:
        del group.attrs["name"]
    group.attrs["name"] = source.choice(values)


def _layer_names(file: h5py.File, name: str, source: random.Random) -> None:
    values = (5, b"\xff", np.array([b"nowhere"]), np.array([b"layers"]), np.zeros((2, 2)), h5py.Empty("f"))
    file.attrs["layer_names"] = source.choice(values)


EDITS: tuple[Callable[[h5py.File, str, random.Random], None], ...] = (
    _other_values, _other_type, _other_shape, _vast, _vast_beside, _external, _virtual, _external_link, _soft_link,
    _cycle, _missing, _group_for_array, _array_for_group, _index, _attribute, _layer_names,
)  # fmt: skip
ELSEWHERE = ("h5 external", "h5 virtual", "h5 external_link")
"""Kinds whose values are those of other files of the machine: to accept them is wrong."""


# === Edits of graphs ===


def _constant(graph: graph_pb2.GraphDef, source: random.Random) -> node_def_pb2.NodeDef:
    return source.choice([node for node in graph.node if node.op == "Const" and "kernel" in node.name])


def _declared(graph: graph_pb2.GraphDef, source: random.Random) -> None:
    tensor = _constant(graph, source).attr["value"].tensor
    del tensor.tensor_shape.dim[:]
    for side in source.choice(((2**31,), (2**62, 2**62), (-1,), (0,), (3, 3, -1, 2), (2**20, 2**12))):
        tensor.tensor_shape.dim.add().size = side
    if source.random() < 0.7:
        tensor.tensor_content = b""
        tensor.float_val.append(1.0)


def _vast_constant(graph: graph_pb2.GraphDef, source: random.Random) -> None:
    node = graph.node.add(name=source.choice(("a/kernel", "other")), op="Const")
    node.attr["dtype"].type = types_pb2.DT_FLOAT
    tensor = node.attr["value"].tensor
    tensor.dtype = types_pb2.DT_FLOAT
    tensor.tensor_shape.dim.add().size = 2**31
    tensor.float_val.append(1.0)


def _types(graph: graph_pb2.GraphDef, source: random.Random) -> None:
    node = _constant(graph, source)
    kind = source.choice(
        (types_pb2.DT_STRING, types_pb2.DT_HALF, types_pb2.DT_RESOURCE, types_pb2.DT_INT8, 0, 99, 101)
    )
    if source.random() < 0.5:
        node.attr["value"].tensor.dtype = kind
    else:
        node.attr["dtype"].type = kind


def _attributes(graph: graph_pb2.GraphDef, source: random.Random) -> None:
    node = source.choice(graph.node)
    key = source.choice((*node.attr, "other"))
    if source.random() < 0.5 and key in node.attr:
        del node.attr[key]
    else:
        node.attr[key].s = source.choice((b"", b"\xff", b"NCHW", b"x" * 10_000))


def _recursion(graph: graph_pb2.GraphDef, source: random.Random) -> None:
    function = graph.library.function.add()
    function.signature.name = "again"
    argument = function.signature.input_arg.add()
    argument.name, argument.type = "x", types_pb2.DT_FLOAT
    result = function.signature.output_arg.add()
    result.name, result.type = "y", types_pb2.DT_FLOAT
    call = function.node_def.add(name="call", op="StatefulPartitionedCall", input=["x"])
    for node in (call, _before_output(graph, "StatefulPartitionedCall")):
        node.attr["f"].func.name = "again"
        for side in ("Tin", "Tout"):
            node.attr[side].list.type.append(types_pb2.DT_FLOAT)
    function.ret["y"] = "call:output:0"


def _doublings(graph: graph_pb2.GraphDef, source: random.Random) -> None:
    axis = graph.node.add(name="fuzz/axis", op="Const")
    axis.attr["dtype"].type = types_pb2.DT_INT32
    axis.attr["value"].tensor.dtype = types_pb2.DT_INT32
    axis.attr["value"].tensor.int_val.append(0)
    axis.attr["value"].tensor.tensor_shape.SetInParent()
    last = _output(graph).input[0]
    for index in range(60):
        node = graph.node.add(name=f"fuzz/double{index}", op="ConcatV2", input=[last, last, "fuzz/axis"])
        node.attr["N"].i = 2
        node.attr["T"].type, node.attr["Tidx"].type = types_pb2.DT_FLOAT, types_pb2.DT_INT32
        last = node.name
    _output(graph).input[0] = last


def _operation(graph: graph_pb2.GraphDef, source: random.Random) -> None:
    node = _before_output(
        graph, source.choice(("ReadFile", "WriteFile", "PyFunc", "NoSuch", "Identity", "While", ""))
    )
    node.attr["T"].type = types_pb2.DT_FLOAT


def _wires(graph: graph_pb2.GraphDef, source: random.Random) -> None:
    node = source.choice([each for each in graph.node if each.input])
    node.input[0] = source.choice((node.name, "nowhere", "output", "", "^input", f"{node.input[0]}:7", "input:-1"))


def _nodes(graph: graph_pb2.GraphDef, source: random.Random) -> None:
    index = source.randrange(len(graph.node))
    if source.random() < 0.5:
        del graph.node[index]
    else:
        graph.node.add().CopyFrom(graph.node[index])


def _named(graph: graph_pb2.GraphDef, source: random.Random) -> None:
    _constant(graph, source).name = stem(source).encode(errors="replace").decode()


def _output(graph: graph_pb2.GraphDef) -> node_def_pb2.NodeDef:
    return next(node for node in graph.node if node.name == "output")


def _before_output(graph: graph_pb2.GraphDef, operation: str) -> node_def_pb2.NodeDef:
    output = _output(graph)
    node = graph.node.add(name="fuzz/call", op=operation, input=[output.input[0]])
    output.input[0] = node.name
    return node


GRAPH_EDITS: tuple[Callable[[graph_pb2.GraphDef, random.Random], None], ...] = (
    _declared, _vast_constant, _types, _attributes, _recursion, _doublings, _operation, _wires, _nodes, _named,
)  # fmt: skip
