"""The command that shows what a training depends on, tried here."""

import errno
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import pytest

from trainer import machine, storage
from trainer.__main__ import _parser, main
from trainer.artifacts import HISTORY
from trainer.commands import probe
from trainer.config import TrainConfig
from trainer.machine import BAD, GOOD, NOTE
from trainer.settings_cli import settings
from trainer.training.checks import check_training


def test_user_limits_and_devices_are_those_of_this_process(tmp_path):
    found = {fact.name: fact for fact in machine.facts(tmp_path)}
    assert found["user"].value.startswith(f"{os.getuid()}:{os.getgid()} (")
    shell = subprocess.run(["bash", "-c", "ulimit -l"], capture_output=True, text=True, check=True).stdout.strip()
    soft = found["locked memory"].value.partition(" of ")[0]
    assert soft == ("unlimited" if shell == "unlimited" else f"{int(shell) * 1024} bytes")
    assert [name for name in machine.REQUIRED if found[name].state != GOOD] == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("limit", "raised", "device", "state", "means"),
    [
        (65536, False, "", GOOD, "enough for CPUs and GPUs; a TPU needs more"),
        (65536, False, "TPU", NOTE, "this process may not raise it"),
        (65536, True, "TPU", GOOD, "the training raises it, which works here"),
        (-1, False, "TPU", GOOD, ""),
    ],
)
def test_limit_of_locked_memory_is_explained(monkeypatch, limit, raised, device, state, means):
    limits = [limit, limit]
    monkeypatch.setenv("PJRT_DEVICE", device)
    monkeypatch.setattr("resource.getrlimit", lambda which: tuple(limits))
    monkeypatch.setattr(
        "resource.setrlimit", lambda which, new: limits.__setitem__(0, new[0]) if raised else refuse()
    )
    fact = machine.locked_memory()
    assert fact.state == state
    assert fact.means.endswith(means)
    assert fact.value == ("unlimited of unlimited" if limit < 0 else "65536 bytes of 65536 bytes")


def test_fuse_mounts_are_shown_with_their_options(tmp_path):
    table = tmp_path / "mounts"
    table.write_text("proc /proc proc rw 0 0\ngcsfuse /gcs fuse.gcsfuse rw,nosuid,user_id=0,allow_other 0 0\n")
    (fact,) = machine.mounts(table)
    assert fact.value == "/gcs fuse.gcsfuse rw,nosuid,user_id=0,allow_other"
    (fact,) = machine.mounts(tmp_path / "none")
    assert (fact.value, fact.state) == ("no FUSE mount", NOTE)


def refuse(*arguments):
    raise PermissionError(errno.EPERM, "Operation not permitted")


def test_operations_that_the_trainer_does_without_are_notes(tmp_path, monkeypatch):
    monkeypatch.setattr(pathlib.Path, "chmod", refuse)
    found = {fact.name: fact for fact in machine.file_operations(tmp_path)}
    assert str(found["chmod"]) == "chmod: Operation not permitted (not needed)"
    assert {fact.state for name, fact in found.items() if name != "chmod"} == {GOOD}


def test_folder_that_cannot_be_written_is_bad(tmp_path):
    (tmp_path / "file").touch()
    found = {fact.name: fact.state for fact in machine.file_operations(tmp_path / "file")}
    assert {name for name, state in found.items() if state == BAD} == set(machine.REQUIRED)


def test_training_that_fails_is_in_the_report_and_in_the_exit_status(tmp_path, monkeypatch):
    monkeypatch.setattr(probe, "_call", lambda arguments, variables: 134 if arguments[0] == "train" else 0)
    with pytest.raises(SystemExit, match="error: a training cannot work here: training"):
        main(["probe", "--folder", str(tmp_path / "new"), "--json"])
    lines = (tmp_path / "new" / probe.REPORT).read_text().splitlines()
    last = json.loads(lines[-1])
    assert last == {
        "name": "training",
        "value": "`train` ended with status 134",
        "state": "bad",
        "means": "its messages are above",
    }


def test_image_is_drawn_without_the_accelerator_and_trained_on_with_it(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setenv("PJRT_DEVICE", "TPU")

    def call(arguments, variables):
        calls.append((arguments, variables))
        return 1 if arguments[0] == "train" else 0

    monkeypatch.setattr(probe, "_call", call)
    *_, fact = probe.probe(str(tmp_path), "v5e-1", "72x96")
    assert fact.state == BAD
    (fetch, without), (train, with_device) = calls
    assert "PJRT_DEVICE" not in without
    assert with_device["PJRT_DEVICE"] == "TPU"
    assert "--accelerator=v5e-1" in train
    assert not [flag for flag in fetch if "accelerator" in flag]


def checked(arguments, variables):
    """Fetch for real, and check all that `train` checks before it loads TensorFlow (tests of it train)."""
    if arguments[0] == "fetch":
        main(arguments)
        return 0
    parsed = _parser().parse_args(arguments)
    check_training(settings(TrainConfig, parsed), parsed.dataset_dir, parsed.output_dir, None, parsed.accelerator)
    output = pathlib.Path(parsed.output_dir)
    output.mkdir()
    (output / HISTORY).write_text('{"epoch": 1, "loss": 2.25}\n')
    return 0


def test_one_step_is_trained_and_the_report_is_put_in_the_bucket(bucket, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(storage, "MOUNT", tmp_path / "gcs")
    monkeypatch.setattr(probe, "_call", checked)
    address = f"gs://{bucket.name}/msinet/doctor/1"
    main(["probe", "--folder", address, "--image-size", "24x32", "--accelerator", "cpu"])
    report = bucket.blob(f"msinet/doctor/1/{probe.REPORT}").download_as_text().splitlines()
    found = {fact["name"]: fact for fact in map(json.loads, report)}
    assert found["training"]["value"].startswith("one step on 8 images, loss 2.250, ")
    assert found["folder"]["value"] == f"{tmp_path}/gcs/{bucket.name}/msinet/doctor/1"
    assert found["mkdir"]["value"] == "works"
    assert "\ntraining: one step on 8 images, loss 2.250, " in capsys.readouterr().out


def test_without_a_folder_a_temporary_one_is_tried_and_removed(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)  # read the variable again
    call = probe._call
    monkeypatch.setattr(probe, "_call", lambda *given: (call if given[0][0] == "fetch" else checked)(*given))
    main(["probe", "--image-size", "24x32", "--json"])
    out, err = capfd.readouterr()
    found = {fact["name"]: fact for fact in map(json.loads, out.splitlines())}
    assert found["folder"]["value"].startswith(f"{tmp_path}/probe-")
    assert found["training"]["value"].startswith("one step on 8 images, ")
    assert not list(tmp_path.iterdir())
    assert "8 training and 8 validation images of sample-points\n" in err
    assert "next: " not in err


def test_command_runs_in_a_process_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    *_, fact = probe.probe(str(tmp_path), "", "72x96")
    assert fact.value == "`fetch` ended with status 1"
