"""Loss of one of several machines. A minute on two cores; run by `make test-kills`."""

import signal
import time

import numpy as np

from tests.forked import TIMEOUT_S
from tests.prepared import write_prepared
from tests.trainer.training.test_distributed import addresses, finish, log, losses, start, weights
from trainer.training.exits import OTHER_LOST


def train_together(folder, name):
    cluster = addresses(2)
    machines = [start(folder, name, cluster=cluster, index=index) for index in range(2)]
    assert [finish(machine) for machine in machines] == [0, 0], log(folder, name) + log(folder, name, 1)


def test_lost_machine_ends_the_others_and_all_resume_to_the_same_result(tmp_path):
    folder = tmp_path
    write_prepared(folder / "data", n_train=10, n_valid=5)
    train_together(folder, "two")
    cluster = addresses(2)
    machines = [start(folder, "lost", cluster=cluster, index=index) for index in range(2)]
    deadline = time.monotonic() + TIMEOUT_S
    while "epoch 1/2: loss" not in log(folder, "lost", 1) and time.monotonic() < deadline:
        time.sleep(0.05)
    machines[1].kill(signal.SIGKILL)
    assert finish(machines[1]) == -signal.SIGKILL
    assert finish(machines[0]) == OTHER_LOST, log(folder, "lost")
    assert "lost another machine of this job" in log(folder, "lost")
    assert "Traceback" not in log(folder, "lost")
    train_together(folder, "lost")
    assert "resuming after epoch" in log(folder, "lost")
    assert losses(folder, "lost") == losses(folder, "two")
    expected = weights(folder, "two")
    assert all(np.array_equal(array, expected[path]) for path, array in weights(folder, "lost").items())
