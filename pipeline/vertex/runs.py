"""Runs on Vertex AI: list them, follow one until it ends, cancel one."""

import dataclasses
import itertools
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from lifecycle.runs import Values, next_run_id
from lifecycle.vertex import (
    TIMEOUT_S,
    Run,
    message_as_json,
    parent_of,
    reported_errors,
    retried,
    run_link,
    service_client,
    state_of,
)
from pipeline.graph import Environment
from trainer.texts import format_duration

STATUSES = {"succeeded": 0, "failed": 1, "cancelled": 2}
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


def _service(environment: Environment) -> Any:
    from google.cloud.aiplatform_v1 import PipelineServiceClient

    return service_client(PipelineServiceClient, environment)


@dataclasses.dataclass(frozen=True)
class SentRun:
    """A run that Vertex AI was asked for, by its id."""

    environment: Environment
    run: str

    @property
    def link(self) -> str:
        """The console's page of the run."""
        return run_link(self.environment, self.run)

    @property
    def _name(self) -> str:
        return f"{parent_of(self.environment)}/pipelineJobs/{self.run}"

    def create(self, request: Any) -> None:
        """Start it. The id is in the request, so a repeated request never starts a second run."""
        from google.api_core.exceptions import Conflict

        service, attempts = _service(self.environment), 0

        def create() -> None:
            nonlocal attempts
            attempts += 1
            try:
                service.create_pipeline_job(request, timeout=TIMEOUT_S)
            except Conflict:
                if attempts == 1:  # a run that somebody else has started with this id
                    raise

        with reported_errors(f"run {self.run}, see {self.link}"):
            retried(create)

    def find(self, retry_s: float | None = None) -> Any:
        """The API's PipelineJob. Raises `UserError` if there is none, or no answer within `retry_s` seconds."""
        service = _service(self.environment)
        with reported_errors(f"run {self.run}, see {self.link}"):
            return retried(lambda: service.get_pipeline_job(name=self._name, timeout=TIMEOUT_S), retry_s=retry_s)

    def following(self) -> "SentRun | None":
        """The run that the last task of this one has started for lack of a machine. None if there is none."""
        from google.api_core.exceptions import NotFound

        regions = (self.environment, *self.environment.further)
        for number, each in enumerate(regions, 1):
            region = dataclasses.replace(each, further=regions[number:])
            later, service = SentRun(region, next_run_id(self.run)), _service(region)
            with reported_errors(f"run {later.run}"), suppress(NotFound):
                retried(partial(service.get_pipeline_job, name=later._name, timeout=TIMEOUT_S))
                return later
        return None

    def cancel(self) -> None:
        """Request that it ends. Its tasks stop within minutes."""
        service = _service(self.environment)
        with reported_errors():
            retried(lambda: service.cancel_pipeline_job(name=self._name, timeout=TIMEOUT_S))

    def command(self, verb: str) -> str:
        """The command line that applies `verb` to it, such as `python -m pipeline runs cancel RUN --env prod`."""
        return f"python -m pipeline runs {verb} {self.run} --env {self.environment.name}"

    def follow(self, titles: Mapping[str, str] | None = None, say: Callable[[str], None] = print) -> int:
        """Print each change of state of it and its tasks until it ends, and return the exit status.

        `titles` are as in `lifecycle.vertex.run.Run`. An outage of 15 minutes is survived. Ctrl-C stops following,
        not the run.
        """
        states: dict[int, str] = {}
        try:
            while True:
                run = Run(self.find(OUTAGE_S), titles)
                for line in _changes(run, states):
                    say(line)
                if run.has_ended:
                    failures = run.failures if run.has_failed else []
                    for line in (f"Run {run.state}{_took(run.job)}", *failures):
                        say(line)
                    return STATUSES[run.state]
                time.sleep(POLL_S)
        except KeyboardInterrupt:
            say(f"Stopped following. Run {self.run} continues. `{self.command('show')}` shows its state,")
            say(f"`{self.command('cancel')}` cancels it.")
            return INTERRUPTED


def latest_runs(environment: Environment, pipeline: str, limit: int) -> list[Any]:
    """The latest runs of a pipeline, newest first, with only the fields `LISTED`."""
    return _list(environment, f'pipeline_name="{pipeline}"', limit)


def of_schedule(environment: Environment, schedule: str, limit: int = 5) -> list[Any]:
    """The latest runs that a schedule has started, newest first. `schedule` is its resource name."""
    return _list(environment, f'schedule_name="{schedule}"', limit)


def _list(environment: Environment, expression: str, limit: int) -> list[Any]:
    from google.cloud.aiplatform_v1 import ListPipelineJobsRequest

    request = ListPipelineJobsRequest(
        parent=parent_of(environment),
        filter=expression,
        order_by="create_time desc",
        page_size=limit,
        read_mask={"paths": list(LISTED)},
    )

    def read_pages() -> list[Any]:
        """As many jobs as asked for: the client requests the next page when a loop reaches its first job."""
        jobs = _service(environment).list_pipeline_jobs(request, timeout=TIMEOUT_S)
        return list(itertools.islice(jobs, limit))

    with reported_errors():
        return retried(read_pages)


def _changes(run: Run, states: dict[int, str]) -> list[str]:
    """A line for each task, and for the run, with another state than in `states`, which is updated.

    Example: `[Base training: data] succeeded after 12 min`.
    """
    lines, titles = [], run.titles
    for task in run.tasks:
        state = state_of(task)
        if state not in HIDDEN_STATES and states.get(task.task_id) != state:
            states[task.task_id] = state
            lines.append(f"[{titles.get(task.task_name, task.task_name)}] {state}{_took(task)}")
    if not run.has_ended and states.get(RUN) != run.state:
        states[RUN] = run.state
        lines.insert(0, f"Run {run.state}")
    return lines


def lines_of_run(run: Run) -> list[str]:
    """A line for each parameter of a run, and for each task that has started.

    Example: `  base_epochs = 10`, then `[Base training: data] running`.
    """
    return [*parameter_lines(run.job), *_changes(run, {})]


def parameter_lines(job: Any) -> list[str]:
    """A line for each parameter of a run, such as `  base_epochs = 10`. The API returns numbers as floats."""
    values = Values.flattened(message_as_json(job)["runtimeConfig"].get("parameterValues", {}))
    return [
        f"  {name} = {value:g}" if isinstance(value, float) else f"  {name} = {value}"
        for name, value in sorted(values.items())
    ]


def _took(task: Any) -> str:
    if not (task.start_time and task.end_time):
        return ""
    return f" after {format_duration((task.end_time - task.start_time).total_seconds())}"
