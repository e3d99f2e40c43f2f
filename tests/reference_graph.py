"""The weights of the reference in graphs and checkpoints with its names, like the files of its author."""

import pathlib

import numpy as np
import tensorflow as tf

from tests.golden.weights import golden_weights

v1 = tf.compat.v1
MEAN = (103.939, 116.779, 123.68)


def weights_of(network):
    """The weights of an MSI-Net in Keras by the reference's names, like `golden_weights`."""
    return {
        f"{layer.name.replace('_', '/', 1)}/{variable.name}": variable.numpy()
        for layer in network.layers
        for variable in layer.weights
    }


def frozen(weights=None):
    """The definition of a graph whose variables are frozen to constants, each with the identity that reads it.

    Nothing computes maps with them: constants are read from graphs, and no graph is run.

    Args:
        weights: like `golden_weights`, the default.
    """
    with tf.Graph().as_default() as graph:
        total = tf.constant(0.0)
        for name, value in (weights or golden_weights()).items():
            total += tf.reduce_sum(tf.identity(tf.constant(value, name=name), f"{name}/read"))
        stimulus = v1.placeholder(tf.float32, (None, None, None, 3), "input")
        tf.add(stimulus - tf.constant(MEAN), total, name="output")
        return graph.as_graph_def()


def optimized(definition):
    """The graph as the reference's `optimize` writes it for publication: without its identities."""
    sources = {node.name: node.input[0] for node in definition.node if node.op == "Identity"}
    graph = v1.GraphDef(versions=definition.versions)
    for node in definition.node:
        if node.op != "Identity":
            kept = graph.node.add()
            kept.CopyFrom(node)
            kept.input[:] = [sources.get(name, name) for name in node.input]
    return graph


def write_graph(path, definition):
    """A bare .pb file."""
    pathlib.Path(path).write_bytes(definition.SerializeToString())
    return path


def write_saved_model(folder, definition, prefix=""):
    """A SavedModel of a frozen graph, under a scope if `prefix` names one."""
    with tf.Graph().as_default() as graph, v1.Session() as session:
        tf.import_graph_def(definition, name=prefix)
        start = f"{prefix}/" if prefix else ""
        ends = [{name: graph.get_tensor_by_name(f"{start}{name}:0")} for name in ("input", "output")]
        v1.saved_model.simple_save(session, str(folder), *ends)
    return folder


def write_checkpoint(prefix, others=None):
    """A checkpoint of the variables, and of `others`: name -> array, such as an optimizer's."""
    tensors = {**golden_weights(), **(others or {})}
    names, arrays = list(tensors), [np.asarray(value) for value in tensors.values()]
    tf.raw_ops.SaveV2(prefix=str(prefix), tensor_names=names, shape_and_slices=[""] * len(names), tensors=arrays)
    return prefix
