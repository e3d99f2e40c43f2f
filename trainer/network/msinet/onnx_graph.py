"""MSI-Net's layers in an ONNX graph, in their plain order, without what is rearranged in Keras for training."""

from trainer.network.arrays import Weights
from trainer.network.msinet import architecture
from trainer.network.msinet.architecture import ASPP, DECODER, encoder_layer
from trainer.network.onnx_format import Graph, OnnxLayers, Tensor


def maps(graph: Graph, weights: Weights, images: Tensor) -> Tensor:
    """(N, H, W, 3) RGB in 0..255 to (N, H, W, 1), of any range. Between them, maps are (N, C, h, w)."""
    layers = OnnxLayers(graph, weights)
    x = (images - architecture.IMAGE_MEAN).apply("Transpose", perm=[0, 3, 1, 2])
    return _decoder(layers, _aspp(graph, layers, _vgg16(graph, layers, x))).apply("Transpose", perm=[0, 2, 3, 1])


def _vgg16(graph: Graph, layers: OnnxLayers, x: Tensor) -> Tensor:
    pooled = []
    blocks = (architecture.VGG16_BLOCKS, architecture.POOL_STRIDES, architecture.VGG16_DILATIONS)
    for block, (widths, stride, dilation) in enumerate(zip(*blocks, strict=True), 1):
        for index in range(1, len(widths) + 1):
            x = layers.convolution(x, encoder_layer(block, index), dilation)
        # A stride of 1 keeps the size: the windows at the bottom and on the right are smaller.
        pads = [0, 0, 0, 0] if stride == 2 else [0, 0, 1, 1]
        x = x.apply("MaxPool", kernel_shape=[2, 2], strides=[stride, stride], pads=pads)
        pooled.append(x)
    return graph.node("Concat", *pooled[-architecture.JOINED_BLOCKS :], axis=1)


def _aspp(graph: Graph, layers: OnnxLayers, features: Tensor) -> Tensor:
    *names, context = ASPP
    dilations = (1, *architecture.ASPP_DILATIONS)
    branches = [layers.convolution(features, *each) for each in zip(names, dilations, strict=True)]
    joined = graph.node("Concat", *branches, axis=1)
    mean = layers.convolution(features.apply("GlobalAveragePool"), context)
    # The mean is the same in all pixels, so its part of the 1x1 convolution is computed once.
    n_joined = len(branches) * architecture.ASPP_FILTERS
    x = joined.apply("Conv", layers.kernel("aspp_conv2", slice(n_joined)), layers.bias("aspp_conv2"))
    return (x + mean.apply("Conv", layers.kernel("aspp_conv2", slice(n_joined, None)))).apply("Relu")


def _decoder(layers: OnnxLayers, x: Tensor) -> Tensor:
    for layer in DECODER[:-1]:
        # Bilinear as in TensorFlow 1: out[2i] = in[i], the last row and column repeated.
        mode = {"mode": "linear", "coordinate_transformation_mode": "asymmetric"}
        x = layers.convolution(x.apply("Resize", None, (1.0, 1.0, 2.0, 2.0), **mode), layer)
    return layers.convolution(x, DECODER[-1], relu=False)
