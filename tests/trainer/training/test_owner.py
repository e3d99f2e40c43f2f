"""One training at a time writes to a folder of checkpoints."""

import contextlib
import dataclasses
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
from google.cloud.storage import Blob

from trainer.errors import UserError
from trainer.storage import Folder
from trainer.training import owner
from trainer.training.exits import JOB
from trainer.training.owner import OWNER, Claim, Owner

ELSEWHERE = Claim("", "other-host", "other machine", 7, "2026-03-02 11:00:00+00:00", "f00d")
WHO = "process 7 on other-host, since 2026-03-02 11:00:00+00:00"
RUN = """
import sys, time
from trainer.storage import Folder
from trainer.training.owner import Owner
Owner(Folder(sys.argv[1])).claim()
print("owns", flush=True)
time.sleep(600)
"""


@pytest.fixture(params=["disk", "cloud"])
def folder(request, tmp_path):
    if request.param == "disk":
        return Folder(tmp_path / "state")
    return Folder(f"gs://{request.getfixturevalue('bucket').name}/state")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.delenv(JOB, raising=False)
    for name, value in {"INTERVAL_S": 0.02, "DEAD_S": 20.0, "POLL_S": 0.01}.items():
        monkeypatch.setattr(owner, name, value)


@pytest.fixture
def at_once(monkeypatch):
    """Fails if the claim waits."""
    monkeypatch.setattr(Owner, "_watch", lambda self, found: pytest.fail("waits"))


@contextlib.contextmanager
def owning(folder):
    one = Owner(folder)
    try:
        one.claim()
        yield one
    finally:
        one.release()


def wait_until(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def put(folder, claim):
    folder.write(OWNER, lambda file: file.write(claim.content))


# === The file ===


def test_content_is_swapped_only_if_it_is_the_expected_one(folder):
    assert folder.content("a") is None
    assert folder.swap("a", None, b"1")
    assert not folder.swap("a", None, b"2")
    assert not folder.swap("a", b"2", b"3")
    assert folder.content("a") == b"1"
    assert folder.swap("a", b"1", b"2")
    assert folder.content("a") == b"2"
    assert not folder.swap("a", b"1", None)
    assert folder.swap("a", b"2", None)
    assert folder.content("a") is None
    assert not folder.swap("a", b"2", b"3")
    assert folder.names() == []


def test_writer_who_comes_in_between_is_not_overwritten(bucket, monkeypatch):
    folder = Folder(f"gs://{bucket.name}/state")
    folder.swap("a", None, b"1")
    read = Blob.download_as_bytes

    def read_and_be_overtaken(blob, **options):
        content = read(blob, **options)
        bucket.blob("state/a").upload_from_string(b"other")
        return content

    with monkeypatch.context() as patch:
        patch.setattr(Blob, "download_as_bytes", read_and_be_overtaken)
        assert not folder.swap("a", b"1", b"2")
    assert folder.content("a") == b"other"


def test_claim_is_a_file_that_is_renewed_and_then_removed(folder):
    with owning(folder):
        first = Claim.parse(folder.content(OWNER))
        wait_until(lambda: Claim.parse(folder.content(OWNER)).renewals > first.renewals)
        renewed = Claim.parse(folder.content(OWNER))
        assert dataclasses.replace(renewed, renewals=first.renewals) == first
    assert folder.names() == []


# === Another one's file ===


def test_second_training_ends_with_the_name_of_the_first_while_that_is_alive(folder):
    with owning(folder) as first:
        with pytest.raises(UserError, match=re.escape(str(first._claim))):
            Owner(folder).claim()
        first.check()
    assert folder.names() == []


@pytest.mark.parametrize("content", [ELSEWHERE.content, b'{"job": '])
def test_file_that_does_not_change_is_a_dead_training_s(folder, content, capsys, monkeypatch):
    monkeypatch.setattr(owner, "DEAD_S", 0.1)
    folder.write(OWNER, lambda file: file.write(content))
    start = time.monotonic()
    with owning(folder) as one:
        assert time.monotonic() - start >= owner.DEAD_S
        one.check()
    assert f"taking {folder.address} over" in capsys.readouterr().out


def test_restarted_job_takes_over_at_once(folder, monkeypatch, at_once):
    monkeypatch.setenv(JOB, "123")
    put(folder, dataclasses.replace(ELSEWHERE, job="123"))
    with owning(folder) as one:
        one.check()


def test_killed_process_of_this_machine_is_followed_at_once(tmp_path, at_once):
    command = [sys.executable, "-c", RUN, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "owns\n"
        found = Claim.parse(Folder(tmp_path).content(OWNER))
        assert found.process == other.pid
        assert not found.has_ended_before(Claim.of_this_process())
        other.send_signal(signal.SIGKILL)
        other.wait()
    with owning(Folder(tmp_path)) as one:
        one.check()


def test_process_of_another_machine_with_the_number_of_none_here_may_be_alive():
    gone = subprocess.Popen(["true"])
    gone.wait()
    claim = Claim.of_this_process()
    assert dataclasses.replace(claim, process=gone.pid).has_ended_before(claim)
    assert not dataclasses.replace(claim, process=gone.pid, machine="another").has_ended_before(claim)


def test_one_of_many_at_once_becomes_the_owner(folder):
    put(folder, dataclasses.replace(Claim.of_this_process(), process=2**22 + 1))  # above pid_max: no process
    gate, results, owners = threading.Barrier(6), [], [Owner(folder) for _ in range(6)]

    def claim(one):
        gate.wait()
        try:
            one.claim()
            results.append(one)
        except UserError as error:
            results.append(str(error))

    threads = [threading.Thread(target=claim, args=(one,)) for one in owners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        wait_until(lambda: sum(isinstance(result, Owner) and not result.is_lost for result in results) == 1)
        assert len(results) == 6
    finally:
        for one in owners:
            one.release()
    assert folder.names() == []


# === Lost ===


@pytest.mark.parametrize(("content", "said"), [(ELSEWHERE.content, re.escape(WHO)), (None, "one that has ended")])
def test_training_that_lost_its_folder_notices_and_leaves_the_file(folder, content, said):
    with owning(folder) as one:
        wait_until(lambda: folder.swap(OWNER, folder.content(OWNER), content))  # a renewal may come in between
        with pytest.raises(UserError, match=said):
            one.check()
        wait_until(lambda: one.is_lost)
    assert folder.content(OWNER) == content


def test_outage_is_not_a_loss(tmp_path):
    with owning(Folder(tmp_path / "state")) as one:
        (tmp_path / "state").rename(tmp_path / "away")
        (tmp_path / "state").touch()  # every attempt fails: not a folder
        time.sleep(5 * owner.INTERVAL_S)
        assert not one.is_lost
        (tmp_path / "state").unlink()
        (tmp_path / "away").rename(tmp_path / "state")
        before = Claim.parse(Folder(tmp_path / "state").content(OWNER)).renewals
        wait_until(lambda: Claim.parse(Folder(tmp_path / "state").content(OWNER)).renewals > before)
        one.check()
