"""A training that is killed, damaged and stopped resumes to the same result; kill_training.py has 20 more."""

import dataclasses
import os
import signal

import numpy as np

from tests.killing import CONFIG, STOPPED, Life, checkpoints
from tests.prepared import write_prepared

RUN = dataclasses.replace(CONFIG, epochs=1, batch_size=1)
"""Seven checkpoints: after six steps, and after the epoch."""


def test_a_run_that_was_killed_damaged_and_stopped_comes_to_the_state_of_one_that_was_not(tmp_path):
    dataset, run, whole = write_prepared(tmp_path / "data"), tmp_path / "run", tmp_path / "whole"
    run.mkdir()
    whole.mkdir()

    life = Life(dataset, run, RUN)
    while life.alive and len(checkpoints(run)) < 2:
        life.wait(0.01)
    life.kill(signal.SIGKILL)
    status, said = life.end()
    assert status == -signal.SIGKILL, said

    damaged = checkpoints(run)[-1]
    os.truncate(damaged, damaged.stat().st_size - 1)
    life = Life(dataset, run, RUN)
    while life.alive and "training, epoch" not in life.said():
        life.wait(0.01)
    life.kill(signal.SIGTERM)
    status, said = life.end()
    assert status == STOPPED, said
    assert f"skipping checkpoint {damaged}: " in said
    assert "falling back from" in said
    assert "SIGTERM: saving the state, then stopping" in said
    assert not (run / "model").exists()
    newest = checkpoints(run)[-1]
    assert len(list((run / "state").iterdir())) == 2, "something was left of a write"

    found, said = state_after_the_epoch(dataset, run)
    assert f"({newest})" in said
    expected, _ = state_after_the_epoch(dataset, whole)
    assert found.keys() == expected.keys()
    for name, values in found.items():
        np.testing.assert_array_equal(values, expected[name], err_msg=name)


def state_after_the_epoch(dataset, folder):
    """The arrays of the last checkpoint, and what was said until it was written; the rest is not waited for."""
    life = Life(dataset, folder, RUN)
    last = folder / "state" / "after-epoch-0001-step-000000.npz"
    while life.alive and not last.exists():
        life.wait(0.01)
    life.kill(signal.SIGKILL)
    _, said = life.end()
    with np.load(last) as file:
        return {name: file[name] for name in file.files if name != "state.json"}, said
