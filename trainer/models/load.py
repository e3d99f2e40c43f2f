"""Load the network of a model's folder, with its averaging and its calibration, or weights of a file into one.

Arrays of a file are matched to the layers of MSI-Net by name and shape. Known are the names of the reference
(`conv1/conv1_1/kernel`), of this network and the reference's TF2 port (`conv1_conv1_1/kernel`, or the names of the
port's attributes), and those of VGG16's layers in Keras (`block1_conv1`) and in TF-Slim
(`conv1/conv1_1/weights`), each with or without leading scopes.
"""

import dataclasses
import math
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from trainer.errors import ContentError, UserError, some
from trainer.io.files import read_json
from trainer.models import calibration
from trainer.models.calibration import Calibration
from trainer.models.layers import Normalize
from trainer.models.model_folder import MODEL_CONFIG, MODEL_REMEDY, WEIGHTS, ModelConfig
from trainer.models.network import VGG16_BLOCKS, build_model, encoder_layer
from trainer.models.weight_files import Array, Shape, read_in_worker

ENCODER = tuple(
    encoder_layer(block, index)
    for block, widths in enumerate(VGG16_BLOCKS, 1)
    for index in range(1, len(widths) + 1)
)
ASPP = tuple(f"aspp_conv1_{index}" for index in range(1, 6))
DECODER = tuple(f"decoder_conv{index}" for index in range(1, 5))
LAYERS = (*ENCODER, *ASPP, "aspp_conv2", *DECODER)
"""The layers with weights, in the order in which the reference and its TF2 port create them."""
ATTRIBUTES = {
    **{layer.partition("_")[2]: layer for layer in ENCODER},
    **{f"aspp_conv{index}": layer for index, layer in enumerate(ASPP, 1)},
    "aspp_conv_out": "aspp_conv2",
    **{layer: layer for layer in DECODER},
}
"""Attribute of the TF2 port's model -> layer; files of Keras 3 use the attributes."""
ROLES = {"kernel": "kernel", "_kernel": "kernel", "weights": "kernel", "bias": "bias", "biases": "bias"}
KERAS_VGG16, SLIM_VGG16 = r"(?:^|[/_])block([1-5])_conv([1-3])$", r"(?:^|_)conv([1-5])_([1-3])$"
READ = r"(/read|/Identity|/ReadVariableOp|:\d+)+$"
"""Suffixes that a graph adds to the name of a variable where it reads it."""
OPTIMIZER = r"(?i)(^|/)(adam|rmsprop|sgd|momentum|adagrad|optimizer|beta[12]_power|global_step)"
SHOWN = 12
MIN_REPORTED = 16
"""Smaller arrays that belong to no layer are not reported."""
ENCODER_ALONE = (
    "holds the weights of an encoder alone, without ASPP and decoder, so it is not a model yet; use it as the "
    "initial weights of a training (`train --initial-weights`, initial_weights of the pipeline)"
)
Network = Callable[[tf.Tensor], tf.Tensor]
"""Images (N, H, W, 3), 0..255, to maps (N, H, W, 1) in [0, 1]."""


# === Models ===


def load_model(folder: str | os.PathLike[str]) -> "Trained":
    """The network of a model's folder in float32, for any height and width divisible by 8.

    Args:
        folder: a model's folder, which holds WEIGHTS; without MODEL_CONFIG it has the defaults.

    Raises:
        UserError: there are no weights, they belong to another network, or MODEL_CONFIG is damaged.
    """
    model, config = build_model((None, None), "float32"), pathlib.Path(folder) / MODEL_CONFIG
    load_weights(model, pathlib.Path(folder) / WEIGHTS)
    return trained(model, read_json(config, MODEL_REMEDY, ModelConfig) if config.is_file() else {})


def load_weights(model: keras.Model, path: pathlib.Path) -> None:
    """Read the weights of the whole network from `path`, in a worker, because they may be from anyone.

    Raises:
        UserError: the file does not exist, or belongs to another network.
    """
    if not path.is_file():
        raise UserError(f"{path} does not exist; {MODEL_REMEDY}")
    arrays = read_in_worker(path, shapes(model).values(), str(path))
    matched = assign_arrays(model, arrays, str(path))
    if matched.is_encoder:
        raise UserError(f"{path} {ENCODER_ALONE}")


def assign_arrays(model: keras.Model, arrays: list[Array], what: str) -> "Matched":
    """Assign the arrays of a file, which messages call `what`, to the layers of `model`.

    Raises:
        ContentError: the arrays belong to another network; see `match`.
    """
    matched = match(arrays, shapes(model), what)
    for (layer, role), value in matched.values.items():
        getattr(model.get_layer(layer), role).assign(value)
    return matched


@dataclasses.dataclass(frozen=True)
class Trained:
    """The network of a model, whether the model averages, and its calibration; a `Network` itself."""

    network: keras.Model
    flips: bool = False
    """The setting `flip_prediction`."""
    calibration: Calibration | None = None

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        """Predict the maps, (N, H, W, 1) in [0, 1], of images (N, H, W, 3), 0..255."""
        maps = (averaged(self.network) if self.flips else self.network)(images)
        return self.calibration(maps, images) if self.calibration else maps


def trained(network: keras.Model, config: Mapping[str, Any]) -> Trained:
    """The network as a model with this content of MODEL_CONFIG predicts with it."""
    return Trained(network, flips(config), calibration.of_config(config))


def flips(config: Mapping[str, Any]) -> bool:
    """Whether a model averages, by the content of its MODEL_CONFIG."""
    return bool(config.get("settings", {}).get("flip_prediction", False))


def averaged(network: Network) -> Network:
    """The mean of a network's map and of its map of the mirrored image, mirrored back; scaled to [0, 1] again."""
    normalize = Normalize()

    def both(images: tf.Tensor) -> tf.Tensor:
        images = tf.convert_to_tensor(images)
        maps = network(images)
        with tf.control_dependencies([maps]):  # one after the other, in the memory of one
            mirrored = tf.identity(tf.reverse(images, axis=[2]))
        return normalize(maps + tf.reverse(network(mirrored), axis=[2]))

    return both


# === Arrays of a file ===


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

    values: dict[tuple[str, str], np.ndarray]
    """(layer, `kernel` or `bias`) -> float32 array in the network's shape."""
    rows: list[Row]
    ignored: dict[str, str]
    """Name of an unused array -> the reason."""

    @property
    def is_encoder(self) -> bool:
        """Whether these are the weights of the encoder alone."""
        return {layer for layer, _ in self.values} == set(ENCODER)


def shapes(model: keras.Model) -> dict[tuple[str, str], Shape]:
    """(layer, `kernel` or `bias`) of each weight of MSI-Net -> its shape: (k, k, in, out) or (out)."""
    return {
        (name, variable.name): tuple(variable.shape)
        for name in LAYERS
        for variable in model.get_layer(name).weights
    }


def match(arrays: Iterable[Array], expected: dict[tuple[str, str], Shape], what: str) -> Matched:
    """Find the array of each weight.

    Args:
        arrays: of a file.
        expected: as returned by `shapes`.
        what: the file, for messages.

    Values are read one array after the other, and only of arrays of the right shapes.

    Raises:
        ContentError: unless the arrays are all weights of the network, or exactly those of the encoder, finite and
            of the right shapes; the message lists all faults.
    """
    arrays = list(arrays)
    numbered = _numbered(arrays)
    values: dict[tuple[str, str], np.ndarray] = {}
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
    scope, _, last = re.sub(READ, "", path).rpartition("/")
    return (scope, ROLES[last]) if last in ROLES else ("", "")


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
    values: dict[tuple[str, str], np.ndarray],
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
