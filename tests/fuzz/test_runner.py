"""The runner of the malformed inputs sees each way to fail, says how, and goes on in a new process."""

import random
import subprocess
import sys

from tests.fuzz import runner
from tests.fuzz.__main__ import failures, table
from tests.fuzz.runner import Result
from tests.fuzz.targets import failing

SEED = 5
LIMIT_S = 5


def numbers_of(ways):
    """The first input of each way, in the order of the inputs."""
    drawn = [failing.drawn(random.Random(f"{SEED}/failing/{number}")) for number in range(500)]
    return {drawn.index(way): way for way in ways}


def test_each_way_has_its_verdict():
    numbers = numbers_of(failing.WAYS)
    results = runner.run([[("failing", number) for number in numbers]], SEED, LIMIT_S)
    verdicts = {numbers[result.number]: result.verdict for result in results}
    assert verdicts == failing.WAYS
    kinds = {result.number: result.kind for result in results if result.verdict != "broken"}
    assert all(kind == numbers[number] for number, kind in kinds.items())
    details = {numbers[result.number]: result.detail for result in results}
    assert "SIGABRT" in details["abort"]
    assert "KeyError" in details["exception"]
    assert "MemoryError" in details["much memory"]
    assert ".partial-1" in details["leftover"]


def test_failures_are_listed_by_what_they_say_and_each_can_be_repeated():
    results = [
        Result("fetch", 3, "damaged zip", "traceback", "zlib.error at sources.py:12: Error -3 while"),
        Result("fetch", 9, "damaged zip", "traceback", "zlib.error at sources.py:12: Error -5 while"),
        Result("fetch", 4, "sound zip", "accepted"),
        Result("predict", 1, "bomb", "hang", "no answer after 60 s"),
    ]
    text = failures(results, seed=7)
    assert "fetch: traceback, 2 (3, 9), such as damaged zip" in text
    assert "make fuzz ARGS='fetch --seed 7 --only 3'" in text
    assert text.count("make fuzz") == 2
    rows = [line.split() for line in table(results, ["fetch", "predict"]).splitlines()]
    assert rows[1] == ["fetch", "3", "1", "0", "2", "0", "0", "0", "0"]
    assert rows[2][5] == "1"


def test_command_repeats_one_input_and_keeps_its_files(tmp_path):
    (number,) = numbers_of(["leftover"])
    command = [sys.executable, "-m", "tests.fuzz", "failing", "--seed", str(SEED), "--only", str(number)]
    done = subprocess.run(
        [*command, "--keep", str(tmp_path / "kept")], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    assert "leftover: untidy" in done.stdout
    assert "error: no space left; free some" in done.stdout
    assert (tmp_path / "kept" / "out" / ".partial-1").read_bytes() == b"half"
