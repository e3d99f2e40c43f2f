"""A run on this machine: its folder, what it was started with, and whether it can come to its end."""

import dataclasses
import datetime
import pathlib
import sys
from collections.abc import Mapping

from pipeline.graph import parameters
from pipeline.graph.environment import load_environment
from pipeline.graph.parameters import Value
from pipeline.registry.address import VERTEX, Address
from pipeline.registry.folder import LocalRegistry
from trainer import artifacts, files
from trainer.artifacts import RUN_FILE
from trainer.errors import UserError, check
from trainer.models import weight_sources

RUNS = pathlib.Path("runs")
CACHE = f".msinet-cache/schema-{artifacts.SCHEMA}"
"""Folder beside the runs in which kfp.local remembers what cached tasks made; by schema, so that none is read by
another one's code."""
CHECKPOINTS = "checkpoints"
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
        content = files.read_json(folder / RUN_FILE, f"{folder} is not a run; name one below {RUNS}/")
        earlier = tuple(content.get("earlier", ()))
        return cls(folder, content["environment"], content["parameters"], content.get("finished", False), earlier)

    def save(self) -> None:
        content = {name: value for name, value in vars(self).items() if name != "folder"}
        files.write_json(
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
            path = pathlib.Path(files.read_json(record, "remove it")[name]["uri"])
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
            not environment or load_environment(environment).name == stored.environment,
            f"{stored.folder} was started in environment {stored.environment}, not {environment}; leave --env out",
        )
        values = {**stored.parameters, **given}
        run = dataclasses.replace(
            stored, parameters=values, finished=stored.finished and values == stored.parameters
        )
    else:
        has_source = given.get("base_source") or given.get("finetune_source")
        loaded = load_environment(environment or ("local" if has_source else "sample"))
        check(
            loaded.target == "local",
            f"environment {loaded.name} is for target {loaded.target}; this command runs on this machine alone",
        )
        name = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        run = Run(pathlib.Path(folder) if folder else RUNS / name, loaded.name, {**loaded.parameters, **given})
    run = dataclasses.replace(run, folder=run.folder.absolute())
    run.parameters.setdefault("checkpoint_dir", str(run.folder / CHECKPOINTS))
    parameters.validate(run.parameters, "local")
    parameters.require_sources(run.parameters)
    if not run.finished:
        _require_files(run.parameters)
        _require_registry(str(run.parameters.get("registry", "")), run.model_name)
    return run


def _require_files(given: Mapping[str, Value]) -> None:
    """Raise `UserError` for a path that leads nowhere, before anything else has taken its hours."""
    for name, words in parameters.WORDS.items():
        value = str(given.get(name, words[0]))
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
    files.check_place(registry.root / name / artifacts.ALIASES)
    registry.default(name)


def _latest() -> pathlib.Path:
    found = sorted(RUNS.glob(f"*/{RUN_FILE}"), key=lambda path: path.stat().st_mtime)
    check(bool(found), f"there is no run below {RUNS.absolute()} to go on with")
    return found[-1].parent
