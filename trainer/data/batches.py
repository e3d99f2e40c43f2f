"""Batches of prepared images: a split is read and decoded once, then every epoch takes them by their index."""

import errno
import math
import os
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from trainer.artifacts import Manifest
from trainer.config import CACHES
from trainer.data import memory, tfrecords
from trainer.errors import UserError, check_choice
from trainer.progress import LOG_EVERY_S, Tracker
from trainer.tracing import without_autograph

RESERVE_BYTES = 2_500_000_000
"""Memory left alone by `auto`: what TensorFlow, the network and its optimizer take at a small batch."""
PARALLEL_SHARDS = 4
DECODED_TOGETHER = 16
PARALLEL_GATHERS = 8
"""Calls that gather images at a time, at most: one copies about 5 GB/s, and its result waits in memory."""
ALIGNMENT = 64
"""Bytes; TensorFlow takes an array that begins at a multiple of it without a copy."""
GATHER_IMAGES = 8
"""A call gathers at least about so many images: it costs as much as copying one."""

# === The decoded split ===


@dataclass(frozen=True)
class Split:
    """All images of a split, decoded, by index."""

    stimulus: NDArray[np.uint8]
    """(N, H, W, 3) RGB."""
    density: NDArray[np.uint8]
    """(N, H, W, 1)."""

    def __len__(self) -> int:
        return len(self.stimulus)

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        manifest: Manifest,
        split: str,
        cache: str = "auto",
        reserve_bytes: int = RESERVE_BYTES,
    ) -> Self:
        """Read the shards of a split side by side, and decode them on all cores.

        Args:
            folder: a prepared data set.
            manifest: its manifest.
            split: train or valid.
            cache: where the H * W * 4 bytes of each image go. `memory`; `disk`, a file in the folder for temporary
                files (TMPDIR) that has no name and vanishes with the process, however that ends; or `auto`: memory
                if it is available now, disk otherwise.
            reserve_bytes: memory that `auto` leaves for the rest of the training.

        Raises:
            UserError: the images fit neither in memory nor on the disk, or the shards are missing, damaged, or do
                not hold each image of the split exactly once.
        """
        count, (height, width) = manifest.counts[split], manifest.image_size
        stimulus_bytes = count * height * width * 3
        store = _allocate(split, count * height * width * 4, cache, reserve_bytes)
        stimulus = store[:stimulus_bytes].reshape(count, height, width, 3)
        density = store[stimulus_bytes:].reshape(count, height, width, 1)
        _fill(stimulus, density, folder, manifest, split)
        return cls(stimulus, density)


def _allocate(split: str, n_bytes: int, cache: str, reserve_bytes: int) -> NDArray[np.uint8]:
    """(n_bytes,) uint8 in memory or in a nameless file; says in a line which it is."""
    check_choice("cache", cache, CACHES)
    available = memory.available_bytes()
    size = f"{split}: {n_bytes / 1e9:.2f} GB of decoded images"
    has = f"{available / 1e9:.2f} GB of memory are available"
    if cache == "memory" and n_bytes > available:
        raise UserError(f"{size}, but {has}; set cache to disk or auto, or take a machine with more memory")
    if cache == "memory" or (cache == "auto" and n_bytes + reserve_bytes <= available):
        print(f"{size} in memory; {has}", flush=True)
        room = np.empty(n_bytes + ALIGNMENT, np.uint8)
        return room[-room.ctypes.data % ALIGNMENT :][:n_bytes]
    place = tempfile.gettempdir()
    with tempfile.TemporaryFile() as file:
        try:
            file.truncate(max(n_bytes, 1))
            if hasattr(os, "posix_fallocate"):  # not on a Mac
                # Taken now: a write to a mapped page for which there is no room would kill the process.
                os.posix_fallocate(file.fileno(), 0, max(n_bytes, 1))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            raise UserError(
                f"{size}: no space left for them in {place} ({error.strerror}), and {has}, of which "
                f"{reserve_bytes / 1e9:.2f} are left for the network; free some, or name a folder on another disk "
                "by the variable TMPDIR"
            ) from None
        print(f"{size} in a temporary file in {place}; {has}", flush=True)
        return np.memmap(file, np.uint8, "r+", shape=(n_bytes,)) if n_bytes else np.empty(0, np.uint8)


def _fill(
    stimulus: NDArray[np.uint8],
    density: NDArray[np.uint8],
    folder: str | os.PathLike[str],
    manifest: Manifest,
    split: str,
) -> None:
    """Put every record of the split at its index."""
    paths = [str(path) for path in tfrecords.shard_paths(folder, split)]
    records = tf.data.TFRecordDataset(paths, num_parallel_reads=min(PARALLEL_SHARDS, len(paths)))
    options = _options()
    options.deterministic = False

    @without_autograph
    def parse(record: tf.Tensor) -> dict[str, tf.Tensor]:
        return tfrecords.parse(record, manifest.image_size)

    decoded = records.map(parse, num_parallel_calls=os.cpu_count())
    batches = decoded.batch(DECODED_TOGETHER).prefetch(2).with_options(options)
    seen, start = np.zeros(len(stimulus), np.int64), time.monotonic()
    with ExitStack() as stack:
        tracker = None
        try:
            for batch in batches.as_numpy_iterator():
                indices = batch["index"]
                unknown = indices[(indices < 0) | (indices >= len(seen))]
                if unknown.size:
                    raise UserError(
                        f"{folder} has {len(seen)} images in {split}, but a record is number {unknown[0]}; "
                        f"{tfrecords.REMEDY}"
                    )
                stimulus[indices], density[indices] = batch["stimulus"], batch["density"]
                np.add.at(seen, indices, 1)
                if tracker is not None:
                    tracker.advance(len(indices))
                elif time.monotonic() - start > LOG_EVERY_S:
                    tracker = stack.enter_context(
                        Tracker(f"decode {split}", len(seen), "images", min(int(seen.sum()), len(seen)))
                    )
        except (tf.errors.DataLossError, tf.errors.OutOfRangeError, tf.errors.InvalidArgumentError) as error:
            raise UserError(
                f"a shard in {folder} is cut short or damaged ({error.message.splitlines()[0]}); "
                f"{tfrecords.REMEDY}"
            ) from None
    wrong = np.flatnonzero(seen != 1)
    if wrong.size:
        raise UserError(
            f"the shards of {split} in {folder} hold image {wrong[0]} of {len(seen)} {seen[wrong[0]]} times "
            f"instead of once ({wrong.size} such images); {tfrecords.REMEDY}"
        )


# === Batches ===


def epoch_order(count: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """The order of `count` images in an epoch (from 0), (count,); the same on every machine."""
    return np.random.default_rng(np.random.SeedSequence([seed, epoch])).permutation(count)


def training_batches(
    split: Split,
    batch_size: int,
    seed: int,
    epoch: int,
    skip_steps: int = 0,
    n_replicas_here: int = 1,
    first_replica: int = 0,
    n_replicas: int = 1,
) -> tf.data.Dataset:
    """One epoch, in the order that `epoch_order` gives, whatever the replicas.

    The images that do not fill a batch are left out of this epoch (another order leaves out others). The batch of
    a step is cut into `n_replicas` equal slices, one for each replica; what comes out are the slices of the
    replicas here, one after another, step after step, as `Strategy.distribute_datasets_from_function` takes them.

    Args:
        split: the decoded images.
        batch_size: B, images of a step over all replicas; a multiple of `n_replicas`.
        seed: of the run.
        epoch: counted from 0.
        skip_steps: steps already taken, when a run goes on in the middle of an epoch; skipping reads nothing.
        n_replicas_here: replicas that this process feeds.
        first_replica: number of the first of them among all, from 0.
        n_replicas: replicas of the whole job.

    Returns:
        Dicts of index (b,) int64, stimulus (b, H, W, 3) uint8 and density (b, H, W, 1) uint8; b is
        batch_size / n_replicas.
    """
    order = epoch_order(len(split), seed, epoch)
    whole = order[: len(order) // batch_size * batch_size]
    return _gathered(split, _slices(whole, batch_size, skip_steps, n_replicas_here, first_replica, n_replicas))


def validation_batches(
    split: Split, batch_size: int, n_replicas_here: int = 1, first_replica: int = 0, n_replicas: int = 1
) -> tf.data.Dataset:
    """The whole split in its order, each image on one replica; the last batch is filled up with zeros.

    Args:
        split: the decoded images.
        batch_size: as the others, of `training_batches`.
        n_replicas_here: see there.
        first_replica: see there.
        n_replicas: see there.

    Returns:
        Dicts as of `training_batches`, with mask (b,) float32: 1 for an image, 0 for what fills up.
    """
    order = np.full(math.ceil(len(split) / batch_size) * batch_size, -1)
    order[: len(split)] = np.arange(len(split))
    slices = _slices(order, batch_size, 0, n_replicas_here, first_replica, n_replicas)

    @without_autograph
    def masked(batch: dict[str, tf.Tensor], mask: tf.Tensor) -> dict[str, tf.Tensor]:
        there = tf.cast(mask, tf.uint8)[:, None, None, None]
        filled = {key: batch[key] * there for key in ("stimulus", "density")}
        return {**batch, **filled, "mask": mask}

    gathered = _gathered(split, np.maximum(slices, 0))
    masks = tf.data.Dataset.from_tensor_slices((slices >= 0).astype(np.float32))
    return tf.data.Dataset.zip(gathered, masks).map(masked).prefetch(1)


def _slices(
    order: NDArray[np.int64], batch_size: int, skip_steps: int, here: int, first: int, n_replicas: int
) -> NDArray[np.int64]:
    """(steps * here, b) indices: a row for each step and replica here."""
    assert batch_size % n_replicas == 0, f"{n_replicas} replicas cannot share {batch_size} images"
    by_replica = order.reshape(-1, n_replicas, batch_size // n_replicas)
    return by_replica[skip_steps:, first : first + here].reshape(-1, batch_size // n_replicas)


def _gathered(split: Split, slices: NDArray[np.int64]) -> tf.data.Dataset:
    """The images of each row of `slices` (n, b)."""
    rows = math.ceil(GATHER_IMAGES / slices.shape[1])

    stimulus, density = _tensor(split.stimulus), _tensor(split.density)

    @without_autograph
    def gather(indices: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"index": indices, "stimulus": tf.gather(stimulus, indices), "density": tf.gather(density, indices)}

    calls = tf.data.Dataset.from_tensor_slices(slices)
    calls = calls.batch(rows) if rows > 1 else calls
    parallel = max(2, min(PARALLEL_GATHERS, os.cpu_count() or 1))
    batches = calls.map(gather, num_parallel_calls=parallel, deterministic=True).prefetch(2)
    batches = batches.unbatch() if rows > 1 else batches
    return batches.with_options(_options())


def _tensor(images: NDArray[np.uint8]) -> tf.Tensor:
    """The images as a tensor that shares their memory.

    Gathering from it takes no Python: TensorFlow would wait for ever for a Python function that is under way when
    an epoch is left in the middle.
    """
    return tf.experimental.dlpack.from_dlpack(images.__dlpack__())


def _options() -> tf.data.Options:
    """Threads apart from those of the steps; and the graph as it is, since to rewrite it TensorFlow would copy all
    images.
    """
    options = tf.data.Options()
    options.threading.private_threadpool_size = os.cpu_count() or 1
    options.threading.max_intra_op_parallelism = 1
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    return options
