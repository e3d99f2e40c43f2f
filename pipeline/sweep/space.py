"""A sweep as its TOML file describes it: the settings of all trials, and the settings that are searched.

Names and types are as for the pipeline's parameters. The function that checks a run also checks the trials.

Example: `[search]` with `patience = [1, 2]` and `warmup_epochs = { min = 0, max = 3 }`.
"""

import contextlib
import dataclasses
import itertools
import json
import math
import pathlib
import shlex
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from lifecycle.registry import resolve_base_model
from lifecycle.runs import PARAMETERS, STEPS, RunSettings, Values, settle
from pipeline.graph import Environment, layered_values
from trainer.errors import (
    AmbiguousError,
    Checks,
    ContentError,
    MismatchError,
    SettingError,
    UnknownNameError,
    UserError,
    check,
)
from trainer.io import read_json, read_toml, write_json
from trainer.models import PRETRAINED, find_model, is_author_weights
from trainer.network import ASSETS_EXTRA, ModelFolder
from trainer.places import stored_at, without_queries
from trainer.settings import Value, flag_of
from trainer.texts import nearest
from trainer.training import TrainConfig

TABLES = ("parameters", "search")
RECORD = "sweep.json"
"""File in the folder of a sweep that says which one it is."""
FORMS = "a list of values, such as [1, 2, 4], or a range, such as { min = 1e-6, max = 1e-4, log = true }"
UNJUDGED = ("flip_prediction", "calibrate", "checkpoint_minutes", "profile_steps")
"""Settings that do not change the validation loss. A sweep minimizes this loss."""

LISTED = ("batch_size", "accumulation")
"""Settings without ranges. Not every batch has equal parts, and lists are checked whole."""


@dataclasses.dataclass(frozen=True)
class Numerical:
    """The integers or numbers from `low` to `high`, both included. Searched by their logarithm if `log`.

    Example: `Numerical(1e-6, 1e-4, log=True)` tries as many values below 1e-5 as above.
    """

    low: int | float
    high: int | float
    log: bool = False

    @property
    def ends(self) -> tuple[Value, ...]:
        """The lowest and the highest value."""
        return self.low, self.high

    @property
    def size(self) -> float:
        """How many values there are."""
        return self.high - self.low + 1 if isinstance(self.low, int) else math.inf

    def __contains__(self, value: Value) -> bool:
        return not isinstance(value, str) and self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}{' (log)' if self.log else ''}"


@dataclasses.dataclass(frozen=True)
class Categorical:
    """A few values without an order, such as `constant` and `cosine`."""

    values: tuple[Value, ...]

    @property
    def ends(self) -> tuple[Value, ...]:
        """All values."""
        return self.values

    @property
    def size(self) -> float:
        """How many values there are."""
        return len(self.values)

    def __contains__(self, value: Value) -> bool:
        return value in self.values

    def __str__(self) -> str:
        return ", ".join(map(text_of, self.values))


@dataclasses.dataclass(frozen=True)
class Sweep:
    """A sweep in an environment."""

    name: str
    environment: Environment
    parameters: Mapping[str, Value]
    """Parameters of all trials that the file gives."""
    search: Mapping[str, Numerical | Categorical]
    """The searched parameters."""
    env: str
    """The environment as a command names it: its name, or its file."""

    @property
    def step(self) -> str:
        """The training that is varied: base training, or fine-tuning if `base_model_uri` replaces that."""
        return "finetune" if self.fixed.get("base_model_uri") else "base"

    @cached_property
    def fixed(self) -> Values:
        """The parameters of all trials: first of the environment, and over them of the file."""
        return layered_values(self.environment.derived, self.environment.parameters, self.parameters)

    def values(self, trial: Mapping[str, Value]) -> Values:
        """All parameters of a trial, as for a run with the parameters of the file and of `trial`."""
        given = {**self.parameters, **trial}
        return layered_values(self.environment.derived, self.environment.parameters, given)

    def settle(self, trial: Mapping[str, Value]) -> RunSettings:
        """The settings of a trial, as for a run. Raises `UserError` if there could be no such run."""
        platform, location = self.environment.target, self.environment.location
        return settle(self.values(trial), platform, location, typed=self.search)

    @property
    def size(self) -> float:
        """How many different trials there are."""
        return math.prod(form.size for form in self.search.values())

    @cached_property
    def shared(self) -> RunSettings:
        """The settings of some trial. All trials have the same data and machines."""
        return self.settle(self.extremes()[0])

    def extremes(self) -> list[dict[str, Value]]:
        """Trials with each two searched parameters at their bounds, as far as they are distinct.

        Settings contradict each other in pairs. Example: more `warmup_epochs` than `epochs`. The other
        parameters have their first values.
        """
        first = {name: each.ends[0] for name, each in self.search.items()}
        found = [first]
        for one, other in itertools.combinations_with_replacement(self.search, 2):
            for a, b in itertools.product(self.search[one].ends, self.search[other].ends):
                found.append({**first, one: a, other: b})
        return [trial for place, trial in enumerate(found) if trial not in found[:place]]

    def check(self) -> list[RunSettings]:
        """The settings of all `extremes`. Raises `UserError` for settings that no run could have."""
        checks, settled = Checks(), []
        for trial in self.extremes():
            with checks.collect():
                settled.append(self.settle(trial))
        checks.raise_errors()
        return settled

    def present(self) -> dict[str, Value]:
        """The searched parameters as they would be without the search. Empty if one of them lies outside of it.

        Example: with a batch of 8 without the search, and a list of 2 and 4 in it, there is none.
        """
        with contextlib.suppress(UserError):  # such as warmup_epochs that only more epochs allow
            settings = settle(self.fixed, self.environment.target, self.environment.location)
            config = settings.trainings[self.step].training
            values = {name: getattr(config, PARAMETERS[name].field) for name in self.search}
            if all(value in self.search[name] for name, value in values.items()):
                return values
        return {}

    def training_flags(self, trial: Mapping[str, Value]) -> list[str]:
        """The flags of `python -m trainer train` for the settings of a trial, such as `--patience=2`.

        Settings without a flag keep their defaults.
        """
        return flags(self.values(trial).fields(TrainConfig, self.step))

    def shared_flags(self) -> list[str]:
        """The `training_flags` that all trials share.

        Raises `UserError` if some of them follow from a searched recipe, which takes settings of the environment
        out: a tuning job of Vertex AI can only add flags.
        """
        searched = {flag_of(PARAMETERS[name].field) for name in self.search}
        found = [
            [flag for flag in self.training_flags(trial) if flag.partition("=")[0] not in searched]
            for trial in self.extremes()
        ]
        differing = sorted({flag for each in found for flag in each if not all(flag in other for other in found)})
        check(
            not differing,
            f"environment {self.environment.name} has {', '.join(differing)}, which a searched recipe replaces. "
            "Search settings in place of recipes, or use an environment without them",
            SettingError,
        )
        return found[0]

    def data_flags(self, name: str) -> list[str]:
        """The flags of `python -m trainer fetch` for the data of the training, or for the test set (`test`)."""
        config = self.shared.data[name]
        if name == "test":  # a run's is as large as its fine-tuning data
            config = dataclasses.replace(config, image_size=self.shared.data[self.step].image_size)
        given = {
            field.name: getattr(config, field.name)
            for field in dataclasses.fields(config)
            if getattr(config, field.name) != field.default or field.name == "dataset"
        }
        return flags(given) + ["--test"] * (name == "test")

    @property
    def data_text(self) -> str:
        """The name of the data of the training, and where it is from if that was given."""
        data = self.shared.data[self.step]
        return f"{data.dataset} from {without_queries(data.source)}" if data.source else data.dataset

    @property
    def has_test_set(self) -> bool:
        """Whether there are images on which neither trials are trained nor the best one is chosen."""
        return bool(self.fixed.get("test_dataset"))

    def next_run(self, trial: Mapping[str, Value]) -> str:
        """The command of a run with the settings of a trial, such as `make run-pipeline patience=2`.

        Queries of addresses are left out, because they are keys.
        """
        where = ["TARGET=vertex"] * (self.environment.target == "vertex")
        given = {"ENV": self.env, **self.parameters, **trial}
        for name in given:
            if name.endswith("_source"):
                given[name] = without_queries(str(given[name]))
        return " ".join(["make run-pipeline", *where, *assignments(given)])


def keep(sweep: Sweep, folder: pathlib.Path) -> str:
    """Write down which sweep the folder belongs to, and the model that all of its trials start from.

    Returns the model that `find_base_model` found in the first call: later ones may find another by the same name.
    Raises `UserError` if the folder is another sweep's.
    """
    kept = kept_base(sweep, folder)
    if kept is not None:
        return kept
    base = find_base_model(sweep)
    # The query of a signed address is a key.
    write_json(folder / RECORD, {**_record(sweep), "base_model": base}, private=True)
    return base


def kept_base(sweep: Sweep, folder: pathlib.Path) -> str | None:
    """The model that the trials in a folder start from, as `keep` returns it. None if no sweep began there.

    Raises `UserError` if the folder is another sweep's.
    """
    path, content = folder / RECORD, _record(sweep)
    if not path.exists():
        return None
    found = read_json(path, "remove the folder", dict[str, Any])
    differing = [name for name in content if found.get(name) != content[name]]
    check(
        not differing,
        f"{folder} is of a sweep with other {' and '.join(differing)}. Go on with its file as it was, remove "
        "the folder, or choose another with --sweep-dir",
        MismatchError,
    )
    return str(found["base_model"])


def _record(sweep: Sweep) -> dict[str, Any]:
    """What makes two sweeps the same one, as JSON has it: environment, parameters and search."""
    content = {
        "environment": sweep.environment.name,
        "parameters": sweep.fixed,
        "search": {name: dataclasses.asdict(form) for name, form in sweep.search.items()},
    }
    return dict(json.loads(json.dumps(content)))


def find_base_model(sweep: Sweep) -> str:
    """The folder or the `gs://` address of the model that `base_model_uri` names. Empty for base training.

    Keywords such as `pretrained`, and `author:NAME`, are returned as they are. Raises `UserError` if no
    training can start from it.
    """
    uri = str(sweep.fixed.get("base_model_uri", ""))
    address = resolve_base_model(uri, str(sweep.fixed.get("registry", "")))[0]
    if not uri or address == PRETRAINED or is_author_weights(address):
        return address
    try:
        place = stored_at(address)
        if place.is_local:
            return str(find_model(address).absolute())
        names = {each.name for each in place.objects()}
        in_version = {name.removeprefix(f"{ASSETS_EXTRA}/") for name in names}
        check(bool(ModelFolder.among(in_version)), f"{address} is not the folder of a model", ContentError)
    except UserError as error:
        raise SettingError(
            f"base_model_uri is {uri}: {error}. A sweep starts from the folder of a model or of one version. "
            "`python -m trainer import-weights` makes a model of other weights"
        ) from None
    return address


def assignments(values: Mapping[str, Value]) -> list[str]:
    """Parameters as arguments of a command line, such as `patience=2`."""
    return [shlex.quote(f"{name}={text_of(value)}") for name, value in values.items()]


def flags(settings: Mapping[str, Value]) -> list[str]:
    """Settings by name as flags of a command, such as `--learning-rate=1e-05`."""
    return [f"{flag_of(name)}={text_of(value)}" for name, value in settings.items()]


def text_of(value: Value) -> str:
    """A value as it is written on a command line, with all digits, such as `true` or `1e-05`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_sweep(path: pathlib.Path, environment: Environment, env: str = "") -> Sweep:
    """Read a TOML file with the tables TABLES, and check that each trial could be a run.

    Args:
        path: the file.
        environment: where the trials run.
        env: how a command names it, such as `prod` or `/tmp/prod.toml`. Its name if empty.

    Raises `UserError` for unknown names, with the nearest known one, for values of the wrong type or out of their
    range, and for a target without sweeps.
    """
    check(
        environment.target != "kubeflow",
        f"environment {environment.name} is for target kubeflow, which has no sweeps. Search on this machine "
        "(--env local) or on Vertex AI, and give the settings that it prints to the runs on Kubeflow",
        SettingError,
    )
    content = read_toml(path, "name a file with the tables [parameters] and [search] (docs/sweep.md)")
    try:
        for name in content:
            check(
                name in TABLES,
                f"unknown table {name!r}. A sweep has {' and '.join(TABLES)}{nearest(name, TABLES)}",
                UnknownNameError,
            )
        for name in TABLES:
            check(isinstance(content.get(name, {}), dict), f"{name} is no table. Write [{name}]", SettingError)
        given = Values.converted(content.get("parameters", {}))
        sweep = Sweep(path.stem, environment, given, {}, env or environment.name)
        check(
            bool(content.get("search")),
            "the table [search] is empty. Name at least one setting of a training",
            SettingError,
        )
        checks, search = Checks(), {}
        for name, form in content["search"].items():
            with checks.collect():
                check(
                    name not in given, f"{name} is in [parameters] and in [search]. Leave out one", AmbiguousError
                )
                _check_searchable(name, sweep.step)
                search[name] = _form_of(name, form)
        checks.raise_errors()
        sweep = dataclasses.replace(sweep, search=search)
        sweep.check()
    except UserError as error:
        raise error.within(str(path)) from None
    return sweep


def _check_searchable(name: str, step: str) -> None:
    """Raise `UserError` unless `name` is a setting of the training `step` on which its validation loss depends."""
    known = [
        each.name
        for each in PARAMETERS.values()
        if each.config is TrainConfig and each.step in ("", step) and each.field not in UNJUDGED
    ]
    if name in known:
        return
    if name not in PARAMETERS:
        raise UnknownNameError(f"unknown parameter {name!r}{nearest(name, known)}")
    if PARAMETERS[name].field in UNJUDGED:
        raise SettingError(
            f"{name} does not change the validation loss, which a sweep minimizes. Leave it out of [search]"
        )
    if PARAMETERS[name].config is TrainConfig:
        raise SettingError(
            f"{name} is not of {STEPS[step].lower()}, which the sweep varies because base_model_uri is "
            f"{'empty' if step == 'base' else 'not empty'}. Write {PARAMETERS[name].name_for(step)}"
        )
    raise SettingError(
        f"{name} is no setting of a training, and the trials of a sweep share their data and machines. Move it to "
        f"[parameters]{nearest(name, known)}"
    )


def _form_of(name: str, form: Any) -> Numerical | Categorical:
    """The range or the values of a searched parameter. Raises `UserError` for anything else.

    Example: `[1, 2]` is `Categorical((1, 2))`, and `{"min": 1, "max": 4}` is `Numerical(1, 4)`.
    """
    kind = PARAMETERS[name].kind
    if isinstance(form, Sequence) and not isinstance(form, str):
        values = tuple(PARAMETERS[name].convert(value) for value in form)
        check(
            len(set(values)) == len(values) > 1,
            f"{name} has the values {list(form)}. Write two or more different ones",
            SettingError,
        )
        return Categorical(values)
    check(
        isinstance(form, Mapping) and {"min", "max"} <= form.keys(),
        f"{name} is {form!r}. Write {FORMS}",
        SettingError,
    )
    for key in form:
        check(
            key in ("min", "max", "log"), f"{name} has the key {key!r}. A range has min, max and log", SettingError
        )
    check(
        PARAMETERS[name].field not in LISTED,
        f"{name} is {form!r}, but not every batch can be split evenly. Write a list of values",
        SettingError,
    )
    check(kind in (int, float), f"{name} is {form!r}, but it is no number. Write a list of values", SettingError)
    low, high = (PARAMETERS[name].convert(form[key]) for key in ("min", "max"))
    log = form.get("log", False)
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    check(isinstance(log, bool), f"{name} has log = {log!r}. It must be true or false", SettingError)
    check(low < high, f"{name} is from {low:g} to {high:g}. Its min must be below its max", SettingError)
    check(
        not log or low > 0,
        f"{name} is from {low:g}, which has no logarithm. Set min above 0, or leave out log",
        SettingError,
    )
    return Numerical(low, high, log)
