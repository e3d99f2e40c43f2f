"""Tasks that are forks of a process with TensorFlow, compared with the processes that kfp.local starts."""

import json
import os
import re
import sys

import pytest
from kfp.local import subprocess_task_handler

from pipeline.local.fork_server import forked_tasks

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="tasks are forks on Linux alone")

SOURCE = """
def task(case: str) -> None:
    import atexit, os, signal, sys

    atexit.register(print, "said at the end")
    print(case, os.getpid(), os.getpgid(0), "keras" in sys.modules, os.environ.get("GIVEN"))
    print(*sys.modules.setdefault("of_this_task", [case]), file=sys.stderr)
    os.write(1, b"\\xff\\n")
    if case == "computes":
        import tensorflow as tf

        print(float(tf.reduce_sum(tf.ones((300, 300)) @ tf.ones((300, 300)))))
    elif case == "exits":
        raise SystemExit("error: the reason")
    elif case == "raises":
        raise ValueError("the value")
    elif case == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdout.write("unfinished")
"""


@pytest.fixture(scope="module")
def start():
    """Starts a task with a case and environment variables, as kfp.local does; its output is printed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess_task_handler, "run_local_subprocess", None)
        with forked_tasks():
            yield _started


def _started(case, variables=None):
    inputs = {"inputs": {"parameterValues": {"case": case}}, "outputs": {"outputFile": os.devnull}}
    arguments = ["--executor_input", json.dumps(inputs), "--function_to_execute", "task"]
    command = ["sh", "-ec", "script", SOURCE, *arguments]
    return subprocess_task_handler.run_local_subprocess(full_command=command, env_vars=variables)


@pytest.mark.parametrize(
    ("case", "status", "said"),
    [
        ("computes", 0, "27000000.0\n"),
        ("exits", 1, "\nerror: the reason\n"),
        ("raises", 1, "ValueError: the value\n"),
        ("killed", -9, ""),
    ],
)
def test_task_has_a_process_an_output_and_an_exit_status_of_its_own(start, case, status, said, capfd):
    assert start(case, {"GIVEN": case}) == status
    output = capfd.readouterr().out
    (process,) = re.findall(rf"{case} (\d+) {os.getpgid(0)} True {case}\n{case}\n\ufffd\n", output)
    assert int(process) != os.getpid()
    assert said in output
    assert ("said at the end\n" in output) == (case != "killed")
    assert output.endswith("\n")
    assert "GIVEN" not in os.environ
    start("passes")
    assert re.search(r"passes \d+ \d+ True None\npasses\n", capfd.readouterr().out)
