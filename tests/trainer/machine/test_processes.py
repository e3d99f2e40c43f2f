"""The identity of a process: whether it still runs, and that a later one with its id is another."""

import os
import subprocess
import sys

from trainer.machine.processes import ProcessId


def test_a_process_runs_until_its_end_and_is_no_later_one_with_its_id():
    own = ProcessId.own()
    assert (own.process, own.is_running) == (os.getpid(), True)
    assert not own._replace(started="0").is_running
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert not own._replace(process=ended.pid).is_running
