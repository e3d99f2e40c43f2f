"""Which array of a file belongs to which layer of MSI-Net, checked by name and shape.

Names as in the reference (`conv1/conv1_1/kernel`), in this network and the TF2 port of the reference
(`conv1_conv1_1/kernel`, or the names of the port's attributes), and those of VGG16's layers in Keras
(`block1_conv1`) and in TF-Slim (`conv1/conv1_1/weights`), each with or without scopes before them.
"""

import dataclasses
import re
from collections.abc import Iterable

import keras
import numpy as np

from trainer.errors import UserError
from trainer.model import VGG16_BLOCKS, encoder_layer
from trainer.models.weight_files import Array

ENCODER = tuple(
    encoder_layer(block, index)
    for block, widths in enumerate(VGG16_BLOCKS, 1)
    for index in range(1, len(widths) + 1)
)
ASPP = tuple(f"aspp_conv1_{index}" for index in range(1, 6))
DECODER = tuple(f"decoder_conv{index}" for index in range(1, 5))
LAYERS = (*ENCODER, *ASPP, "aspp_conv2", *DECODER)
"""The layers with weights, in the order in which the reference and its TF2 port make them."""
ATTRIBUTES = {
    **{layer.partition("_")[2]: layer for layer in ENCODER},
    **{f"aspp_conv{index}": layer for index, layer in enumerate(ASPP, 1)},
    "aspp_conv_out": "aspp_conv2",
    **{layer: layer for layer in DECODER},
}
"""The TF2 port's names for its layers as attributes of the model, which files of Keras 3 are ordered by."""
ROLES = {"kernel": "kernel", "_kernel": "kernel", "weights": "kernel", "bias": "bias", "biases": "bias"}
KERAS_VGG16, SLIM_VGG16 = r"(?:^|[/_])block([1-5])_conv([1-3])$", r"(?:^|_)conv([1-5])_([1-3])$"
READ = r"(/read|/Identity|/ReadVariableOp|:\d+)+$"
"""What a graph adds to the name of a variable where it reads it."""
OPTIMIZER = r"(?i)(^|/)(adam|rmsprop|sgd|momentum|adagrad|optimizer|beta[12]_power|global_step)"
SHOWN = 12
LEAST = 16
"""Smaller arrays that belong to no layer are not spoken of."""
ENCODER_ALONE = (
    "holds the weights of an encoder alone, with no ASPP and no decoder, so it is no model yet; start a training "
    "from it, with this as its initial weights (`train --initial-weights`, initial_weights of the pipeline)"
)


@dataclasses.dataclass(frozen=True)
class Row:
    """Where one array went."""

    name: str
    """As the file has it."""
    layer: str
    role: str
    shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Matched:
    """The weights of a network, or of its encoder alone."""

    values: dict[tuple[str, str], np.ndarray]
    """(layer, `kernel` or `bias`) -> float32 array in the network's shape."""
    rows: list[Row]
    ignored: dict[str, str]
    """Name of an array that is of no use -> why."""

    @property
    def is_encoder(self) -> bool:
        """Whether it is the encoder alone."""
        return {layer for layer, _ in self.values} == set(ENCODER)


def shapes(model: keras.Model) -> dict[tuple[str, str], tuple[int, ...]]:
    """(layer, `kernel` or `bias`) of each weight of MSI-Net -> its shape: (k, k, in, out) or (out)."""
    return {(name, each.name): tuple(each.shape) for name in LAYERS for each in model.get_layer(name).weights}


def match(arrays: Iterable[Array], wanted: dict[tuple[str, str], tuple[int, ...]], what: str) -> Matched:
    """Find for each weight its array.

    Args:
        arrays: of a file.
        wanted: as `shapes`.
        what: the file, for messages.

    Raises:
        UserError: unless there is every weight of the network, or every one of the encoder and no other, of the
            right shape and finite; the message has the whole list.
    """
    arrays = list(arrays)
    counted = _counted(arrays)
    values: dict[tuple[str, str], np.ndarray] = {}
    rows: list[Row] = []
    ignored: dict[str, str] = {}
    faults: list[str] = []
    for array in arrays:
        found = _target(array, counted)
        if found is None:
            if re.search(OPTIMIZER, array.name):
                ignored[array.name] = "an optimizer's"
            elif array.value.size >= LEAST:  # a graph has many small constants
                ignored[array.name] = "of no layer"
            continue
        layer, role, is_bgr = found
        value, key = np.asarray(array.value, np.float32), (layer, role)
        if value.shape != wanted[key]:
            faults.append(f"{array.name} is {value.shape}, {layer}/{role} is {wanted[key]}")
        elif not np.isfinite(value).all():
            faults.append(f"{array.name} has values that are not finite")
        elif key in values and not np.array_equal(values[key], value):
            faults.append(f"{array.name} is not what {_named(rows, key)} is, and both are called {layer}/{role}")
        else:
            # Keras' VGG16 takes BGR, MSI-Net takes RGB.
            turned = is_bgr and key == (ENCODER[0], "kernel")
            values[key] = np.ascontiguousarray(value[:, :, ::-1]) if turned else value
            rows.append(Row(array.name, layer, role, value.shape))
    _check(values, wanted, faults, [array for array in arrays if ignored.get(array.name) == "of no layer"], what)
    return Matched(values, sorted(rows, key=lambda row: (LAYERS.index(row.layer), row.role == "bias")), ignored)


def assign(model: keras.Model, matched: Matched) -> None:
    """Give the layers of MSI-Net their weights."""
    for (layer, role), value in matched.values.items():
        getattr(model.get_layer(layer), role).assign(value)


def _target(array: Array, counted: dict[str, str]) -> tuple[str, str, bool] | None:
    """The layer and the role of an array, and whether it is of a network that takes BGR; None if it is of none."""
    if re.search(OPTIMIZER, array.called) or re.search(OPTIMIZER, array.place):
        return None
    scope, role = _split(array.called)
    if layer := _called(scope):
        return layer, role, bool(re.search(KERAS_VGG16, scope))
    scope, role = _split(array.place)
    layer = counted.get(scope, "") or ATTRIBUTES.get(scope.rpartition("/")[2], "")
    return (layer, role, False) if layer else None


def _split(path: str) -> tuple[str, str]:
    """Scope and role of `scope/kernel`; both empty for anything else."""
    scope, _, last = re.sub(READ, "", path).rpartition("/")
    return (scope, ROLES[last]) if last in ROLES else ("", "")


def _called(scope: str) -> str:
    """The layer that a scope names; empty for none."""
    joined = scope.replace("/", "_")
    for layer in LAYERS:
        if re.search(rf"(^|_){layer}$", joined):
            return layer
    found = re.search(KERAS_VGG16, joined) or re.search(SLIM_VGG16, joined)
    layer = encoder_layer(int(found[1]), int(found[2])) if found else ""
    return layer if layer in ENCODER else ""


def _counted(arrays: list[Array]) -> dict[str, str]:
    """The layers that a file of Keras 2 knows by their numbers, `layers/conv2d` to `layers/conv2d_22`.

    The TF2 port makes its layers in the reference's order. Another number of them is another network.
    """
    found = {array.place.rpartition("/")[0] for array in arrays if not array.called}
    numbered = {scope: re.fullmatch(r"(?:.*/)?conv2d(?:_(\d+))?", scope) for scope in found}
    order = sorted((int(each[1] or 0), scope) for scope, each in numbered.items() if each)
    if [number for number, _ in order] != list(range(len(LAYERS))):
        return {}
    return {scope: layer for (_, scope), layer in zip(order, LAYERS, strict=True)}


def _check(
    values: dict[tuple[str, str], np.ndarray],
    wanted: dict[tuple[str, str], tuple[int, ...]],
    faults: list[str],
    others: list[Array],
    what: str,
) -> None:
    """Raise `UserError` with all that is wrong."""
    missing = [key for key in wanted if key not in values]
    encoder = {key for key in wanted if key[0] in ENCODER}
    if not faults and (not missing or set(values) == encoder):
        return
    if not values and not faults:
        held = listed([f"{array.name} {array.value.shape}" for array in others]) or "no array of floats"
        raise UserError(f"{what} does not hold the weights of MSI-Net, nor of VGG16: it has {held}")
    lacking = [f"{layer}/{role} {wanted[layer, role]}" for layer, role in missing]
    lost = {wanted[key] for key in missing}
    renamed = [f"{array.name} {array.value.shape}" for array in others if array.value.shape in lost]
    parts = [
        f"{len(faults)} do not fit: {'; '.join(faults)}" if faults else "",
        f"{len(lacking)} of {len(wanted)} are missing: {', '.join(lacking)}" if lacking else "",
        f"of such shapes it has, under names that say no layer: {listed(renamed)}" if renamed else "",
    ]
    raise UserError(f"{what} does not hold the weights of MSI-Net. " + ". ".join(filter(None, parts)))


def _named(rows: list[Row], key: tuple[str, str]) -> str:
    return next(row.name for row in rows if (row.layer, row.role) == key)


def listed(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
