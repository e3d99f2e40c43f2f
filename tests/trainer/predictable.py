"""A tiny prepared dataset whose ground truth is the prediction of a network, and that network's model folder."""

import dataclasses
import functools
import io
import pathlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from PIL import Image
from scipy.ndimage import gaussian_filter

from tests.narrow import network as network
from trainer.data import decode, prepared_data, tfrecords
from trainer.io import files
from trainer.network import model_folder
from trainer.network.preprocess import Frame

SIZE = (48, 64)
ORIGINAL_SIZES = ((48, 64), (60, 60), (90, 101))  # equal to the frame; padded left and right; shrunk and padded


def write_model(folder: pathlib.Path, model: keras.Model) -> pathlib.Path:
    """Write a model folder with the weights and a configuration."""
    folder.mkdir(parents=True)
    model.save_weights(folder / model_folder.MODEL_WEIGHTS)
    config = {"train": {"epochs": 2}, "dataset": "salicon", "image_size": list(SIZE)}
    files.write_json(folder / model_folder.MODEL_CONFIG, config)
    return folder


@functools.cache
def _graph(model: keras.Model) -> Any:
    """The model, traced: layer by layer a prediction takes ten times as long."""
    return tf.function(model, autograph=False)


@functools.cache
def example(
    model: keras.Model, index: int, n_fixations: int, inverted: bool = False, n_observers: int = 0
) -> tuple[tfrecords.Example, tfrecords.Original]:
    """Smooth noise, the model's prediction for it (or the negative) as density, and fixations where it is high.

    The fixations are dealt to `n_observers` in turn; 0 if they are not told apart. Each is made once, so the model
    must stay as it is.
    """
    random = np.random.default_rng(index)
    size = ORIGINAL_SIZES[index % len(ORIGINAL_SIZES)]
    noise = gaussian_filter(random.normal(size=(*size, 3)), (4, 4, 0))
    image = np.uint8(255 * (noise - noise.min()) / np.ptp(noise))
    stimulus = np.round(Frame(SIZE).image(image)).astype(np.uint8)
    prediction = _graph(model)(stimulus[None].astype(np.float32)).numpy()[0, ..., 0]
    top, left, height, width = Frame(SIZE).box(size)
    density = np.zeros(SIZE, np.uint8)
    box = slice(top, top + height), slice(left, left + width)
    density[box] = np.round((1 - prediction[box] if inverted else prediction[box]) * 255)
    chances = np.maximum(Frame.back(prediction, size), 0).ravel() ** 4
    picked = random.choice(chances.size, n_fixations, p=chances / chances.sum())
    points = np.stack(np.unravel_index(picked, size), axis=1).astype(np.int64)
    observers = np.arange(n_fixations) % n_observers if n_observers else np.zeros(0, np.int64)
    prepared = decode.rescale_points(points, (top, left, height, width), size)
    restored = np.clip(Frame.back(prediction, size), 0, 1)
    levels = 255 * Frame(tfrecords.Original.MAP_SIZE).map(1 - restored if inverted else restored)
    top, left, height, width = Frame(tfrecords.Original.MAP_SIZE).box(size)
    compared = np.round(levels).astype(np.uint8)[top : top + height, left : left + width]
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    name = f"{index}.png"
    return (
        tfrecords.Example(index, name, stimulus, density, size, points, prepared, observers),
        tfrecords.Original(name, file.getvalue(), compared),
    )


def write_dataset(
    folder: pathlib.Path,
    model: keras.Model,
    n_valid: int = 10,
    n_fixations: int = 12,
    inverted: bool = False,
    n_observers: int = 0,
    groups: Sequence[str] = (),
    **changes: object,
) -> pathlib.Path:
    """Write a dataset with `n_valid` validation images and two training images; `changes` are for the manifest.

    `groups` are those of the validation images; empty if each is one of its own.
    """
    counts = {"train": 2, "valid": n_valid}
    shards, originals = _write_shards(
        folder, model, counts, n_fixations, inverted, n_observers=n_observers, groups=groups
    )
    manifest = prepared_data.Manifest(
        dataset="salicon",
        source="gs://bucket/salicon",
        fingerprint="0123abcd",
        image_size=SIZE,
        counts=counts,
        expected_counts={"train": 10_000, "valid": 5_000},
        split="given",
        ground_truth="density",
        blur_sigma_px=0.0,
        has_fixations=n_fixations > 0,
        original_sizes={"48x64": 5, "60x60": 4, "90x101": 3},
        shards=shards,
        originals=originals,
        code_version="0.1.0",
        has_observers=n_observers > 0,
    )
    dataclasses.replace(manifest, **changes).save(folder)
    return folder


def write_test_set(
    folder: pathlib.Path,
    model: keras.Model,
    copies: dict[str, str],
    n_fixations: int = 12,
    inverted: bool = False,
) -> pathlib.Path:
    """Write a test set of five images; `copies` are those with the digests of other images."""
    shards, originals = _write_shards(folder, model, {"test": 5}, n_fixations, inverted, copies=copies)
    prepared_data.Manifest(
        dataset="osie",
        source="gs://bucket/osie",
        fingerprint="4567cdef",
        image_size=SIZE,
        counts={"test": 5},
        expected_counts={"test": 700},
        split="shuffle",
        ground_truth="density",
        blur_sigma_px=0.0,
        has_fixations=n_fixations > 0,
        original_sizes={"48x64": 2, "60x60": 2, "90x101": 1},
        shards=shards,
        originals=originals,
        code_version="0.1.0",
    ).save(folder)
    return folder


def _write_shards(
    folder: pathlib.Path,
    model: keras.Model,
    counts: dict[str, int],
    n_fixations: int,
    inverted: bool = False,
    copies: Mapping[str, str] = MappingProxyType({}),
    n_observers: int = 0,
    groups: Sequence[str] = (),
) -> tuple[dict[str, list[str]], list[str]]:
    """Write the images, their list with made-up digests, and a centre bias.

    Returns the names of the shards of each split, and of those with the originals.
    """
    folder.mkdir(parents=True)
    shards, originals, lines = {}, [], ["split,image,digest,group,hash,recording"]
    for split, count in counts.items():
        with (
            tfrecords.ShardWriter(folder, split, max(1, count), SIZE) as writer,
            tfrecords.ShardWriter(folder, prepared_data.ORIGINALS, max(1, count), SIZE) as kept,
        ):
            for index in range(count):
                made, original = example(model, index, n_fixations, inverted, n_observers)
                original = dataclasses.replace(
                    original, group=groups[index] if split != "train" and groups else ""
                )
                writer.write(tfrecords.serialize(made))
                if split != "train":
                    kept.write(tfrecords.serialize_original(original))
                name = f"{index}.png"
                digest = copies.get(name, f"digest-of-{split}-{index}")
                recording = f"{n_fixations}-{inverted}-{index}"
                lines.append(f"{split},{name},{digest},{original.group},,{recording}")
        shards[split] = writer.names
        originals += kept.names
    (folder / prepared_data.IMAGES).write_text("\n".join(lines) + "\n")
    y, x = np.mgrid[-1:1:120j, -1:1:160j]
    bias = np.exp(-(y**2 + x**2)).astype(np.float32)
    # Two folds that are the same, so that each predicts the other.
    np.save(folder / prepared_data.CENTER_BIAS, np.stack([bias, bias, *np.zeros((8, 120, 160), np.float32)]))
    return shards, originals
