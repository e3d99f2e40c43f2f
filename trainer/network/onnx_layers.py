"""Convolutions of a network in an ONNX graph, with the weights of a model. Their maps are (N, C, h, w)."""

import numpy as np

from trainer.network.arrays import SCALE, Weights
from trainer.network.onnx_format import Graph, Tensor


class OnnxLayers:
    """The layers with weights of one graph."""

    def __init__(self, graph: Graph, weights: Weights) -> None:
        self._graph, self._weights = graph, weights

    def convolution(self, x: Tensor, layer: str, dilation: int = 1, relu: bool = True) -> Tensor:
        """A convolution of stride 1 with zero padding, which keeps the size of an odd kernel's input."""
        pads = [self._weights[layer, "kernel"].shape[0] // 2 * dilation] * 4
        kernel, bias = self.kernel(layer), self.bias(layer)
        x = x.apply("Conv", kernel, bias, name=layer, dilations=[dilation, dilation], pads=pads)
        return x.apply("Relu") if relu else x

    def bias(self, layer: str) -> Tensor:
        """The bias of a layer, (out)."""
        return self._graph.constant(self._weights[layer, "bias"], f"{layer}/bias")

    def kernel(self, layer: str, channels: slice = slice(None)) -> Tensor:
        """The part of a kernel (k, k, in, out) for some input channels as ONNX has it, (out, in, k, k).

        Example: `slice(1024, None)` is the part for what is the same in all pixels.
        """
        kernel = self._weights[layer, "kernel"][:, :, channels].transpose(3, 2, 0, 1)
        stored = self._graph.constant(kernel, f"{layer}/kernel{channels.start or ''}")
        return (
            stored.apply("DequantizeLinear", self._weights[layer, SCALE], axis=0)
            if kernel.dtype == np.int8
            else stored
        )
