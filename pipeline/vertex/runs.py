"""Looks at runs on Vertex AI: follows one until it ends, lists them, and cancels one."""

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from pipeline import cloud
from pipeline.graph.environment import Environment
from pipeline.graph.titles import titles_of
from trainer.duration import format_duration
from trainer.errors import UserError

SUCCEEDED, FAILED, CANCELLED = "succeeded", "failed", "cancelled"
STATUSES = {SUCCEEDED: 0, FAILED: 1, CANCELLED: 2}
"""How a run can end -> the exit status that says so."""
INTERRUPTED = 130
POLL_S = 10.0
PATIENCE_S = 900.0
"""How long a run is followed without an answer."""
LISTED = ("name", "state", "display_name", "create_time", "end_time", "schedule_name")
RUN = -1
"""Stands for the run itself where its tasks are known by their ids."""
UNTOLD = ("", "state-unspecified", "pending", "not-triggered")
"""States of tasks that are worth no line: they have not begun, or are in the branch that is not taken."""


def service_of(environment: Environment) -> Any:
    """The API's service for runs."""
    from google.cloud.aiplatform_v1 import PipelineServiceClient

    return cloud.client(PipelineServiceClient, environment)


def find(environment: Environment, run: str) -> Any:
    """A run by its id."""
    check_id(run)
    name = f"{cloud.parent_of(environment)}/pipelineJobs/{run}"
    with cloud.reported_errors():
        return service_of(environment).get_pipeline_job(name=name, retry=cloud.reading(), timeout=cloud.TIMEOUT_S)


def check_id(run: str) -> None:
    """Raise `UserError` unless this can be the id of a run."""
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,127}", run):
        raise UserError(f"run {run!r} is not an id; `python -m pipeline runs list` shows them")


def latest(environment: Environment, pipeline: str, most: int) -> list[Any]:
    """The latest runs of a pipeline, newest first, with the fields `LISTED` alone."""
    return _listed(environment, f'pipeline_name="{pipeline}"', most)


def of_schedule(environment: Environment, schedule: str, most: int = 5) -> list[Any]:
    """The latest runs that a schedule, given by its full name, has started, as in `latest`."""
    return _listed(environment, f'schedule_name="{schedule}"', most)


def _listed(environment: Environment, wanted: str, most: int) -> list[Any]:
    from google.cloud.aiplatform_v1 import ListPipelineJobsRequest

    request = ListPipelineJobsRequest(
        parent=cloud.parent_of(environment),
        filter=wanted,
        order_by="create_time desc",
        page_size=most,
        read_mask={"paths": list(LISTED)},
    )
    with cloud.reported_errors():
        pages = service_of(environment).list_pipeline_jobs(request, retry=cloud.reading(), timeout=cloud.TIMEOUT_S)
        return [job for _, job in zip(range(most), pages, strict=False)]


def cancel(environment: Environment, run: str) -> None:
    """Ask for the end of a run that has not ended; its tasks end within minutes."""
    state = state_of(find(environment, run))
    if state in STATUSES:
        raise UserError(f"run {run} has {state} already; there is nothing to cancel")
    with cloud.reported_errors():
        # What cancels twice cancels once, so it may be tried again.
        service_of(environment).cancel_pipeline_job(
            name=f"{cloud.parent_of(environment)}/pipelineJobs/{run}",
            retry=cloud.reading(),
            timeout=cloud.TIMEOUT_S,
        )


def state_of(job: Any) -> str:
    """A state of a run or a task as people say it: `running`."""
    return str(job.state.name).removeprefix("PIPELINE_STATE_").lower().replace("_", "-")


def follow(
    environment: Environment,
    run: str,
    titles: Mapping[str, str],
    say: Callable[[str], None] = print,
    poll_s: float | None = None,
) -> int:
    """Say each change of the run's and its tasks' states until it ends; returns the exit status.

    `titles` are what people call the tasks, by name. Failures to ask are survived for `PATIENCE_S`. Ctrl-C ends
    the following, not the run.
    """
    known: dict[int, str] = {}
    try:
        while True:
            job = _ask(environment, run, say)
            for line in changes(job, titles, known):
                say(line)
            if (state := state_of(job)) in STATUSES:
                for line in _ending(job, titles, state):
                    say(line)
                return STATUSES[state]
            time.sleep(POLL_S if poll_s is None else poll_s)
    except KeyboardInterrupt:
        say(f"No longer followed; run {run} goes on. `{command(environment, 'show', run)}` shows how it is,")
        say(f"`{command(environment, 'cancel', run)}` ends it.")
        return INTERRUPTED


def command(environment: Environment, verb: str, run: str) -> str:
    """The command that does `verb` to a run."""
    return f"python -m pipeline runs {verb} {run} --env {environment.name}"


def _ask(environment: Environment, run: str, say: Callable[[str], None]) -> Any:
    name = f"{cloud.parent_of(environment)}/pipelineJobs/{run}"
    deadline = time.monotonic() + PATIENCE_S
    pause_s = cloud.PAUSE_S
    goes_on = f"run {run} goes on, see {cloud.run_link(environment, run)}"
    with cloud.reported_errors(goes_on):
        service = service_of(environment)
        while True:
            try:
                return service.get_pipeline_job(name=name, timeout=cloud.TIMEOUT_S)
            except cloud.transient() as error:
                if time.monotonic() > deadline:
                    raise
                say(f"no answer ({cloud.brief(error)}); asking again")
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, 32 * cloud.PAUSE_S)


def changes(job: Any, titles: Mapping[str, str], known: dict[int, str]) -> list[str]:
    """A line for each state of a task, and then of the run, that is not in `known`, which then has it."""
    lines = []
    for task in tasks_of(job):
        state = state_of(task)
        if state not in UNTOLD and known.get(task.task_id) != state:
            known[task.task_id] = state
            lines.append(f"[{titles.get(task.task_name, task.task_name)}] {state}{_took(task)}")
    state = state_of(job)
    if state not in STATUSES and known.get(RUN) != state:
        known[RUN] = state
        lines.insert(0, f"Run {state}")
    return lines


def titles_of_job(job: Any) -> dict[str, str]:
    """What people call the run's tasks, by their names."""
    return titles_of(_json(job)["pipelineSpec"])


def parameters_of(job: Any) -> dict[str, Any]:
    """The values that the run was started with, by parameter name."""
    return dict(_json(job)["runtimeConfig"].get("parameterValues", {}))


def _json(job: Any) -> dict[str, Any]:
    return dict(type(job).to_dict(job, preserving_proto_field_name=False))


def tasks_of(job: Any) -> list[Any]:
    """The run's tasks that do something themselves, by the time they started; not the DAGs around them."""
    details = list(job.job_detail.task_details)
    around = {task.parent_task_id for task in details}
    inner = [task for task in details if task.task_id not in around]
    return sorted(inner, key=lambda task: (not task.start_time, task.start_time or task.task_id, task.task_id))


def _took(task: Any) -> str:
    if not (task.start_time and task.end_time):
        return ""
    return f" after {format_duration((task.end_time - task.start_time).total_seconds())}"


def _ending(job: Any, titles: Mapping[str, str], state: str) -> list[str]:
    lines = [f"Run {state}{_took(job)}"]
    return lines + failures(job, titles) if state == FAILED else lines


def failures(job: Any, titles: Mapping[str, str]) -> list[str]:
    """Which tasks failed and why; what the run itself says where none did."""
    lines = [
        f"{titles.get(task.task_name, task.task_name)} failed: {task.error.message or 'see its log'}"
        for task in tasks_of(job)
        if state_of(task) == FAILED
    ]
    return lines or [job.error.message or "it does not say why; see its page in the console"]
