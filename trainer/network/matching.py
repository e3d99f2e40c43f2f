"""Match the arrays of a file of weights to the layers of MSI-Net, by name and shape. Needs no TensorFlow.

Known are the names of the reference (`conv1/conv1_1/kernel`), of this network and the reference's TF2 port
(`conv1_conv1_1/kernel`, or the names of the port's attributes), and those of VGG16's layers in Keras
(`block1_conv1`) and in TF-Slim (`conv1/conv1_1/weights`), each with or without leading scopes.
"""

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Collection, Iterable
from typing import Self

import numpy as np

from trainer.errors import ContentError, some
from trainer.network.msinet.architecture import ASPP, DECODER, ENCODER, LAYERS, Shape, encoder_layer, weight_shapes

Weights = dict[tuple[str, str], np.ndarray]
"""(layer, `kernel` or `bias`) -> float32 array in the network's shape, (k, k, in, out) or (out)."""
ATTRIBUTES = {
    **{layer.partition("_")[2]: layer for layer in ENCODER},
    **{f"aspp_conv{index}": layer for index, layer in enumerate(ASPP, 1)},
    "aspp_conv_out": "aspp_conv2",
    **{layer: layer for layer in DECODER},
}
"""Attribute of the TF2 port's model -> layer; files of Keras 3 use the attributes."""
ROLES = {"kernel": "kernel", "_kernel": "kernel", "weights": "kernel", "bias": "bias", "biases": "bias"}
KERAS_VGG16, SLIM_VGG16 = r"(?:^|[/_])block([1-5])_conv([1-3])$", r"(?:^|_)conv([1-5])_([1-3])$"
READ = ("/read", "/Identity", "/ReadVariableOp")
"""Suffixes that a graph adds to the name of a variable where it reads it, beside the number of an output."""
OPTIMIZER = r"(?i)(^|/)(adam|rmsprop|sgd|momentum|adagrad|optimizer|beta[12]_power|global_step)"
SHOWN = 12
MIN_REPORTED = 16
"""Smaller arrays that belong to no layer are not reported."""


@dataclasses.dataclass(frozen=True)
class Array:
    """One array of a file."""

    name: str
    """The name in the file."""
    shape: Shape
    """The shape that the file declares, which may be larger than any memory."""
    read: Callable[[], np.ndarray]
    """The values. Raises `ContentError` if they are damaged, or not within the file."""
    called: str
    """`layer/kernel`, possibly behind scopes, if the file has the layer's name; else empty."""
    object_path: str = ""
    """`attribute/kernel`, the path of objects to the layer, if the file has it."""

    @classmethod
    def of(cls, name: str, value: np.ndarray) -> Self:
        """Make an array that is in memory, and called by its name."""
        return cls(name, value.shape, lambda: value, name)


def fitting(arrays: Iterable[Array], shapes: Collection[Shape]) -> list[Array]:
    """Read the values of the arrays of these shapes into memory; of the others there are no values any more."""
    return [
        dataclasses.replace(
            array, read=functools.partial(np.asarray, array.read() if array.shape in shapes else None)
        )
        for array in arrays
    ]


@dataclasses.dataclass(frozen=True)
class Row:
    """The target of one array."""

    name: str
    """The name in the file."""
    layer: str
    role: str
    shape: Shape


@dataclasses.dataclass(frozen=True)
class Matched:
    """The weights of a network, or of its encoder alone."""

    values: Weights
    rows: list[Row]
    ignored: dict[str, str]
    """Name of an unused array -> the reason."""

    @property
    def is_encoder(self) -> bool:
        """Whether these are the weights of the encoder alone."""
        return {layer for layer, _ in self.values} == set(ENCODER)


def match(arrays: Iterable[Array], what: str) -> Matched:
    """Find the array of each weight among the arrays of a file, which messages call `what`.

    Values are read one array after the other, and only of arrays of the right shapes.

    Raises:
        ContentError: unless the arrays are all weights of the network, or exactly those of the encoder, finite and
            of the right shapes; the message lists all faults.
    """
    arrays, expected = list(arrays), weight_shapes()
    numbered = _numbered(arrays)
    values: Weights = {}
    rows: list[Row] = []
    ignored: dict[str, str] = {}
    faults: list[str] = []
    for array in arrays:
        if (target := _target(array, numbered)) is None:
            if re.search(OPTIMIZER, array.name):
                ignored[array.name] = "an optimizer's"
            elif math.prod(array.shape) >= MIN_REPORTED:
                ignored[array.name] = "of no layer"
            continue
        layer, role, is_bgr = target
        key = layer, role
        if array.shape != expected[key]:  # before its values are read
            faults.append(f"{array.name} is {array.shape}, {layer}/{role} is {expected[key]}")
            continue
        value = np.asarray(array.read(), np.float32)
        if not np.isfinite(value).all():
            faults.append(f"{array.name} has values that are not finite")
        elif key in values and not np.array_equal(values[key], value):
            faults.append(f"{array.name} differs from {_named(rows, key)}, and both are {layer}/{role}")
        else:
            # Keras' VGG16 expects BGR, MSI-Net RGB.
            is_flipped = is_bgr and key == (ENCODER[0], "kernel")
            values[key] = np.ascontiguousarray(value[:, :, ::-1]) if is_flipped else value
            rows.append(Row(array.name, layer, role, value.shape))
    _check(values, expected, faults, [array for array in arrays if ignored.get(array.name) == "of no layer"], what)
    return Matched(values, sorted(rows, key=lambda row: (LAYERS.index(row.layer), row.role == "bias")), ignored)


def _target(array: Array, numbered: dict[str, str]) -> tuple[str, str, bool] | None:
    """The layer and the role of an array, and whether its network expects BGR; None if it belongs to no layer."""
    if re.search(OPTIMIZER, array.called) or re.search(OPTIMIZER, array.object_path):
        return None
    scope, role = _split(array.called)
    if layer := _called(scope):
        return layer, role, bool(re.search(KERAS_VGG16, scope))
    scope, role = _split(array.object_path)
    layer = numbered.get(scope, "") or ATTRIBUTES.get(scope.rpartition("/")[2], "")
    return (layer, role, False) if layer else None


def _split(path: str) -> tuple[str, str]:
    """Scope and role of `scope/kernel`; both empty for anything else."""
    scope, _, last = _variable(path).rpartition("/")
    return (scope, ROLES[last]) if last in ROLES else ("", "")


def _variable(path: str) -> str:
    """The name of a variable in a graph, without what follows it where the graph reads it: `a/kernel/read:0`."""
    while True:
        head, colon, output = path.rpartition(":")
        shorter = head if colon and output.isdecimal() else path
        for ending in READ:
            shorter = shorter.removesuffix(ending)
        if shorter == path:
            return path
        path = shorter


def _called(scope: str) -> str:
    """The layer that a scope names; empty if it names none."""
    joined = scope.replace("/", "_")
    for layer in LAYERS:
        if re.search(rf"(^|_){layer}$", joined):
            return layer
    vgg16 = re.search(KERAS_VGG16, joined) or re.search(SLIM_VGG16, joined)
    layer = encoder_layer(int(vgg16[1]), int(vgg16[2])) if vgg16 else ""
    return layer if layer in ENCODER else ""


def _numbered(arrays: list[Array]) -> dict[str, str]:
    """Layers that a file of Keras 2 names by numbers: `layers/conv2d` to `layers/conv2d_22` -> layer.

    The TF2 port creates its layers in the reference's order. Another number of layers means another network.
    """
    scopes = {array.object_path.rpartition("/")[0] for array in arrays if not array.called}
    matches = {scope: re.fullmatch(r"(?:.*/)?conv2d(?:_(\d+))?", scope) for scope in scopes}
    order = sorted((int(match[1] or 0), scope) for scope, match in matches.items() if match)
    if [number for number, _ in order] != list(range(len(LAYERS))):
        return {}
    return {scope: layer for (_, scope), layer in zip(order, LAYERS, strict=True)}


def _check(
    values: Weights,
    expected: dict[tuple[str, str], Shape],
    faults: list[str],
    others: list[Array],
    what: str,
) -> None:
    """Raise `ContentError` with all faults, unless all weights, or exactly those of the encoder, are matched."""
    missing = [key for key in expected if key not in values]
    encoder = {key for key in expected if key[0] in ENCODER}
    if not faults and (not missing or set(values) == encoder):
        return
    if not values and not faults:
        held = some([f"{array.name} {array.shape}" for array in others], SHOWN) or "no float arrays"
        raise ContentError(f"{what} holds neither the weights of MSI-Net nor of VGG16: it has {held}")
    absent = [f"{layer}/{role} {expected[layer, role]}" for layer, role in missing]
    lost = {expected[key] for key in missing}
    renamed = [f"{array.name} {array.shape}" for array in others if array.shape in lost]
    parts = [
        f"{len(faults)} do not fit: {'; '.join(faults)}" if faults else "",
        f"{len(absent)} of {len(expected)} are missing: {', '.join(absent)}" if absent else "",
        f"arrays of these shapes with other names: {some(renamed, SHOWN)}" if renamed else "",
    ]
    raise ContentError(f"{what} does not hold the weights of MSI-Net. " + ". ".join(filter(None, parts)))


def _named(rows: list[Row], key: tuple[str, str]) -> str:
    return next(row.name for row in rows if (row.layer, row.role) == key)
