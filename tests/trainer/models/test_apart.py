"""A function in a process of its own: its result and its errors, its limits, and its end."""

import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from trainer.errors import ContentError, UserError
from trainer.machine import resident_bytes
from trainer.models import apart
from trainer.models.apart import Limits

LIMITS = Limits(seconds=60, memory_bytes=2 * 10**9, usual_bytes=10**9)


def doubled(number):
    return 2 * number


def refused():
    raise UserError("no")


def without_a_file():
    pathlib.Path("/nowhere/at/all").read_bytes()


def wrong():
    raise AttributeError("a mistake of ours")


def crashed(number):
    os.kill(os.getpid(), number)


def filled():
    return [np.ones(10**7) for _ in range(10**6)]


def endless():
    while True:
        pass


def called(function, *arguments, limits=LIMITS):
    return apart.call(function, *arguments, limits=limits, doing="the work", remedy="do it again")


def test_a_result_and_errors_come_back():
    assert called(doubled, 21) == 42
    with pytest.raises(UserError, match=r"^no$"):
        called(refused)
    with pytest.raises(FileNotFoundError) as caught:
        called(without_a_file)
    assert caught.value.filename == "/nowhere/at/all"
    with pytest.raises(RuntimeError, match=r"(?s)in wrong.*a mistake of ours"):
        called(wrong)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_a_crash_is_a_sentence(number):
    with pytest.raises(ContentError, match=rf"^the work crashed \({number.name}\): do it again$"):
        called(crashed, number)


def test_an_end_from_outside_does_not_blame_the_content():
    reason = r"perhaps because it needs 1\.5 GB of memory; free some, and try again"
    with pytest.raises(UserError, match=rf"^the work was ended from outside \(SIGKILL\), {reason}$") as caught:
        called(crashed, signal.SIGKILL, limits=LIMITS.plus(Limits(1, 1, usual_bytes=10**8), 5))
    assert not isinstance(caught.value, ContentError)


def test_too_much_memory_is_a_sentence():
    limits = dataclasses.replace(LIMITS, memory_bytes=500 * 10**6)
    with pytest.raises(ContentError, match=r"^the work took more than 0\.5 GB of memory, and was ended: do it"):
        called(filled, limits=limits)


def test_too_much_time_is_a_sentence_and_the_process_ends():
    started = time.monotonic()
    with pytest.raises(ContentError, match=r"^the work took more than 1 s, and was ended: do it again$"):
        called(endless, limits=dataclasses.replace(LIMITS, seconds=1))
    assert time.monotonic() - started < 30


SCRIPT = """
import sys
from tests.trainer.models import test_apart
if __name__ == "__main__":
    test_apart.called(test_apart.announced)
"""


def announced():
    print(os.getpid(), flush=True)
    endless()


def test_the_process_ends_with_the_one_that_waits_for_it(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path.cwd())}
    with subprocess.Popen(
        (sys.executable, str(tmp_path / "script.py")), stderr=subprocess.PIPE, text=True, env=environment
    ) as waiting:
        pid = int(next(waiting.stderr))
        waiting.kill()
    end = time.monotonic() + 30
    while time.monotonic() < end and _is_running(pid):
        time.sleep(0.1)
    assert not _is_running(pid)


def _is_running(pid):
    """Whether a process exists and has memory, which one that nobody has waited for has not."""
    return resident_bytes(pid) > 0
