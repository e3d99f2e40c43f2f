"""Progress on a terminal and in a log."""

import os
import re

import pytest

from trainer.progress import Tracker

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


@pytest.mark.parametrize("place", ["terminal", "log"])
def test_names_are_shown_unchanged(place, request):
    shown = request.getfixturevalue(place)
    with Tracker("download [b]/[/x]", 3, "[u]") as tracker:
        tracker.advance(3, details="[d]")
    text = shown()
    assert all(each in text for each in ("download [b]/[/x]", "3/3", "[u]", "[d]"))
