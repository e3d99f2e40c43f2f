"""MSI-Net as an ONNX graph, made of a model's weights, with its averaging and its calibration.

The graph has the operations of `trainer.models.network` in their plain order, without what is rearranged there for
training. It reads prepared images, (N, H, W, 3) RGB in 0..255 (`trainer.data.preprocess.prepare_stimulus`), and
answers with maps, (N, H, W, 1) in [0, 1]; N, H and W are free, H and W divisible by 8. TensorFlow is its oracle.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from trainer.data.preprocess import STIMULUS_PADDING
from trainer.models import architecture
from trainer.models.architecture import ASPP, DECODER, EPSILON, encoder_layer
from trainer.models.calibration import SMALL, Calibration
from trainer.models.compact import SCALE
from trainer.models.matching import Weights
from trainer.models.onnx_format import Graph

INPUT, OUTPUT = "input", "output"
FAR = 1e6
"""Larger than any side of an image, pixels."""
TO_THE_START = -(2**63)
"""End of a slice that goes backwards through the whole axis."""


def encode_onnx(
    weights: Weights,
    flips: bool = False,
    calibration: Calibration | None = None,
    metadata: Mapping[str, str] | None = None,
) -> bytes:
    """The content of an ONNX file.

    Args:
        weights: of the network, float32 or in compact form (`trainer.models.compact`), which the runtime expands.
        flips: whether to average the map of an image with that of its mirror image (setting `flip_prediction`).
        calibration: of the maps; None for the network's own.
        metadata: key -> value, kept in the file.
    """
    network = _Network(weights)
    maps = network.averaged() if flips else network.normalized(network.maps(INPUT))
    network.graph.node("Identity", [network.calibrated(maps, calibration) if calibration else maps], OUTPUT)
    shapes = ["batch", "height", "width"]
    return network.graph.encode("msinet", {INPUT: [*shapes, 3]}, {OUTPUT: [*shapes, 1]}, metadata or {})


class _Network:
    """A graph that the parts of the network are added to; each returns the name of its value.

    Maps of the network's layers are (N, C, h, w), those of the input and the output (N, H, W, C).
    """

    def __init__(self, weights: Weights) -> None:
        self.graph = Graph()
        self._weights = weights

    # === The network ===

    def maps(self, images: str) -> str:
        """(N, H, W, 3) to (N, H, W, 1), of any range."""
        centred = self._with("Sub", images, architecture.IMAGE_MEAN, "centred")
        x = self.graph.node("Transpose", [centred], "channels_first", perm=[0, 3, 1, 2])
        x = self._decoder(self._aspp(self._vgg16(x)))
        return self.graph.node("Transpose", [x], "channels_last", perm=[0, 2, 3, 1])

    def _vgg16(self, x: str) -> str:
        pooled = []
        blocks = (architecture.VGG16_BLOCKS, architecture.POOL_STRIDES, architecture.VGG16_DILATIONS)
        for block, (widths, stride, dilation) in enumerate(zip(*blocks, strict=True), 1):
            for index in range(1, len(widths) + 1):
                x = self._convolution(x, encoder_layer(block, index), dilation)
            # A stride of 1 keeps the size: the windows at the bottom and on the right are smaller.
            pads = [0, 0, 0, 0] if stride == 2 else [0, 0, 1, 1]
            x = self.graph.node(
                "MaxPool", [x], f"pool{block}", kernel_shape=[2, 2], strides=[stride, stride], pads=pads
            )
            pooled.append(x)
        return self.graph.node("Concat", pooled[-architecture.JOINED_BLOCKS :], "encoder", axis=1)

    def _aspp(self, features: str) -> str:
        dilations = (1, *architecture.ASPP_DILATIONS)
        branches = [self._convolution(features, layer, each) for layer, each in zip(ASPP, dilations, strict=False)]
        mean = self.graph.node("GlobalAveragePool", [features], "aspp_mean")
        context = self._convolution(mean, ASPP[-1])
        joined = self.graph.node("Concat", branches, "aspp", axis=1)
        # The context is the same in all pixels, so its part of the 1x1 convolution is computed once.
        n_joined = len(branches) * architecture.ASPP_FILTERS
        bias = self.graph.constant("aspp_conv2/bias", self._weights["aspp_conv2", "bias"])
        of_branches, of_context = slice(n_joined), slice(n_joined, None)
        parts = [
            self.graph.node(
                "Conv", [joined, self._kernel("aspp_conv2", of_branches), bias], "aspp_conv2/branches"
            ),
            self.graph.node("Conv", [context, self._kernel("aspp_conv2", of_context)], "aspp_conv2/context"),
        ]
        return self.graph.node("Relu", [self.graph.node("Add", parts, "aspp_sum")], "aspp_conv2")

    def _decoder(self, x: str) -> str:
        doubled = self.graph.constant("doubled", np.array([1, 1, 2, 2], np.float32))
        for layer in DECODER[:-1]:
            # Bilinear as in TensorFlow 1: out[2i] = in[i], the last row and column repeated.
            x = self.graph.node(
                "Resize",
                [x, "", doubled],
                f"{layer}/doubled",
                mode="linear",
                coordinate_transformation_mode="asymmetric",
            )
            x = self._convolution(x, layer)
        return self._convolution(x, DECODER[-1], relu=False)

    def _convolution(self, x: str, layer: str, dilation: int = 1, relu: bool = True) -> str:
        bias = self.graph.constant(f"{layer}/bias", self._weights[layer, "bias"])
        pads = [self._weights[layer, "kernel"].shape[0] // 2 * dilation] * 4
        x = self.graph.node(
            "Conv", [x, self._kernel(layer), bias], layer, dilations=[dilation, dilation], pads=pads
        )
        return self.graph.node("Relu", [x], f"{layer}/relu") if relu else x

    def _kernel(self, layer: str, channels: slice = slice(None)) -> str:
        """The part of a kernel (k, k, in, out) for some input channels as ONNX has it, (out, in, k, k)."""
        kernel = self._weights[layer, "kernel"][:, :, channels].transpose(3, 2, 0, 1)
        name = f"{layer}/kernel{channels.start or ''}"
        if kernel.dtype != np.int8:
            return self.graph.constant(name, kernel)
        scale = self.graph.constant(f"{layer}/scale", self._weights[layer, SCALE])
        return self.graph.node(
            "DequantizeLinear", [self.graph.constant(f"{name}/int8", kernel), scale], name, axis=0
        )

    # === The output ===

    def normalized(self, maps: str, name: str = "normalized") -> str:
        """Shift and scale the map of each image to 0..1: x -= min; x /= 1e-7 + max."""
        shifted = self.graph.node(
            "Sub", [maps, self._reduced("Min", maps, (1, 2, 3), f"{name}/min")], f"{name}/from0"
        )
        largest = self._with(
            "Add", self._reduced("Max", shifted, (1, 2, 3), f"{name}/max"), EPSILON, f"{name}/most"
        )
        return self.graph.node("Div", [shifted, largest], name)

    def averaged(self) -> str:
        """The mean of the map and of that of the mirrored image, mirrored back; scaled to [0, 1] again."""
        both = self.graph.node("Concat", [INPUT, self._mirrored(INPUT)], "both", axis=0)
        maps = self.normalized(self.maps(both))
        plain, mirrored = f"{self.graph.node('Split', [maps], 'halves', 2, axis=0, num_outputs=2)}/0", "halves/1"
        total = self.graph.node("Add", [plain, self._mirrored(mirrored)], "sum")
        return self.normalized(total, "averaged")

    def _mirrored(self, images: str) -> str:
        bounds = [
            self.graph.constant(f"mirror/{key}", np.array([value], np.int64))
            for key, value in (("start", -1), ("end", TO_THE_START), ("axis", 2), ("step", -1))
        ]
        return self.graph.node("Slice", [images, *bounds], f"{images}/mirrored")

    # === The calibration, as in trainer.models.tensorflow_calibration ===

    def calibrated(self, maps: str, calibration: Calibration) -> str:
        """Maps (N, H, W, 1) in [0, 1] to calibrated ones, each with a maximum of 1."""
        rows, columns = self._positions()
        parts = [
            self._expanded(
                self._cast(self._with("Less", self.graph.node("Abs", [each], f"{each}/off"), 0.5, f"{each}/in")),
                axis,
            )
            for each, axis in ((rows, 2), (columns, 1))
        ]
        inside = self.graph.node("Mul", parts, "inside")
        flat = self.graph.node("Squeeze", [maps, self._axes(3)], "flat")
        density = self._with("Add", self._distribution(flat, inside, "density"), SMALL, "density/positive")
        logs = self.graph.node("Log", [density], "logs")
        weighted = self.graph.node("Mul", [self.graph.node("Mul", [inside, density], "p"), logs], "p_logs")
        # The entropy is minus this sum.
        deficit = self.graph.node(
            "Add",
            [
                self.graph.node("Log", [self._reduced("Sum", inside, (1, 2), "inside/count")], "uniform_entropy"),
                self._reduced("Sum", weighted, (1, 2), "negative_entropy"),
            ],
            "deficit",
        )
        logit = self._with(
            "Add", self._with("Mul", deficit, -calibration.bias_slope, "slope"), calibration.bias_logit, "logit"
        )
        share = self.graph.node("Sigmoid", [logit], "share")
        rest = self.graph.node("Sub", [self._scalar("one", 1), share], "share/rest")
        power = self.graph.node("Exp", [self._with("Mul", logs, calibration.exponent, "power/logs")], "power")
        bias = self.graph.node(
            "Mul",
            [self._gaussian(rows, calibration.bias_height, 2), self._gaussian(columns, calibration.bias_width, 1)],
            "bias",
        )
        mixed = self.graph.node(
            "Add",
            [
                self.graph.node("Mul", [rest, self._distribution(power, inside, "power/density")], "mixed/power"),
                self.graph.node("Mul", [share, self._distribution(bias, inside, "bias/density")], "mixed/bias"),
            ],
            "mixed",
        )
        scaled = self.graph.node("Div", [mixed, self._reduced("Max", mixed, (1, 2), "mixed/max")], "scaled")
        return self._expanded(scaled, 3)

    def _positions(self) -> tuple[str, str]:
        """(N, H) and (N, W): distances from the image's middle, divided by its height or width."""
        same = self.graph.node("Equal", [INPUT, self._scalar("padding", STIMULUS_PADDING)], "is_padding")
        pixels = self._reduced(
            "Max", self._cast(self.graph.node("Not", [same], "is_image")), (3,), "pixels", keepdims=0
        )
        sides = self.graph.node("Shape", [INPUT], "sides")
        padded = []
        for axis, name in ((1, "rows"), (2, "columns")):
            n = self._cast(
                self.graph.node("Gather", [sides, self.graph.constant(f"axis{axis}", np.int64(axis))], f"{name}/n")
            )
            index = self.graph.node("Range", [self._scalar("zero", 0), n, self._scalar("one", 1)], f"{name}/index")
            lines = self._reduced("Max", pixels, (3 - axis,), f"{name}/lines", keepdims=0)
            outside = self._with(
                "Mul",
                self.graph.node("Sub", [self._scalar("one", 1), lines], f"{name}/outside"),
                FAR,
                f"{name}/far",
            )
            last = self.graph.node("Sub", [n, self._scalar("one", 1)], f"{name}/last")
            from_end = self.graph.node("Sub", [last, index], f"{name}/from_end")
            before, after = (
                self._first(self.graph.node("Add", [each, outside], f"{name}/{end}/places"), f"{name}/{end}")
                for each, end in ((index, "before"), (from_end, "after"))
            )
            off = self.graph.node(
                "Abs", [self.graph.node("Sub", [before, after], f"{name}/difference")], f"{name}/asymmetry"
            )
            even = self._cast(self._with("LessOrEqual", off, 1, f"{name}/even"))
            ends = [self.graph.node("Mul", [each, even], f"{each}/even") for each in (before, after)]
            padded.append((name, n, index, ends))
        most = [self.graph.node("Max", ends, f"{name}/most") for name, _, _, ends in padded]
        # Padding on all four sides belongs to the image.
        alone = self._cast(self._with("Equal", self.graph.node("Mul", most, "on_both_axes"), 0, "one_axis"))
        positions = []
        for name, n, index, ends in padded:
            before, after = (self.graph.node("Mul", [end, alone], f"{end}/alone") for end in ends)
            size = self.graph.node(
                "Sub", [self.graph.node("Sub", [n, before], f"{name}/rest"), after], f"{name}/size"
            )
            middle = self._with("Add", self._with("Mul", size, 0.5, f"{name}/half"), -0.5, f"{name}/centre")
            from_first = self.graph.node("Sub", [index, before], f"{name}/from_first")
            positions.append(
                self.graph.node(
                    "Div", [self.graph.node("Sub", [from_first, middle], f"{name}/from_centre"), size], name
                )
            )
        return positions[0], positions[1]

    def _first(self, places: str, name: str) -> str:
        """The smallest of places (N, n), as (N, 1); 0 if all are FAR."""
        first = self._reduced("Min", places, (1,), f"{name}/first")
        return self.graph.node("Mod", [first, self._scalar("far", FAR)], name, fmod=1)

    def _gaussian(self, positions: str, deviation: float, axis: int) -> str:
        scaled = self._with("Mul", positions, 1 / deviation, f"{positions}/deviations")
        squared = self.graph.node("Mul", [scaled, scaled], f"{positions}/squared")
        values = self.graph.node(
            "Exp", [self._with("Mul", squared, -0.5, f"{positions}/exponent")], f"{positions}/bias"
        )
        return self._expanded(values, axis)

    def _distribution(self, maps: str, inside: str, name: str) -> str:
        """Maps (N, H, W) divided by their sums inside the image."""
        kept = self.graph.node("Mul", [maps, inside], f"{name}/inside")
        total = self._with("Add", self._reduced("Sum", kept, (1, 2), f"{name}/sum"), SMALL, f"{name}/total")
        return self.graph.node("Div", [maps, total], name)

    # === Nodes ===

    def _with(self, operator: str, x: str, constant: float | Sequence[float], name: str) -> str:
        value = self.graph.constant(f"{name}/constant", np.array(constant, np.float32))
        return self.graph.node(operator, [x, value], name)

    def _scalar(self, name: str, value: float) -> str:
        return self.graph.constant(name, np.float32(value))

    def _axes(self, *axes: int) -> str:
        return self.graph.constant(f"axes/{axes}", np.array(axes, np.int64))

    def _reduced(self, kind: str, x: str, axes: Sequence[int], name: str, keepdims: int = 1) -> str:
        return self.graph.node(f"Reduce{kind}", [x, self._axes(*axes)], name, keepdims=keepdims)

    def _cast(self, x: str) -> str:
        return self.graph.node("Cast", [x], f"{x}/float", to=1)

    def _expanded(self, x: str, axis: int) -> str:
        return self.graph.node("Unsqueeze", [x, self._axes(axis)], f"{x}/expanded")
