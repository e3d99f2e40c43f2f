"""Runs on Vertex AI: list them, follow one until it ends, cancel one."""

import itertools
import time
from collections.abc import Callable, Mapping
from typing import Any

from lifecycle.runs.parameters import without_settings
from lifecycle.vertex import api as vertex_api
from lifecycle.vertex.run import FAILED, failures, message_as_json, state_of, tasks_of
from pipeline.graph.environment import Environment
from trainer.errors import format_duration

SUCCEEDED, CANCELLED = "succeeded", "cancelled"
STATUSES = {SUCCEEDED: 0, FAILED: 1, CANCELLED: 2}
"""The final states of a run -> the exit status."""
INTERRUPTED = 130
POLL_S = 10.0
OUTAGE_S = 900.0
"""How long the state of a run that is followed may be out of reach."""
LISTED = ("name", "state", "display_name", "create_time", "end_time", "schedule_name")
RUN = -1
"""Stands for the run itself among the ids of its tasks."""
HIDDEN_STATES = ("", "state-unspecified", "pending", "not-triggered")
"""States of tasks that get no line: the task has not started, or its branch is not taken."""


def run_service(environment: Environment) -> Any:
    """A client of the API's service for runs."""
    from google.cloud.aiplatform_v1 import PipelineServiceClient

    return vertex_api.service_client(PipelineServiceClient, environment)


def find_run(environment: Environment, run: str, retry_s: float | None = None) -> Any:
    """The run with this id, asked for during `retry_s` seconds at most. Raises `UserError` if there is none."""
    service, name = run_service(environment), run_name(environment, run)
    with vertex_api.reported_errors(f"run {run}, see {vertex_api.run_link(environment, run)}"):
        return vertex_api.retried(
            lambda: service.get_pipeline_job(name=name, timeout=vertex_api.TIMEOUT_S), retry_s=retry_s
        )


def run_name(environment: Environment, run: str) -> str:
    """The resource name of a run."""
    return f"{vertex_api.parent_of(environment)}/pipelineJobs/{run}"


def latest(environment: Environment, pipeline: str, limit: int) -> list[Any]:
    """The latest runs of a pipeline, newest first, with only the fields `LISTED`."""
    return _list(environment, f'pipeline_name="{pipeline}"', limit)


def of_schedule(environment: Environment, schedule: str, limit: int = 5) -> list[Any]:
    """The latest runs that a schedule has started, newest first; `schedule` is its resource name."""
    return _list(environment, f'schedule_name="{schedule}"', limit)


def _list(environment: Environment, expression: str, limit: int) -> list[Any]:
    from google.cloud.aiplatform_v1 import ListPipelineJobsRequest

    request = ListPipelineJobsRequest(
        parent=vertex_api.parent_of(environment),
        filter=expression,
        order_by="create_time desc",
        page_size=limit,
        read_mask={"paths": list(LISTED)},
    )

    def read_pages() -> list[Any]:
        """As many jobs as asked for: the client requests the next page when a loop reaches its first job."""
        jobs = run_service(environment).list_pipeline_jobs(request, timeout=vertex_api.TIMEOUT_S)
        return list(itertools.islice(jobs, limit))

    with vertex_api.reported_errors():
        return vertex_api.retried(read_pages)


def cancel(environment: Environment, run: str) -> None:
    """Request that a run ends; its tasks stop within minutes."""
    service = run_service(environment)
    with vertex_api.reported_errors():
        vertex_api.retried(
            lambda: service.cancel_pipeline_job(name=run_name(environment, run), timeout=vertex_api.TIMEOUT_S)
        )


def follow(
    environment: Environment,
    run: str,
    titles: Mapping[str, str],
    say: Callable[[str], None] = print,
) -> int:
    """Print each change of state of a run and its tasks until the run ends; returns the exit status.

    `titles` maps the names of tasks to their titles. An outage of 15 minutes is survived. Ctrl-C stops following,
    not the run.
    """
    states: dict[int, str] = {}
    try:
        while True:
            job = find_run(environment, run, OUTAGE_S)
            for line in changes(job, titles, states):
                say(line)
            if (state := state_of(job)) in STATUSES:
                for line in (f"Run {state}{_took(job)}", *(failures(job, titles) if state == FAILED else ())):
                    say(line)
                return STATUSES[state]
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        say(f"Stopped following; run {run} continues. `{command(environment, 'show', run)}` shows its state,")
        say(f"`{command(environment, 'cancel', run)}` cancels it.")
        return INTERRUPTED


def command(environment: Environment, verb: str, run: str) -> str:
    """The command line that applies `verb` to a run."""
    return f"python -m pipeline runs {verb} {run} --env {environment.name}"


def changes(job: Any, titles: Mapping[str, str], states: dict[int, str]) -> list[str]:
    """A line for each task, and for the run, whose state differs from the one in `states`; updates `states`."""
    lines = []
    for task in tasks_of(job):
        state = state_of(task)
        if state not in HIDDEN_STATES and states.get(task.task_id) != state:
            states[task.task_id] = state
            lines.append(f"[{titles.get(task.task_name, task.task_name)}] {state}{_took(task)}")
    state = state_of(job)
    if state not in STATUSES and states.get(RUN) != state:
        states[RUN] = state
        lines.insert(0, f"Run {state}")
    return lines


def parameter_lines(job: Any) -> list[str]:
    """A line for each parameter of a run. The API returns every number as a float."""
    values = without_settings(message_as_json(job)["runtimeConfig"].get("parameterValues", {}))
    return [
        f"  {name} = {value:g}" if isinstance(value, float) else f"  {name} = {value}"
        for name, value in sorted(values.items())
    ]


def _took(task: Any) -> str:
    if not (task.start_time and task.end_time):
        return ""
    return f" after {format_duration((task.end_time - task.start_time).total_seconds())}"
