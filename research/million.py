"""A million tiny images: an epoch from memory and as a stream, with the time, memory and disk that each takes.

    python -m research.million        # about six minutes on two cores, and 6 GB of disk

The images of 32 x 48 are drawn, a thousand different ones, and written by the project's own writer. Each phase is
a process of its own, so that its peak of memory is known. A block is a tenth of the product's: the data are twenty
blocks, as 200,000 images of 240 x 320 are in the product. Exits with 1 if the stream has other batches.
"""

import argparse
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
import zlib

import numpy as np
import tensorflow as tf

from tests.narrow import narrowed
from tests.prepared import manifest_of
from trainer.data import batches
from trainer.data.batches import Split
from trainer.data.load import load_split
from trainer.data.prepared_data import Manifest
from trainer.data.settings import parse_image_size
from trainer.data.tfrecords import Example, ShardWriter, serialize
from trainer.training.loop import compile_steps
from trainer.training.settings import TrainConfig
from trainer.training.strategy import connect_devices
from trainer.training.train import Job, make_network

DRAWN, BATCH, VALID, STEPS = 1000, 32, 1000, 200
STARTED = time.monotonic()
PHASES = ("write", "memory", "stream", "resume", "train")
BLOCK_BYTES = batches.BLOCK_BYTES // 10


def main() -> int:
    """Run all phases, or one of them in this process, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--size", default="32x48")
    parser.add_argument("--phase", choices=PHASES)
    parser.add_argument("--folder", type=pathlib.Path)
    parsed = parser.parse_args()
    if parsed.phase:
        batches.BLOCK_BYTES = BLOCK_BYTES
        if parsed.phase == "write":
            _write(parsed.folder, parsed.images, parse_image_size(parsed.size))
        else:
            cache = "memory" if parsed.phase == "memory" else "stream"
            {"resume": _resume, "train": _train}.get(parsed.phase, _epoch)(parsed.folder, cache)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"{parsed.phase}: {time.monotonic() - STARTED:.1f} s in all, {peak:.2f} GB at its peak", flush=True)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        said = {}
        for phase in PHASES:
            command = [sys.executable, "-m", "research.million", "--phase", phase, "--folder", folder]
            run = subprocess.run(
                [*command, f"--images={parsed.images}", f"--size={parsed.size}"], stdout=subprocess.PIPE, text=True
            )
            print(run.stdout, end="", flush=True)
            if run.returncode:
                return run.returncode
            said[phase] = run.stdout.rpartition("checksum ")[2].split()[0] if "checksum" in run.stdout else ""
        return int(said["memory"] != said["stream"])


def _write(folder: pathlib.Path, count: int, size: tuple[int, int]) -> None:
    """Draw the images, and write shards and a manifest."""
    random, shards, counts = np.random.default_rng(0), {}, {"train": count, "valid": VALID}
    points = np.zeros((0, 2), np.int64)
    y, x = np.mgrid[: size[0], : size[1]]
    drawn = []
    for _ in range(DRAWN):
        stimulus = random.integers(0, 256, (*size, 3), np.uint8)
        density = 255 * np.exp(
            -((x - random.uniform(0, size[1])) ** 2 + (y - random.uniform(0, size[0])) ** 2) / 50
        )
        example = Example(0, "drawn.png", stimulus, density.astype(np.uint8), size, points, points)
        drawn.append(tf.train.Example.FromString(serialize(example)))
    for split, images in counts.items():
        with ShardWriter(folder, split, images, size) as writer:
            for index in range(images):
                record = drawn[index % DRAWN]
                record.features.feature["index"].int64_list.value[0] = index
                writer.write(record.SerializeToString(deterministic=True))
        shards[split] = writer.names
    manifest_of(image_size=size, counts=counts, expected_counts=counts, shards=shards).save(folder)
    n_bytes = sum(path.stat().st_size for path in folder.iterdir())
    print(f"write: {count:,} images in {len(shards['train'])} shards, {n_bytes / 1e9:.2f} GB", flush=True)


def _loaded(folder: pathlib.Path, cache: str) -> Split:
    start = time.monotonic()
    split = load_split(folder, Manifest.load(folder), "train", cache)
    print(f"{cache}: ready after {time.monotonic() - start:.1f} s", flush=True)
    return split


def _epoch(folder: pathlib.Path, cache: str) -> None:
    """Take all batches of an epoch, without a training."""
    split, start, checksum, images = _loaded(folder, cache), time.monotonic(), 0, 0
    seen = np.zeros(len(split), bool)
    for batch in split.training_batches(BATCH, seed=1, epoch=0).as_numpy_iterator():
        if not images:
            print(f"{cache}: first batch after {time.monotonic() - start:.1f} s", flush=True)
        images += len(batch["index"])
        seen[batch["index"]] = True
        for name in ("index", "stimulus", "density"):
            checksum = zlib.crc32(batch[name], checksum)
    seconds = time.monotonic() - start
    assert seen.sum() == images == len(split) // BATCH * BATCH
    print(
        f"{cache}: {images:,} images in {seconds:.1f} s, {images / seconds:,.0f} images/s, checksum {checksum:08x}"
    )


def _resume(folder: pathlib.Path, cache: str) -> None:
    """Take the first batch after nine tenths of an epoch."""
    split = _loaded(folder, cache)
    skipped, order = 9 * len(split) // 10 // BATCH, split.order(1, 0).images
    start = time.monotonic()
    batch = next(split.training_batches(BATCH, seed=1, epoch=0, skip_steps=skipped).as_numpy_iterator())
    assert (batch["index"] == order[skipped * BATCH :][:BATCH]).all()
    print(f"resume: first batch after {skipped:,} steps in {time.monotonic() - start:.1f} s", flush=True)


def _train(folder: pathlib.Path, cache: str) -> None:
    """Take steps of the network with a quarter of each layer's filters."""
    manifest, config = (
        Manifest.load(folder),
        TrainConfig(initial_weights="none", precision="float32").with_batch(BATCH),
    )
    with narrowed():
        devices = connect_devices()
        network = make_network(Job.resolve(config, manifest, devices), None)
        compiled = compile_steps(devices, network, config)
        iterator = devices.iterate(_loaded(folder, cache).training_batches, BATCH, config.seed, 0)
        first, _ = compiled.train(iterator, tf.constant(1))
        start = time.monotonic()
        losses, waited = compiled.train(iterator, tf.constant(STEPS))
        seconds = time.monotonic() - start
    print(
        f"train: {STEPS} steps of {BATCH} in {seconds:.1f} s, {float(waited) / seconds:.1%} waiting for data, "
        f"loss {float(first[0]):.3f} to {float(losses[-1]):.3f}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
