"""A network as an ONNX graph, made of a model's weights, with its averaging and its calibration.

The graph reads prepared images, (N, H, W, 3) RGB in 0..255 (`trainer.network.preprocess.Frame.image`). It
answers with maps, (N, H, W, 1) in [0, 1]. N, H and W are free, H and W divisible by the network's stride.
TensorFlow is its oracle.

A program that predicts several kinds of images, such as a page in a browser, loads the weights once. It has the
graph of the network alone, and a small one for each kind with what follows (`encode_finish`).
"""

from collections.abc import Mapping

import numpy as np

from trainer.network.architecture import EPSILON, Architecture
from trainer.network.arrays import Weights
from trainer.network.calibration import SMALL, Calibration
from trainer.network.onnx_format import Graph, Tensor
from trainer.network.preprocess import STIMULUS_PADDING

INPUT, MAPS, OUTPUT = "input", "maps", "output"
IMAGES_SHAPE, MAPS_SHAPE = ("batch", "height", "width", 3), ("batch", "height", "width", 1)
TO_THE_START = np.iinfo(np.int64).min
"""End of a slice that goes backwards through the whole axis."""


def encode_onnx(
    architecture: Architecture,
    weights: Weights,
    flips: bool = False,
    calibration: Calibration | None = None,
    metadata: Mapping[str, str] | None = None,
) -> bytes:
    """The content of an ONNX file.

    Args:
        architecture: the network.
        weights: of the network, float32 or in compact form (`trainer.network.compact`), which the runtime expands.
        flips: whether to average the maps of an image and of its mirror image (setting `flip_prediction`).
        calibration: of the maps. None for the network's own.
        metadata: key -> value, kept in the file.
    """
    graph = Graph()
    images = Tensor(graph, INPUT)
    views = graph.node("Concat", images, _mirrored(images), axis=0) if flips else images
    maps = _normalized(architecture.maps(graph, weights, views))
    graph.node("Identity", _finished(maps, images, flips, calibration), name=OUTPUT)
    return graph.encode(architecture.name, {INPUT: IMAGES_SHAPE}, {OUTPUT: MAPS_SHAPE}, metadata or {})


def encode_finish(flips: bool, calibration: Calibration | None) -> bytes:
    """The content of an ONNX file with what follows the network for one kind of images.

    Its inputs are the prepared `input`, (N, H, W, 3), and `maps`: the network's, (N, H, W, 1). With `flips`, the
    maps of the N mirrored images follow, (2N, H, W, 1). `encode_onnx` has the other arguments.
    """
    graph = Graph()
    maps, images = Tensor(graph, MAPS), Tensor(graph, INPUT)
    graph.node("Identity", _finished(maps, images, flips, calibration), name=OUTPUT)
    inputs = {INPUT: IMAGES_SHAPE, MAPS: ("views", *MAPS_SHAPE[1:])}
    return graph.encode("finish", inputs, {OUTPUT: MAPS_SHAPE}, {})


def _finished(maps: Tensor, images: Tensor, flips: bool, calibration: Calibration | None) -> Tensor:
    """The maps of images, (N, H, W, 1): the network's, averaged with those of the mirrored images and calibrated.

    With `flips`, `maps` are (2N, H, W, 1).
    """
    if flips:
        plain, mirrored = maps.graph.split("Split", 2, maps, axis=0, num_outputs=2)
        maps = _normalized(plain + _mirrored(mirrored))
    return _calibrated(maps, images, calibration) if calibration else maps


def _normalized(maps: Tensor) -> Tensor:
    """Shift and scale the map of each image to 0..1: first x -= min, then x /= 1e-7 + max."""
    shifted = maps - maps.reduced("Min", 1, 2, 3)
    return shifted / (EPSILON + shifted.reduced("Max", 1, 2, 3))


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
