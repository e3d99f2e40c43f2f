"""A mounted bucket with each set of flags, and with a writer that is killed: `make check-mount` runs it."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from tests import mounting, patches
from tests.mount_writes import MODEL, write_model
from tests.test_mount import OWNERS, check_writes
from trainer.errors import UserError
from trainer.io import files
from trainer.network import model_folder
from trainer.places.places import stored_at
from trainer.training.checkpoints import Marker

KILLED = """
import pathlib, sys
from tests.mount_writes import MODEL, write_model
from trainer.io import files

files.MOUNT = pathlib.Path(sys.argv[1])
write_model(pathlib.Path(sys.argv[2]), MODEL | {f"{index}.tfrecord": bytes(2**23) for index in range(12)})
"""


@pytest.fixture(autouse=True)
def needs_a_mount():
    assert not mounting.missing(), mounting.missing()


@pytest.mark.parametrize("flags", [(), mounting.RENAMES_FOLDERS], ids=["copies", "renames"])
@pytest.mark.parametrize("other", OWNERS, ids=["owner", "other"])
def test_run_writes_to_a_mounted_bucket(tmp_path, other, flags):
    check_writes(tmp_path, other, flags)


def test_copy_that_was_killed_is_not_taken_for_whole_and_is_written_again(tmp_path, monkeypatch):
    with mounting.bucket(tmp_path / "gcs") as (folder, bucket):
        model = folder / "run" / "model"
        writer = subprocess.Popen([sys.executable, "-c", KILLED, folder.parent, model], cwd=mounting.ROOT)
        while writer.poll() is None and not (model / "0.tfrecord").exists():
            time.sleep(mounting.PAUSE_S)
        writer.send_signal(signal.SIGKILL)
        assert writer.wait() == -signal.SIGKILL
        assert not (model / model_folder.MODEL_CONFIG).exists()
        assert not files.is_taken(model)
        patches.replace(monkeypatch, files, "MOUNT", folder.parent)
        write_model(model)
        names = {blob.name for blob in bucket.list_blobs(prefix="run/") if not blob.name.endswith("/")}
        assert names == {f"run/model/{name}" for name in MODEL}


def test_marker_of_a_training_is_seen_by_a_machine_whose_mount_never_looks_again(tmp_path, monkeypatch):
    one, two = tmp_path / "one", tmp_path / "two"
    two.mkdir()
    with mounting.bucket(one, *mounting.NEVER_LOOKS_AGAIN) as (_, bucket):
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", bucket.client.api_endpoint)
        with mounting.mounted(bucket.client.api_endpoint, two, *mounting.NEVER_LOOKS_AGAIN):
            markers = []
            for seed, mount in enumerate((one, two)):
                patches.replace(monkeypatch, files, "MOUNT", mount)
                monkeypatch.setattr("trainer.machine.processes.machine", lambda mount=mount: str(mount))
                markers.append(Marker(stored_at(f"{mount}/{bucket.name}/state").unmounted, {"seed": seed}))
            markers[0].write()
            with pytest.raises(UserError, match="another training writes its checkpoints to gs://runs/state"):
                markers[1].write()
            markers[0].remove()


def test_another_machine_reads_what_one_wrote_and_what_other_tools_uploaded(tmp_path, monkeypatch):
    with mounting.bucket(tmp_path / "gcs") as (folder, bucket):
        patches.replace(monkeypatch, files, "MOUNT", folder.parent)
        write_model(folder / "run" / "model")
        bucket.blob("data/images/1.jpg").upload_from_string(b"image")
        other = tmp_path / "other"
        other.mkdir()
        with mounting.mounted(bucket.client.api_endpoint, other) as mount:
            read = {name: (mount / bucket.name / "run/model" / name).read_bytes() for name in MODEL}
            assert read == MODEL
            found = [
                pathlib.Path(parent, name) for parent, _, names in os.walk(mount / "runs/data") for name in names
            ]
            assert [path.read_bytes() for path in found] == [b"image"]
