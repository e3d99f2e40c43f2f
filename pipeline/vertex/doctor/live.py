"""Runs one cheap custom job on Vertex AI: `python -m trainer probe` on the accelerator, and reads its report."""

import datetime
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from pipeline import cloud
from pipeline.graph.environment import Environment
from pipeline.plan import worker_pools
from pipeline.plan.plan import TrainingPlan
from pipeline.registry.labels import OWNER
from pipeline.vertex.doctor.case import Case
from pipeline.vertex.doctor.findings import Finding, missing, ok
from trainer import footprint, storage
from trainer.commands.probe import REPORT
from trainer.errors import UserError, check
from trainer.machine import BAD, Fact
from trainer.storage import MissingError

COMMAND = ["python", "-m", "trainer", "probe"]
RUN_S = 120.0
"""Time of the job itself; an estimate: 40 s on two CPU cores."""
TIMEOUT_S = 900
"""Vertex AI ends the job after this time."""
POLL_S = 10.0
ENDED = ("JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED", "JOB_STATE_EXPIRED")


def choose(case: Case) -> TrainingPlan:
    """The plan whose machine is tried: the dearest one. Raises `UserError` if no step fits its machines."""
    check(bool(case.plans), "no training step fits its machines, so there is none to try; see the settings above")
    return max(case.plans.values(), key=lambda plan: plan.accelerator.compute_engine_usd)


def offer(plan: TrainingPlan) -> str:
    """A sentence with the machine, the time and the price of the job."""
    provisioning = plan.machines.provisioning
    seconds = footprint.START_SECONDS + RUN_S
    hourly = plan.accelerator.usd_per_hour(provisioning)
    price = "a price that is not known here" if hourly is None else f"about {hourly * seconds / 3600:.2f} USD"
    return (
        f"One custom job on 1 x {plan.accelerator.name} ({plan.accelerator.machine_type}, {provisioning}) takes "
        f"about {seconds / 60:.0f} minutes, most of them for the start, and costs {price}"
    )


def try_job(case: Case, say: Callable[[str], None] = print, poll_s: float | None = None) -> Iterator[Finding]:
    """Start the job, follow it to its end, and say what it found.

    Raises `UserError` if Vertex AI refuses it.
    """
    plan, environment = choose(case), case.environment
    folder = f"{environment.bucket}/doctor/{datetime.datetime.now(datetime.UTC):%Y%m%d%H%M%S}"
    with cloud.reported_errors("the job"):
        job = _service(environment).create_custom_job(
            parent=cloud.parent_of(environment), custom_job=_job(case, plan, folder), timeout=cloud.TIMEOUT_S
        )
    link = f"{cloud.CONSOLE}/locations/{environment.location}/training/{job.name.rpartition('/')[2]}"
    link = f"{link}?project={environment.project}"
    say(f"Job: {link}")
    state = _follow(environment, job.name, link, say, POLL_S if poll_s is None else poll_s)
    try:
        report = storage.read_object(f"{folder}/{REPORT}")
    except UserError as error:
        reason = "it wrote no report" if isinstance(error, MissingError) else str(error)
        yield missing(f"the job ended as {_plain(state)}, and {reason}; its log says why", link)
        return
    yield from read_report(report, link)


def read_report(report: bytes, link: str) -> Iterator[Finding]:
    """The findings in the lines of a report."""
    for line in report.decode().splitlines():
        fact = Fact(**json.loads(line))
        yield missing(str(fact), link) if fact.state == BAD else ok(str(fact))


def _service(environment: Environment) -> Any:
    from google.cloud.aiplatform_v1 import JobServiceClient

    return cloud.client(JobServiceClient, environment)


def _job(case: Case, plan: TrainingPlan, folder: str) -> dict[str, Any]:
    """The custom job, with the machine, the account and the network of a training."""
    environment = case.environment
    arguments = [f"--folder={folder}", f"--accelerator={plan.accelerator.name}"]
    image = environment.image_of(plan.accelerator.image)
    leader = worker_pools.worker_pool_specs(plan, image, COMMAND, arguments)[0]
    scheduling: dict[str, Any] = {
        "timeout": f"{TIMEOUT_S}s",
        "strategy": worker_pools.scheduling_strategy(plan),
        "disable_retries": True,
    }
    specification = {
        "worker_pool_specs": [leader],
        "scheduling": scheduling,
        "service_account": str(case.values.get("training_service_account", "")),
        "network": str(case.values.get("training_network", "")),
    }
    labels = {**OWNER, **environment.labels}
    return {"display_name": "msinet-doctor", "job_spec": specification, "labels": labels}


def _follow(environment: Environment, name: str, link: str, say: Callable[[str], None], poll_s: float) -> str:
    """Say each change of the job's state until it ends; the last state. Ctrl-C ends the watching, not the job."""
    service, shown = _service(environment), ""
    try:
        while True:
            with cloud.reported_errors(f"the job continues, see {link}"):
                job = cloud.retried(lambda: service.get_custom_job(name=name, timeout=cloud.TIMEOUT_S))
            state = str(job.state.name)
            if state != shown:
                say(f"Job {_plain(state)}")
                shown = state
            if state in ENDED:
                return state
            time.sleep(poll_s)
    except KeyboardInterrupt:
        raise UserError(f"no longer watching; the job continues and ends by itself: {link}") from None


def _plain(state: str) -> str:
    return state.removeprefix("JOB_STATE_").lower()
