"""The decoded split and its batches: their images, order and memory."""

import dataclasses
import resource
import tempfile

import numpy as np
import pytest

from tests.prepared import write_prepared
from tests.refusals import refused
from trainer.data import load, tfrecords
from trainer.data.batches import epoch_flips
from trainer.data.decoded import Decoded
from trainer.data.load import load_split
from trainer.data.prepared_data import Manifest
from trainer.errors import ContentError, PlaceError, SettingError

N_TRAIN, N_VALID = 70, 11  # enough for several shards


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_prepared(tmp_path_factory.mktemp("data") / "prepared", N_TRAIN, N_VALID)


@pytest.fixture(scope="module")
def manifest(folder):
    return Manifest.load(folder)


@pytest.fixture(scope="module")
def train(folder, manifest):
    return load_split(folder, manifest, "train")


@pytest.fixture(scope="module")
def valid(folder, manifest):
    return load_split(folder, manifest, "valid")


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """The folder for temporary files."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    return tmp_path / "scratch"


def elements(data):
    return list(data.as_numpy_iterator())


def indices(data):
    return [batch["index"].tolist() for batch in elements(data)]


# === The decoded split ===


@pytest.mark.parametrize("cache", ["memory", "disk"])
@pytest.mark.parametrize("name", ["train", "valid"])
def test_split_holds_every_image_at_its_index(folder, manifest, name, cache):
    split = load_split(folder, manifest, name, cache)
    assert isinstance(split, Decoded)
    assert len(split) == manifest.counts[name]
    for example in tfrecords.read_examples(folder, name):
        np.testing.assert_array_equal(split.stimulus[example.index], example.stimulus)
        np.testing.assert_array_equal(split.density[example.index, ..., 0], example.density)


def test_auto_uses_memory_if_available_else_a_file_without_a_name(folder, manifest, scratch, monkeypatch):
    monkeypatch.setattr(load, "DISK_RESERVE", 0.0)  # whatever this machine's disk has free
    split = load_split(folder, manifest, "train", reserve_bytes=0)
    assert isinstance(split, Decoded)
    assert not isinstance(split.stimulus.base, np.memmap)
    split = load_split(folder, manifest, "train", reserve_bytes=10**18)
    assert isinstance(split, Decoded)
    assert isinstance(split.stimulus.base, np.memmap)
    assert not list(scratch.iterdir())


def test_an_unknown_cache_and_too_little_memory_are_refused_before_allocating(folder, manifest):
    many = dataclasses.replace(manifest, counts={"train": 10**12, "valid": 1})
    for counts, cache, named in ((manifest, "disc", "'disk'"), (many, "memory", "5120000.0 GB")):
        with refused(SettingError, named):
            load_split(folder, counts, "train", cache)


def test_a_disk_without_room_is_an_error_that_leaves_nothing(folder, manifest, scratch):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with refused(PlaceError, scratch, "TMPDIR"):
            load_split(folder, manifest, "train", "disk")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(scratch.iterdir())


# === Damage ===


def rewritten(tmp_path, numbers, size=(32, 40)):
    """A prepared dataset of three images whose records have other numbers."""
    folder = write_prepared(tmp_path / "prepared", 3, 1, size)
    examples = list(tfrecords.read_examples(folder, "train"))
    with tfrecords.ShardWriter(folder, "train", 3, size) as writer:
        for position, number in enumerate(numbers):
            writer.write(tfrecords.serialize(dataclasses.replace(examples[position], index=number)))
    return folder


@pytest.mark.parametrize(
    ("numbers", "named"),
    [
        ([0, 1], ("2 of 3", 0)),
        ([0, 1, 1], ("1 of 3", 2)),
        ([0, 1, 3], ("train", 3)),
        ([0, 1, -1], (-1,)),
    ],
)
def test_missing_and_repeated_images_are_damage(tmp_path, numbers, named):
    folder = rewritten(tmp_path, numbers)
    with refused(ContentError, folder, *named):
        load_split(folder, Manifest.load(folder), "train")


def test_records_of_another_size_and_damaged_shards_are_refused(tmp_path):
    folder = rewritten(tmp_path, [0, 1, 2])
    manifest, shard = Manifest.load(folder), next(folder.glob("train-*"))
    whole = shard.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 255
    size = dataclasses.replace(manifest, image_size=(32, 48))
    for facts, content in ((size, whole), (manifest, whole[: len(whole) // 2]), (manifest, flipped)):
        shard.write_bytes(content)
        with refused(ContentError, folder):
            load_split(folder, facts, "train")


# === Order and shares ===


def test_an_epoch_has_each_image_once_in_an_order_of_its_own(train):
    first, again, second, other = (
        np.concatenate(indices(train.training_batches(7, seed, epoch)))
        for seed, epoch in ((1, 0), (1, 0), (1, 1), (2, 0))
    )
    assert sorted(first) == list(range(N_TRAIN))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, train.order(1, 0).images)
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_batches_hold_the_images_of_their_indices_and_leave_out_what_does_not_fill_one(train):
    for batch_size in (1, 4, 16):  # gathered several at a time, and one
        batches = elements(train.training_batches(batch_size, 3, 0))
        assert len(batches) == N_TRAIN // batch_size
        for batch in batches:
            np.testing.assert_array_equal(batch["stimulus"], train.stimulus[batch["index"]])
            np.testing.assert_array_equal(batch["density"], train.density[batch["index"]])


@pytest.mark.parametrize(("n_replicas", "workers"), [(1, 1), (2, 1), (4, 1), (2, 2), (4, 2), (8, 2)])
def test_the_slices_of_all_replicas_are_the_batch_of_one(train, n_replicas, workers):
    here = n_replicas // workers
    shares = [
        np.reshape(
            indices(train.training_batches(8, 5, 2, 0, here, worker * here, n_replicas)), (-1, 8 // workers)
        )
        for worker in range(workers)
    ]
    np.testing.assert_array_equal(np.concatenate(shares, axis=1), indices(train.training_batches(8, 5, 2)))


@pytest.mark.parametrize(("n_replicas_here", "first_replica", "n_replicas"), [(1, 0, 1), (2, 2, 4)])
def test_skipping_resumes_the_epoch(train, n_replicas_here, first_replica, n_replicas):
    replicas = n_replicas_here, first_replica, n_replicas
    whole = indices(train.training_batches(8, 5, 2, 0, *replicas))
    for steps in (1, 5, N_TRAIN // 8):
        assert indices(train.training_batches(8, 5, 2, steps, *replicas)) == whole[steps * n_replicas_here :]


@pytest.mark.parametrize(("batch_size", "n_replicas"), [(1, 1), (4, 1), (4, 4), (11, 1), (16, 4), (32, 8)])
def test_validation_has_each_image_once_and_is_padded_with_zeros(valid, batch_size, n_replicas):
    of_replicas = [
        elements(valid.validation_batches(batch_size, 1, each, n_replicas)) for each in range(n_replicas)
    ]
    steps = -(-N_VALID // batch_size)
    assert [len(each) for each in of_replicas] == [steps] * n_replicas
    in_order = [batch for step in zip(*of_replicas, strict=True) for batch in step]
    joined = {key: np.concatenate([batch[key] for batch in in_order]) for key in in_order[0]}
    np.testing.assert_array_equal(joined["mask"], np.arange(steps * batch_size) < N_VALID)
    np.testing.assert_array_equal(joined["index"][:N_VALID], np.arange(N_VALID))
    for key in ("stimulus", "density"):
        np.testing.assert_array_equal(joined[key][:N_VALID], getattr(valid, key))
        assert not joined[key][N_VALID:].any()
    assert joined["mask"].dtype == np.float32


def test_shapes_are_known_and_the_same_in_every_epoch(train, valid):
    for batch_size in (2, 32):
        specs = [train.training_batches(batch_size, 1, epoch, epoch, 1, 0, 2).element_spec for epoch in range(3)]
        assert specs[0] == specs[1] == specs[2]
        each = batch_size // 2
        shapes = {"index": (each,), "stimulus": (each, 32, 40, 3), "density": (each, 32, 40, 1)}
        assert {key: tuple(spec.shape) for key, spec in specs[0].items()} == shapes
        validation = valid.validation_batches(batch_size, 1, 0, 2).element_spec
        assert {key: tuple(spec.shape) for key, spec in validation.items()} == {**shapes, "mask": (each,)}


# === Mirrored images ===


def mirrored(split, batch_size, epoch=0, seed=9, skip_steps=0, **replicas):
    """Index -> stimulus and density of one epoch with mirrored images."""
    seen = {}
    batches = split.training_batches(batch_size, seed, epoch, skip_steps, flip=True, **replicas)
    for batch in batches.as_numpy_iterator():
        for index, stimulus, density in zip(batch["index"], batch["stimulus"], batch["density"], strict=True):
            seen[int(index)] = stimulus, density
    return seen


def as_bytes(images):
    return {index: stimulus.tobytes() + density.tobytes() for index, (stimulus, density) in images.items()}


@pytest.fixture(scope="module")
def twelve(tmp_path_factory):
    folder = write_prepared(tmp_path_factory.mktemp("data") / "prepared", n_train=12, size=(24, 40))
    return load_split(folder, Manifest.load(folder), "train")


def test_half_of_the_images_are_mirrored_with_their_maps(twelve):
    assert abs(epoch_flips(10_000, 1, 0).mean() - 0.5) < 4 * 0.5 / 100  # four standard errors
    flips = epoch_flips(12, 9, 0)
    assert 0 < flips.sum() < 12
    for index, images in mirrored(twelve, 1).items():
        for image, original in zip(images, (twelve.stimulus[index], twelve.density[index]), strict=True):
            np.testing.assert_array_equal(image, original[:, ::-1] if flips[index] else original)


def test_whether_an_image_is_mirrored_depends_on_the_image_and_the_epoch_alone(twelve):
    expected = as_bytes(mirrored(twelve, 1))
    assert as_bytes(mirrored(twelve, 4)) == expected
    assert as_bytes(mirrored(twelve, 4, n_replicas_here=2, n_replicas=2)) == expected
    for first in range(2):
        assert as_bytes(mirrored(twelve, 4, first_replica=first, n_replicas=2)).items() < expected.items()
    assert as_bytes(mirrored(twelve, 4, skip_steps=2)).items() < expected.items()
    for other in ({"epoch": 1}, {"seed": 8}):
        assert as_bytes(mirrored(twelve, 1, **other)) != expected
