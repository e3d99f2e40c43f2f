"""Checkpoints: every bit is restored, damaged files are detected and skipped, and no partial file is ever left."""

import io
import json
import pathlib
import resource
import shutil
import threading
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf
from google.cloud.storage import Bucket

from tests import patches
from tests.refusals import refused
from trainer.errors import ConflictError, ContentError, MismatchError, PlaceError, UnreachableError, UserError
from trainer.io import files
from trainer.machine.processes import start_of
from trainer.places import buckets
from trainer.places.places import stored_at
from trainer.training import checkpoints as training_checkpoints
from trainer.training.checkpoints import KEEP, MARKER, STATE, Checkpoints, Marker, Progress
from trainer.training.step import Network

IDENTITY = {"learning_rate": 1e-3, "image_size": (24, 32)}
ROW = {"epoch": 1, "loss": 0.1 + 0.2}


class Run:
    """A network and its optimizer; every step changes every variable."""

    def __init__(self, seed: int, units: int = 3, strategy: tf.distribute.Strategy | None = None) -> None:
        keras.utils.clear_session(free_memory=False)  # only for the names of the layers
        self._strategy = strategy or tf.distribute.get_strategy()
        with self._strategy.scope():
            initializer = keras.initializers.GlorotUniform(seed)
            layer = keras.layers.Dense(units, kernel_initializer=initializer, name="dense")
            self.model = keras.Sequential([keras.Input((5,)), layer])
            self.optimizer = keras.optimizers.Adam(1e-2)
            self.optimizer.build(self.model.trainable_variables)

    def step(self) -> None:
        variables = self.model.trainable_variables
        self._strategy.run(lambda: self.optimizer.apply([tf.sin(variable) for variable in variables], variables))

    def arrays(self) -> list[np.ndarray]:
        return [np.array(one.value.numpy()) for one in (*self.model.variables, *self.optimizer.variables)]

    def checkpoints(self, folder, identity=IDENTITY, writable=True) -> Checkpoints:
        return Checkpoints(folder, Network(self.model, self.optimizer), identity, writable)


def assert_same(arrays: list[np.ndarray], expected: list[np.ndarray]) -> None:
    assert [array.tobytes() for array in arrays] == [array.tobytes() for array in expected]
    assert [array.dtype for array in arrays] == [array.dtype for array in expected]


def restored(folder, **options) -> tuple[Progress, list[np.ndarray]]:
    run = Run(seed=7)
    with run.checkpoints(folder, **options) as checkpoints:
        progress = checkpoints.restore()
        return progress, run.arrays()


@pytest.fixture
def saved(tmp_path):
    """A folder with checkpoints after epoch 1, steps 0 and 5; Progress and arrays of both."""
    run = Run(seed=1)
    states = []
    with run.checkpoints(tmp_path / "state") as checkpoints:
        checkpoints.restore()
        for step in (0, 5):
            run.step()
            checkpoints.keep_best()
            progress = Progress(1, step, 0.1 * step, 2.5, best_epoch=1, best_loss=0.7, history=[ROW])
            checkpoints.save(progress)
            states.append((progress, run.arrays()))
    return tmp_path / "state", states


def newest(folder: pathlib.Path) -> pathlib.Path:
    return folder / "after-epoch-0001-step-000005.npz"


def contents(folder: pathlib.Path) -> dict[str, tuple[int, bytes]]:
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()}


# === Restoring ===


def test_every_bit_of_weights_optimizer_and_progress_comes_back(saved, capsys):
    folder, (_, (progress, arrays)) = saved
    restored_progress, values = restored(folder)
    assert restored_progress == progress
    assert_same(values, arrays)
    assert f"resuming after epoch 1, step 5 ({newest(folder)})" in capsys.readouterr().out


def test_what_is_saved_is_the_state_at_the_call_whatever_follows(tmp_path):
    run = Run(seed=1)
    gate = threading.Event()
    with run.checkpoints(tmp_path) as checkpoints:
        checkpoints._thread.submit(gate.wait)  # so that writing starts after the steps below
        run.step()
        progress, arrays = Progress(step=1), run.arrays()
        checkpoints.save(progress)
        progress.step = 2
        run.step()
        gate.set()
    restored_progress, values = restored(tmp_path)
    assert restored_progress.step == 1
    assert_same(values, arrays)


def test_best_weights_stay_while_training_goes_on_and_come_back(tmp_path):
    run = Run(seed=1)
    with run.checkpoints(tmp_path) as checkpoints:
        best = run.arrays()[: len(run.model.variables)]
        checkpoints.keep_best()
        for step in range(1, 5):
            run.step()
            checkpoints.save(Progress(1, step, best_epoch=1))
        assert_same(checkpoints.best_weights(), best)
    again = Run(seed=7)
    with again.checkpoints(tmp_path) as checkpoints:
        checkpoints.restore()
        assert_same(checkpoints.best_weights(), best)
        assert not np.array_equal(again.arrays()[0], best[0])


def test_a_run_goes_on_to_the_same_bits(tmp_path):
    whole = Run(seed=1)
    for _ in range(6):
        whole.step()
    first = Run(seed=1)
    for _ in range(3):
        first.step()
    with first.checkpoints(tmp_path) as checkpoints:
        checkpoints.save(Progress(step=3))
    second = Run(seed=7)
    with second.checkpoints(tmp_path) as checkpoints:
        checkpoints.restore()
    for _ in range(3):
        second.step()
    assert_same(second.arrays(), whole.arrays())


def test_a_checkpoint_of_one_device_is_taken_up_by_a_strategy_and_the_other_way_round(tmp_path):
    one = Run(seed=1)
    one.step()
    with one.checkpoints(tmp_path) as checkpoints:
        checkpoints.save(Progress(step=1))
    mirrored = Run(seed=7, strategy=tf.distribute.MirroredStrategy(["CPU:0"]))
    with mirrored.checkpoints(tmp_path) as checkpoints:
        assert checkpoints.restore().step == 1
        assert_same(mirrored.arrays(), one.arrays())
        mirrored.step()
        checkpoints.save(Progress(step=2))
    restored_progress, values = restored(tmp_path)
    assert restored_progress.step == 2
    assert_same(values, mirrored.arrays())
    assert not np.array_equal(values[0], one.arrays()[0])


# === Damage ===


def with_state(**changes):
    """A damage that changes values of the state, and leaves the checkpoint's checksums right."""

    def damage(content: bytes) -> bytes:
        file = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(file, "w") as new:
            for name in old.namelist():
                state = json.dumps(json.loads(old.read(STATE)) | changes)
                new.writestr(name, state if name == STATE else old.read(name))
        return file.getvalue()

    return damage


def other_zip(content: bytes) -> bytes:
    file = io.BytesIO()
    np.savez(file, weights=np.arange(3))
    return file.getvalue()


DAMAGES = {
    "empty": lambda content: b"",
    "half": lambda content: content[: len(content) // 2],
    "of zeros": lambda content: bytes(len(content)),
    "another zip": other_zip,
    "with a text as epoch": with_state(progress={"epoch": "one"}),
    "with too many arrays": with_state(counts={"model": 9, "optimizer": 9, "best": 9}),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_checkpoint_is_skipped_and_the_loss_is_printed(saved, capsys, damage):
    folder, ((progress, arrays), _) = saved
    newest(folder).write_bytes(damage(newest(folder).read_bytes()))
    restored_progress, values = restored(folder)
    assert restored_progress == progress
    assert_same(values, arrays)
    assert f"skipping checkpoint {newest(folder)}: " in capsys.readouterr().out


def test_a_flipped_bit_anywhere_is_seen_or_changes_nothing(saved):
    """Flip bits in arrays, state and zip records; not all bits of those matter, such as the time of a member."""
    folder, ((older, _), (progress, arrays)) = saved
    content = newest(folder).read_bytes()
    run = Run(seed=7)
    fallbacks = 0
    checkpoints = run.checkpoints(folder, writable=False)
    for position in range(0, len(content), 13):
        newest(folder).write_bytes(
            content[:position] + bytes([content[position] ^ 1 << position % 8]) + content[position + 1 :]
        )
        restored_progress = checkpoints.restore()
        assert restored_progress in (progress, older)
        fallbacks += restored_progress == older
        if restored_progress == progress:
            assert_same(run.arrays(), arrays)
    checkpoints.close()
    assert fallbacks > 0.7 * len(content) / 13


def test_if_all_checkpoints_are_damaged_nothing_is_started_or_removed(saved):
    folder, _ = saved
    for path in folder.iterdir():
        path.write_bytes(b"")
    run = Run(seed=1)
    before = run.arrays()
    with refused(ContentError, 2, folder), run.checkpoints(folder) as checkpoints:
        checkpoints.restore()
    assert_same(run.arrays(), before)
    assert len(list(folder.iterdir())) == 2


def test_after_falling_back_the_damaged_file_is_removed_once_a_new_one_is_written(saved):
    folder, _ = saved
    newest(folder).write_bytes(b"")
    run = Run(seed=7)
    with run.checkpoints(folder) as checkpoints:
        checkpoints.restore()
        assert newest(folder).exists()
        run.step()
        checkpoints.save(Progress(1, 3))
    assert {path.name for path in folder.iterdir()} == {
        "after-epoch-0001-step-000000.npz",
        "after-epoch-0001-step-000003.npz",
    }
    assert restored(folder)[0].step == 3


# === Refused checkpoints ===


def test_a_checkpoint_of_another_run_is_refused_with_what_differs(saved):
    with refused(MismatchError, "learning_rate 0.001, now 0.1", "seed not recorded, now 4"):
        restored(saved[0], identity={**IDENTITY, "learning_rate": 0.1, "seed": 4})
    with refused(MismatchError, "'123456789012'"):  # not all of its 64 digits
        restored(saved[0], identity={**IDENTITY, "data": {"fingerprint": "123456789012" + "a" * 52}})


@pytest.mark.parametrize("differs", ["model", "optimizer"])
def test_a_checkpoint_of_another_network_changes_nothing(saved, differs):
    run = Run(seed=1, units=4 if differs == "model" else 3)
    if differs == "optimizer":
        run.optimizer = keras.optimizers.SGD(0.1)
        run.optimizer.build(run.model.trainable_variables)
    before = run.arrays()
    with refused(MismatchError, differs), run.checkpoints(saved[0]) as checkpoints:
        checkpoints.restore()
    assert_same(run.arrays(), before)


def test_a_checkpoint_of_another_format_is_refused(saved):
    newest(saved[0]).write_bytes(with_state(format=99)(newest(saved[0]).read_bytes()))
    with refused(MismatchError, 99):
        restored(saved[0])


# === Files ===


def test_the_newest_are_kept_and_other_files_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("keep")
    run = Run(seed=1)
    with run.checkpoints(tmp_path) as checkpoints:
        checkpoints.restore()
        for epoch, step in [(0, 1), (0, 9), (0, 10), (1, 0), (9, 0), (10, 0)]:
            checkpoints.save(Progress(epoch, step))
    assert KEEP == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "after-epoch-0009-step-000000.npz",
        "after-epoch-0010-step-000000.npz",
        "notes.txt",
    ]
    assert restored(tmp_path)[0].epoch == 10


def test_leftovers_of_writes_that_were_cut_off_are_removed_by_the_writer_alone(saved):
    folder, _ = saved
    leftover = folder / ".partial-4711-after-epoch-0001-step-000006.npz"
    leftover.write_bytes(b"half of it")
    before = contents(folder)
    assert restored(folder, writable=False)[0].step == 5
    assert contents(folder) == before
    restored(folder)
    assert not leftover.exists()


def test_a_reader_writes_nothing(saved):
    folder, _ = saved
    newest(folder).write_bytes(b"damaged")
    before = contents(folder)
    run = Run(seed=1)
    with run.checkpoints(folder, writable=False) as checkpoints:
        assert checkpoints.restore().step == 0
        checkpoints.keep_best()
        checkpoints.save(Progress(3, 0))
    assert contents(folder) == before
    with run.checkpoints(folder.parent / "none", writable=False) as checkpoints:
        checkpoints.restore()
    assert not (folder.parent / "none").exists()


def test_disk_without_room_for_the_checkpoints_is_refused_before_the_first_step(saved, tmp_path, monkeypatch):
    folder, _ = saved
    run = Run(seed=1)
    one = sum(array.nbytes for array in run.arrays()) + sum(value.nbytes for value in run.model.get_weights())
    usage = shutil.disk_usage(tmp_path)
    # A new run writes one more than it keeps, a resumed one replaces those that it has.
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=files.LEFT_BYTES + one))
    with run.checkpoints(folder) as checkpoints:
        checkpoints.restore()
        checkpoints.check_room()
    with run.checkpoints(tmp_path / "new") as checkpoints:
        checkpoints.restore()
        with refused(PlaceError, tmp_path / "new", KEEP + 1):
            checkpoints.check_room()


def test_the_next_call_reports_no_space_and_the_earlier_checkpoint_stays(saved):
    folder, (_, (progress, _)) = saved
    names = sorted(path.name for path in folder.iterdir())
    run = Run(seed=7)
    checkpoints = run.checkpoints(folder)
    checkpoints.restore()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    named = "after-epoch-0001-step-000006.npz"
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        checkpoints.save(Progress(1, 6))
        with refused(UserError, named):
            checkpoints.save(Progress(1, 7))
        checkpoints.save(Progress(1, 6))
        with refused(UserError, named):
            checkpoints.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert sorted(path.name for path in folder.iterdir()) == names
    assert restored(folder)[0] == progress


# === Cloud Storage ===


def test_the_same_on_cloud_storage(bucket, capsys):
    address = f"gs://{bucket.name}/runs/state"
    run = Run(seed=1)
    with run.checkpoints(address) as checkpoints:
        assert checkpoints.restore() == Progress()
        for step in (1, 2, 3):
            run.step()
            checkpoints.keep_best()
            checkpoints.save(Progress(step=step, history=[ROW]))
            if step == 2:
                checkpoints.wait()
                older = run.arrays()
    names = [f"runs/state/after-epoch-0000-step-00000{step}.npz" for step in (2, 3)]
    assert [blob.name for blob in bucket.list_blobs()] == names
    progress, values = restored(address + "/")
    assert progress == Progress(step=3, history=[ROW])
    assert_same(values, run.arrays())

    content = bytearray(bucket.blob(names[1]).download_as_bytes())
    content[len(content) // 2] ^= 1
    bucket.blob(names[1]).upload_from_string(bytes(content))
    progress, values = restored(address, writable=False)
    assert_same(values, older)
    assert f"skipping checkpoint {address}/after-epoch-0000-step-000003.npz: " in capsys.readouterr().out
    with run.checkpoints(address) as checkpoints:
        checkpoints.restore()
        checkpoints.save(Progress(step=4))
    assert [blob.name[-8:] for blob in bucket.list_blobs()] == ["0002.npz", "0004.npz"]


def test_training_waits_while_cloud_storage_does_not_answer(bucket, gcs_url, monkeypatch, capsys):
    monkeypatch.setattr(buckets, "RETRY_S", 0.2)
    with Run(seed=1).checkpoints(f"gs://{bucket.name}/state") as checkpoints:
        checkpoints.restore()
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
        back = threading.Timer(1.0, monkeypatch.setenv, ("STORAGE_EMULATOR_HOST", gcs_url))
        back.start()
        checkpoints.save(Progress(step=1))
        checkpoints.wait()
        back.join()
    assert "cannot reach Cloud Storage" in capsys.readouterr().out
    assert bucket.get_blob("state/after-epoch-0000-step-000001.npz")


def test_training_ends_when_cloud_storage_does_not_answer_for_long(bucket, monkeypatch):
    monkeypatch.setattr(buckets, "RETRY_S", 0.2)
    monkeypatch.setattr(training_checkpoints, "PATIENCE_S", 0.0)
    with Run(seed=1).checkpoints(f"gs://{bucket.name}/state") as checkpoints:
        checkpoints.restore()
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
        with refused(UnreachableError, "Cloud Storage"):
            checkpoints.save(Progress(step=1))


# === Whose folder it is ===

ELSEWHERE = {"machine": "another", "host": "other-host", "process": 7, "since": "2026-03-02 11:00:00+00:00"}
GONE = {"process": 2**22 + 1}  # above pid_max: no process
LIVE = {"process": 1, "started": start_of(1)}
SAME_ID = {"process": 1, "started": "0"}
"""A process of an earlier container, whose id another process has now."""


def mark(folder, **values):
    """Write the marker that a training of `Run` leaves when it is killed, with other values."""
    marker = Marker(folder, IDENTITY)
    folder.write(MARKER, lambda file: file.write(json.dumps(marker._own | values).encode()))


@pytest.fixture(params=["disk", "cloud"])
def anywhere(request, tmp_path):
    """An empty folder of checkpoints."""
    if request.param == "disk":
        return stored_at(tmp_path / "state")
    return stored_at(f"gs://{request.getfixturevalue('bucket').name}/state")


def test_late_write_leaves_the_folder_to_the_training_that_took_it_over(anywhere):
    checkpoints = Run(seed=1).checkpoints(str(anywhere))
    checkpoints.restore()
    mark(anywhere, **ELSEWHERE)
    with refused(ConflictError, anywhere, "other-host"):
        checkpoints._write("after-epoch-0000-step-000001.npz", "{}", {})
    assert anywhere.names() == [MARKER]
    checkpoints.close()


@pytest.mark.parametrize("values", [GONE, SAME_ID, ELSEWHERE], ids=["killed", "same id", "elsewhere"])
def test_the_next_start_of_a_run_takes_the_folder_over(anywhere, values, capsys):
    mark(anywhere, **values)
    with Run(seed=1).checkpoints(str(anywhere)) as checkpoints:
        checkpoints.restore()
        assert f"taking {anywhere!s} over from process {values['process']}" in capsys.readouterr().out
        checkpoints.save(Progress(step=1))
    assert anywhere.names() == ["after-epoch-0000-step-000001.npz"]


@pytest.mark.parametrize("values", [LIVE, ELSEWHERE | {"run": "another"}], ids=["live here", "other settings"])
def test_a_folder_of_another_training_is_refused_and_stays_as_it_is(anywhere, values):
    mark(anywhere, **values)
    before = anywhere.content(MARKER)
    with (
        refused(ConflictError, f"process {values['process']}", anywhere.path(MARKER)),
        Run(seed=1).checkpoints(str(anywhere)) as checkpoints,
    ):
        checkpoints.restore()
    assert anywhere.content(MARKER) == before


@pytest.mark.parametrize("content", [b'{"job": ', b"[]", b'{"job": "1"}'])
def test_a_damaged_marker_is_replaced(tmp_path, content):
    (tmp_path / MARKER).write_bytes(content)
    with Run(seed=1).checkpoints(tmp_path) as checkpoints:
        checkpoints.restore()
        checkpoints.save(Progress(step=1))
    assert not (tmp_path / MARKER).exists()


@pytest.mark.parametrize("by", [ELSEWHERE, None], ids=["another", "ended"])
def test_a_run_whose_folder_was_taken_over_neither_writes_nor_removes(anywhere, by):
    with Run(seed=1).checkpoints(str(anywhere)) as checkpoints:
        checkpoints.restore()
        mark(anywhere, **by) if by else anywhere.remove(MARKER)
        before = anywhere.names()
        with refused(ConflictError, "process 7" if by else "ended"):
            checkpoints.save(Progress(step=6))
    assert anywhere.names() == before


def test_marker_on_a_mounted_bucket_is_in_the_bucket_itself(bucket: Bucket, tmp_path, monkeypatch):
    patches.replace(monkeypatch, files, "MOUNT", tmp_path)
    (tmp_path / bucket.name).mkdir()
    with Run(seed=1).checkpoints(tmp_path / bucket.name / "state") as checkpoints:
        checkpoints.restore()
        assert bucket.get_blob(f"state/{MARKER}")
    assert not list(bucket.list_blobs())
