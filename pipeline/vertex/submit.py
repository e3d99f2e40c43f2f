"""Starts runs of the pipeline on Vertex AI. All that can be known to be wrong is, before anything is sent.

The id of a run is ours and is made before the first attempt: whatever gets lost on the way, the next attempt
asks for the same run, and there is never a second one.
"""

import dataclasses
import datetime
import json
import re
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from pipeline import cloud
from pipeline.graph import dag, parameters
from pipeline.graph.environment import Environment
from pipeline.graph.parameters import STEPS, Value
from pipeline.registry.address import VERTEX
from pipeline.registry.labels import OWNER
from pipeline.vertex import checks, runs, template
from pipeline.vertex.template import Template
from trainer import storage
from trainer.artifacts import REGISTRY
from trainer.duration import format_duration
from trainer.errors import UserError, check, check_choice

RUN_ID = r"[a-z][a-z0-9-]{0,127}"
ATTEMPTS = 5
MOUNTED = f"{storage.MOUNT}/"
REACHABLE = ("gs://", MOUNTED)
"""How places begin that machines on Vertex AI reach."""


@dataclasses.dataclass(frozen=True)
class Submission:
    """A run to be started: its id, and what the API calls a PipelineJob, as JSON."""

    environment: Environment
    run: str
    job: Mapping[str, Any]
    is_new_id: bool
    """Whether the id was made here, so that no other run can have it."""

    @property
    def request(self) -> dict[str, Any]:
        """The request as it is sent."""
        where = cloud.parent_of(self.environment)
        return {"parent": where, "pipelineJobId": self.run, "pipelineJob": dict(self.job)}


def prepare(
    environment: Environment,
    given: Mapping[str, Value],
    where: str = "",
    caching: str = "as-compiled",
    run: str = "",
) -> Submission:
    """What to submit: parameters `given` go before the environment's, and those before the template's.

    `where` is the template: a file, or an address in Artifact Registry; compiled for the environment if empty.
    `run` is the id of the run; a new one if empty.
    """
    check(not run or bool(re.fullmatch(RUN_ID, run)), f"job id is {run!r}; use lower-case letters, digits and -")
    job = compose(environment, given, where, caching)
    return Submission(environment, run or new_id(job["pipelineSpec"]["pipelineInfo"]["name"]), job, not run)


def compose(
    environment: Environment, given: Mapping[str, Value], where: str = "", caching: str = "as-compiled"
) -> dict[str, Any]:
    """The API's PipelineJob for a run, as JSON, with everything checked that needs no request to Vertex AI."""
    checks.check_environment(environment)
    check_choice("caching", caching, template.CACHING)
    chosen = template.load(environment, where).cached(caching)
    derived = {name: value for name, value in environment.derived.items() if name in chosen.parameters}
    values = {**derived, **environment.parameters, **given}
    chosen.check_values(values)
    if chosen.name == dag.NAME:
        _check_ours(environment, chosen, values)
    job = {
        "displayName": f"{chosen.name}-{environment.name}",
        "labels": {**OWNER, **environment.labels},
        "runtimeConfig": {"gcsOutputDirectory": f"{environment.bucket}/runs", "parameterValues": values},
        "pipelineSpec": chosen.spec,
        "serviceAccount": environment.service_account,
        "network": environment.network,
        "templateUri": chosen.uri,
    }
    return {key: value for key, value in job.items() if value}


def _check_ours(environment: Environment, chosen: Template, values: Mapping[str, Value]) -> None:
    """The checks of the trainer and of the pipeline on all parameters, the template's defaults among them."""
    known = {**chosen.defaults(), **values}
    known = {name: value for name, value in known.items() if name in parameters.PARAMETERS}
    parameters.validate(known)
    parameters.require_sources(known)
    _check_places(environment, known)
    checks.plans(environment, known)


def _check_places(environment: Environment, known: Mapping[str, Value]) -> None:
    """Raise `UserError` for a place that the machines of the run cannot read from or write to."""
    not_needed = {f"{step}_source" for step in STEPS if step not in parameters.fetched_steps(known)}
    places = {name: words for name, words in parameters.KEYWORDS.items() if name not in not_needed}
    for name, words in {**places, "checkpoint_dir": ("",)}.items():
        value = str(known.get(name, words[0]))
        check(
            value in words or value.startswith(REACHABLE),
            f"{name} is {value!r}, which machines on Vertex AI do not see; give a gs:// address",
        )
    registry = str(known.get("registry", ""))
    check(
        registry.startswith((VERTEX, MOUNTED)),
        f"registry is {registry or REGISTRY!r}, a folder that machines on Vertex AI do not share; give "
        f"{environment.derived['registry']}",
    )


def estimates(submission: Submission) -> list[str]:
    """For each training step of our pipeline a line: its machines, time and cost, as far as they are known now."""
    chosen = Template(submission.job["pipelineSpec"])
    if chosen.name != dag.NAME:
        return []
    values = {**chosen.defaults(), **submission.job["runtimeConfig"]["parameterValues"]}
    return [
        f"{STEPS[step]}: {made.machines.workers} x {made.accelerator.name}, {made.machines.provisioning}, about "
        f"{format_duration(3600 * made.hours)}"
        + ("" if made.cost_usd is None else f", about {made.cost_usd:.2f} USD")
        for step, made in checks.plans(submission.environment, values).items()
    ]


def new_id(name: str) -> str:
    """An id that no run has: msinet-YYYYMMDDHHMMSS-xxxx, the time in UTC."""
    now = datetime.datetime.now(datetime.UTC)
    return f"{name}-{now:%Y%m%d%H%M%S}-{secrets.token_hex(2)}"


def send(submission: Submission, say: Callable[[str], None] = print) -> None:
    """Start the run, with further attempts after failures that may pass; `say` gets a line for each."""
    from google.cloud.aiplatform_v1 import CreatePipelineJobRequest, PipelineServiceClient

    request = CreatePipelineJobRequest.from_json(json.dumps(submission.request))
    with cloud.reported_errors():
        service = cloud.client(PipelineServiceClient, submission.environment)
        if not submission.is_new_id and _found(service, submission) is not None:
            link = cloud.run_link(submission.environment, submission.run)
            raise UserError(f"there is a run {submission.run} already: {link}")
        _create(service, submission, request, say)


def _create(service: Any, submission: Submission, request: Any, say: Callable[[str], None]) -> None:
    from google.api_core.exceptions import Conflict

    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(cloud.PAUSE_S * 2**attempt)
        try:
            service.create_pipeline_job(request, timeout=cloud.TIMEOUT_S)
            return
        except cloud.transient() as error:
            failure = error
            if attempt < ATTEMPTS - 1:
                say(f"{cloud.brief(error)}; trying again, for the same run")
        except Conflict:
            # An attempt before this one got through, and its answer got lost; or the id is somebody else's.
            if attempt and _is_ours(_found(service, submission), submission):
                return
            raise
    try:
        if _is_ours(_found(service, submission), submission):
            return
    except cloud.transient():
        raise UserError(
            f"{cloud.brief(failure)}; whether run {submission.run} has started is not known. Look at "
            f"{cloud.run_link(submission.environment, submission.run)}, or submit again with "
            f"--job-id {submission.run}: that starts no second one"
        ) from None
    raise failure


def _found(service: Any, submission: Submission) -> Any:
    """The run of the submission's id; None where there is none."""
    from google.api_core.exceptions import NotFound

    name = f"{cloud.parent_of(submission.environment)}/pipelineJobs/{submission.run}"
    try:
        return service.get_pipeline_job(name=name, retry=cloud.reading(), timeout=cloud.TIMEOUT_S)
    except NotFound:
        return None


def _is_ours(found: Any, submission: Submission) -> bool:
    """Whether a run is what the submission asks for."""
    if found is None:
        return False
    wanted = submission.job
    values = runs.parameters_of(found)
    same_values = {**values, **wanted["runtimeConfig"]["parameterValues"]} == values
    return same_values and bool(found.display_name == wanted["displayName"])
