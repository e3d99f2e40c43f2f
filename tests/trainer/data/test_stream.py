"""A split that is read from its shards in each epoch gives the same batches as one in memory."""

import dataclasses
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from tests.prepared import write_prepared
from tests.refusals import refused
from trainer.data import batches, load, tfrecords
from trainer.data.batches import Order, block_images
from trainer.data.load import load_split
from trainer.data.prepared_data import Manifest
from trainer.data.stream import Stream, damage
from trainer.errors import ContentError, PlaceError

N_TRAIN, N_VALID, SIZE = 70, 11, (32, 40)
BLOCK = 16
"""Images that are shuffled together. The four shards have 18, 17, 18 and 17."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_prepared(tmp_path_factory.mktemp("data") / "prepared", N_TRAIN, N_VALID, SIZE)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(batches, "BLOCK_BYTES", BLOCK * SIZE[0] * SIZE[1] * 4)


@pytest.fixture
def manifest(folder):
    return Manifest.load(folder)


@pytest.fixture
def stream(folder, manifest):
    return load_split(folder, manifest, "train", "stream")


@pytest.fixture
def decoded(folder, manifest):
    return load_split(folder, manifest, "train", "memory")


def content(dataset):
    """The batches of a dataset as bytes, by name of their part."""
    return [{key: values.tobytes() for key, values in batch.items()} for batch in dataset.as_numpy_iterator()]


def indices(dataset):
    return [batch["index"].tolist() for batch in dataset.as_numpy_iterator()]


# === The order ===


@pytest.mark.parametrize("counts", [[70], [18, 17, 18, 17], [1, 0, 30, 39], [5] * 14])
@pytest.mark.parametrize("block", [1, 16, 69, 70, 1000])
def test_an_order_has_each_image_once_and_takes_them_block_by_block(counts, block):
    order = Order.of_epoch(counts, block, seed=3, epoch=1)
    assert sorted(order.images) == sorted(order.read) == list(range(70))
    assert sorted(order.shards) == list(range(len(counts)))
    for first in range(0, 70, block):
        assert sorted(order.taken[first : first + block]) == list(range(first, min(first + block, 70)))


def test_images_are_read_shard_by_shard():
    counts = [18, 17, 18, 17]
    order = Order.of_epoch(counts, BLOCK, seed=3, epoch=1)
    ends = np.cumsum(counts)
    of_shards = [np.arange(ends[shard] - counts[shard], ends[shard]) for shard in order.shards]
    np.testing.assert_array_equal(order.read, np.concatenate(of_shards))


def test_seeds_and_epochs_have_orders_of_their_own():
    orders = {
        tuple(Order.of_epoch([18, 17, 18, 17], BLOCK, seed, epoch).images) for seed in (1, 2) for epoch in (0, 1)
    }
    assert len(orders) == 4


def test_a_split_of_one_block_is_shuffled_as_a_whole_wherever_its_shards_begin():
    expected = np.random.default_rng(np.random.SeedSequence([3, 1])).permutation(70)
    for counts in ([70], [18, 17, 18, 17]):
        np.testing.assert_array_equal(Order.of_epoch(counts, 70, 3, 1).images, expected)


def test_all_of_salicon_is_one_block(monkeypatch):
    monkeypatch.undo()
    assert 10_000 <= block_images((240, 320)) < 11_000


# === Reading is gathering ===


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("batch_size", [1, 4, 7, 32])
def test_batches_are_those_of_a_split_in_memory(stream, decoded, batch_size, flip):
    for epoch in range(2):
        arguments = {"batch_size": batch_size, "seed": 5, "epoch": epoch, "flip": flip}
        assert content(stream.training_batches(**arguments)) == content(decoded.training_batches(**arguments))


@pytest.mark.parametrize("batch_size", [1, 4, 11, 16])
def test_validation_is_that_of_a_split_in_memory(folder, manifest, batch_size):
    split, expected = (load_split(folder, manifest, "valid", cache) for cache in ("stream", "memory"))
    for first, n_replicas in ((0, 1), (0, batch_size), (batch_size - 1, batch_size)):
        shares = [each.validation_batches(batch_size, 1, first, n_replicas) for each in (split, expected)]
        assert content(shares[0]) == content(shares[1])
    for several in (3, 100):
        for images, others in zip(split.first(several), expected.first(several), strict=True):
            np.testing.assert_array_equal(images, others)


@pytest.mark.parametrize(("here", "first", "n_replicas"), [(1, 0, 1), (2, 0, 2), (1, 1, 2), (2, 2, 4)])
def test_replicas_and_resumed_epochs_get_their_part_of_the_same_batches(stream, decoded, here, first, n_replicas):
    replicas = here, first, n_replicas
    whole = content(decoded.training_batches(8, 5, 2, 0, *replicas))
    for steps in range(N_TRAIN // 8 + 1):
        assert content(stream.training_batches(8, 5, 2, steps, *replicas)) == whole[steps * here :]


def test_shapes_are_those_of_a_split_in_memory(stream, decoded):
    for skip_steps in (0, 3, N_TRAIN // 8):
        arguments = 8, 5, 2, skip_steps, 1, 0, 2
        assert (
            stream.training_batches(*arguments).element_spec == decoded.training_batches(*arguments).element_spec
        )


def test_a_resumed_epoch_does_not_read_the_shards_before_it(folder, manifest, tmp_path):
    copy = tmp_path / "prepared"
    copy.mkdir()
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    split = load_split(copy, manifest, "train", "stream")
    expected = indices(split.training_batches(8, 5, 2))
    order = split.order(5, 2)
    for shard in order.shards[:2]:  # 34 to 36 images, of which 32 are two blocks
        pathlib.Path(tfrecords.shard_paths(copy, "train")[shard]).write_bytes(b"")
    skipped = 48 // 8
    assert indices(split.training_batches(8, 5, 2, skipped)) == expected[skipped:]
    with pytest.raises(tf.errors.OpError):
        indices(split.training_batches(8, 5, 2))


# === The choice ===


@pytest.mark.parametrize(("count", "disk_reserve"), [(10**12, 0.15), (200_000, 1.0)])
def test_auto_streams_if_neither_memory_nor_disk_has_room(
    folder, manifest, count, disk_reserve, monkeypatch, capsys
):
    monkeypatch.setattr(load, "available_bytes", lambda: 10**9)
    monkeypatch.setattr(load, "DISK_RESERVE", disk_reserve)
    monkeypatch.setattr(tfrecords, "shard_counts", lambda *_: [count])
    many = dataclasses.replace(manifest, counts={"train": count, "valid": 1})
    split = load_split(folder, many, "train", reserve_bytes=0)
    assert isinstance(split, Stream)
    assert len(split) == count
    (said,) = capsys.readouterr().out.splitlines()
    assert f"{count * 5120 / 1e9:.1f} GB" in said


def test_no_room_for_blocks_is_refused(folder, manifest, monkeypatch):
    monkeypatch.setattr(load, "available_bytes", lambda: 10**6)
    many = dataclasses.replace(manifest, counts={"train": 10**12, "valid": 1})
    with refused(PlaceError, "5120000.0 GB", "TMPDIR", "stream"):
        load_split(folder, many, "train")


# === Damage ===


def test_shards_that_begin_with_other_images_are_refused_before_they_are_read(manifest, tmp_path):
    copy = write_prepared(tmp_path / "prepared", N_TRAIN, N_VALID, SIZE)
    first, second = tfrecords.shard_paths(copy, "train")[:2]
    whole = first.read_bytes()
    for shard, damaged, named in (
        (first, second.read_bytes(), "18, 18, 35"),
        (second, whole, "0, 0, 35"),
        (second, b"", "0, -1, 35"),
        (second, whole[:100], second),
    ):
        kept = shard.read_bytes()
        shard.write_bytes(damaged)
        with refused(ContentError, named):
            load_split(copy, manifest, "train", "stream")
        shard.write_bytes(kept)
    second.unlink()
    with refused(ContentError, second):
        load_split(copy, manifest, "train", "stream")


def test_damage_within_an_epoch_is_told(tmp_path):
    copy = write_prepared(tmp_path / "prepared", N_TRAIN, N_VALID, SIZE)
    split = load_split(copy, Manifest.load(copy), "train", "stream")
    paths = tfrecords.shard_paths(copy, "train")
    whole, last = paths[0].read_bytes(), paths[-1].read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 255
    one_less = last[: -len(last) // 17]  # in the middle of a record
    for path, damaged in (
        (paths[0], bytes(flipped)),
        (paths[0], paths[2].read_bytes()),  # as many images, but others
        (paths[0], whole + last),
        (paths[-1], one_less),
    ):
        kept = path.read_bytes()
        path.write_bytes(damaged)
        with pytest.raises(tf.errors.OpError) as caught:
            indices(split.training_batches(8, 5, 2))
        with refused(ContentError, "osie"):
            raise damage(caught.value, "osie")
        path.write_bytes(kept)
    assert damage(tf.errors.InvalidArgumentError(None, None, "shapes differ"), "osie") is None


def test_a_shard_that_has_become_shorter_by_whole_records_is_told(tmp_path):
    copy = write_prepared(tmp_path / "prepared", N_TRAIN, N_VALID, SIZE)
    split = load_split(copy, Manifest.load(copy), "train", "stream")
    path = tfrecords.shard_paths(copy, "train")[-1]
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records[:-1]:
            writer.write(record)
    with pytest.raises(tf.errors.OpError) as caught:
        indices(split.training_batches(7, 5, 2))
    with refused(ContentError, "osie"):
        raise damage(caught.value, "osie")
