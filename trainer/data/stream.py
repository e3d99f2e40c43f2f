"""A split that is read from its shards in each epoch, and never held as a whole.

The shards are read in the order of the epoch, one after another, and their records are collected into blocks.
While the batches of one block are decoded, the next one is read. A run that resumes begins with the shard that has
the first image of its block.
"""

import itertools
import os
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from trainer.data import prepared_data, tfrecords
from trainer.data.batches import Order, Split, block_images, options, parallel_calls, without_autograph
from trainer.data.prepared_data import PREPARE_AGAIN, Manifest
from trainer.errors import ContentError

PARALLEL_SHARDS = 4
UNEXPECTED = "the shards do not hold the images in order"
"""Message of TensorFlow's error if a shard has more or fewer records than it should, or other images."""


class Stream(Split):
    """The images of a split in the shards of a prepared dataset.

    Args:
        folder: the dataset. It may be on a mount, such as /gcs, since shards are read from beginning to end.
        manifest: its manifest.
        split: train or valid.
        shard_counts: number of images in each shard (`trainer.data.tfrecords.shard_counts`).
    """

    def __init__(
        self, folder: str | os.PathLike[str], manifest: Manifest, split: str, shard_counts: Sequence[int]
    ) -> None:
        super().__init__(manifest.image_size, shard_counts)
        self._folder, self._split = folder, split
        self._paths = [str(path) for path in tfrecords.shard_paths(folder, split)]

    @staticmethod
    def memory_bytes(image_size: tuple[int, int], count: int) -> int:
        """Memory that reading a split of `count` images takes at most: two blocks of records, and some shards.

        Example: 6.1 GB for a million images of 240 x 320.
        """
        record_bytes = int(image_size[0] * image_size[1] * 3 * (1 + prepared_data.MAP_SHARE))
        shards_bytes = (2 * PARALLEL_SHARDS + 1) * prepared_data.SHARD_BYTES
        block = min(count, block_images(image_size))
        return 2 * block * record_bytes + min(count * record_bytes, shards_bytes)

    def first(self, count: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """As in `Split`."""
        examples = list(itertools.islice(tfrecords.read_examples(self._folder, self._split), count))
        shape = (len(examples), *self.image_size)
        stimuli, densities = (
            np.array([getattr(example, name) for example in examples], np.uint8)
            for name in ("stimulus", "density")
        )
        return stimuli.reshape(*shape, 3), densities.reshape(*shape, 1)

    def batches(self, order: Order, positions: NDArray[np.int64]) -> tf.data.Dataset:
        """As in `Split`. Only the shards with blocks of these positions are read."""
        block, flat = block_images(self.image_size), positions.ravel()
        first, last = (int(flat[0]) // block, int(flat[-1]) // block) if flat.size else (0, -1)

        # The shards that hold these blocks, and the images before the blocks in the first of them.
        counts = np.asarray(self.shard_counts, np.int64)[order.shards]
        ends = np.cumsum(counts)
        begin = int(np.searchsorted(ends, first * block, "right"))
        stop = min((last + 1) * block, len(self))
        end = int(np.searchsorted(ends, stop, "left")) + 1 if flat.size else begin
        too_early = first * block - int(ends[begin] - counts[begin]) if flat.size else 0

        # Of each block, its positions in the order in which they are taken, and the images that should be there.
        n_of_blocks = np.bincount(flat // block - first, minlength=last - first + 1)
        parts = np.cumsum(n_of_blocks) - n_of_blocks, n_of_blocks
        taken = tf.constant(order.taken[flat] % block, tf.int64)
        expected = tf.constant(order.images[flat], tf.int64)

        @without_autograph
        def read_shard(path: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
            records = tf.data.TFRecordDataset(path).take(count + 1).batch(count + 1).get_single_element()
            with tf.control_dependencies(
                [tf.debugging.assert_equal(tf.size(records, count.dtype), count, UNEXPECTED)]
            ):
                return tf.identity(records)

        @without_autograph
        def in_order(records: tf.Tensor, part: tuple[tf.Tensor, tf.Tensor]) -> tf.data.Dataset:
            of_block = slice(part[0], part[0] + part[1])
            places = tf.data.Dataset.from_tensor_slices((taken[of_block], expected[of_block]))
            return places.map(without_autograph(lambda place, image: (tf.gather(records, place), image)))

        @without_autograph
        def parse(records: tf.Tensor, images: tf.Tensor) -> dict[str, tf.Tensor]:
            batch = tfrecords.parse_examples(records, self.image_size)
            with tf.control_dependencies([tf.debugging.assert_equal(batch["index"], images, UNEXPECTED)]):
                return {name: tf.identity(values) for name, values in batch.items()}

        paths = tf.constant([self._paths[shard] for shard in order.shards[begin:end]], tf.string)
        shards = tf.data.Dataset.from_tensor_slices((paths, counts[begin:end]))
        records = shards.map(read_shard, num_parallel_calls=PARALLEL_SHARDS, deterministic=True).unbatch()
        in_blocks = records.skip(too_early).take(stop - first * block).batch(block)
        blocks = tf.data.Dataset.zip(in_blocks, tf.data.Dataset.from_tensor_slices(parts))
        # One call at a time, and apart from the batches: the next block is read while one is used.
        images = blocks.map(in_order, num_parallel_calls=1, deterministic=True).flat_map(
            without_autograph(lambda of_block: of_block)
        )
        batches = images.batch(positions.shape[1], drop_remainder=True)
        batches = batches.map(parse, num_parallel_calls=parallel_calls(), deterministic=True).prefetch(2)
        return batches.with_options(options())


def damage(error: tf.errors.OpError, dataset: str) -> ContentError | None:
    """What a person is told about an error in a step that reads a stream. None if it is not about the shards.

    Args:
        error: the error.
        dataset: name of the dataset, for the message.
    """
    if isinstance(error, tf.errors.InvalidArgumentError) and UNEXPECTED in error.message:
        return ContentError(f"{UNEXPECTED} that their numbers say, in {dataset}: {PREPARE_AGAIN}")
    if isinstance(error, tf.errors.DataLossError):
        reason = error.message.splitlines()[0]
        return ContentError(f"a shard of {dataset} is incomplete or damaged ({reason}): {PREPARE_AGAIN}")
    return None
