"""The batch size of a training, resolved for simulated devices."""

import dataclasses
import types

import pytest

from trainer.accelerators import ACCELERATORS
from trainer.config import TrainConfig
from trainer.errors import UserError
from trainer.training.strategy import Cluster, Devices
from trainer.training.train import Job


def resolve(config, kind="gpu", replicas=2, accelerator="", images=10_000, image_size=(240, 320)):
    strategy = types.SimpleNamespace(num_replicas_in_sync=replicas)
    chip = ACCELERATORS[accelerator].chip if accelerator else None
    data = types.SimpleNamespace(counts={"train": images}, image_size=image_size)
    config = dataclasses.replace(config, precision="float32")
    return Job.resolve(config, data, Devices(strategy, kind, chip, Cluster({})), accelerator).config


@pytest.mark.parametrize(
    ("machine", "batch_size"),
    [
        ({"replicas": 1}, 32),
        ({"replicas": 2}, 64),
        ({"replicas": 2, "accelerator": "l4-2"}, 64),
        ({"replicas": 2, "images": 11}, 10),
        ({"replicas": 2, "image_size": (720, 960)}, 2 * 8),
        ({"replicas": 8, "kind": "tpu"}, 256),
        ({"replicas": 1, "kind": "cpu"}, 1),
        ({"replicas": 2, "kind": "cpu"}, 2),
    ],
)
def test_default_batch_is_that_of_the_devices_named_or_not(machine, batch_size):
    resolved = resolve(TrainConfig(batch_size=0), **machine)
    assert (resolved.batch_size, resolved.learning_rate_scaling) == (batch_size, "capped")


def test_remedies_for_a_batch_that_two_devices_cannot_share_work():
    with pytest.raises(
        UserError, match="batch_size is 1, which 2 replicas cannot share; set it to 2, or to 0 for"
    ):
        resolve(TrainConfig(batch_size=1))
    assert resolve(TrainConfig(batch_size=2)).batch_size == 2
    assert resolve(TrainConfig(batch_size=0)).batch_size == 64
