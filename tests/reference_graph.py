"""The reference's network as a TensorFlow 1 graph with its names, to make files like those of its author."""

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


def build(weights=None, data_format="NHWC", half_pixel_centers=False):
    """Build the network in the default graph.

    Args:
        weights: like `golden_weights`, the default.
        data_format: NHWC, or NCHW like the author's models for GPUs.
        half_pixel_centers: how maps are doubled; False in the reference.
    """
    weights = weights or golden_weights()
    channels = data_format.index("C")

    def convolution(x, name, dilation=1, relu=True):
        kernel, bias = (
            tf.identity(tf.constant(weights[f"{name}/{role}"], name=f"{name}/{role}"), f"{name}/{role}/read")
            for role in ("kernel", "bias")
        )
        with tf.name_scope(name):
            x = tf.nn.convolution(x, kernel, 1, "SAME", data_format, [dilation] * 2)
            x = tf.nn.bias_add(x, bias, data_format)
            return tf.nn.relu(x) if relu else x

    def pool(x, stride, padding):
        return tf.nn.max_pool2d(x, 2, stride, padding, data_format)

    def resize(x, size):
        if channels == 1:
            x = tf.transpose(x, (0, 2, 3, 1))
        x = tf.raw_ops.ResizeBilinear(images=x, size=size, half_pixel_centers=half_pixel_centers)
        return tf.transpose(x, (0, 3, 1, 2)) if channels == 1 else x

    def sides(x):
        return tf.shape(x)[2:] if channels == 1 else tf.shape(x)[1:3]

    stimulus = v1.placeholder(tf.float32, (None, None, None, 3), "input")
    x = stimulus - tf.reshape(tf.constant(MEAN), (1, 1, 1, 3))
    x = tf.transpose(x, (0, 3, 1, 2)) if channels == 1 else x
    pooled = []
    for block, layers in enumerate((2, 2, 3, 3, 3), 1):
        for index in range(1, layers + 1):
            x = convolution(x, f"conv{block}/conv{block}_{index}", dilation=2 if block == 5 else 1)
        x = pool(x, 2 if block <= 3 else 1, "VALID" if block <= 3 else "SAME")
        pooled.append(x)
    features = tf.concat(pooled[2:], channels)
    branches = [convolution(features, f"aspp/conv1_{i}", d) for i, d in enumerate((1, 4, 8, 12), 1)]
    mean = tf.reduce_mean(features, (2, 3) if channels == 1 else (1, 2), keepdims=True)
    branches.append(resize(convolution(mean, "aspp/conv1_5"), sides(features)))
    x = convolution(tf.concat(branches, channels), "aspp/conv2")
    for index in (1, 2, 3):
        x = convolution(resize(x, 2 * sides(x)), f"decoder/conv{index}")
    x = convolution(x, "decoder/conv4", relu=False)
    x = tf.transpose(x, (0, 2, 3, 1)) if channels == 1 else x
    x -= tf.reduce_min(x, (1, 2, 3), keepdims=True)
    tf.divide(x, 1e-7 + tf.reduce_max(x, (1, 2, 3), keepdims=True), name="output")


def frozen(**options):
    """The graph's definition, with variables frozen to constants."""
    with tf.Graph().as_default() as graph:
        build(**options)
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
