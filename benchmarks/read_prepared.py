"""Measure the input pipeline in images/s: reading prepared shards, making batches of them, and the originals.

    python -m benchmarks.read_prepared [--prepared FOLDER --source FOLDER]

Takes two minutes on 2 idle cores, mostly for generating the sample set and writing shards. Exits with 1 if a rate
is below its minimum on 2 cores: 2500 images/s from shards into memory, and 5 times the rate of the originals;
8000 images/s of decoded images in batches of 1, 8 and 32.

All use tf.data with one thread per core. They take turns, so that a change of the machine's speed affects all,
and the best turn of each counts. The second rate is images per CPU second, which other work on the machine
changes less. The files are in the page cache. A training reads its shards once; the time is from the start of the
pipeline to the last decoded image. A virtual machine may first have to get the memory from its host, which is
measured separately and before. A training makes batches in each epoch; they are measured in a `tf.function` that
runs the steps in a row. Both replace decoding the originals in each epoch.

--prepared is a prepared dataset, --source the unpacked folders that it was made from. Without them both are made
from the sample set, whose images are enlarged to SALICON's 640 x 480. Its images are repeated to 2000.
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
from typing import Self

import numpy as np
import tensorflow as tf
from PIL import Image

from trainer import datasets, preprocess, sources, storage
from trainer.accelerators import ACCELERATORS, STEP_FLOP, Accelerator
from trainer.artifacts import SPLITS, Manifest
from trainer.config import FetchConfig
from trainer.data import fetch, layout, sample, tfrecords
from trainer.data.batches import Split, training_batches

IMAGES = 2000
BATCH_SIZES = (1, 8, 32)
MIN_LOAD, MIN_BATCHES, MIN_RATIO = 2500, 8000, 5
"""Images/s on 2 cores, and the first of these divided by the images/s of the originals."""
TURNS = 7
FRESH, LOAD, ORIGINALS = "fresh memory", "shards into memory", "originals, each epoch"


def read_originals(source: pathlib.Path, manifest: Manifest) -> tf.data.Dataset:
    """The same stimuli and densities from the images at the source."""
    members = [sources.Member(file.name, file.name, bytes) for file in storage.list_objects(str(source))]
    items = layout.find_items(members, datasets.get(manifest.dataset), str(source)).items
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
    """Rates of a `with` block that makes `images`: per second, and per CPU second of all cores."""

    def __init__(self, images: int) -> None:
        self._images = images
        self.per_s = self.per_cpu_s = 0.0

    def __enter__(self) -> Self:
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.per_s = self._images / (time.perf_counter() - self._wall)
        self.per_cpu_s = self._images / (time.process_time() - self._cpu)


def fresh_memory(split_bytes: int) -> Clock:
    """Allocate the memory for a split."""
    with Clock(IMAGES) as clock:
        np.empty(split_bytes, np.uint8)[:: mmap.PAGESIZE] = 1
    return clock


def load(prepared: pathlib.Path, manifest: Manifest) -> tuple[Clock, Split]:
    """Read the shards of the training split into memory; returns the split too."""
    with Clock(manifest.counts["train"]) as clock, contextlib.redirect_stdout(io.StringIO()):
        split = Split.load(prepared, manifest, "train", "memory")
    return clock, split


def batches(split: Split, batch_size: int, epoch: int) -> Clock:
    """Make the batches of an epoch, without its first tenth."""
    iterator = iter(training_batches(split, batch_size, seed=0, epoch=epoch))
    steps = len(split) // batch_size
    first = steps // 10
    _take(iterator, tf.constant(first))
    with Clock((steps - first) * batch_size) as clock:
        _take(iterator, tf.constant(steps - first))
    return clock


def originals(source: pathlib.Path, manifest: Manifest) -> Clock:
    """Decode the originals of an epoch."""
    count = sum(manifest.counts.values())
    images = iter(read_originals(source, manifest))
    with Clock(count) as clock:
        _take(images, tf.constant(count))
    return clock


def _take_eagerly(images: tf.data.Iterator, count: tf.Tensor) -> tf.Tensor:
    """Take `count` elements; returns the sum of one byte of each, so that each is computed."""
    total = tf.constant(0, tf.int64)
    for _ in tf.range(count):
        total += tf.cast(tf.reshape(next(images)["density"], [-1])[0], tf.int64)
    return total


_take = tf.function(_take_eagerly)


def needed_per_s(row: Accelerator) -> float:
    """Maximum images/s of 240 x 320 that a machine can train on, by arithmetic and its efficiency."""
    return row.chips * max(row.chip.flops.values()) * row.chip.efficiency / STEP_FLOP


def compare(prepared: pathlib.Path, repeated: pathlib.Path, source: pathlib.Path) -> bool:
    """Print all rates; returns whether they are high enough."""
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
    print(f"{'':24} images/s     min   images per CPU second")
    best = {}
    for title, clocks in turns.items():
        best[title] = max(clock.per_s for clock in clocks)
        minimum, per_cpu_s = min(clock.per_s for clock in clocks), max(clock.per_cpu_s for clock in clocks)
        print(f"{title:24} {best[title]:8.0f} {minimum:7.0f} {per_cpu_s:8.0f}")
    ratio = best[LOAD] / best[ORIGINALS]
    print(f"{'shards over originals':24} {ratio:8.1f}")
    largest = max(ACCELERATORS.values(), key=needed_per_s)
    needs = needed_per_s(largest)
    print(
        f"{largest.name} trains on at most {needs:.0f} images/s, {needs / largest.vcpus:.0f} for each of its vCPUs"
    )
    slowest = min(rate for title, rate in best.items() if title.startswith("batches"))
    return best[LOAD] >= MIN_LOAD and slowest >= MIN_BATCHES and ratio >= MIN_RATIO


def repeat(prepared: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """A prepared dataset of `IMAGES` training images, which repeat those of `prepared`."""
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
    """Generate and prepare the sample set; returns the prepared dataset and its images and maps in folders."""
    for member in sample.members("salicon"):
        if member.path.startswith(("images/", "maps/")):
            path = folder / "source" / member.path
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.open(io.BytesIO(member.read())).resize((640, 480)).save(path, quality=90)
    config = FetchConfig("salicon", str(folder / "source"), allow_partial_data=True)
    fetch.fetch_dataset(config, folder / "prepared")
    return folder / "prepared", folder / "source"


def main() -> int:
    """Run the benchmark; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepared", type=pathlib.Path, help="a prepared dataset")
    parser.add_argument("--source", type=pathlib.Path, help="the unpacked folders it was made from")
    arguments = parser.parse_args()
    if (arguments.prepared is None) != (arguments.source is None):
        parser.error("give both --prepared and --source, or neither")
    with tempfile.TemporaryDirectory() as scratch:
        folders = (arguments.prepared, arguments.source)
        prepared, source = folders if arguments.prepared else make_sample(pathlib.Path(scratch))
        return int(not compare(prepared, repeat(prepared, pathlib.Path(scratch) / "repeated"), source))


if __name__ == "__main__":
    sys.exit(main())
