"""The statuses by which Vertex AI decides whether a custom job goes on."""

import signal

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
