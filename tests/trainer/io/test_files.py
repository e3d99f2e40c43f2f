"""Files are written completely or not at all."""

import contextlib
import dataclasses
import errno
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import pytest

from tests import patches, refusals
from trainer.data import prepared_data
from trainer.errors import ContentError, PlaceError, UserError
from trainer.io import files
from trainer.io.files import (
    BESIDE,
    PARTIAL,
    check_output_path,
    checked_json,
    is_taken,
    read_json,
    read_toml,
    read_yaml,
    remove_leftovers,
    replacing,
    write_array,
)
from trainer.machine import processes
from trainer.models.find import choose_model
from trainer.places.places import stored_at

NOWHERE = "/proc/none"
"""A file system in which nobody can create files."""


@pytest.mark.parametrize("path", ["file/below", "x" * 256, NOWHERE])
def test_a_path_that_cannot_be_written_is_reported_before_anything_is(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(PlaceError), replacing(path):
        raise AssertionError("nothing may be written")
    with pytest.raises(PlaceError):
        check_output_path(path)
    check_output_path("new/deep/file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_existing_folder_is_reported(tmp_path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine").touch()
    with refusals.refused(PlaceError, "taken"), replacing(tmp_path / "taken") as partial:
        partial.write_text("new")
    assert [path.name for path in tmp_path.rglob("*")] == ["taken", "mine"]


def test_errors_of_other_files_are_not_place_errors(tmp_path):
    with refusals.refused(FileNotFoundError, "elsewhere"), replacing(tmp_path / "out"):
        (tmp_path / "elsewhere").read_text()
    assert not list(tmp_path.iterdir())


def test_a_folder_that_gets_files_needs_no_writable_parent(tmp_path, monkeypatch):
    (tmp_path / "maps").mkdir()
    monkeypatch.setattr(
        files, "_try", lambda folder: refused(errno.EACCES)(folder) if folder == tmp_path else None
    )
    check_output_path(tmp_path / "maps", into=True)
    for name, into in (("maps", False), ("new", True)):
        with pytest.raises(PlaceError):
            check_output_path(tmp_path / name, into)


def test_two_writers_of_one_path_have_separate_partial_files(tmp_path):
    with replacing(tmp_path / "out") as first, replacing(tmp_path / "out") as second:
        first.write_text("first")
        second.write_text("second")
        assert first.read_text() == "first"
    assert (tmp_path / "out").read_text() == "first"


# === A mounted bucket; tests/test_mount.py has the real one ===


def refused(code):
    """A function that raises the `OSError` of this code."""

    def refuse(path, *args, **kwargs):
        raise OSError(code, os.strerror(code), str(path))

    return refuse


@pytest.fixture
def mount(tmp_path, monkeypatch):
    """A folder with a mounted bucket's rules: another user owns it, and no folder can be renamed."""
    patches.replace(monkeypatch, files, "MOUNT", tmp_path / "gcs")
    rename, chmod = pathlib.Path.replace, os.chmod

    def replace(source, target):
        if source.is_dir():
            refused(errno.EMFILE)(source)
        if source.is_relative_to(files.MOUNT) != pathlib.Path(target).is_relative_to(files.MOUNT):
            refused(errno.EXDEV)(source)
        return rename(source, target)

    def on_mount(function, path):
        return refused(errno.EPERM) if pathlib.Path(path).is_relative_to(files.MOUNT) else function

    monkeypatch.setattr(pathlib.Path, "replace", replace)
    monkeypatch.setattr(os, "chmod", lambda path, mode: on_mount(chmod, path)(path, mode))
    monkeypatch.setattr(os, "utime", refused(errno.EPERM))
    (files.MOUNT / "bucket").mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "local"))
    (tmp_path / "local").mkdir()
    return files.MOUNT / "bucket"


def write_folder(partial):
    """Write a folder of three files; `a-last` is the first by its name."""
    (partial / "sub").mkdir(parents=True)
    for name in ("a-last", "b", "sub/c"):
        (partial / name).write_text(name)


def listed(folder):
    """The paths of all files below a folder."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("local", [True, False])
def test_folder_that_cannot_be_renamed_is_copied_with_the_named_file_last(mount, monkeypatch, local):
    order = []
    copy = shutil.copyfile

    def copyfile(source, target):
        order.append(target.name)
        assert is_taken(mount / "data") is False  # as long as it is unfinished
        return copy(source, target)

    monkeypatch.setattr(shutil, "copyfile", copyfile)
    if not local:
        patches.replace(monkeypatch, files, "MOUNT", pathlib.Path("/elsewhere"))
    with replacing(mount / "data", last="a-last") as partial:
        # Each byte is sent to the bucket once.
        assert partial.is_relative_to(mount) is not local
        write_folder(partial)
    assert order == ["b", "c", "a-last"]
    assert listed(mount.parent.parent) == [f"gcs/bucket/data/{name}" for name in ("a-last", "b", "sub/c")]
    assert not list((mount.parent.parent / "local").iterdir())


def test_file_on_a_mounted_bucket_is_written_on_the_local_disk_and_replaces_the_other(mount):
    (mount / "report.html").write_text("old")
    with replacing(mount / "report.html") as partial:
        assert partial.suffix == ".html"
        assert not partial.is_relative_to(mount)
        partial.write_text("new")
        assert (mount / "report.html").read_text() == "old"
    assert (mount / "report.html").read_text() == "new"
    assert listed(mount.parent.parent) == ["gcs/bucket/report.html"]


def test_interrupted_copy_is_replaced(mount, monkeypatch):
    with monkeypatch.context() as patch:
        patches.replace(patch, files, "remove_path", lambda path: None)  # as if the process were killed
        patch.setattr(shutil, "copyfile", refused(errno.EIO))
        with pytest.raises(PlaceError), replacing(mount / "data") as partial:
            write_folder(partial)
    (mount / "data" / "stale").touch()
    assert not is_taken(mount / "data")
    with replacing(mount / "data", last="a-last") as partial:
        write_folder(partial)
    assert is_taken(mount / "data")
    assert listed(mount / "data") == ["a-last", "b", "sub/c"]


def test_error_while_a_folder_is_copied_leaves_nothing(mount, monkeypatch):
    def fail(source, target):
        raise OSError([(str(source), str(target), "the bucket is gone")])  # without a number, as of shutil.Error

    monkeypatch.setattr(shutil, "copyfile", fail)
    with refusals.refused(PlaceError, "the bucket is gone"), replacing(mount / "data") as partial:
        write_folder(partial)
    assert not listed(mount.parent.parent)


def test_existing_folder_on_a_mounted_bucket_stays(mount):
    write_folder(mount / "data")
    with refusals.refused(PlaceError, "data"), replacing(mount / "data") as partial:
        write_folder(partial)
    assert listed(mount / "data") == ["a-last", "b", "sub/c"]


def test_full_local_disk_is_named_for_an_output_on_a_mounted_bucket(mount):
    with refusals.refused(UserError, mount / "data", "TMPDIR"), replacing(mount / "data") as partial:
        refused(errno.ENOSPC)(partial)
    assert not listed(mount.parent.parent)


# === Arrays ===


MAP = np.random.default_rng(0).random((30, 40), np.float32)


@pytest.mark.parametrize("array", [MAP, MAP[:, ::2].T, np.zeros((0, 3)), np.int64(3)])
def test_bytes_are_those_of_numpy(array, tmp_path):
    expected = io.BytesIO()
    np.save(expected, array)
    write_array(tmp_path / "array.npy", array)
    assert (tmp_path / "array.npy").read_bytes() == expected.getvalue()


def test_full_disk_is_an_error_with_its_number():
    with pytest.raises(OSError) as error:
        write_array(pathlib.Path("/dev/full"), np.zeros(100_000))
    assert error.value.errno == errno.ENOSPC


WRITE = """
import pathlib, resource, sys
import numpy as np
from trainer.errors import reported
from trainer.prediction.predict import write_result

resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, 10**6))
with reported():
    write_result(pathlib.Path(sys.argv[1]), "npy", np.zeros((2000, 2000), np.float32), None)
"""


def test_map_that_has_no_room_ends_prediction_with_a_sentence(tmp_path):
    command = [sys.executable, "-c", WRITE, tmp_path / "map.npy"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert finished.returncode == 1
    assert finished.stderr.startswith(f"error: no space left to write {tmp_path}/map.npy (")
    assert finished.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


# === The mount ===


@pytest.mark.parametrize(
    "read",
    [
        files.local_path,
        prepared_data.Manifest.load,
        lambda path: stored_at(path).objects(),
        lambda path: choose_model(path),
        lambda path: read_toml(pathlib.Path(path, "a.toml"), ""),
    ],
)
def test_a_path_below_the_mount_is_named_by_its_address_where_nothing_is_mounted(read, tmp_path, monkeypatch):
    patches.replace(monkeypatch, files, "MOUNT", tmp_path / "gcs")
    with refusals.refused(ContentError, tmp_path / "gcs", "gs://bucket/data/set"):
        read(f"{tmp_path}/gcs/bucket/data/set")
    (tmp_path / "gcs" / "bucket").mkdir(parents=True)
    with (
        contextlib.nullcontext() if read is files.local_path else pytest.raises(UserError, match=r"^(?!.*mounted)")
    ):
        read(f"{tmp_path}/gcs/bucket/data/set")
    assert files.local_path(f"{tmp_path}/gcs/bucket/data") == tmp_path / "gcs" / "bucket" / "data"
    assert files.local_path(f"{tmp_path}/gcs") == tmp_path / "gcs"


def test_nothing_is_written_below_the_mount_where_nothing_is_mounted(tmp_path, monkeypatch):
    """Whoever may make the folder would find the results on no bucket."""
    patches.replace(monkeypatch, files, "MOUNT", tmp_path / "gcs")
    output = tmp_path / "gcs" / "bucket" / "maps"
    with refusals.refused(ContentError, "gs://bucket/maps"), files.replacing(output):
        pass
    assert not (tmp_path / "gcs").exists()
    output.parent.mkdir(parents=True)
    with files.replacing(output) as partial:
        partial.write_text("a map")
    assert output.read_text() == "a map"


# === Files that others wrote ===

READERS = {
    "JSON": (lambda path: read_json(path, "", dict), "[]", "{}"),
    "TOML": (lambda path: read_toml(path, ""), "a = []", ""),
    "YAML": (lambda path: read_yaml(path, ""), "[]", "{}"),
}
"""Format -> its reader, a list in it, and a sound file."""


@pytest.mark.parametrize("name", READERS)
def test_what_is_no_plain_file_or_too_large_is_not_read(name, tmp_path, monkeypatch):
    read, _, sound = READERS[name]
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setitem(files.MOST_BYTES, name, 1000)
    for place in ("/dev/zero", "/dev/full", tmp_path / "pipe", tmp_path, "/proc/kcore", "a\0b", "x" * 300, "none"):
        with pytest.raises(ContentError):
            read(pathlib.Path(place))
    for length in (1000, 1001):
        (tmp_path / "file").write_text(sound.ljust(length))
        with contextlib.nullcontext() if length == 1000 else refusals.refused(ContentError, "1,000"):
            assert read(tmp_path / "file") == {}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("depth", [files.MOST_LEVELS + 1, 1000, 20_000])
def test_deeply_nested_values_are_refused(name, depth, tmp_path):
    read, inner, _ = READERS[name]
    (tmp_path / "file").write_text(inner.replace("[]", "[" * depth + "]" * depth))
    with pytest.raises(ContentError):
        read(tmp_path / "file")


def test_dotted_keys_and_aliases_do_not_lead_around_the_limit_of_depth(tmp_path):
    (tmp_path / "keys.toml").write_text(".".join("a" * 1000) + " = 1")
    (tmp_path / "alias.yaml").write_text("a: &a [x]\nb: [*a, *a]\n")
    for name, read in (("keys.toml", read_toml), ("alias.yaml", read_yaml)):
        with pytest.raises(ContentError):
            read(tmp_path / name, "")


WRONG = {
    "items": lambda n: json.dumps([1] * (n // 3)),
    "mappings": lambda n: json.dumps([{}] * (n // 4)),
    "keys": lambda n: json.dumps(dict.fromkeys(map(str, range(n // 12)), 1)),
    "deeper": lambda n: json.dumps({"a": {str(key): [1] for key in range(n // 14)}}),
    "images": lambda n: json.dumps({"images": [{"regions": [1] * 10}] * (n // 50)}),
}
READS = """
import contextlib, pathlib, sys
from trainer.data.prepared_data import Manifest
from trainer.errors import ContentError
from trainer.io.files import read_json
from trainer.models.registry_layout import Aliases
from trainer.network.model_folder import ModelConfig
from trainer.prediction.regions import MarkedRegion, Predicted

kinds = list[MarkedRegion] | Predicted, Manifest, dict[str, dict[str, list[str]]], Aliases, ModelConfig
for name in ("small", "large"):
    for kind in kinds:
        with contextlib.suppress(ContentError):
            read_json(pathlib.Path(sys.argv[1], name), "", kind)
    status = pathlib.Path("/proc/self/status").read_text()
    print(1024 * int(status.partition("VmHWM:")[2].split()[0]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process's memory is read from /proc")
@pytest.mark.parametrize("wrong", WRONG)
def test_a_file_full_of_wrong_values_takes_memory_like_a_sound_one(wrong, tmp_path):
    """JSON takes up to 40 times its size in Python. An error for each value takes a kilobyte more."""
    for name, n_bytes in (("small", 100), ("large", 4_000_000)):
        (tmp_path / name).write_text(WRONG[wrong](n_bytes))
    finished = subprocess.run([sys.executable, "-c", READS, tmp_path], capture_output=True, text=True, timeout=300)
    before, after = map(int, finished.stdout.split())
    assert (after - before) / (tmp_path / "large").stat().st_size < 50


@pytest.mark.parametrize(
    ("kind", "value", "key"),
    [
        (list[int], [1, "a", "b"], "1"),
        (dict[str, int], {"a": 1, "b": "c", "d": "e"}, "b"),
        (dict[str, dict[str, list[int]]], {"a": {"b": [1], "c": [1, 2, "d"]}, "e": 1}, "a.c.2"),
        (dict[str, int], [1], "the whole"),
    ],
)
def test_the_first_wrong_value_is_named(kind, value, key):
    with refusals.refused(ContentError, f"({key}"):
        checked_json(value, "it", "", kind)


def test_sound_values_are_made_and_returned_as_they_are():
    value = {"a": {"b": [1, 2]}, "c": {}}
    assert checked_json(value, "", "", dict[str, dict[str, list[int]]]) is value
    assert checked_json({"sizes": {"a": [1, 2]}}, "", "", Sizes) == Sizes({"a": (1, 2)})


@dataclasses.dataclass
class Sizes:
    """A dataclass, of which instances are made, with a mapping."""

    sizes: dict[str, tuple[int, int]]


def test_a_folder_that_is_removed_at_once_is_never_seen_in_part(tmp_path, monkeypatch):
    """Removing it file by file would leave half of it for a while, or for good if the process is killed."""
    (tmp_path / "2" / "variables").mkdir(parents=True)
    monkeypatch.setattr(shutil, "rmtree", lambda *arguments, **options: None)
    files.remove_path(tmp_path / "2", at_once=True)
    assert [path.name for path in tmp_path.iterdir()] == [f"{PARTIAL}2"]


# === Temporary folders ===


MAKES = """
import pathlib, sys, time
from trainer.io import files
from trainer.machine import processes
if sys.argv[3]:
    processes.machine = lambda: sys.argv[3]
with files.temporary_folder(), files.replacing(pathlib.Path(sys.argv[1], "out")) as partial:
    partial.write_text("half")
    if sys.argv[2] == "wait":
        print(flush=True)
        time.sleep(600)
"""


def made(folder, how, machine=""):
    """A process that makes a file `out` in a folder; it waits in the middle, or has ended."""
    command = (sys.executable, "-c", MAKES, str(folder), how, machine)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(folder)})
    if how == "wait":
        process.stdout.readline()
    else:
        process.communicate()
        assert process.returncode == 0
    return process


def killed(process):
    process.kill()
    process.wait()
    process.stdout.close()


def test_what_a_killed_process_leaves_is_removed_by_the_next_and_nothing_of_others(tmp_path):
    with contextlib.ExitStack() as stack:
        processes = [made(tmp_path, "wait", machine) for machine in ("", "", "other")]
        for process in processes:
            stack.callback(killed, process)
        left = [
            set(tmp_path.glob(f".partial-*-{each.pid}-*")) | set(tmp_path.glob(f"msinet-*-{each.pid}-*"))
            for each in processes
        ]
        assert [len(each) for each in left] == [2, 2, 2]
        (tmp_path / "msinet-notes").mkdir()
        for process in (processes[0], processes[2]):
            killed(process)
        assert set(tmp_path.iterdir()) == {tmp_path / "msinet-notes"}.union(*left)
        made(tmp_path, "end")
        assert set(tmp_path.iterdir()) == {tmp_path / "msinet-notes", tmp_path / "out"} | left[1] | left[2]


def test_process_is_told_from_a_later_one_with_its_id_and_from_another_user(tmp_path):
    where, own = files._short(processes.machine()), os.getpid()
    names = {f"{PARTIAL}{where}-{own}-{start}-x" for start in (processes.start_of(own), "1")}
    for name in names:
        (tmp_path / name).mkdir()
    if os.getuid() == 0:
        names.add(f"{PARTIAL}{where}-{own}-2-x")
        (tmp_path / f"{PARTIAL}{where}-{own}-2-x").mkdir()
        os.chown(tmp_path / f"{PARTIAL}{where}-{own}-2-x", 12345, -1)
    with files.temporary_folder(PARTIAL, tmp_path):
        pass
    assert {path.name for path in tmp_path.iterdir()} == names - {f"{PARTIAL}{where}-{own}-1-x"}


def test_leftovers_of_every_kind_are_removed_and_nothing_else(tmp_path):
    for name in (f"{PARTIAL}a", f"{BESIDE}b", "data", ".git"):
        (tmp_path / name).mkdir()
    remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".git", "data"]
