"""Runs the pipeline on this machine: the run's folder, the process that works, and what to say at the end."""

import contextlib
import dataclasses
import datetime
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

from rich.console import Console
from rich.text import Text

from pipeline import parameters, settings
from pipeline.parameters import Value
from pipeline.progress import ANSI, Progress
from pipeline.registry import LocalRegistry
from pipeline.registry_address import VERTEX, Address
from trainer import artifacts
from trainer.artifacts import RUN_FILE
from trainer.config import SAMPLE, check
from trainer.errors import UserError
from trainer.published import weight_sources

RUNS = pathlib.Path("runs")
CACHE = f".msinet-cache/schema-{artifacts.SCHEMA}"
"""Folder beside the runs in which kfp.local remembers what cached tasks made; by schema, so that none is read by
another one's code."""
LOG = "log.txt"
CHECKPOINTS = "checkpoints"
SOURCE_WORDS, WEIGHTS_WORDS = ("", SAMPLE), ("", "imagenet", "none")
"""Values that are no paths."""
GRACE_S = 10.0
"""How long interrupted tasks may take to tidy up."""
TASK_ENVIRONMENT = {"PYTHONUNBUFFERED": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
SHOWN = {
    ("fetch-dataset", "preview"): "data_base.html",
    ("fetch-dataset-2", "preview"): "data_finetune.html",
    ("train-model", "curve"): "curve_base.html",
    ("train-model-2", "curve"): "curve_finetune.html",
    ("evaluate-model", "report"): "report.html",
}
"""(task, output) -> name under which the run's folder has it for people; kfp gives outputs no suffix."""


@dataclasses.dataclass(frozen=True)
class Run:
    """One run: its folder and what it was started with."""

    folder: pathlib.Path
    environment: str
    parameters: dict[str, Value]
    finished: bool = False
    """Whether it ended well with these parameters."""
    earlier: tuple[str, ...] = ()
    """Folders of the attempts before the latest."""

    @property
    def model_name(self) -> str:
        """The model's name in the registry."""
        return str(self.parameters.get("model_name", parameters.PARAMETERS["model_name"].default))

    @classmethod
    def load(cls, folder: pathlib.Path) -> "Run":
        content = artifacts.read_json(folder / RUN_FILE, f"{folder} is not a run; name one below {RUNS}/")
        earlier = tuple(content.get("earlier", ()))
        return cls(folder, content["environment"], content["parameters"], content.get("finished", False), earlier)

    def save(self) -> None:
        content = {name: value for name, value in vars(self).items() if name != "folder"}
        artifacts.write_json(
            self.folder / RUN_FILE, {**content, "code_version": artifacts.code_version(), "command": sys.argv[1:]}
        )

    def begun(self) -> "Run":
        """The same at the start of an attempt: nothing that is there is its own."""
        for shown in SHOWN.values():
            (self.folder / shown).unlink(missing_ok=True)
        attempts = sorted(each.name for each in self.folder.glob(artifacts.RUN_ATTEMPTS))
        return dataclasses.replace(self, earlier=tuple(attempts))

    def output(self, task: str, name: str) -> pathlib.Path | None:
        """What a task of the latest attempt wrote, where there is one."""
        attempt = artifacts.latest_attempt(self.folder)
        path = attempt and attempt / task / name
        return path if path and path.exists() else None

    def cached_output(self, key: str, name: str) -> pathlib.Path | None:
        """What a task that was in the cache wrote in an earlier attempt, or run, where it is still there."""
        for record in (self.folder.parent / CACHE).glob(f"{key}*.json"):
            path = pathlib.Path(artifacts.read_json(record, "remove it")[name]["uri"])
            return path if path.exists() else None
        return None


def prepare(environment: str, folder: str, resume: str, given: Mapping[str, Value]) -> Run:
    """The run to start, or to go on with; everything that can be known to be wrong is, before anything starts.

    `environment`, `folder` and `resume` may be empty. `resume` is a run's folder, or `latest`. A `folder` that
    has a run already is one to go on with.
    """
    if folder and (pathlib.Path(folder) / RUN_FILE).exists():
        resume = folder
    if resume:
        stored = Run.load(_latest() if resume == "latest" else pathlib.Path(resume))
        check(
            not environment or settings.load(environment).name == stored.environment,
            f"{stored.folder} was started in environment {stored.environment}, not {environment}; leave --env out",
        )
        values = {**stored.parameters, **given}
        run = dataclasses.replace(
            stored, parameters=values, finished=stored.finished and values == stored.parameters
        )
    else:
        has_source = given.get("base_source") or given.get("finetune_source")
        loaded = settings.load(environment or ("local" if has_source else "sample"))
        check(
            loaded.target == "local",
            f"environment {loaded.name} is for target {loaded.target}; this command runs on this machine alone",
        )
        name = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        run = Run(pathlib.Path(folder) if folder else RUNS / name, loaded.name, {**loaded.parameters, **given})
    run = dataclasses.replace(run, folder=run.folder.absolute())
    run.parameters.setdefault("checkpoint_dir", str(run.folder / CHECKPOINTS))
    parameters.validate(run.parameters)
    parameters.require_sources(run.parameters)
    if not run.finished:
        _require_files(run.parameters)
        _require_registry(str(run.parameters.get("registry", "")), run.model_name)
    return run


def _require_files(given: Mapping[str, Value]) -> None:
    """Raise `UserError` for a path that leads nowhere, before anything else has taken its hours."""
    for name, words in {
        "base_source": SOURCE_WORDS,
        "finetune_source": SOURCE_WORDS,
        "base_model_uri": ("",),
        "initial_weights": WEIGHTS_WORDS,
    }.items():
        value = str(given.get(name, ""))
        if value in words or "://" in value:
            continue
        if name.endswith("_source"):
            is_there = pathlib.Path(value).expanduser().exists()
            check(is_there, f"{name} is {value!r}, and there is no such file or folder; mend the path")
        else:
            try:
                weight_sources.check_local(value)
            except UserError as error:
                raise UserError(f"{name} is {value!r}: {error}") from None


def _require_registry(location: str, name: str) -> None:
    """Raise `UserError` for a registry that the evaluation or the registration, hours later, would fail at."""
    if location.startswith(VERTEX):
        check(
            bool(Address.at(location).staging),
            f"registry is {location}, and this machine's models are not on Cloud Storage: say where they are to "
            f"be kept, {location.partition('?')[0]}?staging=gs://BUCKET/FOLDER",
        )
        return
    registry = LocalRegistry.at(location)
    artifacts.check_place(registry.root / name / artifacts.ALIASES)
    registry.default(name)


def _latest() -> pathlib.Path:
    found = sorted(RUNS.glob(f"*/{RUN_FILE}"), key=lambda path: path.stat().st_mtime)
    check(bool(found), f"there is no run below {RUNS.absolute()} to go on with")
    return found[-1].parent


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
    command = [sys.executable, "-m", "pipeline.worker", str(folder)]
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
    assert uploaded is not None
    registered = artifacts.read_json(uploaded, "run the pipeline again")["parameterValues"]
    _print_fact(console, "Registered", f"{run.model_name} version {registered['version']} ({registered['alias']})")
    _print_fact(console, "Run folder", _shown(run.folder))
    return 0


def _print_scores(run: Run, console: Console) -> None:
    if (path := run.output("evaluate-model", f"evaluation/{artifacts.EVALUATION}")) is not None:
        from trainer.reports.terminal import print_evaluation

        print_evaluation(artifacts.read_json(path, "run the pipeline again"), console)
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
