"""Models in compact form: a quarter of the size, with 8 bits for each weight of a kernel.

The folder of such a model has COMPACT_WEIGHTS, MODEL_CONFIG with their checksum, and TRAINING_IMAGES if known.
Everything else reads models in float32, so `expanded` keeps one of each in the cache of downloads. Only
`write_compact` needs TensorFlow.
"""

import functools
import hashlib
import io
import json
import pathlib
import zipfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trainer.data.downloads import cache
from trainer.errors import ContentError, PlaceError, UserError
from trainer.io import files, untrusted
from trainer.io.files import check_output_path, read_json, replacing, write_json
from trainer.models.model_folder import (
    COMPACT_WEIGHTS,
    MODEL_CONFIG,
    TRAINING_IMAGES,
    WEIGHTS,
    WEIGHTS_SHA256,
    ModelConfig,
    training_images,
)

if TYPE_CHECKING:
    import keras

LEVELS = 127
"""Integers above 0 of a quantized kernel, and as many below."""
SCALE = "scale"
"""A layer's array of scales, beside its `kernel` and `bias`."""
EPOCH = (1980, 1, 1, 0, 0, 0)
"""Fixed timestamp, the earliest that ZIP allows, so that equal weights give equal bytes."""
REMEDY = "export it again with `python -m trainer export --format int8`"
EXPANDED = "models"
"""Folder in the cache of downloads with one folder for each expanded model."""
LAYOUT = 1
"""Version of the folders of expanded models; folders of another version are not used."""
Arrays = Mapping[str, npt.NDArray[np.float32]]
"""`layer/kernel` -> (k, k, in, out) and `layer/bias` -> (out)."""
IMAGES = 3
"""Random images whose maps are compared."""
PATCH_PX = 8
"""Sides of the uniform patches that the random images consist of."""


def quantize(kernel: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Round a kernel to multiples of one scale for each output channel, the largest weight of which is LEVELS.

    Args:
        kernel: (..., out).

    Returns:
        The multiples, (..., out) in -127..127, and the scales, (out); 0 for a channel of zeros. Their product
        differs from a weight by at most half of its scale.
    """
    scale = (np.abs(kernel).max(axis=tuple(range(kernel.ndim - 1))) / LEVELS).astype(np.float32)
    multiples = np.rint(kernel / np.where(scale > 0, scale, 1).astype(np.float64))
    return np.clip(multiples, -LEVELS, LEVELS).astype(np.int8), scale


def encode_compact(arrays: Arrays) -> bytes:
    """The content of COMPACT_WEIGHTS, an `.npz` file; the same bytes for the same weights."""
    members: dict[str, npt.NDArray[Any]] = {}
    for name, value in arrays.items():
        if value.ndim > 1:
            members[name], members[f"{name.rpartition('/')[0]}/{SCALE}"] = quantize(value)
        else:
            members[name] = value.astype(np.float32)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(members):
            with archive.open(zipfile.ZipInfo(f"{name}.npy", EPOCH), "w") as file:
                np.lib.format.write_array(file, np.ascontiguousarray(members[name]), (1, 0), allow_pickle=False)
    return content.getvalue()


def decode_compact(content: bytes) -> dict[str, npt.NDArray[np.float32]]:
    """The weights in the content of COMPACT_WEIGHTS; any exception for any other content."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        members = {name: archive[name] for name in archive.files}
    return {
        name: value * members[f"{name.rpartition('/')[0]}/{SCALE}"] if value.dtype == np.int8 else value
        for name, value in members.items()
        if not name.endswith(f"/{SCALE}")
    }


def _write(folder: pathlib.Path, arrays: Arrays, config: Mapping[str, Any]) -> None:
    """Write a model in compact form into an existing folder; `config` is the content of its MODEL_CONFIG."""
    content = encode_compact(arrays)
    (folder / COMPACT_WEIGHTS).write_bytes(content)
    write_json(folder / MODEL_CONFIG, {**config, WEIGHTS_SHA256: hashlib.sha256(content).hexdigest()})


def read_compact(folder: pathlib.Path, remedy: str = REMEDY) -> dict[str, npt.NDArray[np.float32]]:
    """The weights of a model in compact form, which this process has written.

    Raises:
        UserError: they or MODEL_CONFIG are missing, or they have another checksum; the message ends with `remedy`.
    """
    return decode_compact(_checked(folder, remedy)[1])


def write_compact(
    model: "keras.Model",
    image_size: tuple[int, int],
    folder: pathlib.Path,
    config: Mapping[str, Any],
    seen: Mapping[str, Any] | None = None,
) -> tuple[float, float]:
    """Write a model in compact form, read it back, and compare its maps with those of the network.

    Args:
        model: the network, of free size.
        image_size: (H, W) of the random images, pixels, divisible by 8.
        folder: to write.
        config: content of the model's MODEL_CONFIG, which is kept.
        seen: content of the model's TRAINING_IMAGES, which is kept.

    Returns:
        Maximum and mean absolute difference of the maps of IMAGES random images, on 0..1.

    Raises:
        UserError: it cannot be written.
    """
    from trainer.models import load
    from trainer.models.network import build_model  # which loads TensorFlow

    arrays = {
        f"{layer}/{role}": getattr(model.get_layer(layer), role).numpy() for layer, role in load.shapes(model)
    }
    with replacing(folder, last=MODEL_CONFIG) as partial:
        partial.mkdir()
        if seen:
            write_json(partial / TRAINING_IMAGES, seen)
        _write(partial, arrays, config)
        rounded = build_model((None, None), "float32")
        for name, value in read_compact(partial).items():
            layer, _, role = name.rpartition("/")
            getattr(rounded.get_layer(layer), role).assign(value)
    height, width = (side // PATCH_PX for side in image_size)
    patches = np.random.default_rng(0).integers(0, 256, (IMAGES, height, width, 3))
    images = patches.repeat(PATCH_PX, axis=1).repeat(PATCH_PX, axis=2).astype(np.float32)
    differences = np.abs(rounded(images).numpy() - model(images).numpy())
    return float(differences.max()), float(differences.mean())


def expanded(folder: pathlib.Path, remedy: str = REMEDY, **facts: str) -> pathlib.Path:
    """The folder of the same model with float32 WEIGHTS, as everything else reads it.

    It is in the cache of downloads, and found there the next time. Without a cache, or if nothing can be written
    there, it is a temporary folder that is removed when this process ends. Several processes may expand a model at
    once, since a file is replaced by an equal one.

    Args:
        folder: of a model in compact form.
        remedy: end of the messages about a damaged one.
        facts: added to the content of MODEL_CONFIG.

    Raises:
        UserError: as `read_compact`, or there is no space.
    """
    stored, content = _checked(folder, remedy)
    config = {**stored, **facts}
    key = hashlib.sha256(json.dumps([LAYOUT, config], sort_keys=True).encode()).hexdigest()[:16]
    root = cache.cache_folder()
    kept = root / EXPANDED / key if root else _temporary(key)
    if _is_whole(kept):
        return kept
    try:
        check_output_path(kept / WEIGHTS)
    except PlaceError:
        kept = _temporary(key)
    if not _is_whole(kept):
        origin = str(folder / COMPACT_WEIGHTS)
        float_weights: bytes = untrusted.call(f"{__name__}.expand", content, file=origin, remedy=remedy)
        try:
            with replacing(kept / WEIGHTS) as partial:
                partial.write_bytes(float_weights)
            if seen := training_images(folder):
                write_json(kept / TRAINING_IMAGES, seen)
            write_json(kept / MODEL_CONFIG, config)
        except UserError as error:
            raise UserError(f"{error} with the environment variable {cache.VARIABLE}") from None
    return kept


def expand(content: bytes) -> bytes:
    """The content of WEIGHTS, in float32, of a model whose COMPACT_WEIGHTS have this content."""
    from trainer.models import weight_files  # which loads h5py

    return weight_files.encode_hdf5(decode_compact(content))


def _checked(folder: pathlib.Path, remedy: str) -> tuple[dict[str, Any], bytes]:
    """The contents of MODEL_CONFIG and of COMPACT_WEIGHTS, which has the right checksum."""
    config = read_json(folder / MODEL_CONFIG, remedy, ModelConfig)
    path = folder / COMPACT_WEIGHTS
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ContentError(f"{path} cannot be read ({error.strerror or error}): {remedy}") from None
    digest, expected = hashlib.sha256(content).hexdigest(), str(config.get(WEIGHTS_SHA256))
    if digest != expected:
        raise ContentError(
            f"{path} is damaged, or it is the file of another model: its SHA-256 is {digest[:12]}..., and "
            f"{MODEL_CONFIG} says {expected[:12]}: {remedy}"
        )
    return config, content


@functools.cache
def _temporary(key: str) -> pathlib.Path:
    """A folder for as long as this process lives, the same for the same key."""
    return files.folder_for_now()


def _is_whole(folder: pathlib.Path) -> bool:
    """Whether an expanded model is there; each of its files is written completely or not at all."""
    return (folder / WEIGHTS).is_file() and (folder / MODEL_CONFIG).is_file()
