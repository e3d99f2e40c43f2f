"""Runs one cheap custom job on Vertex AI, `python -m trainer.probe` on the accelerator, and reads its report."""

import datetime
import json
import time
from collections.abc import Iterator
from typing import Any

from pipeline import cloud
from pipeline.plan import step
from pipeline.plan.plan import TrainingPlan
from pipeline.registry.versions import OWNER
from pipeline.vertex.doctor.examine import Case
from pipeline.vertex.doctor.questions import MISSING, OK, Finding
from trainer import accelerators, storage
from trainer.errors import UserError, check
from trainer.probe import BAD, REPORT, Fact

COMMAND = ["python", "-m", "trainer.probe"]
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
    seconds = accelerators.START_SECONDS + RUN_S
    hourly = plan.accelerator.usd_per_hour(plan.machines.provisioning)
    price = "a price that is not known here" if hourly is None else f"about {hourly * seconds / 3600:.2f} USD"
    machine = f"{plan.accelerator.machine_type}, {plan.machines.provisioning}"
    return (
        f"One custom job on 1 x {plan.accelerator.name} ({machine}) takes about {seconds / 60:.0f} minutes, most "
        f"of them for the start, and costs {price}"
    )


def try_job(case: Case) -> Iterator[Finding]:
    """Start the job, follow it to its end, and say what it found. Raises `UserError` if Vertex AI refuses it.

    Ctrl-C ends the watching, not the job.
    """
    from google.cloud.aiplatform_v1 import JobServiceClient

    environment, service = case.environment, cloud.client(JobServiceClient, case.environment)
    folder = f"{environment.bucket}/doctor/{datetime.datetime.now(datetime.UTC):%Y%m%d%H%M%S}"
    parent = cloud.parent_of(environment)
    with cloud.reported_errors("the job"):
        job = service.create_custom_job(parent=parent, custom_job=_job(case, folder), timeout=cloud.TIMEOUT_S)
    number = job.name.rpartition("/")[2]
    link = f"{cloud.CONSOLE}/locations/{environment.location}/training/{number}?project={environment.project}"
    print(f"Job: {link}", flush=True)
    state = ""
    while state not in ENDED:
        try:
            with cloud.reported_errors(f"the job continues, see {link}"):
                shown = cloud.retried(lambda: service.get_custom_job(name=job.name, timeout=cloud.TIMEOUT_S))
            if shown.state.name != state:
                state = str(shown.state.name)
                print(f"Job {_plain(state)}", flush=True)
            time.sleep(POLL_S)
        except KeyboardInterrupt:
            raise UserError(f"no longer watching; the job continues and ends by itself: {link}") from None
    try:
        report = storage.read_object(f"{folder}/{REPORT}").decode()
    except UserError as error:
        yield Finding(MISSING, f"the job ended as {_plain(state)}, without a report ({error}); see its log", link)
        return
    for fact in (Fact(**json.loads(line)) for line in report.splitlines()):
        yield Finding(MISSING, str(fact), link) if fact.state == BAD else Finding(OK, str(fact))


def _job(case: Case, folder: str) -> dict[str, Any]:
    """The custom job, with the machine, the account and the network of a training."""
    plan = choose(case)
    arguments = [f"--folder={folder}", f"--accelerator={plan.accelerator.name}"]
    image = case.environment.image_of(plan.accelerator.image)
    specification = {
        "worker_pool_specs": step.worker_pool_specs(plan, image, COMMAND, arguments)[:1],
        "scheduling": {
            "timeout": f"{TIMEOUT_S}s",
            "strategy": step.scheduling_strategy(plan),
            "disable_retries": True,
        },
        "service_account": str(case.values["training_service_account"]),
        "network": str(case.values["training_network"]),
    }
    labels = {**OWNER, **case.environment.labels}
    return {"display_name": "msinet-doctor", "job_spec": specification, "labels": labels}


def _plain(state: str) -> str:
    return state.removeprefix("JOB_STATE_").lower()
