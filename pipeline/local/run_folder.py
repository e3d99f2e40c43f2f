"""The folder of a local run, its parameters, and all checks that are possible before it starts."""

import contextlib
import dataclasses
import datetime
import functools
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

from typing_extensions import TypedDict

from lifecycle.registry import REGISTERED_NAME, Address, VertexRegistry, open_registry, resolve_base_model
from lifecycle.runs import KEYWORDS, PARAMETERS, STEPS, Values, settle
from pipeline.graph import layered_values, load_environment
from trainer.data import SAMPLE, Manifest
from trainer.errors import MismatchError, NotFoundError, SettingError, UserError, check
from trainer.evaluation import RunFolder
from trainer.io import check_output_path, read_json, remove_leftovers, write_json
from trainer.machine import code_version
from trainer.models import PRETRAINED, REGISTRY, WeightSource
from trainer.places import Queries, source_places
from trainer.settings import Value, settings_text

RUNS = pathlib.Path("runs")
CACHE = f".msinet-cache/schema-{Manifest.schema}"
"""Folder next to the runs. kfp.local records the outputs of cached tasks there.

It differs for each schema, so that code never reads the outputs of an incompatible version.
"""
CHECKPOINTS = "checkpoints"
SHOWN = {
    ("fetch-dataset", "preview"): "data_base.html",
    ("fetch-dataset-2", "preview"): "data_finetune.html",
    ("fetch-dataset-3", "preview"): "data_test.html",
    ("check-data", "report"): "data_check.html",
    ("train-model", "curve"): "curve_base.html",
    ("train-model-2", "curve"): "curve_finetune.html",
    ("evaluate-model", "report"): "report.html",
}
"""(task, output) -> file name of its copy in the run's folder. kfp gives outputs no suffix."""


class Output(TypedDict):
    """An output in kfp's record of a cached task."""

    uri: str


class TaskRecord(TypedDict):
    """Kfp's record of a task, with the parameters that it returned."""

    parameterValues: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Run:
    """A local run: its folder and the parameters that it was started with."""

    folder: pathlib.Path
    environment: str
    parameters: Values
    finished: bool = False
    """Whether it succeeded with these parameters."""
    result: str = ""
    """How its last attempt ended, in the words of `End`. Empty if it goes on or was interrupted."""
    ended: str = ""
    """When it ended, UTC."""
    earlier: tuple[str, ...] = ()
    """Names of the folders of all earlier attempts."""

    @property
    def model_name(self) -> str:
        """The model's name in the registry."""
        return str(self.parameters.get("model_name", PARAMETERS["model_name"].default))

    @functools.cached_property
    def queries(self) -> Queries:
        """The queries of the addresses among the parameters, which no output may have."""
        return Queries(self.parameters.values())

    @classmethod
    def load(cls, folder: pathlib.Path) -> "Run":
        """Read the run in `folder`. Raises `UserError` if there is none, or if it is of another version.

        Example: a parameter that no longer exists.
        """
        remedy = f"{folder} is not a run. Name one below {RUNS}/"
        stored = RunFolder(folder)
        content = stored.read(remedy)
        earlier = tuple(content.get("earlier", ()))
        try:
            values = Values.converted(content["parameters"])
        except UserError as error:
            raise MismatchError(f"{stored.file} is of another version ({error}). Start a new run") from None
        return cls(
            folder,
            content["environment"],
            values,
            content.get("finished", False),
            content.get("result", ""),
            content.get("ended", ""),
            earlier,
        )

    def save(self) -> None:
        """Write the run to its folder, with the version of the code and the command line.

        The query of a signed address is a key, so nobody else may read the file then.
        """
        content = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        del content["folder"]
        content |= {"code_version": code_version(), "command": sys.argv[1:]}
        write_json(RunFolder(self.folder).file, content, private=bool(self.queries))

    def start_attempt(self) -> "Run":
        """The run at the start of a new attempt. Removes the copies of earlier outputs from its folder.

        What killed tasks left in the folders of earlier attempts goes too: it may be gigabytes of downloads.
        """
        for name in SHOWN.values():
            (self.folder / name).unlink(missing_ok=True)
        attempts = RunFolder(self.folder).attempts
        for task in (task for attempt in attempts for task in attempt.glob("*")):
            remove_leftovers(task)
        return dataclasses.replace(self, earlier=tuple(path.name for path in attempts), result="", ended="")

    def output(self, task: str, name: str) -> pathlib.Path | None:
        """Path of a task's output in the latest attempt. None if it does not exist, or if that is an earlier one.

        Example: `output("evaluate-model", "report")`.
        """
        attempt = RunFolder(self.folder).latest_attempt
        path = attempt and attempt.name not in self.earlier and attempt / task / name
        return path if path and path.exists() else None

    def cached_output(self, key: str, name: str) -> pathlib.Path | None:
        """Path of a cached task's output, in an earlier attempt or run. None if it was removed."""
        for record in (self.folder.parent / CACHE).glob(f"{key}*.json"):
            outputs = read_json(record, "remove it", dict[str, Output])
            path = pathlib.Path(outputs[name]["uri"])
            return path if path.exists() else None
        return None


def prepare_run(environment: str, folder: str, resume: str, passed: Mapping[str, Value]) -> Run:
    """The run to start or resume, with every check that is possible before it starts.

    Args:
        environment: Name of an environment. If empty, the default one, or the environment of the resumed run.
        folder: The run's folder. If empty, a new one below RUNS. If it already has a run, this run is resumed.
        resume: Folder of the run to resume, or `latest`. Empty for a new run.
        passed: Parameters from the command line. They override all others.

    Raises:
        UserError: If the run could not succeed, or cannot be resumed.
    """
    with contextlib.suppress(OSError):  # the name is too long, which `check_output_path` says
        if folder and RunFolder(pathlib.Path(folder)).file.exists():
            resume = folder
    run = _resumed_run(environment, resume, passed) if resume else _new_run(environment, folder, passed)
    run = dataclasses.replace(run, folder=run.folder.absolute())
    check_output_path(RunFolder(run.folder).file)
    run.parameters.setdefault("checkpoint_dir", str(run.folder / CHECKPOINTS))
    settle(run.parameters, "local", typed=passed)
    if not run.finished:
        registry = str(run.parameters.get("registry", ""))
        _require_registry(registry, run.model_name)
        if endpoint := str(run.parameters.get("endpoint", "")):
            VertexRegistry.at(registry).check_endpoint(run.model_name, endpoint)
        _require_files(run.parameters.effective, registry)
    return run


def describe_run(run: Run) -> list[str]:
    """What the run would do, in a few lines: its steps with their data, its parameters, and where results go."""
    if run.finished:
        return [f"Run:        {run.folder} has finished. With a changed parameter it would run again"]
    values, settings = run.parameters, settle(run.parameters, "local")
    lines = [f"Run:        {run.folder}, environment {run.environment}"]
    for name, title in values.datasets.items():
        data, step = settings.data[name], settings.trainings.get(name)
        training = f", epochs {step.training.epochs}, batch {step.training.batch_size or 'auto'}" if step else ""
        size = f", images at {data.image_size}" if data.image_size else ""
        lines.append(f"{title}: {data.dataset} from {data.shown.source or 'its public source'}{size}{training}")
    if base := values.get("base_model_uri"):
        lines.append(f"Base model: {base}")
    changed = {
        name: value
        for name, value in sorted(values.items())
        if value != PARAMETERS[name].default and name != "checkpoint_dir"
    }
    registry = values.get("registry") or f"the folder {REGISTRY}"
    return [
        *lines,
        f"Evaluation: by {values.complete['gate']}, then a new version of {run.model_name} in {registry}",
        f"Parameters: {run.queries.hide(settings_text(changed)) or 'the defaults'}",
        f"Results:    {run.folder}/report.html",
    ]


def _resumed_run(environment: str, folder: str, passed: Mapping[str, Value]) -> Run:
    if folder == "latest":
        found = sorted(RunFolder.below(RUNS), key=lambda run: run.file.stat().st_mtime)
        check(bool(found), f"there is no run to resume below {RUNS.absolute()}", NotFoundError)
        folder = str(found[-1].folder)
    stored = Run.load(pathlib.Path(folder))
    check(
        not environment or load_environment(environment).name == stored.environment,
        f"{stored.folder} was started in environment {stored.environment}, not {environment}. Omit --env",
        MismatchError,
    )
    values = layered_values(stored.parameters, passed)
    finished = stored.finished and values == stored.parameters
    return dataclasses.replace(stored, parameters=values, finished=finished)


def _new_run(environment: str, folder: str, passed: Mapping[str, Value]) -> Run:
    loaded = load_environment(environment or ("local" if _has_data(passed) else "sample"))
    loaded.require_target("local")
    name = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    path = pathlib.Path(folder) if folder else RUNS / name
    return Run(path, loaded.name, layered_values(loaded.parameters, passed))


def _has_data(passed: Mapping[str, Value]) -> bool:
    """Whether parameters name real data. Then the run needs the settings of real data too.

    An empty source means the dataset's public source. So does a missing source if a dataset is named.
    Examples: `base_source=` and `base_dataset=salicon` name real data, `base_source=sample` does not.
    """
    return any(
        passed[source] != SAMPLE if source in passed else bool(passed.get(dataset))
        for source, dataset in ((f"{step}_source", f"{step}_dataset") for step in STEPS)
    )


def _require_files(values: Mapping[str, Value], registry: str) -> None:
    """Raise `UserError` for an input that does not exist, or is no folder with files."""
    for name, keywords in KEYWORDS.items():
        value = str(values.get(name, keywords[0]))
        if (value in keywords and value != PRETRAINED) or "://" in value:
            continue
        try:
            if name == "base_model_uri" and REGISTERED_NAME.fullmatch(value):
                resolve_base_model(value, registry)
            elif not name.endswith("_source"):
                WeightSource(value).check_local()
            else:
                for place in source_places(value):
                    place.check_files()
        except UserError as error:
            raise error.within(f"{name} is {value!r}") from None


def _require_registry(location: str, name: str) -> None:
    """Raise `UserError` for a registry at which the evaluation or the registration would fail hours later."""
    if address := Address.found(location):
        check(
            bool(address.staging),
            f"registry is {location}, but models of this machine are not on Cloud Storage. Add a place to copy "
            f"them to: {location.partition('?')[0]}?staging=gs://BUCKET/FOLDER",
            SettingError,
        )
    open_registry(location).check_writable(name)
