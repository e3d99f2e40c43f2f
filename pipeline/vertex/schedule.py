"""Schedules of runs on Vertex AI. What can be checked here is checked before the first request.

Vertex AI checks the times and computes the next one. Its API takes no id for a schedule, so no request that makes
or changes one is repeated.
"""

import dataclasses
import datetime
import json
import zoneinfo
from collections.abc import Mapping
from typing import Any

from lifecycle.registry import OWNER
from lifecycle.runs import Values
from lifecycle.vertex import (
    CONSOLE,
    TIMEOUT_S,
    message_as_json,
    parent_of,
    reported_errors,
    retried,
    service_client,
    state_of,
)
from pipeline.graph import PIPELINE_NAME, Environment, Template
from pipeline.vertex import runs
from pipeline.vertex.submit import Planned, compose
from trainer.errors import (
    AmbiguousError,
    Checks,
    FailedError,
    NotFoundError,
    PlaceError,
    SettingError,
    UnknownNameError,
    UserError,
    check,
)
from trainer.settings import Value
from trainer.texts import nearest

PAUSED = "paused"
OFTEN = "0 */6 * * *"
"""Times at which a run looks for new data, if no others are given."""


@dataclasses.dataclass(frozen=True)
class Timing:
    """When a schedule starts runs."""

    cron: str
    """The API's form: TZ= and a name of the IANA database, then five fields of unix-cron."""
    start: datetime.datetime | None = None
    end: datetime.datetime | None = None


def timing(expression: str, zone: str, start: str = "", end: str = "") -> Timing:
    """A timing from texts. `start` and `end` are ISO dates or times, in `zone` unless they name another offset.

    Example: `timing("0 3 * * 1", "Europe/London", "2026-03-01")` starts each Monday at 3, from March on.

    Raises `UserError` with all mistakes if `expression` has not five fields, the zone is unknown, or a time is
    malformed.
    """
    checks, zone_info, moments = Checks(), zoneinfo.ZoneInfo("UTC"), []
    with checks.collect():
        check(
            len(expression.split()) == 5,
            f"cron is {expression!r}. Write five fields, such as '0 3 * * 1'",
            SettingError,
        )
    with checks.collect():
        zone_info = _zone_info(zone)
    for name, text in (("start", start), ("end", end)):
        with checks.collect():
            moments.append(_moment(name, text, zone_info))
    checks.raise_errors()
    return Timing(f"TZ={zone} {expression}", *moments)


def _zone_info(zone: str) -> zoneinfo.ZoneInfo:
    try:
        return zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise UnknownNameError(
            f"unknown time zone {zone!r}{nearest(zone, zoneinfo.available_timezones())}"
        ) from None


def _moment(name: str, text: str, zone: zoneinfo.ZoneInfo) -> datetime.datetime | None:
    if not text:
        return None
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise SettingError(
            f"{name} is {text!r}. Write a date or a time as 2026-03-01 or 2026-03-01T12:00"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=zone)


@dataclasses.dataclass(frozen=True)
class SchedulePlan(Planned):
    """A schedule to create, with its name and its timing."""

    name: str
    timing: Timing

    @property
    def request(self) -> dict[str, Any]:
        """The request, as JSON."""
        parent = parent_of(self.environment)
        fields = {
            "displayName": self.name,
            "cron": self.timing.cron,
            "startTime": _rfc3339(self.timing.start),
            "endTime": _rfc3339(self.timing.end),
            # The first limits the runs that start together, the second the unfinished runs: never two at a time. A
            # run that is due while another one is unfinished is skipped, not postponed.
            "maxConcurrentRunCount": "1",
            "maxConcurrentActiveRunCount": "1",
            "createPipelineJobRequest": {"parent": parent, "pipelineJob": dict(self.job)},
        }
        return {"parent": parent, "schedule": {key: value for key, value in fields.items() if value}}


def _rfc3339(moment: datetime.datetime | None) -> str:
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else ""


def prepare_schedule(
    environment: Environment,
    name: str,
    when: Timing,
    passed: Mapping[str, Value],
    source: str = "",
    caching: str = "as-compiled",
) -> SchedulePlan:
    """The schedule to create. Parameters, template, caching and errors are as in `Submission.prepare`.

    Its runs end at once if there is nothing new, unless the parameter `skip_unchanged` is set otherwise.
    """
    job = compose(environment, passed, source, caching, {"skip_unchanged": True})
    return SchedulePlan(environment, job, name, when)


def only_on_changes(passed: Mapping[str, Value]) -> dict[str, Value]:
    """The parameters of runs that look for new data. Raises `UserError` if they say to train in any case."""
    check(
        passed.get("skip_unchanged", True) is True,
        "runs for changed data train only then. Omit skip_unchanged=false",
        SettingError,
    )
    return {**passed, "skip_unchanged": True}


def _service(environment: Environment) -> Any:
    from google.cloud.aiplatform_v1 import ScheduleServiceClient

    return service_client(ScheduleServiceClient, environment)


@dataclasses.dataclass(frozen=True)
class Schedule:
    """A schedule on Vertex AI."""

    environment: Environment
    found: Any
    """The API's Schedule."""

    @classmethod
    def all(cls, environment: Environment) -> "list[Schedule]":
        """All schedules of pipelines in the project and region, also of other environments, oldest first."""
        from google.cloud.aiplatform_v1 import ListSchedulesRequest

        request = ListSchedulesRequest(parent=parent_of(environment), order_by="create_time")
        with reported_errors():
            service = _service(environment)
            found = retried(lambda: list(service.list_schedules(request, timeout=TIMEOUT_S)))
        return [cls(environment, each) for each in found if each.create_pipeline_job_request.parent]

    @classmethod
    def find(cls, environment: Environment, name_or_id: str) -> "Schedule":
        """The schedule with this name or id. Raises `UserError` unless there is exactly one."""
        schedules = [each for each in cls.all(environment) if name_or_id in (each.name, each.id)]
        check(
            bool(schedules),
            f"there is no schedule {name_or_id!r}. `python -m pipeline schedule list` lists them",
            NotFoundError,
        )
        ids = ", ".join(each.id for each in schedules)
        check(
            len(schedules) == 1,
            f"there are {len(schedules)} schedules {name_or_id!r}. Select one by its id with --name ({ids})",
            AmbiguousError,
        )
        return schedules[0]

    @property
    def id(self) -> str:
        """Its id, such as `7000`."""
        return str(self.found.name.rpartition("/")[2])

    @property
    def name(self) -> str:
        """Its name, such as `msinet-prod-weekly`."""
        return str(self.found.display_name)

    @property
    def state(self) -> str:
        """Its state in plain words, such as `active` or `paused`."""
        return state_of(self.found)

    @property
    def is_paused(self) -> bool:
        """Whether it starts no runs until it is resumed."""
        return self.state == PAUSED

    @property
    def content(self) -> dict[str, Any]:
        """The schedule as the JSON that the API sends."""
        return message_as_json(self.found)

    @property
    def job(self) -> dict[str, Any]:
        """The API's PipelineJob of its runs, as JSON."""
        return dict(self.content["createPipelineJobRequest"]["pipelineJob"])

    @property
    def is_own(self) -> bool:
        """Whether it is one of this project, for this environment."""
        job = self.found.create_pipeline_job_request.pipeline_job
        # A schedule made in the console may have the address of its template alone.
        pipeline = message_as_json(job).get("pipelineSpec", {}).get("pipelineInfo", {}).get("name", "")
        is_named = job.display_name == f"{pipeline}-{self.environment.name}"
        return OWNER.items() <= dict(job.labels).items() and is_named

    @property
    def link(self) -> str:
        """The console's page of the schedule."""
        schedules = f"{CONSOLE}/locations/{self.environment.location}/pipelines/schedules"
        return f"{schedules}/{self.id}?project={self.environment.project}"

    def runs(self, limit: int = 5) -> list[Any]:
        """The latest runs that it has started, newest first, as the API's PipelineJobs."""
        return runs.of_schedule(self.environment, self.found.name, limit)

    def change(self, action: str) -> None:
        """Pause, resume or delete it. Runs that it has started continue.

        A schedule that is resumed does not make up for missed runs.
        """
        service, name = _service(self.environment), self.found.name
        with reported_errors(f"schedule {self.name!r}"):
            if action == "pause":
                service.pause_schedule(name=name, timeout=TIMEOUT_S)
            elif action == "resume":
                request = {"name": name, "catch_up": False}
                service.resume_schedule(request=request, timeout=TIMEOUT_S)
            else:
                service.delete_schedule(name=name, timeout=TIMEOUT_S).result(TIMEOUT_S)


def schedules_of_same_model(name: str, jobs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The schedules in `jobs`, PipelineJobs by schedule, that train the same model as the schedule `name`."""
    model = _model_of(jobs[name])
    return [other for other, job in jobs.items() if model and other != name and _model_of(job) == model]


def _model_of(job: Mapping[str, Any]) -> tuple[str, str] | None:
    """Registry and name of the model that runs of a PipelineJob train. None unless it says that it is ours."""
    chosen = Template(job.get("pipelineSpec", {}))
    if chosen.spec.get("pipelineInfo", {}).get("name") != PIPELINE_NAME:
        return None
    values = Values(chosen.values(job["runtimeConfig"].get("parameterValues"))).complete
    return str(values["registry"]), str(values["model_name"])


# === Changes ===


def create(plan: SchedulePlan) -> Schedule:
    """Create a schedule and return it. Raises `UserError` if there is one with its name."""
    check(
        not any(each.name == plan.name for each in Schedule.all(plan.environment)),
        f"schedule {plan.name!r} already exists, and runs of two schedules could overlap. Rename its file, or run "
        f"`python -m pipeline schedule delete --env {plan.environment.name} --name {plan.name}`",
        PlaceError,
    )
    return _create(plan)


def replace(plan: SchedulePlan, old: Schedule) -> Schedule:
    """Create a new schedule, then delete `old`, and return the new one. Runs of `old` continue.

    `old` stays if the new one is refused. The new one is paused if `old` was.
    """
    new = _create(plan)
    try:
        if old.is_paused:
            new.change("pause")
            new = Schedule.find(plan.environment, new.id)
        old.change("delete")
    except UserError as error:
        raise FailedError(
            f"both the new schedule {new.id} and the old one {old.id} exist ({error}). Delete one with "
            f"`python -m pipeline schedule delete --env {plan.environment.name} --name {old.id}`"
        ) from None
    return new


def _create(plan: SchedulePlan) -> Schedule:
    from google.cloud.aiplatform_v1 import CreateScheduleRequest

    request = CreateScheduleRequest.from_json(json.dumps(plan.request))
    with reported_errors(f"schedule {plan.name!r}"):
        return Schedule(plan.environment, _service(plan.environment).create_schedule(request, timeout=TIMEOUT_S))
