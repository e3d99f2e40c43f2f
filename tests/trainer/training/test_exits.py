"""Signals, sent to real processes, and the statuses by which Vertex AI decides whether a custom job goes on."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from trainer.training import exits
from trainer.training.exits import watched

RESTARTED = (134, 139)
"""Statuses after which Vertex AI restarts a custom container (its page on the custom training service)."""


def test_what_can_resume_is_restarted_in_a_custom_job(monkeypatch):
    monkeypatch.setenv(exits.JOB, "1234567890")
    assert exits.machine_lost() in RESTARTED
    assert exits.stopped(signal.SIGTERM) in RESTARTED


# === A process that dies ===

DIES = """
import os, signal, sys, time
from trainer.training import exits

exits.watch_training()
{}
"""


def run_watched(body, variable=exits.JOB, **options):
    return subprocess.Popen(
        [sys.executable, "-c", DIES.format(body)],
        env={**os.environ, variable: "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=pathlib.Path(__file__).parents[3],
        **options,
    )


@pytest.mark.parametrize(("ending", "variable"), [(signal.SIGSEGV, exits.JOB), (signal.SIGKILL, exits.POD)])
def test_signal_that_ends_a_training_is_explained_and_the_status_stays(ending, variable):
    with run_watched(f"os.kill(os.getpid(), {int(ending)})", variable) as process:
        _, error = process.communicate(timeout=60)
    assert process.returncode == 128 + ending
    assert f"error: the training was ended by {ending.name} (exit status {128 + ending})" in error
    assert ("most recent call first" in error) == (ending != signal.SIGKILL)  # Python's stack


def test_training_that_ends_by_itself_ends_with_its_status_and_nothing_more():
    with run_watched("print('trained'); sys.exit(134)") as process:
        output, error = process.communicate(timeout=60)
    assert (process.returncode, output, error) == (134, "trained\n", "")


# === Requests to stop ===

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
    assert errors == f"{number.name}: saving the state, then stopping. Repeat to stop at once\n"


def test_a_second_signal_ends_at_once():
    returned, _, errors = run_until_signalled("time.sleep(60)", signal.SIGTERM, signal.SIGINT)
    assert returned == -signal.SIGINT
    assert "Traceback" not in errors


def test_signal_handlers_are_restored(capfd):
    received = []
    handlers = {number: signal.signal(number, lambda *got: received.append(got[0])) for number in (15, 2)}
    try:
        with watched() as stop:
            assert not stop.requested
            signal.raise_signal(signal.SIGTERM)
            assert stop.requested
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert received == [signal.SIGTERM, signal.SIGINT]
    assert capfd.readouterr().err.count("SIGTERM") == 1
