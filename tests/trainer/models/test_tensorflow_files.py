"""Files of weights of every kind are told apart, and what a graph of unknown origin declares is not made."""

import numpy as np
import pytest
from tensorflow.core.framework import graph_pb2, types_pb2

from trainer.errors import ContentError
from trainer.models import tensorflow_files
from trainer.models.tensorflow_files import Graph

FLOAT = types_pb2.DT_FLOAT


def constant(graph, dims, values=(1.0,), name="conv1/conv1_1/kernel"):
    node = graph.node.add(name=name, op="Const")
    node.attr["dtype"].type = FLOAT
    tensor = node.attr["value"].tensor
    tensor.dtype = FLOAT
    for size in dims:
        tensor.tensor_shape.dim.add().size = size
    tensor.float_val.extend(values)
    return node


def read(tmp_path, graph):
    (tmp_path / "x.pb").write_bytes(graph.SerializeToString())
    return tensorflow_files.read(tmp_path / "x.pb").arrays


@pytest.mark.parametrize("dims", [(2**31,), (2**50, 9), (-1, 4)])
def test_a_constant_is_not_made_to_know_its_shape(tmp_path, dims):
    graph = graph_pb2.GraphDef()
    constant(graph, dims)
    (array,) = read(tmp_path, graph)
    assert array.shape == dims


def test_a_constant_with_other_values_than_it_declares_is_damaged(tmp_path):
    graph = graph_pb2.GraphDef()
    constant(graph, (2, 2), values=[1.0] * 5)
    (array,) = read(tmp_path, graph)
    with pytest.raises(ContentError, match="the constant conv1/conv1_1/kernel does not have the values"):
        array.read()


def calling(graph, name, *called):
    """Add a function of floats that calls others one after the other."""
    function = graph.library.function.add()
    function.signature.name = name
    for side, argument in ((function.signature.input_arg, "x"), (function.signature.output_arg, "y")):
        side.add(name=argument, type=FLOAT)
    last = "x"
    for index, inner in enumerate(called):
        call(function.node_def, f"c{index}", inner, last)
        last = f"c{index}:output:0"
    function.ret["y"] = last


def call(nodes, name, function, given):
    node = nodes.add(name=name, op="StatefulPartitionedCall", input=[given])
    node.attr["Tin"].list.type.append(FLOAT)
    node.attr["Tout"].list.type.append(FLOAT)
    node.attr["f"].func.name = function


def graph_of(calls):
    """A graph whose output calls the first of some functions: name -> the functions that it calls."""
    graph = graph_pb2.GraphDef()
    graph.node.add(name="input", op="Placeholder").attr["dtype"].type = FLOAT
    for name, called in calls.items():
        calling(graph, name, *called)
    call(graph.node, "output", next(iter(calls)), "input")
    return Graph(graph, "input:0", "output:0")


def test_functions_that_call_others_are_run():
    graph = graph_of({"f": ["g", "h"], "g": ["h", "h"], "h": []})
    assert not graph.obstacle
    np.testing.assert_array_equal(graph.run(np.ones((1, 2, 2, 3), np.float32)), np.ones((1, 2, 2, 3)))
