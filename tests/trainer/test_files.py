"""Files are written completely or not at all."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from trainer.errors import PlaceError, UserError
from trainer.files import check_place, replacing

NOWHERE = "/proc/none"
"""A file system in which nobody can create files."""


@pytest.mark.parametrize("place", ["file/below", "x" * 250, NOWHERE])
def test_unwritable_place_is_reported_before_anything_is_written(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(PlaceError, match=r"^cannot write .* \(.*\); name another place"), replacing(place):
        raise AssertionError("nothing may be written")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_existing_folder_is_reported(tmp_path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine").touch()
    with pytest.raises(PlaceError, match=r"cannot write .*taken \(.*\)"), replacing(tmp_path / "taken") as partial:
        partial.write_text("new")
    assert [path.name for path in tmp_path.rglob("*")] == ["taken", "mine"]


def test_errors_of_other_files_are_not_place_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match="elsewhere"), replacing(tmp_path / "out"):
        (tmp_path / "elsewhere").read_text()
    assert not list(tmp_path.iterdir())


def forbidden(path):
    """The system's error for a user without permission for `path`; the superuser would not get it."""
    return PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def test_file_that_may_not_be_read_is_named_instead_of_the_output(tmp_path):
    source = tmp_path / "source"
    with (
        pytest.raises(
            UserError, match=r"^no permission for .*/source \(Permission denied\); change its permissions"
        ),
        replacing(tmp_path / "out"),
    ):
        raise forbidden(source)


@pytest.mark.parametrize("place", ["", "below/file"])
def test_output_that_may_not_be_written_is_named(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    with (
        pytest.raises(UserError, match=r"^no permission to write out \(Permission denied\)"),
        replacing("out") as partial,
    ):
        raise forbidden(partial.absolute() / place)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_folder_of_another_user_is_reported(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(UserError, match="no permission to write"), replacing(tmp_path / "out"):
        raise AssertionError("nothing may be written")


@pytest.mark.parametrize("place", ["file/below", NOWHERE])
def test_checking_a_place_leaves_nothing(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(PlaceError, match="nothing can be written to"):
        check_place(place)
    check_place("new/deep/file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


KILLED_WHILE_IT_WRITES = """
import os, sys
from trainer.files import replacing

with replacing(sys.argv[1]) as partial:
    partial.mkdir()
    os.kill(os.getpid(), 9)
"""


def test_killed_task_can_run_again_with_the_same_process_id(tmp_path, monkeypatch):
    killed = subprocess.Popen([sys.executable, "-c", KILLED_WHILE_IT_WRITES, tmp_path / "data"])
    assert killed.wait() == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 1
    monkeypatch.setattr(os, "getpid", lambda: killed.pid)
    with replacing(tmp_path / "data") as partial:
        partial.mkdir()
        (partial / "new").touch()
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["new"]


def test_two_writers_of_one_path_have_separate_partial_files(tmp_path):
    with replacing(tmp_path / "out") as first, replacing(tmp_path / "out") as second:
        first.write_text("first")
        second.write_text("second")
        assert first.read_text() == "first"
    assert (tmp_path / "out").read_text() == "first"
