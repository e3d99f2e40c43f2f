"""Files of weights of every kind are told apart, and what a graph of unknown origin declares is not made."""

import pytest
from tensorflow.core.framework import graph_pb2, types_pb2

from tests.refusals import refused
from trainer.errors import ContentError
from trainer.network import tensorflow_files

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
    return tensorflow_files.read_contents(tmp_path / "x.pb").arrays


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
    with refused(ContentError, "conv1/conv1_1/kernel"):
        array.read()
