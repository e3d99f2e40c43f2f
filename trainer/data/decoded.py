"""A split that is decoded once, into memory or a temporary file. Each epoch gathers its images by index."""

import errno
import math
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Self

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from trainer.data import tfrecords
from trainer.data.batches import Order, Split, options, parallel_calls, without_autograph
from trainer.data.prepared_data import PREPARE_AGAIN, Manifest
from trainer.errors import ContentError
from trainer.machine import LOG_EVERY_S, Tracker

PARALLEL_SHARDS = 4
DECODED_TOGETHER = 16
ALIGNMENT = 64
"""Bytes. TensorFlow shares an array that begins at a multiple of this, and copies others."""
GATHER_IMAGES = 8
"""A call gathers at least about this many images, because a call costs as much as copying one."""


class Decoded(Split):
    """All images of a split, decoded, by index.

    Args:
        stimulus: (N, H, W, 3) RGB.
        density: (N, H, W, 1).
        shard_counts: as in `Split`.
    """

    def __init__(
        self, stimulus: NDArray[np.uint8], density: NDArray[np.uint8], shard_counts: Sequence[int]
    ) -> None:
        height, width = stimulus.shape[1:3]
        super().__init__((height, width), shard_counts)
        self.stimulus, self.density = stimulus, density

    @classmethod
    def over(cls, store: NDArray[np.uint8], image_size: tuple[int, int], shard_counts: Sequence[int]) -> Self:
        """A split whose images are in `store`, (N * H * W * 4,) uint8: all stimuli, and then all densities."""
        count, (height, width) = sum(shard_counts), image_size
        end = count * height * width * 3
        stimulus = store[:end].reshape(count, height, width, 3)
        return cls(stimulus, store[end:].reshape(count, height, width, 1), shard_counts)

    def first(self, count: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """As in `Split`."""
        return self.stimulus[:count], self.density[:count]

    def batches(self, order: Order, positions: NDArray[np.int64]) -> tf.data.Dataset:
        """As in `Split`."""
        indices = order.images[positions]
        rows = math.ceil(GATHER_IMAGES / indices.shape[1])

        stimulus, density = _tensor(self.stimulus), _tensor(self.density)

        @without_autograph
        def gather(indices: tf.Tensor) -> dict[str, tf.Tensor]:
            images = {"stimulus": tf.gather(stimulus, indices), "density": tf.gather(density, indices)}
            return {"index": indices, **images}

        calls = tf.data.Dataset.from_tensor_slices(indices)
        calls = calls.batch(rows) if rows > 1 else calls
        batches = calls.map(gather, num_parallel_calls=parallel_calls(), deterministic=True).prefetch(2)
        batches = batches.unbatch() if rows > 1 else batches
        return batches.with_options(options())

    def fill(self, folder: str | os.PathLike[str], manifest: Manifest, split: str) -> None:
        """Read the shards in parallel, decode them on all cores, and put every record at its index.

        Raises:
            UserError: the shards are missing or damaged, or do not hold each image of the split exactly once.
        """
        count, start = len(self), time.monotonic()
        times_seen = np.zeros(count, np.int64)
        with ExitStack() as stack:
            tracker = None
            try:
                for batch in _decoded(folder, manifest, split).as_numpy_iterator():
                    indices = batch["index"]
                    unknown = indices[(indices < 0) | (indices >= count)]
                    if unknown.size:
                        raise ContentError(
                            f"{folder} has {count} images in {split}, but a record is number {unknown[0]}: "
                            f"{PREPARE_AGAIN}"
                        )
                    self.stimulus[indices], self.density[indices] = batch["stimulus"], batch["density"]
                    np.add.at(times_seen, indices, 1)
                    if tracker is not None:
                        tracker.advance(len(indices))
                    elif time.monotonic() - start > LOG_EVERY_S:
                        done = min(int(times_seen.sum()), count)
                        tracker = stack.enter_context(Tracker(f"decode {split}", count, "images", done))
            except tf.errors.OpError as error:
                raise ContentError(
                    f"a shard in {folder} is incomplete or damaged ({error.message.splitlines()[0]}): "
                    f"{PREPARE_AGAIN}"
                ) from None
        wrong = np.flatnonzero(times_seen != 1)
        if wrong.size:
            raise ContentError(
                f"the shards of {split} in {folder} hold image {wrong[0]} of {count} {times_seen[wrong[0]]} times "
                f"instead of once ({wrong.size} such images): {PREPARE_AGAIN}"
            )


def memory_store(n_bytes: int) -> NDArray[np.uint8]:
    """(n_bytes,) uint8 in memory, whose content is undefined."""
    store = np.empty(n_bytes + ALIGNMENT, np.uint8)
    return store[-store.ctypes.data % ALIGNMENT :][:n_bytes]


def file_store(n_bytes: int) -> NDArray[np.uint8] | None:
    """(n_bytes,) uint8 in a temporary file without a name, in TMPDIR. None if the disk has no room for it.

    The file disappears with the process, however that ends.
    """
    with tempfile.TemporaryFile() as file:
        try:
            file.truncate(max(n_bytes, 1))
            if hasattr(os, "posix_fallocate"):  # not on a Mac
                # Allocated now: on a full disk, writing to a mapped page would kill the process.
                os.posix_fallocate(file.fileno(), 0, max(n_bytes, 1))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            return None
        return np.memmap(file, np.uint8, "r+", shape=(n_bytes,)) if n_bytes else np.empty(0, np.uint8)


def _decoded(folder: str | os.PathLike[str], manifest: Manifest, split: str) -> tf.data.Dataset:
    """The parsed records of a split in batches of DECODED_TOGETHER, in any order."""
    paths = [str(path) for path in tfrecords.shard_paths(folder, split)]
    records = tf.data.TFRecordDataset(paths, num_parallel_reads=min(PARALLEL_SHARDS, len(paths)))
    unordered = options()
    unordered.deterministic = False

    @without_autograph
    def parse(records: tf.Tensor) -> dict[str, tf.Tensor]:
        return tfrecords.parse_examples(records, manifest.image_size)

    decoded = records.batch(DECODED_TOGETHER).map(parse, num_parallel_calls=os.cpu_count())
    return decoded.prefetch(2).with_options(unordered)


def _tensor(images: NDArray[np.uint8]) -> tf.Tensor:
    """The images as a tensor that shares their memory.

    Gathering from it needs no Python function. TensorFlow would wait forever for a running function if an
    epoch is left in the middle.
    """
    return tf.experimental.dlpack.from_dlpack(images.__dlpack__())
