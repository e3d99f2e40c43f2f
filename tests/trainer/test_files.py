"""Files that are there whole or not at all."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from trainer.errors import PlaceError, UserError
from trainer.files import check_place, replacing

NOWHERE = "/proc/none"
"""A file system that takes no files of anyone."""


@pytest.mark.parametrize("place", ["file/below", "x" * 250, NOWHERE])
def test_place_that_takes_nothing_is_said_before_anything_is_made(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(PlaceError, match=r"^cannot write .* \(.*\); name another place"), replacing(place):
        raise AssertionError("nothing is to be made")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_folder_that_is_in_the_way_is_said(tmp_path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine").touch()
    with pytest.raises(PlaceError, match=r"cannot write .*taken \(.*\)"), replacing(tmp_path / "taken") as partial:
        partial.write_text("new")
    assert [each.name for each in tmp_path.rglob("*")] == ["taken", "mine"]


def test_errors_of_other_files_are_no_errors_of_the_place(tmp_path):
    with pytest.raises(FileNotFoundError, match="elsewhere"), replacing(tmp_path / "out"):
        (tmp_path / "elsewhere").read_text()
    assert not list(tmp_path.iterdir())


def forbidden(path):
    """What the system answers to somebody who may not use `path`, to the superuser too."""
    return PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def test_file_that_may_not_be_read_is_named_instead_of_the_output(tmp_path):
    source = tmp_path / "source"
    with (
        pytest.raises(
            UserError, match=r"^may not access .*/source \(Permission denied\); give yourself the right"
        ),
        replacing(tmp_path / "out"),
    ):
        raise forbidden(source)


@pytest.mark.parametrize("place", ["", "below/file"])
def test_output_that_may_not_be_written_is_named(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"^may not write out \(Permission denied\)"), replacing("out") as partial:
        raise forbidden(partial.absolute() / place)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_folder_of_someone_else_is_said(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(UserError, match="may not write"), replacing(tmp_path / "out"):
        raise AssertionError("nothing is to be made")


@pytest.mark.parametrize("place", ["file/below", NOWHERE])
def test_place_is_checked_without_a_trace(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(PlaceError, match="nothing can be written to"):
        check_place(place)
    check_place("new/deep/file")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


KILLED_WHILE_IT_WRITES = """
import os, sys
from trainer.files import replacing

with replacing(sys.argv[1]) as partial:
    partial.mkdir()
    os.kill(os.getpid(), 9)
"""


def test_killed_task_can_run_again_where_process_ids_repeat(tmp_path, monkeypatch):
    killed = subprocess.Popen([sys.executable, "-c", KILLED_WHILE_IT_WRITES, tmp_path / "data"])
    assert killed.wait() == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 1
    monkeypatch.setattr(os, "getpid", lambda: killed.pid)
    with replacing(tmp_path / "data") as partial:
        partial.mkdir()
        (partial / "new").touch()
    assert [each.name for each in (tmp_path / "data").iterdir()] == ["new"]


def test_two_writers_of_one_path_do_not_share_a_partial_one(tmp_path):
    with replacing(tmp_path / "out") as first, replacing(tmp_path / "out") as second:
        first.write_text("first")
        second.write_text("second")
        assert first.read_text() == "first"
    assert (tmp_path / "out").read_text() == "first"
