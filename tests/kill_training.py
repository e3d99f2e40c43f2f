"""Twenty trainings killed and stopped at random moments, checkpoints cut short or corrupted in between.

Minutes on two cores: `make test-kills` runs it; the file's name keeps it out of the other runs.
"""

import dataclasses
import os
import pathlib
import random
import shutil
import signal
import time

import h5py
import numpy as np
import pytest

from tests.forked import Forked
from tests.prepared import write_prepared
from trainer.artifacts import WEIGHTS
from trainer.config import TrainConfig
from trainer.errors import reported
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
SIGNALS = 20


class Life(Forked):
    """One process that trains, from start to end."""

    def __init__(self, dataset: pathlib.Path, folder: pathlib.Path) -> None:
        log = folder / f"log-{len(list(folder.glob('log-*'))):03d}"
        super().__init__(log, _train, dataset, folder)


def _train(dataset: pathlib.Path, folder: pathlib.Path) -> None:
    with reported():
        train(CONFIG, str(dataset), str(folder / "model"), str(folder / "state"))


def checkpoints(folder: pathlib.Path) -> list[pathlib.Path]:
    """Oldest first."""
    return sorted((folder / "state").glob("after-*.npz"))


def weights(folder: pathlib.Path) -> dict[str, np.ndarray]:
    """By name, of the model that a training wrote."""
    found: dict[str, np.ndarray] = {}
    with h5py.File(folder / "model" / WEIGHTS) as file:
        file.visititems(lambda name, item: found.update({name: item[:]}) if hasattr(item, "shape") else None)
    assert found
    return found


@dataclasses.dataclass
class Tally:
    """What happened to the lives of all runs."""

    killed: int = 0
    """By SIGKILL, while they lived."""
    stopped: int = 0
    """By SIGTERM, with the state saved."""
    ended: int = 0
    """By SIGTERM, before training began."""
    damaged: int = 0
    """Checkpoints cut short or corrupted."""
    passed_over: int = 0
    """Lives that said so of one."""
    runs: int = 0
    """To their ends."""

    @property
    def signals(self) -> int:
        return self.killed + self.stopped + self.ended


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_every_run_ends_with_the_weights_of_one_that_was_left_alone(tmp_path, seed):
    dataset, whole = write_prepared(tmp_path / "data"), tmp_path / "whole"
    source, tally = random.Random(seed), Tally()
    whole.mkdir()
    start = time.monotonic()
    status, said = Life(dataset, whole).end()
    longest_s = time.monotonic() - start
    assert status == 0, said
    expected = weights(whole)
    while tally.signals < SIGNALS:
        run = tmp_path / f"run-{tally.runs}"
        run.mkdir()
        _run_to_its_end(dataset, run, longest_s, source, tally)
        trained = weights(run)
        assert trained.keys() == expected.keys()
        for name, values in trained.items():
            np.testing.assert_array_equal(values, expected[name], err_msg=name)
        shutil.rmtree(run / "state")
    print(tally)
    assert min(tally.killed, tally.stopped, tally.damaged, tally.passed_over) > 0


def _run_to_its_end(
    dataset: pathlib.Path,
    run: pathlib.Path,
    longest_s: float,
    source: random.Random,
    tally: Tally,
) -> None:
    damaged: set[pathlib.Path] = set()
    status = None
    while status != 0:
        life = Life(dataset, run)
        signalled = tally.signals < SIGNALS
        if signalled:
            life.wait(source.uniform(0, 0.7 * longest_s))  # a life that goes on is shorter than a whole one
            life.kill(source.choice((signal.SIGKILL, signal.SIGTERM)))
        status, said = life.end()
        assert status in ((0, -signal.SIGKILL, -signal.SIGTERM, STOPPED) if signalled else (0,)), said
        tally.killed += status == -signal.SIGKILL
        tally.ended += status == -signal.SIGTERM
        if status == STOPPED:
            tally.stopped += 1
            assert "SIGTERM: saving the state, then stopping" in said
            assert not (run / "model").exists()
            assert len(list((run / "state").iterdir())) <= 2, "something was left of a write"
        if damaged and "resuming after" in said:
            (path,) = damaged
            assert f"skipping checkpoint {path}: " in said
            assert "falling back from" in said
            tally.passed_over += 1
        damaged = {path for path in damaged if path.exists() and path.stat().st_mtime == 0}
        if status and len(checkpoints(run)) > 1 and source.random() < 0.5:
            damaged = {checkpoints(run)[-1]}
            _damage(*damaged, source)
            tally.damaged += 1
    tally.runs += 1


def _damage(path: pathlib.Path, source: random.Random) -> None:
    """Cut the file short or flip one of its bytes; its time becomes 0, by which it is known again."""
    size = path.stat().st_size
    if source.random() < 0.5:
        os.truncate(path, source.randrange(size))
    else:
        with path.open("r+b") as file:
            file.seek(source.randrange(size // 10, size * 9 // 10))  # arrays: not all of zip's own bytes matter
            (value,) = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([value ^ 1 << source.randrange(8)]))
    os.utime(path, (0, 0))
