"""Trainings that are killed at random moments; their checkpoints are damaged in between."""

import dataclasses
import os
import pathlib
import random
import signal
import time

import h5py
import numpy as np

from tests.forked import Forked
from trainer.errors import reported
from trainer.network.model_folder import MODEL_WEIGHTS
from trainer.training.settings import TrainConfig
from trainer.training.train import train

CONFIG = TrainConfig(
    epochs=2,
    batch_size=2,
    learning_rate=1e-4,
    precision="float32",
    initial_weights="none",
    checkpoint_minutes=1e-6,
)
"""A checkpoint after each step."""
STOPPED = 143


class Life(Forked):
    """One process that trains, from start to end."""

    def __init__(self, dataset: pathlib.Path, folder: pathlib.Path, config: TrainConfig = CONFIG) -> None:
        log = folder / f"log-{len(list(folder.glob('log-*'))):03d}"
        super().__init__(log, _train, dataset, folder, config)


def _train(dataset: pathlib.Path, folder: pathlib.Path, config: TrainConfig) -> None:
    with reported():
        train(config, str(dataset), str(folder / "model"), str(folder / "state"))


def checkpoints(folder: pathlib.Path) -> list[pathlib.Path]:
    """Paths of the checkpoints, oldest first."""
    return sorted((folder / "state").glob("after-*.npz"))


def weights(folder: pathlib.Path) -> dict[str, np.ndarray]:
    """Weights by name, from the model that a training wrote."""
    arrays: dict[str, np.ndarray] = {}
    with h5py.File(folder / "model" / MODEL_WEIGHTS) as file:
        file.visititems(lambda name, item: arrays.update({name: item[:]}) if hasattr(item, "shape") else None)
    assert arrays
    return arrays


def assert_same(arrays: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert arrays.keys() == expected.keys()
    for name, values in arrays.items():
        np.testing.assert_array_equal(values, expected[name], err_msg=name)


@dataclasses.dataclass
class Tally:
    """Counts of events over all runs."""

    killed: int = 0
    """Processes that SIGKILL ended."""
    stopped: int = 0
    """Processes that SIGTERM ended after they had saved their state."""
    ended: int = 0
    """Processes that SIGTERM ended before they trained."""
    damaged: int = 0
    """Checkpoints truncated or corrupted."""
    skipped: int = 0
    """Processes that skipped a damaged checkpoint."""
    runs: int = 0
    """Completed runs."""

    @property
    def signals(self) -> int:
        return self.killed + self.stopped + self.ended


def harass(dataset: pathlib.Path, folder: pathlib.Path, n_signals: int, seed: int) -> Tally:
    """Send `n_signals` signals to trainings at random moments, one run after another; all must have the same
    result.
    """
    source = random.Random(seed)
    tally = Tally()
    (folder / "whole").mkdir(parents=True)
    start = time.monotonic()
    status, output = Life(dataset, folder / "whole").end()
    longest_s = time.monotonic() - start
    assert status == 0, output
    expected = weights(folder / "whole")
    while tally.signals < n_signals:
        run = folder / f"run-{tally.runs}"
        run.mkdir()
        _run_to_its_end(dataset, run, n_signals, longest_s, source, tally)
        assert_same(weights(run), expected)
        _remove_large(run)
    return tally


def _run_to_its_end(
    dataset: pathlib.Path,
    run: pathlib.Path,
    n_signals: int,
    longest_s: float,
    source: random.Random,
    tally: Tally,
) -> None:
    damaged: set[pathlib.Path] = set()
    status = None
    while status != 0:
        life = Life(dataset, run)
        signalled = tally.signals < n_signals
        if signalled:
            life.wait(source.uniform(0, 0.7 * longest_s))  # a resumed process is shorter than a complete one
            life.kill(source.choice((signal.SIGKILL, signal.SIGTERM)))
        status, output = life.end()
        assert status in ((0, -signal.SIGKILL, -signal.SIGTERM, STOPPED) if signalled else (0,)), output
        tally.killed += status == -signal.SIGKILL
        tally.ended += status == -signal.SIGTERM
        tally.stopped += status == STOPPED
        if damaged and "resuming after" in output:
            (path,) = damaged
            assert f"skipping checkpoint {path}: " in output
            assert "falling back from" in output
            tally.skipped += 1
        damaged = {path for path in damaged if path.exists() and path.stat().st_mtime == 0}
        if status and len(checkpoints(run)) > 1 and source.random() < 0.5:
            newest = checkpoints(run)[-1]
            damaged = {newest}
            _damage(newest, source)
            tally.damaged += 1
    tally.runs += 1


def _damage(path: pathlib.Path, source: random.Random) -> None:
    """Truncate the file or flip a bit; set its time to 0, which marks it as damaged."""
    size = path.stat().st_size
    if source.random() < 0.5:
        os.truncate(path, source.randrange(size))
    else:
        with path.open("r+b") as file:
            file.seek(source.randrange(size // 10, size * 9 // 10))  # arrays: other bytes may not matter
            (value,) = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([value ^ 1 << source.randrange(8)]))
    os.utime(path, (0, 0))


def _remove_large(run: pathlib.Path) -> None:
    for path in checkpoints(run):
        path.unlink()
