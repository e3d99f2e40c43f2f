"""Temporary folders of killed processes are removed by the next one; those of living ones stay."""

import os
import subprocess
import sys
import time

import pytest

from tests.leftovers import leave, living
from trainer import files
from trainer.files import FETCH, LOCAL, OTHERS_S, PARTIAL, TEST_SET, folder, remove_leftovers


@pytest.mark.parametrize("kind", [PARTIAL, FETCH, TEST_SET, LOCAL])
def test_next_process_removes_what_a_killed_one_left_and_nothing_else(kind, tmp_path):
    left = leave(kind, tmp_path)
    others = {tmp_path / name for name in (f"{kind}mine", "data")}
    for other in others:
        other.mkdir()
    process, held = living(PARTIAL, tmp_path)
    with process:
        assert set(tmp_path.iterdir()) == {held, *others}, f"{left} is still there"
        files._sweep.cache_clear()
        with folder(kind, tmp_path) as made:
            assert set(tmp_path.iterdir()) == {held, made, *others}
        assert (held / "half").exists()
        process.stdin.close()
        assert process.wait(60) == 0
    assert set(tmp_path.iterdir()) == others


@pytest.mark.parametrize(("age_s", "stays"), [(0, True), (OTHERS_S - 60, True), (OTHERS_S + 60, False)])
def test_what_another_machine_left_stays_for_a_day(tmp_path, monkeypatch, age_s, stays):
    left = leave(FETCH, tmp_path)
    monkeypatch.setattr(files, "machine", lambda: "another")
    for path in (*left.iterdir(), left):
        os.utime(path, (time.time() - age_s,) * 2)
    remove_leftovers(tmp_path)
    assert left.exists() is stays


SWEEP = """
import sys
from trainer import files

for _ in range(200):
    with files.folder(files.PARTIAL, sys.argv[1]) as path:
        files.remove_leftovers(path.parent)
        (path / "content").write_text("whole")
        assert (path / "content").exists()
"""


def test_processes_that_start_at_once_leave_each_other_alone(tmp_path):
    processes = [subprocess.Popen([sys.executable, "-c", SWEEP, tmp_path]) for _ in range(4)]
    assert [process.wait(120) for process in processes] == [0] * 4
    assert list(tmp_path.iterdir()) == []
