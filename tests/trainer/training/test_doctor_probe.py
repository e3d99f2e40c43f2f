"""The module that shows what a training depends on, tried here."""

import errno
import json
import os
import pathlib
import subprocess
import types

import pytest

from tests import patches
from tests.refusals import refused
from trainer.__main__ import _parser, main
from trainer.errors import FailedError
from trainer.io import files
from trainer.network.model_folder import HISTORY
from trainer.settings.flags import settings_of
from trainer.training import doctor_probe, host
from trainer.training.doctor_probe import BAD, GOOD, NOTE
from trainer.training.settings import TrainConfig
from trainer.training.start import check_training


def test_user_limits_and_devices_are_those_of_this_process(tmp_path):
    found = {fact.name: fact for fact in doctor_probe.machine_facts(tmp_path)}
    assert found["user"].value.startswith(f"{os.getuid()}:{os.getgid()} (")
    shell = subprocess.run(["bash", "-c", "ulimit -l"], capture_output=True, text=True, check=True).stdout.strip()
    soft = found["locked memory"].value.partition(" of ")[0]
    assert soft == ("unlimited" if shell == "unlimited" else f"{int(shell) * 1024} bytes")
    size = os.statvfs("/dev/shm")
    assert found["shared memory"].value == f"{size.f_frsize * size.f_blocks / 2**20:.0f} MiB at /dev/shm"
    assert [name for name in doctor_probe.REQUIRED if found[name].state != GOOD] == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("needed", "state"), [(1, GOOD), (2**50, NOTE)])
def test_shared_memory_that_is_too_small_for_several_gpus_is_noted(needed, state, monkeypatch):
    monkeypatch.setattr(host, "NCCL_SHARED_BYTES", needed)
    fact = doctor_probe.shared_memory()
    assert (fact.state, "Several GPUs" in fact.means) == (state, state == NOTE)


def refuse(*arguments):
    raise PermissionError(errno.EPERM, "Operation not permitted")


def test_operations_that_the_trainer_does_without_are_notes_and_others_are_bad(tmp_path, monkeypatch):
    monkeypatch.setattr(pathlib.Path, "chmod", refuse)
    found = {fact.name: fact for fact in doctor_probe.file_operations(tmp_path)}
    assert str(found["chmod"]) == "chmod: Operation not permitted (not needed)"
    assert {fact.state for name, fact in found.items() if name != "chmod"} == {GOOD}
    (tmp_path / "file").touch()
    states = {fact.name: fact.state for fact in doctor_probe.file_operations(tmp_path / "file")}
    assert {name for name, state in states.items() if state == BAD} == set(doctor_probe.REQUIRED)


@pytest.fixture
def call(monkeypatch):
    """The commands of the step that are run, with their variables; `status` has how they end."""
    calls, status = [], {}

    def run(words, env):
        arguments = words[3:]
        calls.append((arguments, env))
        if arguments[0] not in status:
            checked(arguments)
        return subprocess.CompletedProcess(words, status.get(arguments[0], 0))

    monkeypatch.setattr(doctor_probe, "subprocess", types.SimpleNamespace(run=run))
    return calls, status


def checked(arguments):
    """Fetch for real, and check all that `train` checks before it loads TensorFlow (tests of it train)."""
    if arguments[0] == "fetch":
        main(arguments)
        return
    parsed = _parser().parse_args(arguments)
    check_training(
        settings_of(TrainConfig, parsed), parsed.dataset_dir, parsed.output_dir, None, parsed.accelerator
    )
    output = pathlib.Path(parsed.output_dir)
    output.mkdir()
    epoch = {
        "epoch": 1,
        "steps": 1,
        "loss": 2.25,
        "valid_loss": 2.5,
        "seconds": 1.0,
        "images_per_s": 8.0,
        "best": True,
    }
    (output / HISTORY).write_text(f"{json.dumps(epoch)}\n")


def report_of(bucket, tmp_path, monkeypatch):
    """Run the module for a folder of the bucket; the facts of its report."""
    patches.replace(monkeypatch, files, "MOUNT", tmp_path / "gcs")
    arguments = ["--folder", f"gs://{bucket.name}/doctor/1", "--image-size", "24x32", "--accelerator", "cpu"]
    try:
        doctor_probe.main(arguments)
    finally:
        report = bucket.blob(f"doctor/1/{doctor_probe.REPORT}").download_as_text().splitlines()
    return {fact["name"]: fact for fact in map(json.loads, report)}


def test_one_step_is_trained_and_the_report_is_put_in_the_bucket(bucket, tmp_path, monkeypatch, capsys, call):
    monkeypatch.setenv("PJRT_DEVICE", "TPU")
    facts = report_of(bucket, tmp_path, monkeypatch)
    assert facts["training"]["value"].startswith("one step on 8 images, loss 2.250, ")
    assert facts["folder"]["value"] == f"{tmp_path}/gcs/{bucket.name}/doctor/1"
    assert facts["mkdir"]["value"] == "works"
    assert "\ntraining: one step on 8 images, loss 2.250, " in capsys.readouterr().out
    # Images are drawn without the accelerator, and trained on with it.
    (fetch, without), (train, with_device) = call[0]
    assert "PJRT_DEVICE" not in without
    assert with_device["PJRT_DEVICE"] == "TPU"
    assert "--accelerator=cpu" in train
    assert not [flag for flag in fetch if "accelerator" in flag]


def test_training_that_fails_is_an_error_after_the_report(bucket, tmp_path, monkeypatch, call):
    call[1]["train"] = 134
    with refused(FailedError, "training"):
        report_of(bucket, tmp_path, monkeypatch)
    report = bucket.blob(f"doctor/1/{doctor_probe.REPORT}").download_as_text().splitlines()
    last = json.loads(report[-1])
    assert (last["name"], last["state"]) == ("training", BAD)
    assert "134" in last["value"]
