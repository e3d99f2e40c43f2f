"""Signals, sent to real processes."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from trainer.training import exits
from trainer.training.exits import watched

LOOP = """
import sys, time
from trainer.training.exits import watched
with watched() as stop:
    print("ready", flush=True)
    while not stop.requested:
        time.sleep(0.01)
    print("saving", flush=True)
    {then}
sys.exit(stop.exit_status)
"""


def run_until_signalled(then, *signals):
    """Exit status and output of a loop that gets `signals`, each after it has noticed the previous one."""
    command = [sys.executable, "-c", LOOP.format(then=then)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        for number in signals:
            run.stdout.readline()
            run.send_signal(number)
        output, errors = run.communicate(timeout=60)
    return run.returncode, output, errors


@pytest.mark.parametrize(
    ("number", "job", "status"), [(signal.SIGTERM, "", 143), (signal.SIGINT, "", 130), (signal.SIGTERM, "7", 134)]
)
def test_a_signal_asks_to_stop_and_the_process_ends_in_its_own_time(monkeypatch, number, job, status):
    if job:
        monkeypatch.setenv(exits.JOB, job)
    returned, output, errors = run_until_signalled("print('saved')", number)
    assert (returned, output) == (status, "saving\nsaved\n")
    assert errors == f"{number.name}: saving the state, then stopping; repeat to stop at once\n"


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_at_once(second):
    returned, _, errors = run_until_signalled("time.sleep(60)", signal.SIGTERM, second)
    assert returned == -second
    assert "Traceback" not in errors


def test_signal_handlers_are_restored(capfd):
    received = []
    handlers = {number: signal.signal(number, lambda *got: received.append(got[0])) for number in (15, 2)}
    try:
        with watched() as stop:
            assert not stop.requested
            os.kill(os.getpid(), signal.SIGTERM)
            assert stop.requested
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert received == [signal.SIGTERM, signal.SIGINT]
    assert capfd.readouterr().err.count("SIGTERM") == 1


def test_nothing_is_caught_outside_the_main_thread():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def body():
        with watched() as stop:
            seen.append((stop.requested, signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert seen == [(False, before)]
