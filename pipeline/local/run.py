"""Runs the pipeline on this machine: starts the worker process, shows its progress, and prints the result."""

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
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from pipeline.graph.parameters import Value, steps_of
from pipeline.local.prepare import CHECKPOINTS, SHOWN, Run
from pipeline.local.progress import ANSI, Progress
from pipeline.registry.address import VERTEX
from trainer import artifacts, files, generated
from trainer.config import PRETRAINED, SAMPLE
from trainer.downloads.servers import without_queries
from trainer.errors import UserError, visible

LOG = "log.txt"
GRACE_S = 10.0
"""Time for interrupted tasks to clean up."""
TASK_ENVIRONMENT = {"PYTHONUNBUFFERED": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}


def execute_run(run: Run, console: Console) -> int:
    """Run the pipeline, print the result, and return the exit status."""
    with _locked(run.folder):
        if run.finished:
            text = f"Run {_shown(run.folder)} has finished; pass a changed parameter to run it again"
            console.print(Text(text), soft_wrap=True)
            return _print_end(run, console)
        run = run.start_attempt()
        run.save()
        console.print(Text(f"Run {_shown(run.folder)}, environment {run.environment}"), soft_wrap=True)
        if on_shapes := _on_shapes(run.parameters):
            console.print(Text(f"note: {on_shapes}"), soft_wrap=True)
        with Progress(console) as progress:
            try:
                status = _run_worker(run.folder, progress)
            except KeyboardInterrupt:
                status = 128 + signal.SIGINT
        _copy_shown(run, progress)
        if status:
            return print_stopped(run, progress, status, console)
        dataclasses.replace(run, finished=True).save()
        # No longer needed after the training, and several times as large as the model.
        shutil.rmtree(run.folder / CHECKPOINTS, ignore_errors=True)
        return _print_end(run, console)


def _on_shapes(values: Mapping[str, Value]) -> str:
    """The opening note of a run that trains on the sample set; an empty text for any other run."""
    steps = {step: title for step, title in steps_of(values).items() if values.get(f"{step}_source") == SAMPLE}
    sources = " and ".join(f"{step}_source=FOLDER" for step in steps)
    titles = " and ".join(steps.values()).capitalize()
    return f"{titles} on {generated.SHAPES}; for your own data pass {sources}" if steps else ""


def _copy_shown(run: Run, progress: Progress) -> None:
    """Copy the reports of the tasks into the run's folder."""
    for (task, output), name in SHOWN.items():
        step = progress.steps.get(task)
        key = step.cached_as if step else ""
        path = run.cached_output(key, output) if key else run.output(task, output)
        if path is not None:
            shutil.copy(path, run.folder / name)


def _correct_report(run: Run) -> None:
    """The report of a run that stopped was written before the registration, which did not take place."""
    report, evaluation = run.folder / SHOWN["evaluate-model", "report"], run.output("evaluate-model", "evaluation")
    if report.exists() and evaluation and run.output("upload-model", "executor_output.json") is None:
        from trainer.reports.report import write_report

        write_report(evaluation, report, registers=False)


def _run_worker(folder: pathlib.Path, progress: Progress) -> int:
    """Start the worker, show and log its output, and return its exit status. It never outlives this call."""
    command = [sys.executable, "-m", "pipeline.local.worker", str(folder)]
    # kfp leaves a folder in the temporary folder for each task.
    with (
        files.folder(files.LOCAL) as temporary,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, **TASK_ENVIRONMENT, "TMPDIR": str(temporary)},
            start_new_session=True,
        ) as worker,
    ):
        assert worker.stdout is not None
        with (folder / LOG).open("a") as log, _terminated(worker):
            for line in worker.stdout:
                # A task may print what others wrote, and kfp prints the parameters, whose addresses may have keys.
                plain = without_queries(visible(ANSI.sub("", line)))
                log.write(plain)
                log.flush()
                progress.feed(plain.rstrip("\n"))
            return worker.wait()


@contextlib.contextmanager
def _terminated(worker: "subprocess.Popen[str]") -> Iterator[None]:
    """Ends the worker and its tasks on exit, if they still run. Within this context, SIGTERM acts like Ctrl-C."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        # SIGINT lets the tasks remove partial files; SIGKILL ends those that do not stop in time.
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
    """Keeps a second process from executing the same run at the same time."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"the run {_shown(folder)} is already running; wait until it ends, or stop it"
            ) from None
        yield


# === Result ===


def _print_end(run: Run, console: Console) -> int:
    _print_scores(run, console)
    uploaded = run.output("upload-model", "executor_output.json")
    if uploaded is None:
        raise UserError(
            f"run {_shown(run.folder)} has finished, but its outputs ({artifacts.RUN_ATTEMPTS}) were removed; "
            "start a new run, or pass a changed parameter to run this one again"
        )
    registered = files.read_json(uploaded, "run the pipeline again", artifacts.TaskRecord)["parameterValues"]
    _print_fact(console, "Registered", f"{run.model_name} version {registered['version']} ({registered['alias']})")
    _print_fact(console, "Run folder", _shown(run.folder))
    for name, value in _next_steps(run, registered, _evaluation(run)).items():
        _print_fact(console, name, value)
    return 0


def _next_steps(run: Run, registered: Mapping[str, Any], evaluation: Mapping[str, Any] | None) -> dict[str, str]:
    """What a user may do next: a word for it -> the command or the advice."""
    from trainer.evaluation.per_image import CANDIDATE, CHAMPION

    models: Mapping[str, Any] = evaluation["model_configs"] if evaluation else {}
    is_sample = generated.is_sample(models.get(CANDIDATE))
    registry, alias = str(run.parameters.get("registry", "")), registered["alias"]
    steps = {}
    if not registry and (run.model_name, alias, is_sample) == (artifacts.MODEL_NAME, artifacts.DEFAULT, False):
        steps["Try it"] = "make demo"
    elif not registry.startswith(VERTEX):
        place = f"{registry.rstrip('/')}/" if registry else ""
        model = f"--model {place}{run.model_name}@{registered['version']}"
        steps["Try it"] = f"make demo ARGS={shlex.quote(model)}"
    steps["All models"] = "python -m pipeline registry list"
    if registry:
        steps["All models"] += f" --registry {shlex.quote(registry)}"
    if is_sample:
        steps["Next"] = generated.NEXT
    elif evaluation and CHAMPION not in models and not registry:  # nothing has been compared with it yet
        data = " ".join(f"--dataset-dir {shlex.quote(folder)}" for folder in _compared_data(evaluation))
        model = f"{run.model_name}@{registered['version']}"
        steps["Compare"] = f"python -m trainer compare {PRETRAINED} {model} {data}"
    return steps


def _compared_data(evaluation: Mapping[str, Any]) -> list[str]:
    """Folder of the data that decided; for a test set that of the training data too, which has the centre bias."""
    datasets: Mapping[str, Any] = evaluation["datasets"]
    trained = [
        name
        for name, result in datasets.items()
        if artifacts.TEST not in result.get("manifest", {}).get("counts", {})
    ]
    names = dict.fromkeys([str(evaluation.get("decides")), *trained[:1]])
    return [str(datasets.get(name, {}).get("folder", "DIR")) for name in names]


def _evaluation(run: Run) -> dict[str, Any] | None:
    """The content of EVALUATION, if there is one."""
    path = run.output("evaluate-model", f"evaluation/{artifacts.EVALUATION}")
    if path is None:
        return None
    outcome: dict[str, Any] = files.read_json(path, "run the pipeline again", artifacts.Outcome)
    return outcome


def _print_scores(run: Run, console: Console, registers: bool = True) -> bool:
    """Print the evaluation, if there is one; returns whether there is, and its model may be registered."""
    evaluation = _evaluation(run)
    if evaluation is None:
        return False
    from trainer.reports.terminal import print_evaluation

    print_evaluation(evaluation, console, registers)
    _print_fact(console, "Report", _shown(run.folder / "report.html"))
    return bool(evaluation["passed_baseline"])


def print_stopped(run: Run, progress: Progress, status: int, console: Console) -> int:
    """Print what a run has that failed or was interrupted, why, and how to go on; returns the exit status."""
    _correct_report(run)
    if _print_scores(run, console, registers=False):
        _print_fact(console, "Registered", f"not yet; `{_resume(run)}` goes on")
    if status == 128 + signal.SIGINT:
        console.print(Text("Interrupted."), style="bold red")
    elif failed := progress.failed:
        for step in failed:
            console.print(Text(f"{step.title} failed: {step.failure()}", style="bold red"), soft_wrap=True)
    else:
        tail = "\n".join((run.folder / LOG).read_text().splitlines()[-15:])
        console.print(Text(f"The pipeline ended with status {status}:\n{tail}", style="bold red"), soft_wrap=True)
    _print_fact(console, "Log", _shown(run.folder / LOG))
    _print_fact(console, "Resume", f"{_resume(run)} [PARAMETER=VALUE ...]")
    return status if status == 128 + signal.SIGINT else 1


def _resume(run: Run) -> str:
    return f"make run-pipeline RESUME={shlex.quote(_shown(run.folder))}"


def _print_fact(console: Console, name: str, value: str) -> None:
    console.print(Text(f"{name + ':':<12}{value}"), soft_wrap=True)


def _shown(path: pathlib.Path) -> str:
    """`path` relative to the working directory, if it lies below it."""
    with contextlib.suppress(ValueError):
        return str(path.relative_to(pathlib.Path.cwd()))
    return str(path)
