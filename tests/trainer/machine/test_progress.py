"""Progress on a terminal and in a log."""

import os
import re
import time

import pytest

from trainer.machine import progress
from trainer.machine.progress import Tracker, map_ahead, open_pool

END = "the end of what is shown"


@pytest.fixture
def terminal(monkeypatch):
    """Makes the standard output a terminal; returns a function that reads its text."""
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as output, os.fdopen(ours, "rb", buffering=0) as shown:
        monkeypatch.setattr("sys.stdout", output)

        def read():
            # The kernel delivers the output in pieces; a last mark says that it is complete.
            print(END, file=output, flush=True)
            text = b""
            while not text.rstrip().endswith(END.encode()):
                text += shown.read(2**16)
            return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.decode())

        yield read


@pytest.fixture
def log(capsys):
    return lambda: capsys.readouterr().out


@pytest.mark.parametrize("output", ["terminal", "log"])
def test_names_are_shown_unchanged_but_for_escapes(output, request):
    shown = request.getfixturevalue(output)
    with Tracker("download [b]/[/x] \x1b[2J", 3, "[u]") as tracker:
        tracker.advance(3, details="[d]")
    text = shown()
    assert all(each in text for each in (r"download [b]/[/x] \x1b[2J", "3/3", "[u]", "[d]"))


def test_log_says_how_long_the_rest_takes_by_the_speed_after_the_first_advance(log, monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    with Tracker("training", 100, "steps", later=100) as tracker:
        for seconds in (60, 6, 6):  # the first step took a minute of preparation
            clock[0] += seconds
            tracker.advance(2)
    lines = log().splitlines()
    assert lines[0] == "training: 2/100 steps, 0.0333 steps/s"
    assert lines[1] == "training: 4/100 steps, 0.0606 steps/s, about 10 min left"
    assert lines[2].startswith("training: 6/100 steps, 0.0833 steps/s")


def test_log_says_what_is_done_before_a_first_unit_that_takes_long(log, monkeypatch):
    monkeypatch.setattr(progress, "LOG_EVERY_S", 0.05)
    with Tracker("study", 7, "images") as tracker:
        time.sleep(0.5)
        tracker.advance()
        time.sleep(0.5)
    first, *others = log().splitlines()
    assert first.startswith("study: 0/7 images, ")
    assert [line.partition(" images")[0] for line in others] == ["study: 1/7"]


def test_items_are_not_begun_far_ahead_of_the_results():
    begun = []
    with open_pool(3) as pool:
        results = map_ahead(pool, lambda item: begun.append(item) or item, range(50), max_pending=6)
        for done, result in enumerate(results):
            assert done == result
            assert len(begun) <= done + 6
    assert len(begun) == 50
