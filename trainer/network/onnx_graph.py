"""MSI-Net as an ONNX graph, made of a model's weights, with its averaging and its calibration.

The graph has the operations of `trainer.network.msinet.keras_model` in their plain order, without what is
rearranged there for training. It reads prepared images, (N, H, W, 3) RGB in 0..255, as
`trainer.network.preprocess.prepare_stimulus` makes them. It answers with maps, (N, H, W, 1) in [0, 1]. N, H and W
are free, H and W divisible by 8. TensorFlow is its oracle.
"""

from collections.abc import Mapping

import numpy as np

from trainer.network.calibration import SMALL, Calibration
from trainer.network.compact import SCALE
from trainer.network.matching import Weights
from trainer.network.msinet import architecture
from trainer.network.msinet.architecture import ASPP, DECODER, EPSILON, encoder_layer
from trainer.network.onnx_format import Graph, Tensor
from trainer.network.preprocess import STIMULUS_PADDING

INPUT, OUTPUT = "input", "output"
TO_THE_START = np.iinfo(np.int64).min
"""End of a slice that goes backwards through the whole axis."""


def encode_onnx(
    weights: Weights,
    flips: bool = False,
    calibration: Calibration | None = None,
    metadata: Mapping[str, str] | None = None,
) -> bytes:
    """The content of an ONNX file.

    Args:
        weights: of the network, float32 or in compact form (`trainer.network.compact`), which the runtime expands.
        flips: whether to average the map of an image with that of its mirror image (setting `flip_prediction`).
        calibration: of the maps; None for the network's own.
        metadata: key -> value, kept in the file.
    """
    graph = Graph()
    images = Tensor(graph, INPUT)
    network = _Network(graph, weights)
    maps = _averaged(graph, network, images) if flips else _normalized(network.maps(images))
    if calibration:
        maps = _calibrated(maps, images, calibration)
    graph.node("Identity", maps, name=OUTPUT)
    shape = ["batch", "height", "width"]
    return graph.encode("msinet", {INPUT: [*shape, 3]}, {OUTPUT: [*shape, 1]}, metadata or {})


# === The network ===


class _Network:
    """The layers with weights. Their maps are (N, C, h, w), those of the input and the output (N, H, W, C)."""

    def __init__(self, graph: Graph, weights: Weights) -> None:
        self._graph, self._weights = graph, weights

    def maps(self, images: Tensor) -> Tensor:
        """(N, H, W, 3) to (N, H, W, 1), of any range."""
        x = (images - architecture.IMAGE_MEAN).apply("Transpose", perm=[0, 3, 1, 2])
        return self._decoder(self._aspp(self._vgg16(x))).apply("Transpose", perm=[0, 2, 3, 1])

    def _vgg16(self, x: Tensor) -> Tensor:
        pooled = []
        blocks = (architecture.VGG16_BLOCKS, architecture.POOL_STRIDES, architecture.VGG16_DILATIONS)
        for block, (widths, stride, dilation) in enumerate(zip(*blocks, strict=True), 1):
            for index in range(1, len(widths) + 1):
                x = self._convolution(x, encoder_layer(block, index), dilation)
            # A stride of 1 keeps the size: the windows at the bottom and on the right are smaller.
            pads = [0, 0, 0, 0] if stride == 2 else [0, 0, 1, 1]
            x = x.apply("MaxPool", kernel_shape=[2, 2], strides=[stride, stride], pads=pads)
            pooled.append(x)
        return self._graph.node("Concat", *pooled[-architecture.JOINED_BLOCKS :], axis=1)

    def _aspp(self, features: Tensor) -> Tensor:
        *layers, context = ASPP
        dilations = (1, *architecture.ASPP_DILATIONS)
        branches = [self._convolution(features, *each) for each in zip(layers, dilations, strict=True)]
        joined = self._graph.node("Concat", *branches, axis=1)
        mean = self._convolution(features.apply("GlobalAveragePool"), context)
        # The mean is the same in all pixels, so its part of the 1x1 convolution is computed once.
        n_joined = len(branches) * architecture.ASPP_FILTERS
        x = joined.apply("Conv", self._kernel("aspp_conv2", slice(n_joined)), self._bias("aspp_conv2"))
        return (x + mean.apply("Conv", self._kernel("aspp_conv2", slice(n_joined, None)))).apply("Relu")

    def _decoder(self, x: Tensor) -> Tensor:
        for layer in DECODER[:-1]:
            # Bilinear as in TensorFlow 1: out[2i] = in[i], the last row and column repeated.
            mode = {"mode": "linear", "coordinate_transformation_mode": "asymmetric"}
            x = self._convolution(x.apply("Resize", None, (1.0, 1.0, 2.0, 2.0), **mode), layer)
        return self._convolution(x, DECODER[-1], relu=False)

    def _convolution(self, x: Tensor, layer: str, dilation: int = 1, relu: bool = True) -> Tensor:
        pads = [self._weights[layer, "kernel"].shape[0] // 2 * dilation] * 4
        kernel, bias = self._kernel(layer), self._bias(layer)
        x = x.apply("Conv", kernel, bias, name=layer, dilations=[dilation, dilation], pads=pads)
        return x.apply("Relu") if relu else x

    def _bias(self, layer: str) -> Tensor:
        return self._graph.constant(self._weights[layer, "bias"], f"{layer}/bias")

    def _kernel(self, layer: str, channels: slice = slice(None)) -> Tensor:
        """The part of a kernel (k, k, in, out) for some input channels as ONNX has it, (out, in, k, k)."""
        kernel = self._weights[layer, "kernel"][:, :, channels].transpose(3, 2, 0, 1)
        stored = self._graph.constant(kernel, f"{layer}/kernel{channels.start or ''}")
        return (
            stored.apply("DequantizeLinear", self._weights[layer, SCALE], axis=0)
            if kernel.dtype == np.int8
            else stored
        )


def _normalized(maps: Tensor) -> Tensor:
    """Shift and scale the map of each image to 0..1: x -= min; x /= 1e-7 + max."""
    shifted = maps - maps.reduced("Min", 1, 2, 3)
    return shifted / (EPSILON + shifted.reduced("Max", 1, 2, 3))


def _averaged(graph: Graph, network: _Network, images: Tensor) -> Tensor:
    """The mean of the map and of that of the mirrored image, mirrored back; scaled to [0, 1] again."""
    both = graph.node("Concat", images, _mirrored(images), axis=0)
    plain, mirrored = graph.split("Split", 2, _normalized(network.maps(both)), axis=0, num_outputs=2)
    return _normalized(plain + _mirrored(mirrored))


def _mirrored(images: Tensor) -> Tensor:
    start, end, axis, step = (np.array([each]) for each in (-1, TO_THE_START, 2, -1))
    return images.apply("Slice", start, end, axis, step)


# === The calibration, as in trainer.network.tensorflow_calibration ===


def _calibrated(maps: Tensor, images: Tensor, calibration: Calibration) -> Tensor:
    """Maps (N, H, W, 1) in [0, 1] to calibrated ones, each with a maximum of 1."""
    rows, columns = _positions(images)
    inside = _is_inside(rows).expanded(2) * _is_inside(columns).expanded(1)
    logs = (_distribution(maps.apply("Squeeze", np.array([3])), inside) + SMALL).apply("Log")
    negative_entropy = (inside * logs.apply("Exp") * logs).reduced("Sum", 1, 2)
    uniform = inside.reduced("Sum", 1, 2).apply("Log")
    share = (calibration.bias_logit - calibration.bias_slope * (uniform + negative_entropy)).apply("Sigmoid")
    vertical = _gaussian(rows - calibration.bias_y, calibration.bias_height)
    horizontal = _gaussian(columns - calibration.bias_x, calibration.bias_width)
    power = _distribution((calibration.exponent * logs).apply("Exp"), inside)
    bias = _distribution(vertical.expanded(2) * horizontal.expanded(1), inside)
    mixed = (1.0 - share) * power + share * bias
    return (mixed / mixed.reduced("Max", 1, 2)).expanded(3)


def _positions(images: Tensor) -> tuple[Tensor, Tensor]:
    """(N, H) and (N, W): distances from the image's middle, divided by its height or width."""
    inside = images.apply("Equal", STIMULUS_PADDING).apply("Not").as_floats().reduced("Max", 3, keepdims=0)
    sides = [images.apply("Shape").apply("Gather", np.int64(axis)).as_floats() for axis in (1, 2)]
    indices = [images.graph.node("Range", 0.0, length, 1.0) for length in sides]
    paddings = [
        _padding(inside.reduced("Max", across, keepdims=0), *axis)
        for across, axis in zip((2, 1), zip(indices, sides, strict=True), strict=True)
    ]
    # Borders on all four sides belong to the image.
    above, left = (before.apply("Max", after) for before, after in paddings)
    one_axis = (above * left).apply("Equal", 0.0).as_floats()
    rows, columns = (
        _distances(index, length, *(end * one_axis for end in ends))
        for index, length, ends in zip(indices, sides, paddings, strict=True)
    )
    return rows, columns


def _padding(inside: Tensor, index: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
    """The padding before and after the image, (N, 1) each, of (N, n) lines that are inside it or not."""
    far = (1.0 - inside) * length
    # Lines that are all outside count as no padding.
    before, after = (
        (each + far).reduced("Min", 1).apply("Mod", length, fmod=1) for each in (index, length - 1.0 - index)
    )
    even = (before - after).apply("Abs").apply("LessOrEqual", 1.0).as_floats()
    return before * even, after * even


def _distances(index: Tensor, length: Tensor, before: Tensor, after: Tensor) -> Tensor:
    return (index + 0.5 - (length + before - after) * 0.5) / (length - before - after)


def _is_inside(positions: Tensor) -> Tensor:
    return positions.apply("Abs").apply("Less", 0.5).as_floats()


def _gaussian(positions: Tensor, deviation: float) -> Tensor:
    scaled = positions / deviation
    return (scaled * scaled * -0.5).apply("Exp")


def _distribution(maps: Tensor, inside: Tensor) -> Tensor:
    """Maps (N, H, W) divided by their sums inside the image."""
    return maps / ((maps * inside).reduced("Sum", 1, 2) + SMALL)
