"""Schedules of runs on Vertex AI. All that can be known to be wrong is, before anything is sent.

The API takes no id for a schedule. So a request to create one is not sent again after a failure that may have
come too late; what is there is looked at instead.
"""

import dataclasses
import datetime
import itertools
import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from pipeline import cloud
from pipeline.graph.environment import Environment
from pipeline.graph.parameters import Value
from pipeline.vertex import cron, runs
from pipeline.vertex.submit import ATTEMPTS, compose
from trainer.errors import UserError, check

NEXT = 3
"""How many of the next runs are shown."""
ACTIVE, PAUSED = "active", "paused"


@dataclasses.dataclass(frozen=True)
class Timing:
    """When a schedule starts runs."""

    expression: cron.Cron
    zone: str
    start: datetime.datetime | None = None
    end: datetime.datetime | None = None

    @property
    def specification(self) -> str:
        """As the API takes it: the zone before the expression."""
        return f"TZ={self.zone} {self.expression.text}"

    def next_runs(self) -> list[datetime.datetime]:
        """The next `NEXT` runs in the schedule's zone; fewer, or none, where it ends before."""
        now = datetime.datetime.now(datetime.UTC)
        # The start itself may be a time of the schedule.
        after = max(now, self.start - datetime.timedelta(seconds=1)) if self.start else now
        found = cron.times(self.expression, cron.zone(self.zone), after)
        in_time = itertools.takewhile(lambda moment: self.end is None or moment < self.end, found)
        return list(itertools.islice(in_time, NEXT))


def timing(expression: str, zone: str, start: str = "", end: str = "") -> Timing:
    """A timing from texts; `start` and `end` are ISO dates or times, by the clocks of `zone` if they name none."""
    place = cron.zone(zone)
    found = Timing(cron.parse(expression), zone, _moment("start", start, place), _moment("end", end, place))
    now = datetime.datetime.now(datetime.UTC)
    for name in ("start", "end"):
        moment = getattr(found, name)
        check(moment is None or moment > now, f"{name} is {moment}, which is over; give a time to come")
    check(bool(found.next_runs()), f"cron {expression!r} starts no run between start and end; give it more time")
    return found


def _moment(name: str, text: str, place: datetime.tzinfo) -> datetime.datetime | None:
    if not text:
        return None
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise UserError(f"{name} is {text!r}; write a date or a time as 2026-03-01 or 2026-03-01T12:00") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=place)


@dataclasses.dataclass(frozen=True)
class Plan:
    """A schedule to be created: its name, its timing, and the run it starts, as the API's JSON."""

    environment: Environment
    name: str
    timing: Timing
    job: Mapping[str, Any]

    @property
    def request(self) -> dict[str, Any]:
        """The request as it is sent."""
        where = cloud.parent_of(self.environment)
        wanted = {
            "displayName": self.name,
            "cron": self.timing.specification,
            "startTime": _rfc3339(self.timing.start),
            "endTime": _rfc3339(self.timing.end),
            # The one limits how many runs start together, the other how many there are: never two at a time. A
            # run whose time comes while another is on its way is left out, and not put off.
            "maxConcurrentRunCount": "1",
            "maxConcurrentActiveRunCount": "1",
            "createPipelineJobRequest": {"parent": where, "pipelineJob": dict(self.job)},
        }
        return {"parent": where, "schedule": {key: value for key, value in wanted.items() if value}}


def _rfc3339(moment: datetime.datetime | None) -> str:
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else ""


def prepare(
    environment: Environment,
    name: str,
    when: Timing,
    given: Mapping[str, Value],
    where: str = "",
    caching: str = "as-compiled",
) -> Plan:
    """What to create; parameters, template and caching are as in `submit.prepare`."""
    check(bool(re.fullmatch(r"[^\s\"\\][^\"\\]{0,127}", name)), f"name is {name!r}; write up to 128 characters")
    return Plan(environment, name, when, compose(environment, given, where, caching))


def default_name(environment: Environment) -> str:
    """Name of the environment's schedule where none is given."""
    return f"msinet-{environment.name}"


def service_of(environment: Environment) -> Any:
    """The API's service for schedules."""
    from google.cloud.aiplatform_v1 import ScheduleServiceClient

    return cloud.client(ScheduleServiceClient, environment)


def named(environment: Environment, name: str = "") -> list[Any]:
    """The schedules of that name, or all, oldest first."""
    from google.cloud.aiplatform_v1 import ListSchedulesRequest

    wanted = f'display_name="{name}"' if name else ""
    request = ListSchedulesRequest(parent=cloud.parent_of(environment), filter=wanted, order_by="create_time")
    with cloud.reported_errors():
        found = service_of(environment).list_schedules(request, retry=cloud.reading(), timeout=cloud.TIMEOUT_S)
        return [each for each in found if each.create_pipeline_job_request.parent]


def find(environment: Environment, wanted: str) -> Any:
    """The schedule of this name or id."""
    found = named(environment, wanted)
    if not found and wanted.isdecimal():
        found = [each for each in named(environment) if id_of(each) == wanted]
    check(bool(found), f"there is no schedule {wanted!r}; `python -m pipeline schedule list` shows them")
    ids = ", ".join(id_of(each) for each in found)
    check(len(found) == 1, f"there are {len(found)} schedules {wanted!r}; give the id of one as --name ({ids})")
    return found[0]


def id_of(schedule: Any) -> str:
    """The id of a schedule."""
    return str(schedule.name.rpartition("/")[2])


def timing_of(schedule: Any) -> Timing:
    """When a schedule of the API starts runs."""
    zone, expression = re.fullmatch(r"(?:(?:CRON_)?TZ=(\S+)\s+)?(.*)", schedule.cron).groups()  # type: ignore[union-attr]
    return Timing(cron.parse(expression), zone or "UTC", schedule.start_time or None, schedule.end_time or None)


def times_to_come(schedule: Any) -> dict[str, str]:
    """`start` and `end` of a schedule, as `timing` takes them; empty where they are over or there are none."""
    now = datetime.datetime.now(datetime.UTC)
    moments = {"start": schedule.start_time, "end": schedule.end_time}
    return {name: moment.isoformat() if moment and moment > now else "" for name, moment in moments.items()}


# === Changes ===


def create(plan: Plan) -> Any:
    """Create a schedule, of whose name there must be none yet; returns what the API made."""
    there = named(plan.environment, plan.name)
    check(
        not there,
        f"there is a schedule {plan.name!r} already, and two could run at a time; change it with "
        "`python -m pipeline schedule replace`, or give another --name",
    )
    return _create(plan, there)


def replace(plan: Plan, old: Any, say: Callable[[str], None] = print) -> Any:
    """Put a new schedule in the place of `old`, which is deleted once the new one stands.

    The new one is paused if the old one was. Returns the new one.
    """
    new = _create(plan, named(plan.environment, plan.name))
    try:
        if runs.state_of(old) == PAUSED:
            pause(plan.environment, new)
        delete(plan.environment, old)
    except UserError as error:
        raise UserError(
            f"the new schedule {id_of(new)} stands, and so does the old one, {id_of(old)} ({error}); delete one "
            f"with `python -m pipeline schedule delete --env {plan.environment.name} --name {id_of(old)}`"
        ) from None
    for job in runs.of_schedule(plan.environment, old.name):
        if runs.state_of(job) not in runs.STATUSES:
            run = job.name.rpartition("/")[2]
            say(
                f"Run {run} of the old schedule goes on: `{runs.command(plan.environment, 'cancel', run)}` ends it"
            )
    return new


def _create(plan: Plan, there: list[Any]) -> Any:
    """Create a schedule beside those of its name that are `there`."""
    from google.api_core import exceptions, retry
    from google.cloud.aiplatform_v1 import CreateScheduleRequest

    request = CreateScheduleRequest.from_json(json.dumps(plan.request))
    # What was turned away for being too much has done nothing.
    again = retry.if_exception_type(exceptions.TooManyRequests)
    patiently = cloud.reading().with_predicate(again)
    with cloud.reported_errors():
        service = service_of(plan.environment)
        try:
            return service.create_schedule(request, retry=patiently, timeout=cloud.TIMEOUT_S)
        except exceptions.RetryError:
            raise
        except cloud.transient() as error:
            return _made_all_the_same(plan, there, error)


def _made_all_the_same(plan: Plan, there: list[Any], error: Exception) -> Any:
    known = {each.name for each in there}
    unknown = (
        f"{cloud.explain(error)}. The schedule may yet appear: look with `python -m pipeline schedule list "
        f"--env {plan.environment.name}` before you create it again"
    )
    try:
        made = [each for each in named(plan.environment, plan.name) if each.name not in known]
    except UserError:
        raise UserError(unknown) from None
    check(bool(made), unknown)
    return made[0]


def pause(environment: Environment, schedule: Any) -> None:
    """Start no more runs until `resume`; those on their way go on."""
    service = service_of(environment)
    _bring_about(
        environment, schedule, PAUSED, lambda: service.pause_schedule(name=schedule.name, timeout=cloud.TIMEOUT_S)
    )


def resume(environment: Environment, schedule: Any) -> None:
    """Start runs again, from the next time on; those that were missed are not made up for."""
    service = service_of(environment)
    wanted = {"name": schedule.name, "catch_up": False}
    _bring_about(
        environment, schedule, ACTIVE, lambda: service.resume_schedule(request=wanted, timeout=cloud.TIMEOUT_S)
    )


def delete(environment: Environment, schedule: Any) -> None:
    """Delete a schedule; runs that it started go on."""
    service = service_of(environment)
    _bring_about(
        environment,
        schedule,
        "",
        lambda: service.delete_schedule(name=schedule.name, timeout=cloud.TIMEOUT_S).result(cloud.TIMEOUT_S),
    )


def _bring_about(environment: Environment, schedule: Any, state: str, act: Callable[[], Any]) -> None:
    """Do something to a schedule until it is in `state`, empty for gone; nothing if it is already."""
    with cloud.reported_errors(f"schedule {schedule.display_name!r}"):
        for attempt in range(1, ATTEMPTS + 1):
            if _state(environment, schedule) == state:
                return
            try:
                act()
                return
            except cloud.transient():
                if attempt == ATTEMPTS:
                    raise
                time.sleep(cloud.PAUSE_S * 2**attempt)


def _state(environment: Environment, schedule: Any) -> str:
    from google.api_core.exceptions import NotFound

    try:
        found = service_of(environment).get_schedule(
            name=schedule.name, retry=cloud.reading(), timeout=cloud.TIMEOUT_S
        )
    except NotFound:
        return ""
    return runs.state_of(found)
