"""Overhead of the training loop over its bare step: data, logging and bookkeeping.

    python -m research.loop_overhead        # about four minutes on two cores; expect a ratio of 0.96 to 1.0

The loop reads prepared shards and writes TensorBoard logs, as in training; the bare step repeats on one batch in
memory. The two alternate, so that a change of the machine's speed affects both; the medians are compared. The
validation and the checkpoint at the end of an epoch are not counted.
Exits with 1 if the loop reaches less than 95% of the bare step's images/s.
"""

import argparse
import dataclasses
import pathlib
import statistics
import sys
import tempfile
import time

import tensorflow as tf

from trainer.data.fetch import fetch_dataset
from trainer.data.load import TrainingData
from trainer.data.prepared_data import Manifest
from trainer.data.settings import FetchConfig
from trainer.training import step, strategy
from trainer.training.checkpoints import Checkpoints, Progress
from trainer.training.exits import Stop
from trainer.training.loop import Loop
from trainer.training.settings import TrainConfig
from trainer.training.tensorboard import Board
from trainer.training.train import Job, make_deterministic, make_network

LIMIT = 0.95


class _TrainingAlone(Loop):
    """A loop without validation, which notes when the steps of an epoch have ended."""

    def validate(self, epoch: int) -> float:
        self.trained_at = time.perf_counter()
        return 0.0


def main() -> int:
    """Measure, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--image-size", default="240x320")
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--steps", type=int, default=12, help="steps of one repeat (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=7, help="default: %(default)s")
    arguments = parser.parse_args()
    images = arguments.steps * arguments.batch_size
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        fetch = FetchConfig("salicon", "sample", arguments.image_size, max_examples=images)
        manifest = fetch_dataset(fetch, folder / "data")
        config = TrainConfig(initial_weights="none").with_batch(arguments.batch_size)
        loop, bare = _measure(_loop(config, folder, manifest), arguments.repeats)
    steps = manifest.counts["train"] // arguments.batch_size
    for title, seconds in (("bare step", bare), ("training loop", loop)):
        middle = statistics.median(seconds)
        print(f"{title:>14}: {steps * arguments.batch_size / middle:7.3f} images/s, {middle / steps:.3f} s a step")
    ratio = statistics.median(ours / theirs for ours, theirs in zip(bare, loop, strict=True))
    print(f"{'ratio':>14}: {ratio:7.3f} (median of {arguments.repeats} pairs; at least {LIMIT})")
    return int(ratio < LIMIT)


def _loop(config: TrainConfig, folder: pathlib.Path, manifest: Manifest) -> _TrainingAlone:
    make_deterministic()
    devices = strategy.connect_devices()
    network = make_network(Job.resolve(config, manifest, devices), None)
    data = TrainingData.load(folder / "data", manifest)
    checkpoints = Checkpoints(folder / "state", network, {}, writable=False)
    board = Board(str(folder / "logs"))
    return _TrainingAlone(config, data, devices, network, checkpoints, Progress(), board, Stop())


def _measure(training: _TrainingAlone, repeats: int) -> tuple[list[float], list[float]]:
    """Seconds of each repeat of the loop and of the bare step, after a warm-up of both."""
    config, images, network = training.config, training.data.train, training.network
    batch = next(iter(images.training_batches(config.batch_size, seed=0, epoch=0)))

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def take(batch: step.Batch) -> tf.Tensor:
        loss, computed = step.gradients(network, batch, config.batch_size)
        step.apply_gradients(network, computed)
        return loss

    loop, bare = [], []
    for repeat in range(repeats + 1):
        training.config = dataclasses.replace(config, epochs=repeat + 1)  # one epoch more
        start = time.perf_counter()
        training.run()
        middle = time.perf_counter()
        for _ in range(len(images) // config.batch_size):
            loss = take(batch)
        float(loss)
        if repeat:
            loop.append(training.trained_at - start)
            bare.append(time.perf_counter() - middle)
    return loop, bare


if __name__ == "__main__":
    sys.exit(main())
