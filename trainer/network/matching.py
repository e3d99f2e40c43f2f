"""Match the arrays of a file of weights to the layers of a network, by name and shape. Needs no TensorFlow.

Known are the names of the layers (`conv1_conv1_1/kernel`, or `conv1/conv1_1/kernel` as in the reference), with or
without leading scopes, and the names that the network adds (`Architecture.layer_called`).
"""

import dataclasses
import math
import re
from collections.abc import Iterable

import numpy as np

from trainer.errors import ContentError
from trainer.network.architecture import Architecture
from trainer.network.arrays import Array, Shape, Weights
from trainer.texts import some

ROLES = {"kernel": "kernel", "_kernel": "kernel", "weights": "kernel", "bias": "bias", "biases": "bias"}
READ = ("/read", "/Identity", "/ReadVariableOp")
"""Suffixes that a graph adds to the name of a variable where it reads it, beside the number of an output."""
OPTIMIZER = r"(?i)(^|/)(adam|rmsprop|sgd|momentum|adagrad|optimizer|beta[12]_power|global_step)"
SHOWN = 12
"""Most arrays that a message names."""
ENCODER_ALONE = (
    "holds the weights of an encoder alone, without ASPP and decoder, so it is not a model yet. Use it as the "
    "initial weights of a training (`train --initial-weights`, initial_weights of the pipeline)"
)
MIN_REPORTED = 16
"""Smaller arrays that belong to no layer are not reported."""


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
    is_encoder: bool
    """Whether these are the weights of the encoder alone."""


def match(architecture: Architecture, arrays: Iterable[Array], what: str, whole: bool = False) -> Matched:
    """Find the array of each weight of a network among the arrays of a file, which messages call `what`.

    Values are read one array after the other, and only of arrays of the right shapes.

    Args:
        architecture: the network.
        arrays: of the file.
        what: the file, for messages.
        whole: whether the weights of an encoder alone are refused.

    Raises:
        ContentError: unless the arrays are all weights of the network, or exactly the encoder's, finite and
            of the right shapes. The message lists all faults, such as `conv5/kernel is (3, 3, 512, 8), ...`.
    """
    arrays, expected, layers = list(arrays), architecture.weight_shapes(), architecture.layers
    numbered = _numbered(arrays, layers)
    values: Weights = {}
    rows: list[Row] = []
    ignored: dict[str, str] = {}
    faults: list[str] = []
    for array in arrays:
        if (target := _target(architecture, array, numbered)) is None:
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
            is_flipped = is_bgr and key == (layers[0], "kernel")
            values[key] = np.ascontiguousarray(value[:, :, ::-1]) if is_flipped else value
            rows.append(Row(array.name, layer, role, value.shape))
    others = [array for array in arrays if ignored.get(array.name) == "of no layer"]
    is_encoder = {layer for layer, _ in values} == set(architecture.encoder)
    _check(architecture, values, faults, others, what)
    if whole and is_encoder:
        raise ContentError(f"{what} {ENCODER_ALONE}")
    rows.sort(key=lambda row: (layers.index(row.layer), row.role == "bias"))
    return Matched(values, rows, ignored, is_encoder)


def _target(architecture: Architecture, array: Array, numbered: dict[str, str]) -> tuple[str, str, bool] | None:
    """The layer and the role of an array, and whether its network expects BGR. None if it belongs to no layer.

    Example: `("conv1_conv1_1", "kernel", True)` for `block1_conv1/kernel` of Keras' VGG16.
    """
    if re.search(OPTIMIZER, array.called) or re.search(OPTIMIZER, array.object_path):
        return None
    scope, role = _split(array.called)
    layer, is_bgr = architecture.layer_called(scope)
    if layer:
        return layer, role, is_bgr
    scope, role = _split(array.object_path)
    layer = numbered.get(scope, "") or architecture.attributes.get(scope.rpartition("/")[2], "")
    return (layer, role, False) if layer else None


def _split(path: str) -> tuple[str, str]:
    """Scope and role of `scope/kernel`. Both empty for anything else.

    Example: `a/biases` is `a` and `bias`.
    """
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


def _numbered(arrays: list[Array], layers: tuple[str, ...]) -> dict[str, str]:
    """Layers that a file of Keras 2 names by numbers: `layers/conv2d` to `layers/conv2d_22` -> layer.

    The TF2 port creates its layers in the reference's order. Another number of layers means another network.
    """
    scopes = {array.object_path.rpartition("/")[0] for array in arrays if not array.called}
    matches = {scope: re.fullmatch(r"(?:.*/)?conv2d(?:_(\d+))?", scope) for scope in scopes}
    order = sorted((int(match[1] or 0), scope) for scope, match in matches.items() if match)
    if [number for number, _ in order] != list(range(len(layers))):
        return {}
    return {scope: layer for (_, scope), layer in zip(order, layers, strict=True)}


def _check(
    architecture: Architecture,
    values: Weights,
    faults: list[str],
    others: list[Array],
    what: str,
) -> None:
    """Raise `ContentError` with all faults, unless all weights, or exactly the encoder's, are matched."""
    expected: dict[tuple[str, str], Shape] = architecture.weight_shapes()
    missing = [key for key in expected if key not in values]
    encoder = {key for key in expected if key[0] in architecture.encoder}
    if not faults and (not missing or (encoder and set(values) == encoder)):
        return
    if not values and not faults:
        held = some([f"{array.name} {array.shape}" for array in others], SHOWN) or "no float arrays"
        known = f"{architecture.title} nor of {architecture.encoder_title}"
        raise ContentError(f"{what} holds neither the weights of {known}: it has {held}")
    absent = [f"{layer}/{role} {expected[layer, role]}" for layer, role in missing]
    lost = {expected[key] for key in missing}
    renamed = [f"{array.name} {array.shape}" for array in others if array.shape in lost]
    parts = [
        f"{len(faults)} do not fit: {', '.join(faults)}" if faults else "",
        f"{len(absent)} of {len(expected)} are missing: {', '.join(absent)}" if absent else "",
        f"arrays of these shapes with other names: {some(renamed, SHOWN)}" if renamed else "",
    ]
    raise ContentError(
        f"{what} does not hold the weights of {architecture.title}. " + ". ".join(filter(None, parts))
    )


def _named(rows: list[Row], key: tuple[str, str]) -> str:
    return next(row.name for row in rows if (row.layer, row.role) == key)
