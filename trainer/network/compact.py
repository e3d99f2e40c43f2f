"""Models in compact form: a quarter of the size, with 8 bits for each weight of a kernel. Needs no TensorFlow.

The folder of such a model has COMPACT_WEIGHTS, MODEL_CONFIG with their checksum, and TRAINING_IMAGES if known. Its
weights have integers as kernels, (layer, `kernel`), and the scale of each filter beside them, (layer, SCALE).
"""

import hashlib
import io
import pathlib
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer.errors import ContentError
from trainer.io import read_json, replacing, write_json
from trainer.network.architecture import Architecture
from trainer.network.arrays import SCALE, Shape, Weights
from trainer.network.model_folder import (
    COMPACT_WEIGHTS,
    MODEL_CONFIG,
    TRAINING_IMAGES,
    WEIGHTS_SHA256,
    ModelConfig,
)
from trainer.network.networks import network_of

LEVELS = 127
"""Integers above 0 of a quantized kernel, and as many below."""
MOST_BYTES_OF_WEIGHT, MOST_BYTES_OF_REST = 1.2, 1_000_000
"""Largest size of COMPACT_WEIGHTS, which have little more than a byte for each weight: 25 million for MSI-Net."""
EPOCH = (1980, 1, 1, 0, 0, 0)
"""Fixed timestamp, the earliest that ZIP allows, so that equal weights give equal bytes."""
REMEDY = "export it again with `python -m trainer export --format int8`"


def quantize(kernel: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Round a kernel to multiples of one scale for each output channel. Its largest weight becomes LEVELS.

    Example: weights of -0.5 and 1.0 in a channel become -64 and 127, with a scale of 1 / 127.

    Args:
        kernel: (..., out).

    Returns:
        The multiples, (..., out) in -127..127, and the scales, (out). The scale of a channel of zeros is 0.
        Their product differs from a weight by at most half of its scale.
    """
    scale = (np.abs(kernel).max(axis=tuple(range(kernel.ndim - 1))) / LEVELS).astype(np.float32)
    multiples = np.rint(kernel / np.where(scale > 0, scale, 1).astype(np.float64))
    return np.clip(multiples, -LEVELS, LEVELS).astype(np.int8), scale


def quantized(weights: Weights) -> Weights:
    """Weights in compact form, made of float32 weights or of weights in this form."""
    compact: Weights = {}
    for (layer, role), value in weights.items():
        if role == "kernel" and value.dtype != np.int8:
            compact[layer, role], compact[layer, SCALE] = quantize(value)
        else:
            compact[layer, role] = value
    return compact


def expanded(weights: Weights) -> Weights:
    """Float32 weights, made of weights in compact form or in float32."""
    return {
        (layer, role): value * weights[layer, SCALE] if role == "kernel" and (layer, SCALE) in weights else value
        for (layer, role), value in weights.items()
        if role != SCALE
    }


def encode_compact(weights: Weights) -> bytes:
    """The content of COMPACT_WEIGHTS, an `.npz` file. The same float32 weights give the same bytes."""
    members = {"/".join(key): value for key, value in quantized(weights).items()}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(members):
            with archive.open(zipfile.ZipInfo(f"{name}.npy", EPOCH), "w") as file:
                np.lib.format.write_array(file, np.ascontiguousarray(members[name]), (1, 0), allow_pickle=False)
    return content.getvalue()


def decode_compact(content: bytes) -> Weights:
    """The weights in the content of COMPACT_WEIGHTS, in compact form. Other content raises any exception."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        members = {tuple(name.rsplit("/", 1)): archive[name] for name in archive.files}
    return {(layer, role): value for (layer, role), value in members.items()}


def read_compact(path: pathlib.Path, decode: Callable[[bytes], Weights], remedy: str = REMEDY) -> Weights:
    """Read the weights of a model, in compact form, from the file COMPACT_WEIGHTS in its folder.

    Args:
        path: the file.
        decode: `decode_compact`, here or in a worker.
        remedy: end of the messages.

    Raises:
        UserError: they or MODEL_CONFIG are missing, they have another checksum, or they are of another network.
    """
    config = read_json(path.parent / MODEL_CONFIG, remedy, ModelConfig)
    architecture = network_of(config)
    weights = decode(_checked(path, config, architecture, remedy))
    expected: dict[tuple[str, str], tuple[Shape, str]] = {}
    for (layer, role), shape in architecture.weight_shapes().items():
        expected[layer, role] = shape, "int8" if role == "kernel" else "float32"
        expected[layer, SCALE] = shape[-1:], "float32"
    if {key: (value.shape, value.dtype.name) for key, value in weights.items()} != expected:
        raise ContentError(f"{path} does not hold the weights of {architecture.title}: {remedy}")
    if not all(np.isfinite(value).all() for (_, role), value in weights.items() if role != "kernel"):
        raise ContentError(f"{path} has values that are not finite: {remedy}")
    return weights


def write_compact(
    weights: Weights, folder: pathlib.Path, config: Mapping[str, Any], seen: Mapping[str, Any] | None = None
) -> None:
    """Write a model in compact form.

    Args:
        weights: of the whole network, float32.
        folder: to write.
        config: content of the model's MODEL_CONFIG, kept as it is.
        seen: content of the model's TRAINING_IMAGES, kept as it is.

    Raises:
        UserError: it cannot be written.
    """
    content = encode_compact(weights)
    with replacing(folder, last=MODEL_CONFIG) as partial:
        partial.mkdir()
        if seen:
            write_json(partial / TRAINING_IMAGES, seen)
        (partial / COMPACT_WEIGHTS).write_bytes(content)
        write_json(partial / MODEL_CONFIG, {**config, WEIGHTS_SHA256: hashlib.sha256(content).hexdigest()})


def _checked(path: pathlib.Path, config: ModelConfig, architecture: Architecture, remedy: str) -> bytes:
    """The content of COMPACT_WEIGHTS at `path`, which has the checksum that MODEL_CONFIG beside it says."""
    try:
        size_bytes = path.stat().st_size
        if size_bytes > MOST_BYTES_OF_REST + MOST_BYTES_OF_WEIGHT * architecture.n_weights:
            more = f"more than the weights of {architecture.title}"
            raise ContentError(f"{path} has {size_bytes:,} bytes, {more}: {remedy}")
        content = path.read_bytes()
    except OSError as error:
        raise ContentError(f"{path} cannot be read ({error.strerror or error}): {remedy}") from None
    digest, expected = hashlib.sha256(content).hexdigest(), str(config.get(WEIGHTS_SHA256))
    if digest != expected:
        raise ContentError(
            f"{path} is damaged, or it is the file of another model: its SHA-256 is {digest[:12]}..., and "
            f"{MODEL_CONFIG} says {expected[:12]}: {remedy}"
        )
    return content
