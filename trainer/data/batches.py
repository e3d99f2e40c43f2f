"""The images of a split in batches: their order in each epoch, and their shares of the devices.

`decoded.py` gathers them from memory or a file, `stream.py` reads the same ones from the shards.
"""

import abc
import math
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])
BLOCK_BYTES = 3_200_000_000
"""Decoded size of the images that are shuffled together: all of SALICON at 240 x 320. A stream holds two such
blocks as records, which have four fifths of this size. Another value is another order of larger splits."""
PARALLEL_CALLS = 8
"""Maximum number of parallel calls that make a batch: one copies about 5 GB/s, and its result waits in memory."""


def without_autograph(function: Function) -> Function:
    """Decorate a function without control flow by tensors, so that it is traced without AutoGraph.

    The graph is the same. AutoGraph would rewrite its source, and the source of all functions that it calls.
    That takes seconds in every process.
    """
    return cast(Function, tf.autograph.experimental.do_not_convert(function))


# === Order ===


def block_images(image_size: tuple[int, int]) -> int:
    """Number of images of (H, W) in BLOCK_BYTES, which are shuffled together. Example: 10,416 of 240 x 320."""
    height, width = image_size
    return max(1, BLOCK_BYTES // (height * width * 4))


class Order(NamedTuple):
    """The order of the images of a split in an epoch, as it can be read from its shards one after another."""

    shards: NDArray[np.int64]
    """(S,): the shards as they are read."""
    read: NDArray[np.int64]
    """(N,): the images as they are read."""
    taken: NDArray[np.int64]
    """(N,): the positions in `read` of the images as they are taken. They keep within blocks: of B images to a
    block, the positions from kB to (k + 1)B - 1 are a permutation of these numbers, for each k."""

    @property
    def images(self) -> NDArray[np.int64]:
        """(N,): the images as they are taken."""
        return self.read[self.taken]

    @classmethod
    def of_epoch(cls, shard_counts: Sequence[int], block: int, seed: int, epoch: int) -> "Order":
        """The order in an epoch (from 0). It depends on the arguments alone, so it is the same on every machine.

        A split of up to `block` images is shuffled as a whole. Of a larger one, the shards are shuffled, their
        images follow one another, and each block of them is shuffled. Example: three shards of two images and
        blocks of four may be read as 4 5 0 1 2 3 and taken as 0 5 4 1 3 2.

        Args:
            shard_counts: number of images in each shard. The images of the split are numbered through them.
            block: number of images that are shuffled together.
            seed: of the run.
            epoch: counted from 0.
        """
        random, count = np.random.default_rng(np.random.SeedSequence([seed, epoch])), sum(shard_counts)
        if count <= block:
            return cls.as_stored(shard_counts)._replace(taken=random.permutation(count))
        shards = random.permutation(len(shard_counts))
        images = np.split(np.arange(count), np.cumsum(shard_counts)[:-1])
        blocks = (np.arange(first, min(first + block, count)) for first in range(0, count, block))
        taken = np.concatenate([random.permutation(positions) for positions in blocks])
        return cls(shards, np.concatenate([images[shard] for shard in shards]), taken)

    @classmethod
    def as_stored(cls, shard_counts: Sequence[int]) -> "Order":
        """The order in which the shards have the images."""
        images = np.arange(sum(shard_counts))
        return cls(np.arange(len(shard_counts)), images, images)


def epoch_flips(count: int, seed: int, epoch: int) -> NDArray[np.bool_]:
    """Whether each of `count` images is mirrored in an epoch (from 0), (count,) bool.

    It is drawn for all images at once by their index. So it depends neither on the batch, nor on the
    replicas, nor on where a run resumes.
    """
    drawn: NDArray[np.float64] = np.random.default_rng(np.random.SeedSequence([seed, epoch, 1])).random(count)
    return drawn < 0.5


# === Batches ===


class Split(abc.ABC):
    """The images of a split, in batches.

    Args:
        image_size: (H, W), pixels.
        shard_counts: number of images in each shard, in order. One number for a split that is shuffled as a whole.
    """

    def __init__(self, image_size: tuple[int, int], shard_counts: Sequence[int]) -> None:
        self.image_size, self.shard_counts = image_size, shard_counts

    def __len__(self) -> int:
        return sum(self.shard_counts)

    @abc.abstractmethod
    def batches(self, order: Order, positions: NDArray[np.int64]) -> tf.data.Dataset:
        """The images at positions (n, b) in an order, which ascend row by row: n batches.

        Returns:
            Dicts of index (b,) int64, stimulus (b, H, W, 3) uint8 and density (b, H, W, 1) uint8.
        """

    @abc.abstractmethod
    def first(self, count: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """The first images of the split, up to `count`: stimuli (n, H, W, 3) and densities (n, H, W, 1)."""

    def order(self, seed: int, epoch: int) -> Order:
        """The order of the images in an epoch (from 0). It is the same on every machine."""
        return Order.of_epoch(self.shard_counts, block_images(self.image_size), seed, epoch)

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
            skip_steps: steps already taken, if a run resumes in the middle of an epoch.
            n_replicas_here: number of replicas that this process feeds.
            first_replica: index of the first of them among all, from 0.
            n_replicas: number of replicas of the whole job.
            flip: mirror each image and its map left to right with a probability of one half.

        Returns:
            Dicts of index (b,) int64, stimulus (b, H, W, 3) uint8 and density (b, H, W, 1) uint8, where b is
                batch_size / n_replicas.
        """
        whole = np.arange(len(self) // batch_size * batch_size)
        positions = _slices(whole, batch_size, skip_steps, n_replicas_here, first_replica, n_replicas)
        batches = self.batches(self.order(seed, epoch), positions)
        if not flip:
            return batches
        flipped = tf.constant(epoch_flips(len(self), seed, epoch))

        @without_autograph
        def mirror(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            is_flipped = tf.gather(flipped, batch["index"])[:, None, None, None]
            images = {name: batch[name] for name in ("stimulus", "density")}
            mirrored = {name: tf.where(is_flipped, image[:, :, ::-1], image) for name, image in images.items()}
            return {**batch, **mirrored}

        batches = batches.map(mirror, num_parallel_calls=parallel_calls(), deterministic=True)
        return batches.prefetch(2).with_options(options())

    def validation_batches(
        self, batch_size: int, n_replicas_here: int = 1, first_replica: int = 0, n_replicas: int = 1
    ) -> tf.data.Dataset:
        """The whole split in order, each image on one replica. The last batch is padded with zeros.

        Arguments are as in `training_batches`. The dicts also have mask (b,) float32: 1 for an image, 0 for
        padding. Example: for 10 images and batches of 4, the last mask is 1, 1, 0, 0.
        """
        padded = np.arange(math.ceil(len(self) / batch_size) * batch_size)
        positions = _slices(padded, batch_size, 0, n_replicas_here, first_replica, n_replicas)

        @without_autograph
        def masked(batch: dict[str, tf.Tensor], mask: tf.Tensor) -> dict[str, tf.Tensor]:
            is_image = tf.cast(mask, tf.uint8)[:, None, None, None]
            images = {key: batch[key] * is_image for key in ("stimulus", "density")}
            return {**batch, **images, "mask": mask}

        batches = self.batches(Order.as_stored(self.shard_counts), np.minimum(positions, len(self) - 1))
        masks = tf.data.Dataset.from_tensor_slices((positions < len(self)).astype(np.float32))
        return tf.data.Dataset.zip(batches, masks).map(masked).prefetch(1)


def _slices(
    positions: NDArray[np.int64], batch_size: int, skip_steps: int, here: int, first: int, n_replicas: int
) -> NDArray[np.int64]:
    """(steps * here, b) positions: one row for each step and replica here.

    Example: batches of 4 for 2 replicas, both here, are cut into rows of 2.
    """
    assert batch_size % n_replicas == 0, f"{n_replicas} replicas cannot share {batch_size} images"
    by_replica = positions.reshape(-1, n_replicas, batch_size // n_replicas)
    return by_replica[skip_steps:, first : first + here].reshape(-1, batch_size // n_replicas)


def parallel_calls() -> int:
    """Number of parallel calls that make a batch, 2 to PARALLEL_CALLS."""
    return max(2, min(PARALLEL_CALLS, os.cpu_count() or 1))


def options() -> tf.data.Options:
    """Threads apart from the threads of the steps. And no graph rewriting, which would copy all images."""
    options = tf.data.Options()
    options.threading.private_threadpool_size = os.cpu_count() or 1
    options.threading.max_intra_op_parallelism = 1
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    return options
