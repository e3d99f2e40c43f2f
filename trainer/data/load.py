"""Where the images of a split are kept during a training: in memory, in a temporary file, or in their shards."""

import dataclasses
import os
import shutil
import tempfile
from typing import Self

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from trainer.data import tfrecords
from trainer.data.batches import Split, block_images
from trainer.data.decoded import Decoded, file_store, memory_store
from trainer.data.prepared_data import SPLITS, Manifest
from trainer.data.settings import CACHES
from trainer.data.stream import Stream, damage
from trainer.errors import ContentError, PlaceError, SettingError, check_choice
from trainer.machine import available_bytes

RESERVE_BYTES = 2_500_000_000
"""Memory that `auto` leaves free for TensorFlow, the network and its optimizer with a small batch."""
DISK_RESERVE = 0.15
"""Share of a disk that `auto` leaves free: a node of Kubernetes evicts its pods below it (its default)."""
MADE = 16
"""Different images of noise. They are repeated, because the speed does not depend on what they show."""
WORTH_SAYING_BYTES = 10**8
"""Decoded images in memory from which a line says so."""


@dataclasses.dataclass(frozen=True)
class TrainingData:
    """The images of a training, with their manifest."""

    folder: str
    """Of the prepared dataset. Empty for noise."""
    manifest: Manifest
    train: Split
    valid: Split

    @classmethod
    def load(cls, folder: str | os.PathLike[str], manifest: Manifest, cache: str = "auto") -> Self:
        """Make both splits of a prepared dataset ready. Arguments and errors are as in `load_split`."""
        train, valid = (load_split(folder, manifest, name, cache) for name in ("train", "valid"))
        return cls(str(folder), manifest, train, valid)

    @classmethod
    def noise(cls, manifest: Manifest) -> Self:
        """As many images as a manifest says, and their maps, all of noise, in memory."""
        random, (height, width) = np.random.default_rng(0), manifest.image_size
        splits = {}
        for split in SPLITS:
            count = manifest.counts[split]
            images = Decoded.over(memory_store(count * height * width * 4), manifest.image_size, [count])
            for array in (images.stimulus, images.density):
                made = random.integers(0, 256, (MADE, *array.shape[1:]), np.uint8)
                for first in range(0, count, MADE):
                    array[first : first + MADE] = made[: count - first]
            splits[split] = images
        return cls("", manifest, **splits)

    @staticmethod
    def block_images(image_size: tuple[int, int]) -> int:
        """Number of images of (H, W) that are shuffled together. The order of a larger split depends on it."""
        return block_images(image_size)

    @staticmethod
    def damage(error: tf.errors.OpError, dataset: str) -> ContentError | None:
        """As `trainer.data.stream.damage`."""
        return damage(error, dataset)


def load_split(
    folder: str | os.PathLike[str],
    manifest: Manifest,
    split: str,
    cache: str = "auto",
    reserve_bytes: int = RESERVE_BYTES,
) -> Split:
    """Make the images of a split ready for batches. The batches do not depend on where the images are kept.

    Args:
        folder: a prepared dataset.
        manifest: its manifest.
        split: train or valid.
        cache: where the H * W * 4 bytes of each image are kept, one of `CACHES`. `disk` is an unnamed temporary
            file (in TMPDIR), which disappears with the process, however that ends. `stream` keeps none, and reads
            the shards in each epoch. `auto` is memory if enough is available now, else disk if it has room, else
            stream. A line says which. Example: 10,000 images of 240 x 320 need 3.1 GB.
        reserve_bytes: memory that `auto` leaves free for the rest of the training.

    Raises:
        UserError: there is no room for the images. Or the shards are missing or damaged, or do not hold each image
            of the split exactly once. A stream cannot know that before it has read them.
    """
    count, size = manifest.counts[split], manifest.image_size
    n_bytes = count * size[0] * size[1] * 4
    store = _store(split, n_bytes, Stream.memory_bytes(size, count), cache, reserve_bytes)
    if store is None:
        return Stream(folder, manifest, split, tfrecords.shard_counts(folder, split))
    # A split of one block is shuffled as a whole, wherever its shards begin.
    is_one_block = count <= block_images(size)
    loaded = Decoded.over(store, size, [count] if is_one_block else tfrecords.shard_counts(folder, split))
    loaded.fill(folder, manifest, split)
    return loaded


def _store(
    split: str, n_bytes: int, stream_bytes: int, cache: str, reserve_bytes: int
) -> NDArray[np.uint8] | None:
    """Room for `n_bytes` of decoded images in memory or in a file. None to stream, which takes `stream_bytes`."""
    check_choice("cache", cache, CACHES)
    available, folder = available_bytes(), tempfile.gettempdir()
    images = f"{split}: {n_bytes / 1e9:.1f} GB of decoded images"
    memory = f"{available / 1e9:.1f} GB of memory are available"
    if cache == "memory" and n_bytes > available:
        raise SettingError(
            f"{images}, but {memory}. Set cache to disk, stream or auto, or use a machine with more memory"
        )
    if cache == "memory" or (cache == "auto" and n_bytes + reserve_bytes <= available):
        if n_bytes >= WORTH_SAYING_BYTES:
            print(f"{images} in memory", flush=True)
        return memory_store(n_bytes)
    disk = shutil.disk_usage(folder)
    room = f"{disk.free / 1e9:.1f} GB of {disk.total / 1e9:.1f} are free in {folder}"
    if cache == "disk" or (cache == "auto" and n_bytes <= disk.free - DISK_RESERVE * disk.total):
        store = file_store(n_bytes)
        if store is not None:
            print(f"{images} in a temporary file in {folder} ({memory})", flush=True)
            return store
    if cache == "stream" or (cache == "auto" and stream_bytes + reserve_bytes <= available):
        print(f"{images} are not kept: their shards are read in each epoch ({memory}, {room})", flush=True)
        return None
    raise PlaceError(
        f"{images}: no space left for them in {folder} ({room}), and {memory}, of which {reserve_bytes / 1e9:.2f} "
        "are reserved for the network. Free some, set TMPDIR to a folder on another disk, or set cache to stream, "
        f"which takes {stream_bytes / 1e9:.1f} GB of memory"
    )
