"""What a task prints, as the terminal and the log show it."""

import io
import os
import re
import stat
import sys

import pytest
from rich.console import Console

from pipeline.local import run
from pipeline.local.run import RunProgress
from pipeline.local.run_folder import Run
from pipeline.local.run_page import TaskView
from tests.consoles import printed
from trainer.places.queries import Queries

PRINTS = r"""#!/bin/sh
printf '12:00:00.000 - INFO - Executing task '"'"'fetch-dataset'"'"'\n'
printf '    \033]0;pwned\007\033[31mstimuli/\033[2J1.png\033[0m is damaged; remove it\n'
printf '    "source": "https://example.org/data.zip?sig=key%%2B&more=key http://example.org/b.zip?key",\n'
"""


@pytest.mark.parametrize(
    ("source", "mode"),
    [
        ("https://example.org/data.zip", 0o640),
        ("https://example.org/data.zip?sig=key%2B&more=key http://example.org/b.zip?key", 0o600),
    ],
)
def test_escapes_in_the_output_of_a_task_are_spelled_and_colours_and_keys_are_left_out(
    source, mode, tmp_path, monkeypatch
):
    worker = tmp_path / "python"
    worker.write_text(PRINTS)
    worker.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(worker))
    console = Console(file=io.StringIO(), force_terminal=False, width=160)
    started = Run(tmp_path, "local", {"finetune_source": source})
    before = os.umask(0o027)
    try:
        with RunProgress(console, started.queries) as progress:
            assert run._run_worker(started, progress) == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / run.LOG).stat().st_mode) == mode
    for text in (printed(console), (tmp_path / run.LOG).read_text()):
        assert r"\x1b]0;pwned\x07stimuli/\x1b[2J1.png is damaged; remove it" in text
        assert "\x1b" not in text
        for query in re.findall(r"\?(\S+)", source):
            assert query not in text
        assert '"source": "https://example.org/data.zip?' in text


def test_the_reason_of_a_failure_is_said_at_once_and_kept_for_the_end():
    console = Console(file=io.StringIO(), width=160)
    with RunProgress(console, Queries([])) as progress:
        progress.feed("12:00:00.000 - INFO - Executing task 'fetch-dataset'")
        end = "12:00:01.000 - INFO - Task 'fetch-dataset' finished with status FAILURE"
        for line in ("    reading", "    error: no images", end):
            progress.feed(line)
    assert printed(console).splitlines()[1:3] == ["[fetch-dataset] reading", "[fetch-dataset] error: no images"]
    assert [step.failure() for step in progress.failed] == ["no images"]


def test_every_failed_step_is_named_at_the_end(tmp_path):
    console = Console(file=io.StringIO(), width=160)
    with RunProgress(console, Queries([])) as progress:
        for name, state in (("base", "failed"), ("finetune", "failed"), ("test", "running")):
            progress.tasks[name] = TaskView(f"Data: {name}", state)
            progress.tasks[name].lines.append(f"error: no {name}")
        failed = Run(tmp_path, "sample", {})
        failed.save()
        assert run.print_stopped(failed, progress, 1, console) == 1
        lines = printed(console).splitlines()
        assert lines[:2] == ["Data: base failed: no base", "Data: finetune failed: no finetune"]
        assert lines[2].startswith("Log:")
        del progress.tasks["base"], progress.tasks["finetune"]
        assert [step.title for step in progress.failed] == ["Data: test"]
