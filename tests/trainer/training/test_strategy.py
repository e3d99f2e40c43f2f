"""The devices of a training. test_distributed.py tests what several devices compute."""

import json
import resource

import pytest
import tensorflow as tf

from tests import patches
from tests.refusals import refused
from trainer.errors import NotFoundError, SettingError, UnknownNameError
from trainer.machine import runtime
from trainer.training import step, strategy
from trainer.training.accelerators import ACCELERATORS, Accelerator
from trainer.training.strategy import Cluster, Devices

VERTEX = {"cluster": {"chief": ["a:2222"], "worker": ["b:2222", "c:2222"], "ps": ["server:2222"]}}
"""TF_CONFIG as Vertex AI sets it, with a third pool that does not train."""


def cluster(monkeypatch, content):
    monkeypatch.setenv("TF_CONFIG", content if isinstance(content, str) else json.dumps(content))
    return Cluster.from_environment()


def task(job, index):
    return {"type": job, "index": index}


def test_without_tf_config_there_is_one_machine():
    alone = Cluster.from_environment()
    assert (alone.size, alone.rank) == (1, 0)


@pytest.mark.parametrize(("job", "index", "rank"), [("chief", 0, 0), ("worker", 0, 1), ("worker", 1, 2)])
def test_chief_is_the_first_and_a_parameter_server_does_not_train(monkeypatch, job, index, rank):
    members = cluster(monkeypatch, {**VERTEX, "task": task(job, index)})
    assert (members.size, members.rank) == (3, rank)
    assert list(members.jobs) == ["chief", "worker"]


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("{", "TF_CONFIG"),
        ({"cluster": {"worker": ["a:1"]}}, "'task'"),
        ({"cluster": {"worker": ["a:1", "b:1"]}, "task": task("worker", 2)}, "worker 2"),
        ({**VERTEX, "task": task("ps", 0)}, "ps 0"),
    ],
)
def test_invalid_tf_config_is_refused(monkeypatch, content, named):
    with refused(SettingError, named):
        cluster(monkeypatch, content)


@pytest.mark.parametrize(
    ("name", "kind", "named"),
    [
        ("l4-8", NotFoundError, (8, 0)),
        ("v5e-4", NotFoundError, ()),
        ("l4-3", UnknownNameError, ()),
    ],
)
def test_missing_accelerator_is_an_error_not_a_slow_run(name, kind, named):
    with refused(kind, name, *named):
        strategy.connect_devices(name)


def test_tpu_is_used_if_the_process_is_set_up_for_it(monkeypatch):
    monkeypatch.setenv("PJRT_DEVICE", "TPU")
    monkeypatch.setattr(runtime, "TPU_LOCKED_BYTES", 0)
    with refused(NotFoundError, "TPU") as caught:
        strategy.connect_devices()
    assert "locked memory" not in str(caught.value)
    monkeypatch.setattr(runtime, "TPU_LOCKED_BYTES", 2**62)
    monkeypatch.setattr(resource, "getrlimit", lambda limit: (2**23, 2**23))
    for own, remedy in ((False, "SYS_RESOURCE"), (True, "hostUsers")):
        patches.replace(monkeypatch, runtime, "has_own_users", lambda own=own: own)
        with refused(NotFoundError, "locked memory", remedy):
            strategy.connect_devices()


def test_cpus_of_several_machines_do_not_train_together(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", json.dumps({**VERTEX, "task": task("chief", 0)}))
    with refused(SettingError, 3, "cpu"):
        strategy.connect_devices("cpu")


@pytest.mark.parametrize("name", ["", "cpu"])
def test_cpu_is_one_replica_and_the_chief(name):
    connected = strategy.connect_devices(name)
    assert (connected.kind, connected.replicas, connected.is_chief) == ("cpu", 1, True)
    assert connected.gather([3.0, 4.0]).tolist() == [[3.0, 4.0]]


# === Precision ===


def devices(kind, name=""):
    return Devices(
        tf.distribute.get_strategy(),
        kind,
        Accelerator.named(name).chip if name else None,
        Cluster({"worker": ["here"]}),
    )


@pytest.mark.parametrize("name", [name for name, row in ACCELERATORS.items() if row.image != "cpu"])
def test_automatic_precision_is_the_tables(name):
    row = Accelerator.named(name)
    assert step.resolve_precision("auto", devices(row.image, name)) == row.chip.precision
    assert row.chip.precision in row.chip.flops


@pytest.mark.parametrize(
    ("flags", "limit", "expected"),
    [
        ("fma avx512_bf16", "", "bfloat16"),
        ("amx_bf16", "avx512_core_bf16", "bfloat16"),
        ("avx2", "", "float32"),
        ("fma avx512_bf16", "AVX2", "float32"),
    ],
)
def test_automatic_precision_of_a_cpu_follows_its_instructions(monkeypatch, tmp_path, flags, limit, expected):
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    if limit:
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
    (tmp_path / "cpuinfo").write_text(f"flags : {flags}\n")
    patches.replace(monkeypatch, runtime, "CPU_INFO", tmp_path / "cpuinfo")
    assert step.resolve_precision("auto", devices("cpu")) == expected
