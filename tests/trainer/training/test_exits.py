"""The statuses by which Vertex AI decides whether a custom job goes on."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from trainer.training import exits

RESTARTED = (134, 139)
"""Statuses after which Vertex AI restarts a custom container (its page on the custom training service)."""


def test_what_can_resume_is_restarted_in_a_custom_job(monkeypatch):
    monkeypatch.setenv(exits.JOB, "1234567890")
    assert exits.machine_lost() in RESTARTED
    assert exits.stopped(signal.SIGTERM) in RESTARTED


def test_elsewhere_the_status_is_the_shells_or_says_to_try_again(monkeypatch):
    monkeypatch.delenv(exits.JOB, raising=False)
    assert (exits.machine_lost(), exits.stopped(signal.SIGTERM), exits.stopped(signal.SIGINT)) == (75, 143, 130)


# === A process that dies ===

DIES = """
import os, signal, sys, time
from trainer.training import exits

exits.watch()
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


@pytest.mark.parametrize("ending", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
@pytest.mark.parametrize("variable", [exits.JOB, exits.POD])
def test_signal_that_ends_a_training_is_explained_and_the_status_stays(ending, variable):
    with run_watched(f"os.kill(os.getpid(), {int(ending)})", variable) as process:
        _, error = process.communicate(timeout=60)
    assert process.returncode == 128 + ending
    assert f"error: the training was ended by {ending.name} (exit status {128 + ending})" in error
    assert ("most recent call first" in error) == (ending != signal.SIGKILL)  # Python's stack


@pytest.mark.parametrize("status", [0, 1, 134])
def test_training_that_ends_by_itself_ends_with_its_status_and_nothing_more(status):
    with run_watched(f"print('trained'); sys.exit({status})") as process:
        output, error = process.communicate(timeout=60)
    assert (process.returncode, output, error) == (status, "trained\n", "")


def test_request_to_stop_reaches_the_training():
    wait = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)); print('ready', flush=True); time.sleep(60)"
    with run_watched(wait) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 143
