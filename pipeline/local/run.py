"""Runs the pipeline on this machine: the process that works, and what to say at the end."""

import contextlib
import dataclasses
import fcntl
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from pipeline.local.prepare import CHECKPOINTS, SHOWN, Run
from pipeline.local.progress import ANSI, Progress
from trainer import artifacts, files
from trainer.errors import UserError

LOG = "log.txt"
GRACE_S = 10.0
"""How long interrupted tasks may take to tidy up."""
TASK_ENVIRONMENT = {"PYTHONUNBUFFERED": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}


def execute(run: Run, console: Console) -> int:
    """Run the pipeline and say how it went; returns the exit status."""
    with _locked(run.folder):
        if run.finished:
            text = f"Run {_shown(run.folder)} has finished; other parameters, given with it, run it again"
            console.print(Text(text), soft_wrap=True)
            return _print_end(run, console)
        run = run.begun()
        run.save()
        console.print(Text(f"Run {_shown(run.folder)}, environment {run.environment}"), soft_wrap=True)
        with Progress(console) as progress:
            try:
                status = _work(run.folder, progress)
            except KeyboardInterrupt:
                status = 128 + signal.SIGINT
        _show(run, progress)
        if status:
            _print_scores(run, console)
            return _print_failure(run, progress, status, console)
        dataclasses.replace(run, finished=True).save()
        # Of no use any more: the training steps are over, and these are several times as large as the model.
        shutil.rmtree(run.folder / CHECKPOINTS, ignore_errors=True)
        return _print_end(run, console)


def _show(run: Run, progress: Progress) -> None:
    """Copy what people look at to where they do."""
    for (task, output), shown in SHOWN.items():
        step = progress.steps.get(task)
        key = step.cached_as if step else ""
        path = run.cached_output(key, output) if key else run.output(task, output)
        if path is not None:
            shutil.copy(path, run.folder / shown)


def _work(folder: pathlib.Path, progress: Progress) -> int:
    """Start the worker, show and log its output, and return its exit status; it never outlives this call."""
    command = [sys.executable, "-m", "pipeline.local.worker", str(folder)]
    worker = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, **TASK_ENVIRONMENT},
        start_new_session=True,
    )
    assert worker.stdout is not None
    with (folder / LOG).open("a") as log, _ending(worker):
        for line in worker.stdout:
            plain = ANSI.sub("", line)
            log.write(plain)
            log.flush()
            progress.feed(plain.rstrip("\n"))
        return worker.wait()


@contextlib.contextmanager
def _ending(worker: "subprocess.Popen[str]") -> Iterator[None]:
    """On the way out, ends the worker and its tasks if they still run; SIGTERM is then as good as Ctrl-C."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        # An interrupt lets the tasks remove what they have half written; the rest ends without being asked.
        deadline = time.monotonic() + GRACE_S
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGINT)
            while time.monotonic() < deadline:
                worker.poll()
                os.killpg(worker.pid, 0)
                time.sleep(0.05)
            os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
        signal.signal(signal.SIGTERM, previous)


@contextlib.contextmanager
def _locked(folder: pathlib.Path) -> Iterator[None]:
    """Keeps a second process from going on with the same run at the same time."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"the run {_shown(folder)} is running; wait for its end, or stop it") from None
        yield


# === What is said at the end ===


def _print_end(run: Run, console: Console) -> int:
    _print_scores(run, console)
    uploaded = run.output("upload-model", "executor_output.json")
    if uploaded is None:
        raise UserError(
            f"run {_shown(run.folder)} has finished, but its outputs ({artifacts.RUN_ATTEMPTS}) were removed; "
            "start a new run, or give this one a parameter that differs to run it again"
        )
    registered = files.read_json(uploaded, "run the pipeline again")["parameterValues"]
    _print_fact(console, "Registered", f"{run.model_name} version {registered['version']} ({registered['alias']})")
    _print_fact(console, "Run folder", _shown(run.folder))
    return 0


def _print_scores(run: Run, console: Console) -> None:
    if (path := run.output("evaluate-model", f"evaluation/{artifacts.EVALUATION}")) is not None:
        from trainer.reports.terminal import print_evaluation

        print_evaluation(files.read_json(path, "run the pipeline again"), console)
        _print_fact(console, "Report", _shown(run.folder / "report.html"))


def _print_failure(run: Run, progress: Progress, status: int, console: Console) -> int:
    again = f"make run-pipeline RESUME={shlex.quote(_shown(run.folder))}, and any parameter that is to change"
    if status == 128 + signal.SIGINT:
        console.print(Text("Interrupted."), style="bold red")
    elif (step := progress.failed) is not None:
        console.print(Text(f"{step.title} failed: {step.failure()}", style="bold red"), soft_wrap=True)
    else:
        tail = "\n".join((run.folder / LOG).read_text().splitlines()[-15:])
        console.print(Text(f"The pipeline ended with status {status}:\n{tail}", style="bold red"), soft_wrap=True)
    _print_fact(console, "Log", _shown(run.folder / LOG))
    _print_fact(console, "Go on with", again)
    return status if status == 128 + signal.SIGINT else 1


def _print_fact(console: Console, name: str, value: str) -> None:
    console.print(Text(f"{name + ':':<12}{value}"), soft_wrap=True)


def _shown(path: pathlib.Path) -> str:
    """`path` as short as it can be said from here."""
    with contextlib.suppress(ValueError):
        return str(path.relative_to(pathlib.Path.cwd()))
    return str(path)
