"""Starts runs of the pipeline on Vertex AI. Everything that can be checked is checked before the first request.

The id of a run is in the request, so a repeated request never starts a second run.
"""

import dataclasses
import datetime
import json
import re
import secrets
from collections.abc import Mapping
from functools import cached_property
from typing import Any, TypeVar

from lifecycle.machines.plan import TrainingPlan
from lifecycle.registry.versions import OWNER
from lifecycle.runs.needs import PlannedRun, State, answers, needs_of
from lifecycle.runs.parameters import DEFAULTS, STEPS, Values
from lifecycle.runs.settled import settle
from lifecycle.vertex import api as vertex_api
from lifecycle.vertex.api import Api
from lifecycle.vertex.run import failed_tasks, titles_of
from pipeline.graph.compiled import Template
from pipeline.graph.environment import PIPELINE_NAME, Environment, layered
from pipeline.vertex import runs
from pipeline.vertex.accelerator_choice import choose_accelerators
from trainer.errors import check
from trainer.settings import fields
from trainer.settings.fields import Value

NO_MACHINE = "(?i)resources are insufficient|resource_pool_exhausted|exceed quota limits"
"""Pattern in the error of a training that got no machine, as people quote it (docs/vertex.md, Troubleshooting)."""


@dataclasses.dataclass(frozen=True)
class Planned:
    """A job that a run or a schedule starts: its environment, and the API's PipelineJob as JSON."""

    environment: Environment
    job: Mapping[str, Any]

    @cached_property
    def values(self) -> Values:
        """All parameters of our pipeline; none of any other pipeline."""
        chosen = Template(self.job["pipelineSpec"])
        if chosen.name != PIPELINE_NAME:
            return Values()
        return Values.converted(chosen.values(self.job["runtimeConfig"]["parameterValues"])).complete

    @cached_property
    def plans(self) -> Mapping[str, TrainingPlan]:
        """The plan of each training step of our pipeline; none of any other pipeline."""
        # Nothing here was given by a person, as far as it has its default.
        return settle(self.values, "vertex", self.environment.location, given={}).plans if self.values else {}


PlannedJob = TypeVar("PlannedJob", bound=Planned)


@dataclasses.dataclass(frozen=True)
class Submission(Planned):
    """A run to start, with its id."""

    run: str

    @property
    def request(self) -> dict[str, Any]:
        """The request, as JSON."""
        parent = vertex_api.parent_of(self.environment)
        return {"parent": parent, "pipelineJobId": self.run, "pipelineJob": dict(self.job)}


def prepare_submission(
    environment: Environment,
    passed: Mapping[str, Value],
    source: str = "",
    caching: str = "as-compiled",
    run: str = "",
) -> Submission:
    """The submission of a run, checked as far as possible without a request to Vertex AI.

    Args:
        environment: Where to run.
        passed: Parameters that override those of the environment, which override the template's defaults.
        source: The template: a file, or an address in Artifact Registry. Compiled for the environment if empty.
        caching: One of `compiled.CACHING`.
        run: Id of the run; generated if empty.

    Raises `UserError` for parameters that the pipeline or the trainer would refuse.
    """
    job = compose(environment, passed, source, caching)
    return Submission(environment, job, run or _new_id(job))


def _new_id(job: Mapping[str, Any]) -> str:
    """An id for a run of this job."""
    name, now = job["pipelineSpec"]["pipelineInfo"]["name"], datetime.datetime.now(datetime.UTC)
    return f"{name}-{now:%Y%m%d%H%M%S}-{secrets.token_hex(2)}"


def compose(
    environment: Environment,
    passed: Mapping[str, Value],
    source: str = "",
    caching: str = "as-compiled",
    defaults: Mapping[str, Value] | None = None,
) -> dict[str, Any]:
    """The API's PipelineJob for a run, as JSON; other arguments and errors as for `prepare_submission`.

    `defaults` are values of parameters that neither the environment nor `passed` sets, as far as the template has
    them.
    """
    environment.require_target("vertex")
    chosen = Template.load(environment, source, caching)
    unset = {**(defaults or {}), **environment.derived}
    arguments: dict[str, Any] = {name: value for name, value in unset.items() if name in chosen.parameters}
    arguments |= {**environment.parameters, **passed}
    if chosen.name == PIPELINE_NAME:
        given = layered(unset, environment.parameters, passed)
        # A template of the environment has its parameters as defaults, also those that a recipe replaced.
        values = {**{name: DEFAULTS[name] for name in environment.parameters}, **given}
        every = Values({**Values.converted(chosen.values()), **values})
        settle(every, "vertex", environment.location, given, passed)
        lost = every.without_effect  # the first task could not tell them from what a person gave
        arguments = Values({name: value for name, value in values.items() if name not in lost}).form
    chosen.check_names(arguments)
    job = {
        "displayName": f"{chosen.name}-{environment.name}",
        "labels": {**OWNER, **environment.labels},
        "runtimeConfig": {
            "gcsOutputDirectory": f"{environment.bucket}/runs",
            "parameterValues": arguments,
        },
        "pipelineSpec": chosen.spec,
        "serviceAccount": environment.service_account,
        "network": environment.network,
        "templateUri": chosen.uri,
    }
    return {key: value for key, value in job.items() if value}


def estimates(planned: Planned) -> list[str]:
    """One line per training step of our pipeline: its machines, and its estimated time and cost."""
    return plan_lines(planned.plans)


def choose_accelerator(planned: PlannedJob) -> tuple[PlannedJob, list[str]]:
    """The job with one accelerator instead of several, and sentences about those that were passed over.

    Raises `UserError` if no accelerator is left.
    """
    chosen, sentences = choose_accelerators(planned.environment, planned.values)
    return (_changed(planned, chosen) if chosen else planned), sentences


def _changed(planned: PlannedJob, values: Mapping[str, Value]) -> PlannedJob:
    """The job with these values of parameters of our pipeline."""
    runtime = planned.job["runtimeConfig"]
    given = Values({**Values.of_form(runtime["parameterValues"]), **values}).form
    return dataclasses.replace(
        planned, job={**planned.job, "runtimeConfig": {**runtime, "parameterValues": given}}
    )


def fall_back(listed: Submission, failed: Submission) -> Submission | None:
    """A further run, after one in which a training got no machine, with the accelerators that its list has left.

    Tasks before this training, a base training among them, then come from the cache.

    Args:
        listed: The run as it was asked for, with several accelerators.
        failed: The same run with those that were chosen, which has failed.

    Returns:
        None if something else has failed, or no accelerator is left. Without caching also, with a sentence that
        says so, if a base training would be paid again.
    """
    job = runs.find_run(failed.environment, failed.run)
    reasons = failed_tasks(job, titles_of(failed.job["pipelineSpec"]))
    lacking = [step for step, title in STEPS.items() if re.search(NO_MACHINE, reasons.get(title, ""))]
    if not lacking:
        return None
    step, values = lacking[0], listed.values
    parameter = f"{step}_accelerator" if values[f"{step}_accelerator"] else "accelerator"
    names = [name.strip() for name in str(values[parameter]).split(",")]
    left = names[names.index(failed.plans[step].accelerator.name) + 1 :]
    if not left:
        return None
    if step == "finetune" and "base" in failed.plans and not Template(failed.job["pipelineSpec"]).is_cached:
        print(f"{STEPS[step]} got no machine; without caching, another run would repeat {STEPS['base'].lower()}.")
        return None
    trained = {f"{name}_accelerator": plan.accelerator.name for name, plan in failed.plans.items() if name != step}
    kept = trained if step == "finetune" else {}
    further = _changed(listed, {parameter: ",".join(left), **kept})
    return dataclasses.replace(further, run=_new_id(further.job))


def plan_lines(plans: Mapping[str, TrainingPlan]) -> list[str]:
    """One line for each plan, by the step that it is for: machines, time and cost."""
    return [
        f"{STEPS[step]}: {made.machines.workers} x {made.accelerator.name}, {made.machines.provisioning}, about "
        f"{made.time_text}"
        + ("" if made.most_cost_usd is None else f", about {made.cost_text} USD")
        + (f" ({made.time_basis})" if made.measured else "")
        for step, made in plans.items()
    ]


def summary(planned: Planned, **first: str) -> list[str]:
    """A run in about ten lines: `first`, its project and region, account and parameters, and its estimates."""
    environment, job = planned.environment, planned.job
    chosen = Template(job["pipelineSpec"])
    defaults, given = chosen.values(), chosen.values(job["runtimeConfig"]["parameterValues"])
    changed = {name: value for name, value in sorted(given.items()) if value != defaults.get(name)}
    images = f"{environment.image_repository}, tag {environment.image_tag}"
    facts = {
        **first,
        "Project": f"{environment.project}, {environment.location}",
        "Account": environment.service_account or "the default account of Vertex AI",
        "Outputs": f"below {job['runtimeConfig']['gcsOutputDirectory']}",
        "Template": job.get("templateUri", f"{chosen.name}, in this request; images of {images}"),
        "Parameters": fields.settings_text(changed) or "those of the template",
    }
    return [*(f"{name + ':':<12}{value}" for name, value in facts.items()), *estimates(planned)]


def planned_run(
    environment: Environment,
    plans: Mapping[str, TrainingPlan],
    values: Mapping[str, Value] | None = None,
    image_pattern: str | None = None,
    jobs: int = 1,
) -> PlannedRun:
    """What `needs_of` reads of a run in an environment.

    Args:
        environment: Where it runs.
        plans: The plan of each training step.
        values: All parameters of our pipeline; none for anything else.
        image_pattern: As in `PlannedRun`; the environment's images if None.
        jobs: Number of jobs of a step at the same time.
    """
    pattern = environment.image_of("{}") if image_pattern is None else image_pattern
    return PlannedRun(pattern, plans, Values(values or {}), environment.bucket, environment.name, jobs)


def check_needs(run: PlannedRun, environment: Environment) -> None:
    """Raise `UserError` if something is missing without which no run starts: bucket, images or quota.

    Without an image or quota a run fails only after its data is prepared, when Vertex AI refuses the training job.
    What cannot be asked for passes.
    """
    needs = [need for need in needs_of(run) if need.before_start]
    for finding in answers(needs, Api(environment)):
        check(finding.state != State.MISSING, f"{finding.text}: {finding.remedy}")


def check_bucket_images_and_quota(planned: Planned) -> None:
    """Raise `UserError` as `check_needs` for the run of a job. Pipelines of others need a bucket alone."""
    pattern = Template(planned.job["pipelineSpec"]).image_pattern if planned.values else ""
    run = planned_run(planned.environment, planned.plans, planned.values, pattern)
    check_needs(run, planned.environment)


def send(submission: Submission) -> None:
    """Start the run. Raises `UserError` if Vertex AI refuses it or cannot be reached."""
    from google.api_core.exceptions import Conflict
    from google.cloud.aiplatform_v1 import CreatePipelineJobRequest

    environment, run = submission.environment, submission.run
    request = CreatePipelineJobRequest.from_json(json.dumps(submission.request))
    service = runs.run_service(environment)
    attempts = 0

    def create() -> None:
        nonlocal attempts
        attempts += 1
        try:
            service.create_pipeline_job(request, timeout=vertex_api.TIMEOUT_S)
        except Conflict:
            if attempts == 1:  # a run that somebody else has started with this id
                raise

    with vertex_api.reported_errors(f"run {run}, see {vertex_api.run_link(environment, run)}"):
        vertex_api.retried(create)
