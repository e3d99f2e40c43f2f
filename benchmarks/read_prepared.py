"""How many images/s the input pipeline delivers: reading prepared shards, batches of them, and the originals.

    python -m benchmarks.read_prepared [--prepared FOLDER --source FOLDER]

Takes two minutes on 2 idle cores, most of it for drawing the sample set and writing shards. Exits with 1 where a
rate is below what it must be on 2 cores: 2500 images/s out of shards into memory, and 5 times the originals; 8000
images/s of decoded images in batches of 1, 8 and 32.

All go through tf.data with as many threads as there are cores, and take turns, so that a change of the machine's
speed meets all; the best turn of each counts. Beside images/s stands how many images a second of processor time
makes, which other work on the machine changes less. The files are in the page cache. Reading shards is what a
training does once, from the start of the pipeline to the last decoded image; a virtual machine may have to fetch
the memory for them from its host at first, which is measured apart and before. Batches are what a training takes
in each epoch, in a `tf.function` that runs their steps in a row; decoding the originals each epoch is what both
replace.

--prepared is a prepared data set, --source the unpacked folders that it was made from; without them both are made
from the sample set, its pictures enlarged to the 640 x 480 of SALICON's. Its images are repeated to 2000.
"""

import argparse
import collections
import contextlib
import dataclasses
import io
import itertools
import mmap
import os
import pathlib
import sys
import tempfile
import time
import zipfile
from typing import Self

import numpy as np
import tensorflow as tf
from PIL import Image

from trainer import datasets, preprocess, storage
from trainer.accelerators import ACCELERATORS, STEP_FLOP, Accelerator
from trainer.artifacts import SPLITS, Manifest
from trainer.config import FetchConfig
from trainer.data import fetch, layout, sample, sources, tfrecords
from trainer.data.batches import Split, training_batches

IMAGES = 2000
BATCH_SIZES = (1, 8, 32)
LOAD_AT_LEAST, BATCHES_AT_LEAST, RATIO_AT_LEAST = 2500, 8000, 5
"""Images/s on 2 cores, and the first of these over the images/s of the originals."""
TURNS = 7
FRESH, LOAD, ORIGINALS = "fresh memory", "shards into memory", "originals, each epoch"


def read_originals(source: pathlib.Path, manifest: Manifest) -> tf.data.Dataset:
    """The same stimuli and densities out of the pictures at the source."""
    members = [sources.Member(each.name, each.name, bytes) for each in storage.list_objects(str(source))]
    items = layout.find_items(members, datasets.get(manifest.dataset), str(source))
    chosen = [item for split in SPLITS for item in items[split] if item.map is not None]
    pairs = [[str(source / path) for path in (item.stimulus.path, item.map.path)] for item in chosen if item.map]

    def prepare(pair: tf.Tensor) -> dict[str, tf.Tensor]:
        stimulus = tf.io.decode_image(tf.io.read_file(pair[0]), 3, expand_animations=False)
        density = tf.io.decode_image(tf.io.read_file(pair[1]), 1, expand_animations=False)
        stimulus = preprocess.prepare_stimulus(tf.ensure_shape(stimulus, (None, None, 3)), manifest.image_size)
        density = preprocess.prepare_map(tf.ensure_shape(density, (None, None, 1)), manifest.image_size)
        return {
            "stimulus": tf.cast(tf.round(stimulus), tf.uint8),
            "density": tf.cast(tf.round(density), tf.uint8),
        }

    options = tf.data.Options()
    options.threading.private_threadpool_size = os.cpu_count() or 1
    originals = tf.data.Dataset.from_tensor_slices(pairs)
    return originals.map(prepare, num_parallel_calls=os.cpu_count()).prefetch(4).with_options(options)


class Clock:
    """Times a `with` block in which `images` are made: seconds of the wall, and of all processors together."""

    def __init__(self, images: int) -> None:
        self._images = images
        self.per_s = self.per_processor_s = 0.0

    def __enter__(self) -> Self:
        self._wall, self._processor = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.per_s = self._images / (time.perf_counter() - self._wall)
        self.per_processor_s = self._images / (time.process_time() - self._processor)


def fresh_memory(split_bytes: int) -> Clock:
    """The machine hands out memory for a split."""
    with Clock(IMAGES) as clock:
        np.empty(split_bytes, np.uint8)[:: mmap.PAGESIZE] = 1
    return clock


def load(prepared: pathlib.Path, manifest: Manifest) -> tuple[Clock, Split]:
    """Shards of the training split into memory; the split too."""
    with Clock(manifest.counts["train"]) as clock, contextlib.redirect_stdout(io.StringIO()):
        split = Split.load(prepared, manifest, "train", "memory")
    return clock, split


def batches(split: Split, batch_size: int, epoch: int) -> Clock:
    """An epoch in batches, after its first tenth."""
    iterator = iter(training_batches(split, batch_size, seed=0, epoch=epoch))
    steps = len(split) // batch_size
    first = steps // 10
    _take(iterator, tf.constant(first))
    with Clock((steps - first) * batch_size) as clock:
        _take(iterator, tf.constant(steps - first))
    return clock


def originals(source: pathlib.Path, manifest: Manifest) -> Clock:
    """An epoch over the originals."""
    count = sum(manifest.counts.values())
    images = iter(read_originals(source, manifest))
    with Clock(count) as clock:
        _take(images, tf.constant(count))
    return clock


def _take_eagerly(images: tf.data.Iterator, count: tf.Tensor) -> tf.Tensor:
    """Take so many elements; the sum of a byte of each, so that each is there."""
    total = tf.constant(0, tf.int64)
    for _ in tf.range(count):
        total += tf.cast(tf.reshape(next(images)["density"], [-1])[0], tf.int64)
    return total


_take = tf.function(_take_eagerly)


def needed_per_s(row: Accelerator) -> float:
    """Images/s of 240 x 320 that a machine trains on at most, by arithmetic, at the share taken for reached."""
    return row.chips * max(row.chip.flops.values()) * row.chip.efficiency / STEP_FLOP


def compare(prepared: pathlib.Path, repeated: pathlib.Path, source: pathlib.Path) -> bool:
    """Print all rates; whether they are high enough."""
    manifest, more = Manifest.load(prepared), Manifest.load(repeated)
    height, width = more.image_size
    load(prepared, manifest)  # starts TensorFlow
    turns: dict[str, list[Clock]] = collections.defaultdict(list)
    for turn in range(TURNS):
        turns[FRESH].append(fresh_memory(IMAGES * height * width * 4))
        clock, split = load(repeated, more)
        turns[LOAD].append(clock)
        for batch_size in BATCH_SIZES:
            turns[f"batches of {batch_size}"].append(batches(split, batch_size, turn))
        del split
        turns[ORIGINALS].append(originals(source, manifest))
    print(f"images of {', '.join(manifest.original_sizes)} at {height}x{width}, {os.cpu_count()} cores")
    print(f"{'':24} images/s   least   images per processor second")
    best = {}
    for title, clocks in turns.items():
        best[title] = max(clock.per_s for clock in clocks)
        least, processor = min(clock.per_s for clock in clocks), max(clock.per_processor_s for clock in clocks)
        print(f"{title:24} {best[title]:8.0f} {least:7.0f} {processor:8.0f}")
    ratio = best[LOAD] / best[ORIGINALS]
    print(f"{'shards over originals':24} {ratio:8.1f}")
    largest = max(ACCELERATORS.values(), key=needed_per_s)
    needs = needed_per_s(largest)
    print(
        f"{largest.name} trains on at most {needs:.0f} images/s, {needs / largest.vcpus:.0f} for each of its vCPUs"
    )
    slowest = min(rate for title, rate in best.items() if title.startswith("batches"))
    return best[LOAD] >= LOAD_AT_LEAST and slowest >= BATCHES_AT_LEAST and ratio >= RATIO_AT_LEAST


def repeat(prepared: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """A prepared data set of `IMAGES` training images, those of `prepared` over and over."""
    manifest = Manifest.load(prepared)
    folder.mkdir()
    examples = [example for split in SPLITS for example in tfrecords.read(prepared, split)]
    with tfrecords.ShardWriter(folder, "train", IMAGES, manifest.image_size) as writer:
        for index, example in zip(range(IMAGES), itertools.cycle(examples), strict=False):
            writer.write(tfrecords.serialize(dataclasses.replace(example, index=index)))
    counts, shards = {"train": IMAGES, "valid": 0}, {"train": writer.names, "valid": []}
    dataclasses.replace(manifest, counts=counts, shards=shards).save(folder)
    return folder


def make_sample(folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """Draw the sample set, unpack it and prepare it; the prepared data set and the unpacked folders."""
    sample.generate("salicon", folder / "archives")
    for archive in ("images", "maps"):
        with zipfile.ZipFile(folder / "archives" / f"{archive}.zip") as opened:
            opened.extractall(folder / "source" / archive)
    for path in (folder / "source").rglob("*.*g"):
        with Image.open(path) as picture:
            picture.resize((640, 480)).save(path, quality=90)
    config = FetchConfig("salicon", str(folder / "source"), allow_partial_data=True)
    fetch.fetch_dataset(config, folder / "prepared")
    return folder / "prepared", folder / "source"


def main() -> int:
    """Run it; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepared", type=pathlib.Path, help="a prepared data set")
    parser.add_argument("--source", type=pathlib.Path, help="the unpacked folders it was made from")
    arguments = parser.parse_args()
    if (arguments.prepared is None) != (arguments.source is None):
        parser.error("give both --prepared and --source, or neither")
    with tempfile.TemporaryDirectory() as scratch:
        given = (arguments.prepared, arguments.source)
        prepared, source = given if arguments.prepared else make_sample(pathlib.Path(scratch))
        return int(not compare(prepared, repeat(prepared, pathlib.Path(scratch) / "repeated"), source))


if __name__ == "__main__":
    sys.exit(main())
