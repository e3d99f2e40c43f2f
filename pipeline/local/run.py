"""Runs the pipeline on this machine: starts the worker process, shows its progress, and prints the result.

The progress is a live table of the tasks on a terminal, and plain lines in a log. It is parsed from the output of
kfp.local, which has the lines of each task between kfp's own lines.
"""

import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from lifecycle.registry import Address, open_registry
from lifecycle.runs import WEBHOOK_VARIABLE, End
from pipeline.local import run_folder
from pipeline.local.run_folder import CHECKPOINTS, SHOWN, Run
from pipeline.local.run_page import RunPage, TaskView
from trainer.errors import ConflictError, NotFoundError, UserError
from trainer.evaluation import Evaluation
from trainer.io import read_json, temporary_folder
from trainer.models import DEFAULT, MODEL_NAME, Provenance
from trainer.network import EVALUATION
from trainer.places import Queries
from trainer.texts import format_duration, now, visible

LOG = "log.txt"
GRACE_S = 60.0
"""Time for interrupted tasks to save or remove what they have. A training first ends its current steps."""
TASK_ENVIRONMENT = {"PYTHONUNBUFFERED": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
TASKS_LINE = "pipeline tasks: "
"""Prefix of the worker's first line, followed by `pipeline.local.run_worker.outline` as JSON."""
ANSI = re.compile(r"\x1b\[[0-9;]*m")
KFP = r"^[\d:.,\- ]+ - [A-Z]+ - "
STARTED = re.compile(KFP + r"Executing task '([\w-]+)'")
FINISHED = re.compile(KFP + r"Task '([\w-]+)' finished with status (SUCCESS|FAILURE)")
CACHED = re.compile(KFP + r"Task ([\w-]+) cache hit \(key=(\w+)\)")
SKIPPED = re.compile(KFP + r"Skipping conditional task ([\w-]+)")
CHATTER = re.compile(
    r"\[KFP Executor|WARNING: All log messages before absl|[IWEF]\d{4} [\d:.]+|\d{4}-\d\d-\d\d [\d:.]+: [IWE] "
    r"|To enable the following instructions|INFO:tensorflow:"
)
"""Lines that only the log file keeps. KFP's executor and TensorFlow's C++ code write them."""
UNCHANGED = "already has a version of the same data and settings"
NEXT = "train on real data: docs/datasets.md lists public datasets, docs/data.md says how to use your own"
"""What follows a run on the sample set."""
STYLES = {"waiting": "dim", "running": "bold cyan", "done": "green", "cached": "green", "failed": "bold red"}


def execute_run(run: Run, console: Console) -> int:
    """Run the pipeline, print the result, and return the exit status."""
    with locked_run(run.folder, "run"):
        if run.finished:
            text = f"Run {_shown(run.folder)} has finished. Pass a changed parameter to run it again"
            console.print(Text(text), soft_wrap=True)
            return _print_end(run, console)
        run = run.start_attempt()
        run.save()
        console.print(Text(f"Run {_shown(run.folder)}, environment {run.environment}"), soft_wrap=True)
        page = RunPage(run)
        _print_fact(console, "Report", _shown(page.path))
        console.print("Starting: up to half a minute in a first run")
        with RunProgress(console, run.queries, page) as progress:
            try:
                status = _run_worker(run, progress)
            except KeyboardInterrupt:
                status = 128 + signal.SIGINT
        page.copy_shown()
        if status:
            stopped = print_stopped(run, progress, status, console)
            if status != 128 + signal.SIGINT:  # else a person knows
                tell_end(run, {task.title: task.failure() for task in progress.failed}, console)
            return stopped
        if _is_unchanged(run):
            page.end("plain", "Unchanged", [f"{run.model_name} {UNCHANGED}."])
        dataclasses.replace(run, finished=True).save()
        # No longer needed after the training, and several times as large as the model.
        shutil.rmtree(run.folder / CHECKPOINTS, ignore_errors=True)
        _print_end(run, console)
        tell_end(dataclasses.replace(run, finished=True), {}, console)
        return 0


def _run_worker(run: Run, progress: "RunProgress") -> int:
    """Start the worker, show and log its output, and return its exit status. The worker never outlives this call.

    Nobody else may read the log of a run with signed addresses, although their queries are left out.
    """
    command = [sys.executable, "-m", "pipeline.local.run_worker", str(run.folder)]
    mode = 0o600 if run.queries else 0o666
    # kfp leaves a folder in the temporary folder for each task.
    with (
        temporary_folder() as temporary,
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
        log_file = os.open(run.folder / LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, mode)
        if run.queries:  # an attempt before this one may have had none
            os.fchmod(log_file, mode)
        with os.fdopen(log_file, "a") as log, interruptible(worker) as received:
            for line in worker.stdout:
                plain = visible(ANSI.sub("", line))  # a task may print what others wrote
                log.write(run.queries.hide(plain))  # kfp and libraries print addresses
                log.flush()
                progress.feed(plain.rstrip("\n"))
            return 128 + signal.SIGINT if worker.wait() and received else worker.returncode


@contextlib.contextmanager
def interruptible(worker: "subprocess.Popen[str]") -> Iterator[list[int]]:
    """Passes Ctrl-C and SIGTERM on to the tasks, and ends the worker and its tasks on exit, if they still run.

    A task then has GRACE_S to save its state or to remove partial files. A second Ctrl-C ends it at once. A second
    SIGTERM does not, since `make` passes on its own to commands that may have got it, too. Yields the signals.
    """
    received: list[int] = []
    late = threading.Timer(GRACE_S, _end, [worker, signal.SIGKILL])
    late.daemon = True

    def interrupt(number: int, _: object) -> None:
        if received and number == signal.SIGINT:
            _end(worker, signal.SIGKILL)
        elif not received:
            _end(worker, signal.SIGINT)
            late.start()
        received.append(number)

    previous = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        late.cancel()
        _end(worker, signal.SIGKILL)
        worker.wait()
        for number, handler in previous.items():
            signal.signal(number, handler)


def _end(worker: "subprocess.Popen[str]", number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(worker.pid, number)


@contextlib.contextmanager
def locked_run(folder: pathlib.Path, kind: str) -> Iterator[int]:
    """Keeps a second process from executing the same run or sweep at the same time.

    Yields the file descriptor of the lock. The lock lasts until each process that has it has ended. `kind` is the
    word for messages, such as `run` or `sweep`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConflictError(
                f"the {kind} {_shown(folder)} is already running. Wait until it ends, or stop it"
            ) from None
        yield lock.fileno()


# === Progress ===


class RunProgress:
    """A context manager that shows a run from its output. `feed` receives the output line by line.

    It neither shows nor keeps the queries of the run's addresses.
    Example: `https://lab.org/a.zip?key=1` has the query `key=1`.
    """

    def __init__(self, console: Console, queries: Queries, page: RunPage | None = None) -> None:
        self.page = page
        self.tasks: dict[str, TaskView] = {}
        self._groups: dict[str, list[str]] = {}
        self._console = console
        self._queries = queries
        self._current: TaskView | None = None
        self._in_json = False
        self._live = Live(console=console, get_renderable=self._table, refresh_per_second=4, transient=False)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    @property
    def failed(self) -> list[TaskView]:
        """The tasks that failed, else the one that was running when the run was killed."""
        by_state = {state: [task for task in self.tasks.values() if task.state == state] for state in STYLES}
        return by_state["failed"] or by_state["running"]

    def feed(self, line: str) -> None:
        """Process one line of the output, without colours."""
        if line.startswith(TASKS_LINE):
            content = json.loads(line.removeprefix(TASKS_LINE))
            self.tasks = {name: TaskView(title) for name, title in content["tasks"].items()}
            self._groups = content["groups"]
        elif match := STARTED.match(line):
            self._current = self._enter(match[1], "running")
            self._current.started = time.monotonic()
        elif match := FINISHED.match(line):
            self._leave(match[1], "done" if match[2] == "SUCCESS" else "failed")
        elif match := CACHED.match(line):
            self._enter(match[1], "cached").cached_as = match[2]
        elif match := SKIPPED.match(line):
            for name in self._groups[match[1]]:  # the branch that does not run
                self.tasks.pop(name, None)
        elif self._current is not None:
            for text in map(self._queries.hide, self._task_text(line)):
                self._current.lines.append(text)
                self._log(self._current, text)
        if self.page is not None:
            self.page.follow(self.tasks)

    def _enter(self, name: str, state: str) -> TaskView:
        task = self.tasks.setdefault(name, TaskView(name))
        task.state = state
        self._log(task, "started" if state == "running" else "unchanged. Result reused from an earlier run")
        return task

    def _leave(self, name: str, state: str) -> None:
        task, self._current = self.tasks[name], None
        task.state, task.finished = state, time.monotonic()
        self._log(task, f"{state} after {format_duration(task.seconds)}")

    def _task_text(self, line: str) -> Iterator[str]:
        """`line` without kfp's indentation, if the task printed it and it is not CHATTER."""
        text = line.removeprefix("    ").rstrip()
        if self._in_json or text.startswith("[KFP Executor"):
            # The executor prints its input as JSON over several lines, up to a brace alone at the margin.
            self._in_json = text != "}" and (self._in_json or "Got executor_input" in text)
        elif text.strip() and not CHATTER.match(text) and not re.match(KFP, line):
            yield text

    def _log(self, task: TaskView, text: str) -> None:
        if not self._console.is_terminal:
            self._console.print(Text(f"[{task.title}] {text}"), soft_wrap=True)

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False, expand=True)
        table.add_column("step", no_wrap=True)
        table.add_column("state", no_wrap=True)
        table.add_column("time", justify="right", no_wrap=True)
        table.add_column("last line", ratio=1, no_wrap=True, overflow="ellipsis")
        for task in self.tasks.values():
            last = task.lines[-1] if task.lines else ""
            time_taken = format_duration(task.seconds) if task.started else ""
            table.add_row(task.title, Text(task.state, STYLES[task.state]), time_taken, Text(last, "dim"))
        return table


# === Result ===


def _print_end(run: Run, console: Console) -> int:
    if _is_unchanged(run):
        _print_fact(console, "Unchanged", f"{run.model_name} {UNCHANGED}")
        return 0
    _print_scores(run, console)
    registered = _registered(run)
    number, alias = registered["version"], registered["alias"]
    _print_fact(console, "Registered", f"{run.model_name} version {number} ({alias})")
    _print_fact(console, "Run folder", _shown(run.folder))
    registry = str(run.parameters.get("registry", ""))
    evaluation = _evaluation(run)
    is_sample = evaluation is not None and Provenance(evaluation.model_configs.get("candidate")).is_sample
    if not registry and (run.model_name, alias, is_sample) == (MODEL_NAME, DEFAULT, False):
        _print_fact(console, "Try it", "make demo")
    elif not Address.found(registry):
        prefix = f"{registry.rstrip('/')}/" if registry else ""
        model = f"--model {prefix}{run.model_name}@{number}"
        _print_fact(console, "Try it", f"make demo ARGS={shlex.quote(model)}")
    option = f" --registry {shlex.quote(registry)}" if registry else ""
    _print_fact(console, "All models", f"python -m pipeline registry list{option}")
    if is_sample:
        _print_fact(console, "Next", NEXT)
    return 0


def _is_unchanged(run: Run) -> bool:
    """Whether the run ended before its training, because the registry already has its model."""
    returned = _returned(run, "check-run")
    return returned is not None and not returned["Output"]


def _registered(run: Run) -> dict[str, Any]:
    """The outputs of the registration."""
    returned = _returned(run, "upload-model")
    if returned is None:
        raise NotFoundError(f"the outputs of run {_shown(run.folder)} were removed. Start a new run")
    return returned


def _returned(run: Run, task: str) -> dict[str, Any] | None:
    """The output parameters of a task in the latest attempt. None if it has not run there.

    Example: of `upload-model`, `{"version": 3, "alias": "challenger", "Output": ""}`.
    """
    path = run.output(task, "executor_output.json")
    if path is None:
        return None
    record: run_folder.TaskRecord = read_json(path, "run the pipeline again", run_folder.TaskRecord)
    return record["parameterValues"]


def tell_end(run: Run, failed: dict[str, str], console: Console) -> None:
    """Print how a finished run ended, keep any end with the run, and post it.

    It is posted if the environment variable WEBHOOK_VARIABLE has an address. `failed` has the title of each task
    that failed, and why it failed.
    """
    try:
        registry = open_registry(str(run.parameters.get("registry", "")))
        if not run.finished:
            end = End.of_failure(registry, run.model_name, failed)
        elif _is_unchanged(run):
            end = End.of_unchanged(registry, run.model_name)
        else:
            number = int(_registered(run)["version"])
            version = next(each for each in registry.versions(run.model_name) if each.number == number)
            end = End.of_version(registry, run.model_name, version)
    except UserError as error:
        end = End(run.model_name, "succeeded" if run.finished else End.failed_at(failed), str(error))
    dataclasses.replace(run, result=f"{end.model}: {end.result}", ended=now()).save()
    if run.finished:  # why it failed is said already
        _print_fact(console, "Message", end.text)
    address = os.environ.get(WEBHOOK_VARIABLE)
    if address and (wrong := end.post(_shown(run.folder), lambda: address)):
        _print_fact(console, "Warning", f"the webhook did not take this message: {wrong}")


def _evaluation(run: Run) -> Evaluation | None:
    """The evaluation of the run, if there is one."""
    path = run.output("evaluate-model", f"evaluation/{EVALUATION}")
    return Evaluation.read(path.parent, "run the pipeline again") if path else None


def _print_scores(run: Run, console: Console, registers: bool = True) -> bool:
    """Print the evaluation, if there is one. Return whether its model may be registered."""
    evaluation = _evaluation(run)
    if evaluation is None:
        return False
    from trainer.reports import print_evaluation

    print_evaluation(evaluation, console, registers)
    _print_fact(console, "Report", _shown(run.folder / "report.html"))
    return evaluation.passed_baseline


def print_stopped(run: Run, progress: RunProgress, status: int, console: Console) -> int:
    """Print what a failed or interrupted run has, why it ended, and how to go on. Return the exit status."""
    resume = f"make run-pipeline RESUME={shlex.quote(_shown(run.folder))}"
    report, evaluation = run.folder / SHOWN["evaluate-model", "report"], run.output("evaluate-model", "evaluation")
    if (
        run.output("evaluate-model", "report")
        and evaluation
        and run.output("upload-model", "executor_output.json") is None
    ):
        from trainer.reports import write_report

        # The report was written before the registration, which did not run.
        write_report(evaluation, report, registers=False)
    if _print_scores(run, console, registers=False):
        _print_fact(console, "Registered", f"not yet. `{resume}` goes on")
    interrupted = status == 128 + signal.SIGINT
    if interrupted:
        reasons = ["Interrupted."]
    elif not (reasons := [f"{task.title} failed: {task.failure()}" for task in progress.failed]):
        tail = "\n".join((run.folder / LOG).read_text().splitlines()[-15:])
        reasons = [f"The pipeline ended with status {status}:\n{tail}"]
    if progress.page is not None:
        end = ("plain", "Interrupted") if interrupted else ("bad", "Failed")
        progress.page.end(*end, [*([] if interrupted else reasons), f"`{resume}` goes on."])
    for reason in reasons:
        console.print(Text(reason, style="bold red"), soft_wrap=True)
    _print_fact(console, "Log", _shown(run.folder / LOG))
    _print_fact(console, "Resume", f"{resume} [PARAMETER=VALUE ...]")
    return status if interrupted else 1


def _print_fact(console: Console, name: str, value: str) -> None:
    console.print(Text(f"{name + ':':<12}{value}"), soft_wrap=True)


def _shown(path: pathlib.Path) -> str:
    """`path` relative to the working directory, if it lies below it, such as `runs/20261128-101500`."""
    with contextlib.suppress(ValueError):
        return str(path.relative_to(pathlib.Path.cwd()))
    return str(path)
