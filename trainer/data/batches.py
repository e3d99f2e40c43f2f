"""Batches of prepared images. A split is read and decoded once, and each epoch gathers its images by index."""

import errno
import math
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self, TypeVar, cast

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from trainer.data import tfrecords
from trainer.data.prepared_data import PREPARE_AGAIN, Manifest
from trainer.data.settings import CACHES
from trainer.errors import ContentError, PlaceError, SettingError, check_choice
from trainer.machine import LOG_EVERY_S, Tracker, available_bytes

Function = TypeVar("Function", bound=Callable[..., Any])
RESERVE_BYTES = 2_500_000_000
"""Memory that `auto` leaves free for TensorFlow, the network and its optimizer with a small batch."""
PARALLEL_SHARDS = 4
DECODED_TOGETHER = 16
PARALLEL_GATHERS = 8
"""Maximum number of parallel gather calls: one copies about 5 GB/s, and its result waits in memory."""
WORTH_SAYING_BYTES = 10**8
"""Decoded images in memory from which a line says so."""
ALIGNMENT = 64
"""Bytes. TensorFlow shares an array that begins at a multiple of this, and copies others."""
GATHER_IMAGES = 8
"""A call gathers at least about this many images, because a call costs as much as copying one."""


def without_autograph(function: Function) -> Function:
    """Decorate a function without control flow by tensors, so that it is traced without AutoGraph.

    The graph is the same. AutoGraph would rewrite its source, and the source of all functions that it calls.
    That takes seconds in every process.
    """
    return cast(Function, tf.autograph.experimental.do_not_convert(function))


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
        """Read the shards of a split in parallel, and decode them on all cores.

        Args:
            folder: a prepared dataset.
            manifest: its manifest.
            split: train or valid.
            cache: where the H * W * 4 bytes of each image are kept, one of `CACHES`. `disk` is an unnamed
                temporary file (in TMPDIR), which disappears with the process, however that ends. `auto` is
                memory if enough is available now, else disk. Example: 10,000 images of 240 x 320 need 3.1 GB.
            reserve_bytes: memory that `auto` leaves free for the rest of the training.

        Raises:
            UserError: neither memory nor the disk has room for the images. Or the shards are missing or
                damaged, or do not hold each image of the split exactly once.
        """
        loaded = cls.allocate(manifest, split, cache, reserve_bytes)
        _fill(loaded.stimulus, loaded.density, folder, manifest, split)
        return loaded

    @classmethod
    def allocate(
        cls, manifest: Manifest, split: str, cache: str = "auto", reserve_bytes: int = RESERVE_BYTES
    ) -> Self:
        """Make room for the images of a split, without their content. The arguments are as in `load`."""
        count, (height, width) = manifest.counts[split], manifest.image_size
        stimulus_bytes = count * height * width * 3
        store = _allocate(split, count * height * width * 4, cache, reserve_bytes)
        stimulus = store[:stimulus_bytes].reshape(count, height, width, 3)
        density = store[stimulus_bytes:].reshape(count, height, width, 1)
        return cls(stimulus, density)

    def order(self, seed: int, epoch: int) -> NDArray[np.int64]:
        """The order of the images in an epoch (from 0), (N,). It is the same on every machine."""
        return np.random.default_rng(np.random.SeedSequence([seed, epoch])).permutation(len(self))

    def training_batches(
        self,
        batch_size: int,
        seed: int,
        epoch: int,
        skip_steps: int = 0,
        n_replicas_here: int = 1,
        first_replica: int = 0,
        n_replicas: int = 1,
        flip: bool = False,
    ) -> tf.data.Dataset:
        """One epoch in the order of `order`, which does not depend on the number of replicas.

        Images that do not fill a batch are left out of this epoch, and another epoch leaves out others.
        Example: of 10 images, batches of 4 use 8. The batch of a step is cut into `n_replicas` equal slices,
        one for each replica. The dataset yields the slices of the replicas here, replica by replica and step
        by step. So `Strategy.distribute_datasets_from_function` expects them.

        Args:
            batch_size: B, images of a step over all replicas, a multiple of `n_replicas`.
            seed: of the run.
            epoch: counted from 0.
            skip_steps: steps already taken, if a run resumes in the middle of an epoch. Skipping reads
                nothing.
            n_replicas_here: number of replicas that this process feeds.
            first_replica: index of the first of them among all, from 0.
            n_replicas: number of replicas of the whole job.
            flip: mirror each image and its map left to right with a probability of one half.

        Returns:
            Dicts of index (b,) int64, stimulus (b, H, W, 3) uint8 and density (b, H, W, 1) uint8, where b is
                batch_size / n_replicas.
        """
        order = self.order(seed, epoch)
        whole = order[: len(order) // batch_size * batch_size]
        slices = _slices(whole, batch_size, skip_steps, n_replicas_here, first_replica, n_replicas)
        if not flip:
            return _gathered(self, slices)
        flipped = tf.constant(epoch_flips(len(self), seed, epoch))

        @without_autograph
        def mirror(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            is_flipped = tf.gather(flipped, batch["index"])[:, None, None, None]
            images = {name: batch[name] for name in ("stimulus", "density")}
            mirrored = {name: tf.where(is_flipped, image[:, :, ::-1], image) for name, image in images.items()}
            return {**batch, **mirrored}

        batches = _gathered(self, slices).map(mirror, num_parallel_calls=_parallel(), deterministic=True)
        return batches.prefetch(2).with_options(_options())

    def validation_batches(
        self, batch_size: int, n_replicas_here: int = 1, first_replica: int = 0, n_replicas: int = 1
    ) -> tf.data.Dataset:
        """The whole split in order, each image on one replica. The last batch is padded with zeros.

        Arguments are as in `training_batches`. The dicts also have mask (b,) float32: 1 for an image, 0 for
        padding. Example: for 10 images and batches of 4, the last mask is 1, 1, 0, 0.
        """
        order = np.full(math.ceil(len(self) / batch_size) * batch_size, -1)
        order[: len(self)] = np.arange(len(self))
        slices = _slices(order, batch_size, 0, n_replicas_here, first_replica, n_replicas)

        @without_autograph
        def masked(batch: dict[str, tf.Tensor], mask: tf.Tensor) -> dict[str, tf.Tensor]:
            is_image = tf.cast(mask, tf.uint8)[:, None, None, None]
            padded = {key: batch[key] * is_image for key in ("stimulus", "density")}
            return {**batch, **padded, "mask": mask}

        gathered = _gathered(self, np.maximum(slices, 0))
        masks = tf.data.Dataset.from_tensor_slices((slices >= 0).astype(np.float32))
        return tf.data.Dataset.zip(gathered, masks).map(masked).prefetch(1)


def _allocate(split: str, n_bytes: int, cache: str, reserve_bytes: int) -> NDArray[np.uint8]:
    """(n_bytes,) uint8 in memory, or in an unnamed temporary file. A line says which, if it is worth one."""
    check_choice("cache", cache, CACHES)
    available = available_bytes()
    size = f"{split}: {n_bytes / 1e9:.1f} GB of decoded images"
    room = f"{available / 1e9:.1f} GB of memory are available"
    if cache == "memory" and n_bytes > available:
        raise SettingError(f"{size}, but {room}. Set cache to disk or auto, or use a machine with more memory")
    if cache == "memory" or (cache == "auto" and n_bytes + reserve_bytes <= available):
        if n_bytes >= WORTH_SAYING_BYTES:
            print(f"{size} in memory", flush=True)
        store = np.empty(n_bytes + ALIGNMENT, np.uint8)
        return store[-store.ctypes.data % ALIGNMENT :][:n_bytes]
    folder = tempfile.gettempdir()
    with tempfile.TemporaryFile() as file:
        try:
            file.truncate(max(n_bytes, 1))
            if hasattr(os, "posix_fallocate"):  # not on a Mac
                # Allocated now: on a full disk, writing to a mapped page would kill the process.
                os.posix_fallocate(file.fileno(), 0, max(n_bytes, 1))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            raise PlaceError(
                f"{size}: no space left for them in {folder} ({error.strerror}), and {room}, of which "
                f"{reserve_bytes / 1e9:.2f} are reserved for the network. Free some, or set TMPDIR to a folder "
                "on another disk"
            ) from None
        print(f"{size} in a temporary file in {folder} ({room})", flush=True)
        return np.memmap(file, np.uint8, "r+", shape=(n_bytes,)) if n_bytes else np.empty(0, np.uint8)


def _fill(
    stimulus: NDArray[np.uint8],
    density: NDArray[np.uint8],
    folder: str | os.PathLike[str],
    manifest: Manifest,
    split: str,
) -> None:
    """Put every record of the split at its index."""
    count, start = len(stimulus), time.monotonic()
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
                stimulus[indices], density[indices] = batch["stimulus"], batch["density"]
                np.add.at(times_seen, indices, 1)
                if tracker is not None:
                    tracker.advance(len(indices))
                elif time.monotonic() - start > LOG_EVERY_S:
                    done = min(int(times_seen.sum()), count)
                    tracker = stack.enter_context(Tracker(f"decode {split}", count, "images", done))
        except tf.errors.OpError as error:
            raise ContentError(
                f"a shard in {folder} is incomplete or damaged ({error.message.splitlines()[0]}): {PREPARE_AGAIN}"
            ) from None
    wrong = np.flatnonzero(times_seen != 1)
    if wrong.size:
        raise ContentError(
            f"the shards of {split} in {folder} hold image {wrong[0]} of {count} {times_seen[wrong[0]]} times "
            f"instead of once ({wrong.size} such images): {PREPARE_AGAIN}"
        )


def _decoded(folder: str | os.PathLike[str], manifest: Manifest, split: str) -> tf.data.Dataset:
    """The parsed records of a split in batches of DECODED_TOGETHER, in any order."""
    paths = [str(path) for path in tfrecords.shard_paths(folder, split)]
    records = tf.data.TFRecordDataset(paths, num_parallel_reads=min(PARALLEL_SHARDS, len(paths)))
    options = _options()
    options.deterministic = False

    @without_autograph
    def parse(record: tf.Tensor) -> dict[str, tf.Tensor]:
        return tfrecords.parse_example(record, manifest.image_size)

    decoded = records.map(parse, num_parallel_calls=os.cpu_count())
    return decoded.batch(DECODED_TOGETHER).prefetch(2).with_options(options)


# === Batches ===


def epoch_flips(count: int, seed: int, epoch: int) -> NDArray[np.bool_]:
    """Whether each of `count` images is mirrored in an epoch (from 0), (count,) bool.

    It is drawn for all images at once by their index. So it depends neither on the batch, nor on the
    replicas, nor on where a run resumes.
    """
    drawn: NDArray[np.float64] = np.random.default_rng(np.random.SeedSequence([seed, epoch, 1])).random(count)
    return drawn < 0.5


def _slices(
    order: NDArray[np.int64], batch_size: int, skip_steps: int, here: int, first: int, n_replicas: int
) -> NDArray[np.int64]:
    """(steps * here, b) indices: one row for each step and replica here.

    Example: batches of 4 for 2 replicas, both here, are cut into rows of 2.
    """
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
    batches = calls.map(gather, num_parallel_calls=_parallel(), deterministic=True).prefetch(2)
    batches = batches.unbatch() if rows > 1 else batches
    return batches.with_options(_options())


def _parallel() -> int:
    return max(2, min(PARALLEL_GATHERS, os.cpu_count() or 1))


def _tensor(images: NDArray[np.uint8]) -> tf.Tensor:
    """The images as a tensor that shares their memory.

    Gathering from it needs no Python function. TensorFlow would wait forever for a running function if an
    epoch is left in the middle.
    """
    return tf.experimental.dlpack.from_dlpack(images.__dlpack__())


def _options() -> tf.data.Options:
    """Threads apart from the threads of the steps. And no graph rewriting, which would copy all images."""
    options = tf.data.Options()
    options.threading.private_threadpool_size = os.cpu_count() or 1
    options.threading.max_intra_op_parallelism = 1
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    return options
