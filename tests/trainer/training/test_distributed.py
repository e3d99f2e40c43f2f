"""Training on several devices and machines: virtual CPUs, and processes that communicate over loopback."""

import json
import socket

import h5py
import numpy as np
import pytest

from tests.forked import Forked
from tests.prepared import write_prepared
from tests.trainer import virtual
from trainer.network.model_folder import HISTORY, MODEL_WEIGHTS

SETTINGS = [
    *("--batch-size=4", "--initial-weights=none", "--precision=float32", "--learning-rate=1e-6"),
    *("--flip=true", "--schedule=cosine", "--warmup-epochs=0.5"),
]


def start(folder, name, *arguments, devices=1, cluster=None, index=0, epochs=2):
    """Run the trainer in a separate process; its output goes to `folder`/`name`-`index`.log."""
    environment = {"TF_NUM_INTRAOP_THREADS": "1"}
    if cluster:
        task = {"type": "worker", "index": index}
        environment["TF_CONFIG"] = json.dumps({"cluster": {"worker": cluster}, "task": task})
    places = ["--dataset-dir", str(folder / "data"), "--output-dir", str(folder / name)]
    command = ["train", *places, *SETTINGS, f"--epochs={epochs}", *arguments]
    return Forked(
        folder / f"{name}-{index}.log", virtual.run, devices, command, environment=environment, folder=folder
    )


def finish(process):
    return process.end()[0]


def log(folder, name, index=0):
    return (folder / f"{name}-{index}.log").read_text()


def addresses(count):
    """Free ports of this machine."""
    sockets = [socket.socket() for _ in range(count)]
    for listener in sockets:
        listener.bind(("127.0.0.1", 0))
    hosts = [f"127.0.0.1:{listener.getsockname()[1]}" for listener in sockets]
    for listener in sockets:
        listener.close()
    return hosts


def history(folder, name):
    return [json.loads(line) for line in (folder / name / HISTORY).read_text().splitlines()]


def losses(folder, name):
    return [row[key] for row in history(folder, name) for key in ("loss", "valid_loss")]


def weights(folder, name):
    arrays = {}
    with h5py.File(folder / name / MODEL_WEIGHTS) as file:
        file.visititems(lambda path, item: arrays.update({path: item[()]} if hasattr(item, "shape") else {}))
    return arrays


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """10 training and 5 validation images, neither a multiple of the batch size 4."""
    folder = tmp_path_factory.mktemp("distributed")
    write_prepared(folder / "data", n_train=10, n_valid=5)
    return folder


@pytest.fixture(scope="module")
def single(folder):
    assert finish(start(folder, "single")) == 0, log(folder, "single")
    return losses(folder, "single")


@pytest.mark.parametrize(("devices", "accumulation", "cache"), [(2, 1, "stream"), (2, 2, "memory")])
def test_devices_and_parts_of_a_batch_have_the_losses_of_one(folder, single, devices, accumulation, cache):
    name = f"devices{devices}-{accumulation}"
    run = start(folder, name, f"--accumulation={accumulation}", f"--cache={cache}", devices=devices)
    assert finish(run) == 0, log(folder, name)
    assert f"over {devices} cpus" in log(folder, name)
    np.testing.assert_allclose(losses(folder, name), single, rtol=1e-5)
    expected = weights(folder, "single")
    for path, array in weights(folder, name).items():
        np.testing.assert_allclose(array, expected[path], atol=5e-6, err_msg=path)


@pytest.fixture(scope="module")
def together(folder):
    """Two machines that train to the end, each in two parts of its images."""
    cluster = addresses(2)
    machines = [start(folder, "two", "--accumulation=2", cluster=cluster, index=index) for index in range(2)]
    assert [finish(machine) for machine in machines] == [0, 0], log(folder, "two") + log(folder, "two", 1)
    return losses(folder, "two")


def test_machines_together_have_the_losses_of_one(folder, single, together):
    np.testing.assert_allclose(together, single, rtol=1e-5)
    assert "over 2 cpus on 2 machines" in log(folder, "two")


def test_machines_end_with_equal_weights(folder, together):
    assert len({row["weights_crc32"] for row in history(folder, "two")}) == 2
    for row in history(folder, "two"):
        for index in range(2):
            assert f"epoch {row['epoch']}/2: " in log(folder, "two", index)


def test_only_the_chief_writes(folder, together):
    assert "wrote the weights of epoch" in log(folder, "two")
    assert "wrote" not in log(folder, "two", 1)
    assert not list(folder.glob("**/.partial-*"))


def test_machines_with_different_settings_name_them(folder):
    cluster = addresses(2)
    machines = [start(folder, "unequal", f"--seed={index}", cluster=cluster, index=index) for index in range(2)]
    assert [finish(machine) for machine in machines] == [1, 1]
    for index in range(2):
        assert f"started with different seed (on this machine: seed {index})" in log(folder, "unequal", index)
        assert "Traceback" not in log(folder, "unequal", index)
    assert not (folder / "unequal").exists()
