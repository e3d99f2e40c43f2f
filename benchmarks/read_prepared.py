"""Reading prepared shards against decoding and resizing the originals each epoch.

    python benchmarks/read_prepared.py [--prepared FOLDER --source FOLDER]

Takes a minute on 2 idle cores, half of it for drawing the sample set. Expect a ratio of about 7 (4000 against 590
images/s at 240 x 320); below 5 the exit status is 1.
Both ways go through tf.data with as many threads as there are cores and yield the same: stimulus and density as
uint8 at the network's input size. The files are in the page cache for both.

--prepared is a prepared data set, --source the unpacked folders that it was made from; without them both are made
from the sample set, its pictures enlarged to the 640 x 480 of SALICON's.
"""

import argparse
import os
import pathlib
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable

import tensorflow as tf
from PIL import Image

from trainer import datasets, fetch, layout, preprocess, sample, sources, storage, tfrecords
from trainer.artifacts import SPLITS, Manifest
from trainer.config import FetchConfig

ENOUGH = 5.0
ROUND_S = 4.0
ROUNDS = 3


def read_shards(prepared: pathlib.Path, manifest: Manifest) -> tf.data.Dataset:
    """Stimuli and densities out of the shards, as training reads them."""
    paths = [str(path) for split in SPLITS for path in tfrecords.shard_paths(prepared, split)]
    records = tf.data.TFRecordDataset(paths, num_parallel_reads=min(len(paths), os.cpu_count() or 1))
    return _parallel(records, lambda record: tfrecords.parse(record, manifest.image_size))


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

    return _parallel(tf.data.Dataset.from_tensor_slices(pairs), prepare)


def _parallel(data: tf.data.Dataset, function: Callable[[tf.Tensor], dict[str, tf.Tensor]]) -> tf.data.Dataset:
    options = tf.data.Options()
    options.threading.private_threadpool_size = os.cpu_count() or 1
    return data.map(function, num_parallel_calls=os.cpu_count()).prefetch(4).with_options(options)


def images_per_s(data: tf.data.Dataset) -> float:
    """How many images come out of repeated epochs in `ROUND_S`."""
    images = iter(data.repeat())
    next(images)
    count, start = 0, time.perf_counter()
    while (seconds := time.perf_counter() - start) < ROUND_S:
        next(images)
        count += 1
    return count / seconds


def compare(prepared: pathlib.Path, source: pathlib.Path) -> float:
    """Print both rates and their ratio; the ratio. The two take turns, so that both see the same machine."""
    manifest = Manifest.load(prepared)
    shards, originals = read_shards(prepared, manifest), read_originals(source, manifest)
    rates = [(images_per_s(shards), images_per_s(originals)) for _ in range(ROUNDS)]
    prepared_rate, original_rate = (max(rate) for rate in zip(*rates, strict=True))
    ratio: float = prepared_rate / original_rate
    size = "x".join(map(str, manifest.image_size))
    print(f"{sum(manifest.counts.values())} images of {', '.join(manifest.original_sizes)} at {size}:")
    print(f"  prepared shards          {prepared_rate:8.0f} images/s")
    print(f"  originals, each epoch    {original_rate:8.0f} images/s")
    print(f"  ratio                    {ratio:8.1f} (at least {ENOUGH:g})")
    return ratio


def make_sample(folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """Draw the sample set, unpack it and prepare it; the prepared data set and the unpacked folders."""
    sample.draw("salicon", folder / "archives")
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
        return int(compare(prepared, source) < ENOUGH)


if __name__ == "__main__":
    sys.exit(main())
