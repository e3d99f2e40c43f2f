"""Schedules as files, one TOML file each. The schedules on Vertex AI are compared with them and made equal.

A file that cannot be used is refused before the first request. The service chooses what a file and its environment
leave empty. Of these settings, only the end and the parameters are compared.

Example: a schedule that was given an end in the console loses it. An account that the service chose stays.
"""

import dataclasses
import datetime
import json
import pathlib
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from lifecycle.runs import Values
from pipeline.graph import PIPELINE_NAME, Environment
from pipeline.vertex import schedule
from pipeline.vertex.schedule import Schedule, SchedulePlan, Timing
from trainer.errors import (
    AmbiguousError,
    Checks,
    MistakesError,
    NotFoundError,
    SettingError,
    UnknownNameError,
    UserError,
    check,
)
from trainer.io import read_toml
from trainer.settings import Value
from trainer.texts import nearest

TEXT, MOMENT, CHOICE = (
    (str, "a string"),
    ((str, datetime.date), "a date or a time, such as 2026-03-01T12:00"),
    (bool, "true or false"),
)
KEYS: dict[str, tuple[Any, str]] = {
    "cron": TEXT,
    "timezone": TEXT,
    "start": MOMENT,
    "end": MOMENT,
    "when_changed": CHOICE,
    "paused": CHOICE,
    "parameters": (dict, "a table: write [parameters], and below it NAME = VALUE"),
}
"""Keys of a file -> their type and its description."""
PARAMETER = "parameters."
GUIDE = "docs/vertex-reference.md describes the files"
EXAMPLE = "weekly.toml.example"
"""A file to copy, in the folder of the repository."""
CREATE, CHANGE, LEAVE, DELETE, KEEP = "create", "change", "leave", "delete", "no file"


@dataclasses.dataclass(frozen=True)
class WantedSchedule:
    """A schedule as its file describes it."""

    plan: SchedulePlan
    paused: bool | None
    """None leaves a schedule paused or active as it is."""


@dataclasses.dataclass(frozen=True)
class ScheduleChange:
    """What is to be done about one schedule."""

    action: str
    """CREATE, CHANGE, LEAVE, or for a schedule without a file DELETE or KEEP."""
    name: str
    wanted: WantedSchedule | None = None
    old: Schedule | None = None
    differences: Sequence[str] = ()
    """One line for each setting or parameter that differs between the schedule and its file."""

    @property
    def is_change(self) -> bool:
        """Whether this step changes something on the service."""
        return self.action in (CREATE, CHANGE, DELETE)

    @property
    def makes_one(self) -> bool:
        """Whether this step makes a schedule, not only pauses, resumes or deletes one."""
        return self.creates or any(not line.startswith("paused:") for line in self.differences)

    @property
    def creates(self) -> bool:
        """Whether there is no schedule of this name yet."""
        return self.action == CREATE

    @property
    def deletes(self) -> bool:
        """Whether the schedule has no file, and goes."""
        return self.action == DELETE

    def apply(self) -> Schedule:
        """Do it, and return the schedule that there is then, or the deleted one."""
        if self.wanted is None:
            assert self.old
            self.old.change("delete")
            return self.old
        plan, paused = self.wanted.plan, self.wanted.paused
        if self.makes_one:
            made = schedule.replace(plan, self.old) if self.old else schedule.create(plan)
        else:
            assert self.old
            made = self.old
        if paused is not None and made.is_paused != paused:
            made.change("pause" if paused else "resume")
        return made


# === Files ===


def read_schedules(
    environment: Environment, folder: pathlib.Path, source: str = "", caching: str = "as-compiled"
) -> list[WantedSchedule]:
    """The schedules of all `*.toml` in a folder, by name.

    Example: with the environment `prod`, weekly.toml describes the schedule msinet-prod-weekly.

    Template and caching are as in `Submission.prepare`. Raises `UserError` with all mistakes of all files.
    """
    paths: list[pathlib.Path] = []
    with suppress(OSError):  # such as a name that is too long
        paths = sorted(folder.glob("*.toml"))
    check(bool(paths), f"there is no *.toml in {folder}. {GUIDE}", NotFoundError)
    wanted: list[WantedSchedule] = []
    mistakes: list[str] = []
    errors: list[UserError] = []
    for path in paths:
        try:
            content = read_toml(path, GUIDE)
        except UserError as error:  # it names the file
            mistakes.append(str(error))
            errors.append(error)
            continue
        try:
            wanted.append(_read(environment, path.stem, content, source, caching))
        except UserError as error:
            lines = error.lines if isinstance(error, MistakesError) else [str(error)]
            mistakes += [f"{path}: {line}" for line in lines]
            errors.append(error.within(str(path)))
    if mistakes:
        raise MistakesError(mistakes) if len(mistakes) > 1 else errors[0]
    return wanted


def example_of_schedule(
    environment: Environment, folder: pathlib.Path, source: str = "", caching: str = "as-compiled"
) -> ScheduleChange:
    """What EXAMPLE in a folder would make, as if no schedule existed. Template and caching as `read_schedules`."""
    content = read_toml(folder / EXAMPLE, GUIDE)
    wanted = _read(environment, EXAMPLE.partition(".")[0], content, source, caching)
    return ScheduleChange(CREATE, wanted.plan.name, wanted)


def _read(
    environment: Environment, stem: str, content: dict[str, Any], source: str, caching: str
) -> WantedSchedule:
    checks, fields = Checks(), {}
    for key, value in content.items():
        with checks.collect():
            check(
                key in KEYS,
                f"unknown key {key!r}. Parameters belong below [parameters]{nearest(key, KEYS)}",
                UnknownNameError,
            )
            kind, description = KEYS[key]
            check(isinstance(value, kind), f"{key} is {value!r}. It must be {description}", SettingError)
            fields[key] = value
    name = f"{PIPELINE_NAME}-{environment.name}-{stem}"
    with checks.collect():
        passed: Mapping[str, Value] = Values.converted(fields.get("parameters", {}))
        if fields.get("when_changed"):
            passed = schedule.only_on_changes(passed)
        plan = schedule.prepare_schedule(environment, name, Timing(""), passed, source, caching)
    with checks.collect():
        cron = fields.get("cron", schedule.OFTEN if fields.get("when_changed") else "")
        check(
            bool(cron) or "cron" in content,
            "cron is missing. Add cron = '0 3 * * 1', or when_changed = true",
            SettingError,
        )
        limits = (str(fields.get(key, "")) for key in ("start", "end"))
        when = schedule.timing(cron or schedule.OFTEN, fields.get("timezone", "UTC"), *limits)
    checks.raise_errors()
    if when.start and _is_past(when.start):  # it has no effect any more, and the service refuses it
        when = dataclasses.replace(when, start=None)
    return WantedSchedule(dataclasses.replace(plan, timing=when), fields.get("paused"))


def _is_past(moment: datetime.datetime) -> bool:
    return moment <= datetime.datetime.now(datetime.UTC)


# === Differences ===


def compare_schedules(
    environment: Environment, wanted: Sequence[WantedSchedule], prune: bool = False
) -> list[ScheduleChange]:
    """What makes the environment's schedules equal to the wanted ones. Without `prune`, those without a file stay.

    Raises `UserError` for two schedules of one name, and for one that has ended according to its file alone.

    Example: a file with another `cron` is a step `change`, and a new file a step `create`.
    """
    own = [each for each in Schedule.all(environment) if each.is_own]
    steps = []
    for each in wanted:
        name, end = each.plan.name, each.plan.timing.end
        same = [old for old in own if old.name == name]
        ids = ", ".join(each.id for each in same)
        check(
            len(same) <= 1,
            f"there are {len(same)} schedules {name!r} ({ids}). Delete all but one with "
            f"`python -m pipeline schedule delete --env {environment.name} --name ID`",
            AmbiguousError,
        )
        lines = _differences(each, same[0]) if same else []
        ended = end is not None and _is_past(end)
        check(
            not (ended and lines),
            f"{name}: its end, {end}, has passed, but the schedule is another one ({', '.join(lines)}). Set a "
            "later end, or remove the file and apply with --prune",
            SettingError,
        )
        action = LEAVE if ended or (same and not lines) else CHANGE if same else CREATE
        steps.append(ScheduleChange(action, name, each, same[0] if same else None, lines))
    names = {each.plan.name for each in wanted}
    without = [old for old in own if old.name not in names]
    return [*steps, *(ScheduleChange(DELETE if prune else KEEP, old.name, None, old) for old in without)]


def _differences(wanted: WantedSchedule, old: Schedule) -> list[str]:
    new, known = _facts(wanted.plan.request["schedule"]), _facts(old.content)
    if wanted.paused is not None:
        new["paused"], known["paused"] = wanted.paused, old.is_paused
    keys = [key for key in {**new, **known} if key in new or key == "end" or key.startswith(PARAMETER)]
    return [_line(key, known.get(key), new.get(key)) for key in keys if known.get(key) != new.get(key)]


def _facts(content: Mapping[str, Any]) -> dict[str, Any]:
    """What is compared of a schedule as JSON of the API: setting or `parameters.NAME` -> value, if not empty."""
    job = content["createPipelineJobRequest"]["pipelineJob"]
    values = Values.flattened(job["runtimeConfig"].get("parameterValues") or {})
    facts = {
        "cron": content["cron"],
        "start": content.get("startTime"),
        "end": content.get("endTime"),
        "outputs": job["runtimeConfig"]["gcsOutputDirectory"],
        "service_account": job.get("serviceAccount"),
        "network": job.get("network"),
        "template": job["pipelineSpec"],
        **{f"labels.{key}": value for key, value in job.get("labels", {}).items()},
    }
    parameters = {f"{PARAMETER}{name}": value for name, value in values.items()}
    return {key: value for key, value in facts.items() if value} | parameters


def _line(key: str, old: Any, new: Any) -> str:
    before, after = _shown(old), _shown(new)
    return f"{key}: {before} -> {after}" if before != after else f"{key}: another one of {after}"


def _shown(value: Any) -> str:
    if isinstance(value, dict) and "pipelineInfo" in value:
        images = sorted(set(re.findall(r'"image": "(?:[^"]*/)?([^"/]+)"', json.dumps(value))))
        return f"{value['pipelineInfo']['name']} with {', '.join(images)}"
    return "not set" if value is None else f"{value:g}" if isinstance(value, float) else json.dumps(value)
