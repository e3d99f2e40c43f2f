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

from lifecycle.runs.parameters import DEFAULTS
from lifecycle.vertex import api as vertex_api
from lifecycle.vertex.run import message_as_json, state_of
from pipeline.graph.compiled import Template
from pipeline.graph.environment import PIPELINE_NAME, Environment
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
    nearest,
)
from trainer.settings.fields import Value

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
    """A timing from texts; `start` and `end` are ISO dates or times, in `zone` unless they name another offset.

    Raises `UserError` with all mistakes if `expression` has not five fields, the zone is unknown, or a time is
    malformed.
    """
    checks, zone_info, moments = Checks(), zoneinfo.ZoneInfo("UTC"), []
    with checks.collect():
        check(
            len(expression.split()) == 5,
            f"cron is {expression!r}; write five fields, such as '0 3 * * 1'",
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
            f"{name} is {text!r}; write a date or a time as 2026-03-01 or 2026-03-01T12:00"
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
        parent = vertex_api.parent_of(self.environment)
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
    """The schedule to create; parameters, template, caching and errors are as in `Submission.prepare`.

    Its runs end at once if there is nothing new, unless the parameter `skip_unchanged` is set otherwise.
    """
    job = compose(environment, passed, source, caching, {"skip_unchanged": True})
    return SchedulePlan(environment, job, name, when)


def only_on_changes(passed: Mapping[str, Value]) -> dict[str, Value]:
    """The parameters of runs that look for new data. Raises `UserError` if they say to train in any case."""
    check(
        passed.get("skip_unchanged", True) is True,
        "runs for changed data train only then; omit skip_unchanged=false",
        SettingError,
    )
    return {**passed, "skip_unchanged": True}


def schedule_service(environment: Environment) -> Any:
    """A client of the API's service for schedules."""
    from google.cloud.aiplatform_v1 import ScheduleServiceClient

    return vertex_api.service_client(ScheduleServiceClient, environment)


def list_schedules(environment: Environment) -> list[Any]:
    """All schedules of pipeline runs in the project and location, oldest first."""
    from google.cloud.aiplatform_v1 import ListSchedulesRequest

    request = ListSchedulesRequest(parent=vertex_api.parent_of(environment), order_by="create_time")
    with vertex_api.reported_errors():
        service = schedule_service(environment)
        schedules = vertex_api.retried(lambda: list(service.list_schedules(request, timeout=vertex_api.TIMEOUT_S)))
    return [schedule for schedule in schedules if schedule.create_pipeline_job_request.parent]


def find_schedule(environment: Environment, name_or_id: str) -> Any:
    """The schedule with this name or id. Raises `UserError` unless there is exactly one."""
    schedules = [each for each in list_schedules(environment) if name_or_id in (each.display_name, id_of(each))]
    check(
        bool(schedules),
        f"there is no schedule {name_or_id!r}; `python -m pipeline schedule list` lists them",
        NotFoundError,
    )
    ids = ", ".join(map(id_of, schedules))
    check(
        len(schedules) == 1,
        f"there are {len(schedules)} schedules {name_or_id!r}; select one by its id with --name ({ids})",
        AmbiguousError,
    )
    return schedules[0]


def id_of(schedule: Any) -> str:
    """The id of a schedule."""
    return str(schedule.name.rpartition("/")[2])


def job_of(schedule: Any) -> dict[str, Any]:
    """The API's PipelineJob of a schedule, as JSON."""
    return dict(message_as_json(schedule)["createPipelineJobRequest"]["pipelineJob"])


def of_same_model(name: str, jobs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The schedules in `jobs`, PipelineJobs by schedule, that train the same model as the schedule `name`."""
    model = _model_of(jobs[name])
    return [other for other, job in jobs.items() if model and other != name and _model_of(job) == model]


def _model_of(job: Mapping[str, Any]) -> tuple[str, str] | None:
    """Registry and name of the model that runs of a PipelineJob train; None if it does not say that it is ours."""
    chosen = Template(job.get("pipelineSpec", {}))
    if chosen.spec.get("pipelineInfo", {}).get("name") != PIPELINE_NAME:
        return None
    values = {**DEFAULTS, **chosen.values(job["runtimeConfig"].get("parameterValues"))}
    return str(values["registry"]), str(values["model_name"])


# === Changes ===


def create(plan: SchedulePlan) -> Any:
    """Create a schedule and return it. Raises `UserError` if there is one with its name."""
    check(
        not any(schedule.display_name == plan.name for schedule in list_schedules(plan.environment)),
        f"schedule {plan.name!r} already exists, and runs of two schedules could overlap; rename its file, or run "
        f"`python -m pipeline schedule delete --env {plan.environment.name} --name {plan.name}`",
        PlaceError,
    )
    return _create(plan)


def replace(plan: SchedulePlan, old: Any) -> Any:
    """Create a new schedule, then delete `old`, whose runs continue; returns the new one.

    `old` stays if the new one is refused. The new one is paused if `old` was.
    """
    new = _create(plan)
    try:
        if state_of(old) == PAUSED:
            change(plan.environment, new, "pause")
            new = find_schedule(plan.environment, id_of(new))
        change(plan.environment, old, "delete")
    except UserError as error:
        raise FailedError(
            f"both the new schedule {id_of(new)} and the old one {id_of(old)} exist ({error}); delete one with "
            f"`python -m pipeline schedule delete --env {plan.environment.name} --name {id_of(old)}`"
        ) from None
    return new


def _create(plan: SchedulePlan) -> Any:
    from google.cloud.aiplatform_v1 import CreateScheduleRequest

    request = CreateScheduleRequest.from_json(json.dumps(plan.request))
    with vertex_api.reported_errors(f"schedule {plan.name!r}"):
        return schedule_service(plan.environment).create_schedule(request, timeout=vertex_api.TIMEOUT_S)


def change(environment: Environment, schedule: Any, action: str) -> None:
    """Pause, resume or delete a schedule; runs that it has started continue.

    A schedule that is resumed does not make up for missed runs.
    """
    service = schedule_service(environment)
    with vertex_api.reported_errors(f"schedule {schedule.display_name!r}"):
        if action == "pause":
            service.pause_schedule(name=schedule.name, timeout=vertex_api.TIMEOUT_S)
        elif action == "resume":
            request = {"name": schedule.name, "catch_up": False}
            service.resume_schedule(request=request, timeout=vertex_api.TIMEOUT_S)
        else:
            service.delete_schedule(name=schedule.name, timeout=vertex_api.TIMEOUT_S).result(vertex_api.TIMEOUT_S)


def console_link(environment: Environment, schedule: str) -> str:
    """The console's page of a schedule, by its id."""
    schedules = f"{vertex_api.CONSOLE}/locations/{environment.location}/pipelines/schedules"
    return f"{schedules}/{schedule}?project={environment.project}"
