"""Batches from prepared shards, for training and validation."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import tensorflow as tf

from trainer import tfrecords
from trainer.artifacts import Manifest
from trainer.errors import UserError

PARALLEL_SHARDS = 4


def training_batches(
    folder: str | os.PathLike[str], manifest: Manifest, batch_size: int, seed: int, epoch: int, skip_steps: int = 0
) -> tf.data.Dataset:
    """One epoch of the training split in an order that `seed` and `epoch` decide.

    The shuffle is over the whole split, as in the reference; its buffer holds the encoded examples. The images
    that do not fill a batch are left out of this epoch (another order leaves out others).

    Args:
        folder: a prepared data set.
        manifest: its manifest.
        batch_size: images in a batch, over all replicas.
        seed: of the run.
        epoch: counted from 0.
        skip_steps: batches already used, when a run goes on in the middle of an epoch.

    Returns:
        Dicts of index (B,) int64, stimulus (B, H, W, 3) uint8 and density (B, H, W, 1) uint8.
    """
    order = int(np.random.SeedSequence([seed, epoch]).generate_state(1)[0])
    records = _records(folder, manifest, "train")
    records = records.shuffle(manifest.counts["train"], seed=order, reshuffle_each_iteration=False)
    records = records.skip(skip_steps * batch_size)
    return _parsed(records, manifest).batch(batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def validation_batches(folder: str | os.PathLike[str], manifest: Manifest, batch_size: int) -> tf.data.Dataset:
    """The validation split in the order of the shards, the last batch filled up with zeros.

    Returns:
        Dicts as of `training_batches`, with mask (B,) float32: 1 for an image, 0 for what fills up.
    """

    def fill(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        count = tf.shape(batch["index"])[0]
        filled = {}
        for key, values in {**batch, "mask": tf.ones(count)}.items():
            paddings = [[0, batch_size - count]] + [[0, 0]] * (len(values.shape) - 1)
            filled[key] = tf.ensure_shape(tf.pad(values, paddings), (batch_size, *values.shape[1:]))
        return filled

    batches = _parsed(_records(folder, manifest, "valid"), manifest).batch(batch_size)
    return batches.map(fill, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def _records(folder: str | os.PathLike[str], manifest: Manifest, split: str) -> tf.data.Dataset:
    files = [str(path) for path in tfrecords.shard_paths(folder, split)]
    return tf.data.TFRecordDataset(files, num_parallel_reads=min(PARALLEL_SHARDS, len(files)))


def _parsed(records: tf.data.Dataset, manifest: Manifest) -> tf.data.Dataset:
    return records.map(
        lambda record: tfrecords.parse(record, manifest.image_size),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )


@contextmanager
def damage_reported(folder: str | os.PathLike[str]) -> Iterator[None]:
    """A `UserError` for a shard that turns out to be damaged while batches are taken."""
    try:
        yield
    except (tf.errors.DataLossError, tf.errors.OutOfRangeError) as error:
        raise UserError(
            f"a shard in {folder} is cut short or damaged ({error.message.splitlines()[0]}); {tfrecords.REMEDY}"
        ) from None
