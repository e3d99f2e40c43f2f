import dataclasses
import errno
import resource

import numpy as np
import pytest
import tensorflow as tf

from tests.prepared import write_prepared
from tests.refusals import refused
from trainer.data import prepared_data, tfrecords
from trainer.errors import ContentError

SIZE = (24, 32)


def example(index=0, n_fixations=3):
    random = np.random.default_rng(index)
    points = random.integers(0, 16, (n_fixations, 2))
    return tfrecords.Example(
        index=index,
        name=f"below/{index}.jpg",
        stimulus=random.integers(0, 256, (*SIZE, 3), np.uint8),
        density=random.integers(0, 256, SIZE, np.uint8),
        original_size=(30, 48),
        fixations=2 * points,
        fixations_prepared=points,
        observers=np.arange(n_fixations, dtype=np.int64) // 2,
    )


def test_written_examples_are_read(tmp_path):
    folder = write_prepared(tmp_path / "set", n_train=1, n_valid=1, size=SIZE)
    written = example(n_fixations=5)
    with tfrecords.ShardWriter(folder, "train", 1, SIZE) as writer:
        writer.write(tfrecords.serialize(written))
    (read,) = tfrecords.read_examples(folder, "train")
    for field in ("index", "name", "original_size"):
        assert getattr(read, field) == getattr(written, field)
    for field in ("stimulus", "density", "fixations", "fixations_prepared", "observers"):
        np.testing.assert_array_equal(getattr(read, field), getattr(written, field))
        assert getattr(read, field).dtype == getattr(written, field).dtype


def test_graph_operations_parse_what_was_written_to_static_shapes():
    written = example(7)
    records = tf.data.Dataset.from_tensors([tfrecords.serialize(written)])
    parsed = records.map(lambda batch: tfrecords.parse_examples(batch, SIZE))
    assert parsed.element_spec == {
        "index": tf.TensorSpec((1,), tf.int64),
        "stimulus": tf.TensorSpec((1, *SIZE, 3), tf.uint8),
        "density": tf.TensorSpec((1, *SIZE, 1), tf.uint8),
    }
    (values,) = parsed.as_numpy_iterator()
    assert values["index"] == [7]
    np.testing.assert_array_equal(values["stimulus"][0], written.stimulus)
    np.testing.assert_array_equal(values["density"][0, ..., 0], written.density)


@pytest.mark.parametrize(
    ("n_examples", "size", "count"), [(1, (16, 24), 1), (64, (16, 24), 4), (10_000, (240, 320), 26)]
)
def test_number_of_shards(n_examples, size, count):
    assert prepared_data.shard_count(n_examples, size) == count


def test_shards_are_filled_evenly_and_in_order(tmp_path):
    with tfrecords.ShardWriter(tmp_path, "train", 70, SIZE) as writer:
        for index in range(70):
            writer.write(tfrecords.serialize(example(index)))
    assert writer.names == [prepared_data.shard_name("train", index, 4) for index in range(4)]
    shards = [
        [
            tfrecords.parse_examples(record, SIZE)["index"].numpy()[0]
            for record in tf.data.TFRecordDataset(str(tmp_path / name)).batch(1)
        ]
        for name in writer.names
    ]
    assert [len(shard) for shard in shards] == [18, 17, 18, 17]
    assert [index for shard in shards for index in shard] == list(range(70))


def test_a_missing_or_damaged_shard_is_named(tmp_path):
    folder = write_prepared(tmp_path / "set")
    shard = folder / "train-00000-of-00001.tfrecord"
    content = shard.read_bytes()
    for damage in (lambda: shard.write_bytes(content[: len(content) // 2]), shard.unlink, shard.mkdir):
        damage()
        with refused(ContentError, shard.name):
            list(tfrecords.read_examples(folder, "train"))


def test_a_file_size_limit_is_an_os_error(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, limits[1]))
    try:
        with pytest.raises(OSError) as caught, tfrecords.ShardWriter(tmp_path, "train", 5, SIZE) as writer:  # noqa: PT012
            for index in range(5):
                writer.write(tfrecords.serialize(example(index)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.errno == errno.EFBIG


def changed(**fields):
    return tfrecords.serialize(dataclasses.replace(example(), **fields))


@pytest.mark.parametrize(
    ("records", "named"),
    [
        ([], (0, 1)),
        ([example(), example(1)], (2, 1)),
        ([b"no record"], ()),
        ([b""], ()),
        ([changed(stimulus=np.zeros((8, 8, 3), np.uint8))], ()),
        ([changed(original_size=(30,))], ()),
    ],
)
def test_shards_that_contradict_the_manifest_or_themselves_are_refused(records, named, tmp_path):
    folder = write_prepared(tmp_path / "set", n_train=1, n_valid=1, size=SIZE)
    with tfrecords.ShardWriter(folder, "train", max(1, len(records)), SIZE) as writer:
        for record in records:
            writer.write(record if isinstance(record, bytes) else tfrecords.serialize(record))
    if not records:
        (folder / prepared_data.Manifest.load(folder).shards["train"][0]).write_bytes(b"")
    with refused(ContentError, folder, *named):
        list(tfrecords.read_examples(folder, "train"))


def test_originals_of_other_images_than_the_held_out_ones_are_an_error(tmp_path):
    folder = write_prepared(tmp_path / "data", n_valid=3)
    pairs = list(tfrecords.read_held_out(folder))
    assert [original.name for _, original in pairs] == [example.name for example, _ in pairs]
    with tfrecords.ShardWriter(folder, prepared_data.ORIGINALS, 3, (32, 40)) as writer:
        for _, original in pairs[:2]:
            writer.write(tfrecords.serialize_original(original))
    with refused(ContentError, folder, "valid/2"):
        list(tfrecords.read_held_out(folder))
