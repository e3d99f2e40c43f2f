"""Write and read the shards of a prepared dataset.

The shards of a split have its images at the input size of the training. Held-out images are also kept as the
source has them, in shards of their own, because each model is scored at its own input size.

Stimuli are raw bytes and maps are zlib-compressed. Both are lossless and fast to decode: 0.1 ms for a stimulus of
240 x 320 pixels on one core. PNG would take 1.7 ms, and half of the disk space.
"""

import dataclasses
import errno
import functools
import itertools
import os
import pathlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, TypeVar

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from numpy.typing import NDArray

from trainer.data.prepared_data import PREPARE_AGAIN, Manifest, shard_count, shard_name
from trainer.errors import ContentError
from trainer.texts import first_line

PARALLEL_OPENS = 8
ZLIB_LEVEL = 6
"""A map of 240 x 320 has 20.5 kB and decodes in 0.4 ms. With level 1: 26 kB, 0.85 ms. Level 9 saves no more."""


Record = TypeVar("Record")


@dataclasses.dataclass(frozen=True)
class Example:
    """One prepared image."""

    index: int
    """Position within its split, from 0."""
    name: str
    """Path of the stimulus below its folder at the source."""
    stimulus: NDArray[np.uint8]
    """(H, W, 3) RGB, padded with 126."""
    density: NDArray[np.uint8]
    """(H, W), padded with 0."""
    original_size: tuple[int, int]
    """(h, w) of the stimulus at the source, pixels."""
    fixations: NDArray[np.int64]
    """(n, 2) of (y, x) in original pixels, with repeats. n is 0 if only a density is known."""
    fixations_prepared: NDArray[np.int64]
    """`fixations` in pixels of the prepared image, (n, 2) of (y, x)."""
    observers: NDArray[np.int64] = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64))
    """(n,): the observer of each point, counted from 0. Of length 0 if observers are not told apart."""


@dataclasses.dataclass(frozen=True)
class Original:
    """A held-out image as the source has it, and its map at the scale of evaluations."""

    MAP_SIZE: ClassVar = (240, 320)
    """Height and width of the frame in which maps are compared (CC, KLD, SIM), pixels. It is the input size
    of the published models (Kroner et al.), whatever the input size of the compared models."""
    name: str
    """`Example.name`."""
    file: bytes
    """Content of the image's file."""
    density: NDArray[np.uint8]
    """(h, w), without padding: the size at which the image fits into `MAP_SIZE`."""
    group: str = ""
    """Name of its group, such as a site or a film. Empty for an image of its own."""


# === Write ===


def serialize(example: Example) -> bytes:
    """The example as a record. Equal examples give equal bytes."""
    integers = {
        "index": [example.index],
        "original_size": example.original_size,
        "fixations": example.fixations.ravel(),
        "fixations_prepared": example.fixations_prepared.ravel(),
        "observers": example.observers,
    }
    texts = {
        "name": example.name.encode(),
        "stimulus": example.stimulus.tobytes(),
        "density": zlib.compress(example.density.tobytes(), ZLIB_LEVEL),
    }
    return _record(integers, texts)


def serialize_original(original: Original) -> bytes:
    """The original as a record. Equal originals give equal bytes."""
    return _record(
        {"size": original.density.shape},
        {
            "name": original.name.encode(),
            "group": original.group.encode(),
            "file": original.file,
            "density": zlib.compress(original.density.tobytes(), ZLIB_LEVEL),
        },
    )


def _record(integers: Mapping[str, Iterable[int]], texts: Mapping[str, bytes]) -> bytes:
    features = {
        key: tf.train.Feature(int64_list=tf.train.Int64List(value=value)) for key, value in integers.items()
    }
    for key, text in texts.items():
        features[key] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[text]))
    record = tf.train.Example(features=tf.train.Features(feature=features))
    return bytes(record.SerializeToString(deterministic=True))


def shift_index(record: bytes, by: int) -> bytes:
    """The record of the same example with an index that is smaller by `by`."""
    if not by:
        return record
    example = tf.train.Example.FromString(record)
    example.features.feature["index"].int64_list.value[0] -= by
    return bytes(example.SerializeToString(deterministic=True))


class ShardWriter:
    """Writes the records of one split, in order, into evenly filled shards. It is a context manager.

    `names` are the shards that have been begun: fewer than planned if there are fewer records than
    `n_examples`.

    Args:
        folder: An existing folder.
        split: The name with which the names of the shards begin.
        n_examples: Number of records of the whole split.
        image_size: (H, W) of the images, pixels.
        first: Index of the first record that is written, which begins a shard. Others may be written elsewhere.

    Raises:
        OSError: a shard cannot be written. It has the errno, like the errors of Python's own files.
    """

    def __init__(
        self, folder: pathlib.Path, split: str, n_examples: int, image_size: tuple[int, int], first: int = 0
    ) -> None:
        count = shard_count(n_examples, image_size)
        self._planned = [shard_name(split, index, count) for index in range(count)]
        self.names: list[str] = []
        self._folder, self._n_examples = folder, n_examples
        self._written = first
        self._open: tuple[str, Any] | None = None

    def __enter__(self) -> "ShardWriter":
        return self

    def write(self, record: bytes) -> None:
        """Append one record."""
        name = self._planned[self._written * len(self._planned) // self._n_examples]
        with _as_os_error(self._folder / name):
            if self._open is None or self._open[0] != name:
                self._close()
                self.names.append(name)
                self._open = name, tf.io.TFRecordWriter(str(self._folder / name))
            self._open[1].write(record)
        self._written += 1

    def _close(self) -> None:
        if self._open is not None:
            (_, writer), self._open = self._open, None
            writer.close()

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        # After a failure, the first error is reported and not one of closing.
        with _as_os_error(self._folder) if kind is None else suppress(tf.errors.OpError):
            self._close()


def write_records(path: pathlib.Path, records: Iterable[bytes]) -> None:
    """Write a shard of these records. Raises `OSError` as `ShardWriter`."""
    with _as_os_error(path), tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)


@contextmanager
def _as_os_error(path: pathlib.Path) -> Iterator[None]:
    """Turn TensorFlow's file errors into `OSError`, with the errno that their code was made from."""
    numbers = {
        tf.errors.ResourceExhaustedError: errno.ENOSPC,
        tf.errors.OutOfRangeError: errno.EFBIG,
        tf.errors.PermissionDeniedError: errno.EACCES,
    }
    try:
        yield
    except tf.errors.OpError as error:
        number = numbers.get(type(error), errno.EIO)
        raise OSError(number, os.strerror(number) if number != errno.EIO else error.message, str(path)) from None


# === Read ===


def parse_examples(serialized: tf.Tensor, image_size: tuple[int, int]) -> dict[str, tf.Tensor]:
    """The parts of records that training needs, as graph operations.

    Args:
        serialized: (b,) strings, each a record.
        image_size: (H, W) of the prepared dataset (`Manifest.image_size`).

    Returns:
        `index` int64 (b,), `stimulus` uint8 (b, H, W, 3), `density` uint8 (b, H, W, 1).
    """
    features = tf.io.parse_example(
        serialized,
        {
            "index": tf.io.FixedLenFeature((), tf.int64),
            "stimulus": tf.io.FixedLenFeature((), tf.string),
            "density": tf.io.FixedLenFeature((), tf.string),
        },
    )
    density = tf.io.decode_compressed(features["density"], compression_type="ZLIB")
    count = serialized.shape[0] or -1
    return {
        "index": features["index"],
        "stimulus": tf.reshape(tf.io.decode_raw(features["stimulus"], tf.uint8), (count, *image_size, 3)),
        "density": tf.reshape(tf.io.decode_raw(density, tf.uint8), (count, *image_size, 1)),
    }


def shard_counts(folder: str | os.PathLike[str], split: str) -> list[int]:
    """Number of images in each shard of a split, in order. Of each shard, only the first record is read.

    Images follow one another through the shards, so the number of the first one in each tells where it begins.

    Raises:
        UserError: the beginning of a shard is missing or damaged, or the first images are not in order.
    """
    manifest, paths = Manifest.load(folder), shard_paths(folder, split)
    with ThreadPoolExecutor(PARALLEL_OPENS) as pool:
        firsts = list(pool.map(lambda path: next(_read_shard(path, manifest), None), paths))
    begins = [-1 if first is None else first.index for first in firsts]
    counts = np.diff([*begins, manifest.counts[split]])
    if begins[:1] != [0] or counts.min() < 1:
        raise ContentError(
            f"the shards of {split} in {folder} begin with the images {', '.join(map(str, begins[:20]))} of "
            f"{manifest.counts[split]:,}, which are not in order: {PREPARE_AGAIN}"
        )
    return [int(count) for count in counts]


def shard_paths(folder: str | os.PathLike[str], split: str) -> list[pathlib.Path]:
    """The shards of a split of the prepared dataset in `folder`, in order."""
    return [pathlib.Path(folder) / name for name in Manifest.load(folder).shards[split]]


def read_examples(folder: str | os.PathLike[str], split: str) -> Iterator[Example]:
    """The examples of a split in order, as arrays, one at a time.

    Raises:
        UserError: there is no prepared dataset, or a shard is missing, damaged or not of this dataset.
    """
    manifest, count = Manifest.load(folder), 0
    for path in shard_paths(folder, split):
        for example in _read_shard(path, manifest):
            yield example
            count += 1
    if count != manifest.counts[split]:
        raise ContentError(
            f"the shards of {split} in {folder} hold {count:,} images, and the manifest says "
            f"{manifest.counts[split]:,}: {PREPARE_AGAIN}"
        )


def read_held_out(folder: str | os.PathLike[str]) -> Iterator[tuple[Example, Original]]:
    """The held-out images in order, as they are prepared and as the source has them, one at a time.

    Raises:
        UserError: as `read_examples`, or the originals are not of the held-out images.
    """
    manifest = Manifest.load(folder)
    paths = [pathlib.Path(folder) / name for name in manifest.originals]
    originals = (original for path in paths for original in _read_records(path, _deserialize_original))
    for example in read_examples(folder, manifest.held_out):
        original = next(originals, None)
        if original is None or original.name != example.name:
            found = "nothing" if original is None else original.name
            raise ContentError(
                f"{folder} has {found} where the original of {example.name} should be: {PREPARE_AGAIN}"
            )
        yield example, original


def some_examples(folder: str | os.PathLike[str], split: str, most: int) -> list[Example]:
    """About `most` examples of a split, or all: the first ones of each shard, so that few are read of many.

    Raises:
        UserError: as `read_examples`.
    """
    paths = shard_paths(folder, split)
    manifest, of_each = Manifest.load(folder), -(-most // max(1, len(paths)))
    return [example for path in paths for example in itertools.islice(_read_shard(path, manifest), of_each)]


def _read_shard(path: pathlib.Path, manifest: Manifest) -> Iterator[Example]:
    return _read_records(path, functools.partial(_deserialize, image_size=manifest.image_size))


def raw_records(path: pathlib.Path) -> Iterator[bytes]:
    """The records of a shard as they are, one at a time. Raises `ContentError` if it is damaged."""
    return _read_records(path, bytes)


def _read_records(path: pathlib.Path, deserialize: Callable[[bytes], Record]) -> Iterator[Record]:
    try:
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            yield deserialize(record)
    except (tf.errors.OpError, DecodeError, ValueError, IndexError, zlib.error) as error:
        raise ContentError(f"{path} is incomplete or damaged ({first_line(error)}): {PREPARE_AGAIN}") from None


def _deserialize_original(record: bytes) -> Original:
    feature = tf.train.Example.FromString(record).features.feature
    name, group, file, density = (feature[key].bytes_list.value[0] for key in ("name", "group", "file", "density"))
    size = feature["size"].int64_list.value
    levels = np.frombuffer(zlib.decompress(density), np.uint8).reshape(size)
    return Original(name.decode(), file, levels, group.decode())


def _deserialize(record: bytes, image_size: tuple[int, int]) -> Example:
    feature = tf.train.Example.FromString(record).features.feature
    height, width = feature["original_size"].int64_list.value

    def points(key: str) -> NDArray[np.int64]:
        return np.array(feature[key].int64_list.value, np.int64).reshape(-1, 2)

    def pixels(content: bytes, *shape: int) -> NDArray[np.uint8]:
        return np.frombuffer(content, np.uint8).reshape(shape)

    return Example(
        index=feature["index"].int64_list.value[0],
        name=feature["name"].bytes_list.value[0].decode(),
        stimulus=pixels(feature["stimulus"].bytes_list.value[0], *image_size, 3),
        density=pixels(zlib.decompress(feature["density"].bytes_list.value[0]), *image_size),
        original_size=(height, width),
        fixations=points("fixations"),
        fixations_prepared=points("fixations_prepared"),
        observers=np.array(feature["observers"].int64_list.value, np.int64),
    )
