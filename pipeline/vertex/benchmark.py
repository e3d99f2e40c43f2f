"""Measures a training on accelerators of Vertex AI, by one custom job for each, or on this machine.

A job runs `python -m trainer benchmark` in the image of the training jobs, on images that it makes, and writes
nothing: its log has the result.
"""

import datetime
import math
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from lifecycle.machines import benchmark_results
from lifecycle.machines.benchmark_results import Measurement
from lifecycle.machines.plan import TrainingPlan
from lifecycle.registry.versions import OWNER
from lifecycle.vertex import api as vertex_api
from lifecycle.vertex.api import Api, UnansweredError
from pipeline.graph.environment import Environment
from pipeline.vertex import doctor_questions, single_job
from pipeline.vertex.doctor import ENDED
from pipeline.vertex.doctor_questions import MISSING, Question, ask
from trainer.commands.benchmark import RESULT
from trainer.errors import UserError, check, format_duration

COMMAND = ["python", "-m", "trainer", "benchmark"]
TIMEOUT_S = 1800
"""Vertex AI ends a job after this time and six times that of its steps."""
POLL_S = 10.0
"""Pause between two looks at the jobs, or at a log."""
LOG_S = 180.0
"""How long after the end of a job its lines may take to its log."""
READER = "roles/logging.viewer"


def arguments(
    accelerator: str, image_size: Sequence[int], batch_size: int, accumulation: int, precision: str, steps: int
) -> list[str]:
    """The flags of `python -m trainer benchmark`."""
    return [
        *([f"--accelerator={accelerator}"] if accelerator else []),
        f"--image-size={image_size[0]}x{image_size[1]}",
        f"--batch-size={batch_size}",
        f"--accumulation={accumulation}",
        f"--precision={precision}",
        f"--steps={steps}",
    ]


def cost(plan: TrainingPlan, steps: int) -> tuple[float, float]:
    """The estimated seconds of a job and its price in USD, at most; the price is NaN if it is unknown."""
    seconds = plan.start_s + (steps + 1) * plan.seconds_per_step
    hourly = plan.accelerator.usd_per_hour(plan.machines.provisioning)
    return seconds, math.nan if hourly is None else hourly * seconds / 3600


def describe_plan(plan: TrainingPlan, steps: int) -> str:
    """The job of a plan in one line: machine, settings, time and price."""
    seconds, usd = cost(plan, steps)
    height, width = plan.data.image_size
    return (
        f"{plan.accelerator.name}: {steps} steps of batch {plan.batch_size} at {height}x{width} in "
        f"{plan.precision} on 1 x {plan.accelerator.machine_type}, {plan.machines.provisioning}: up to "
        f"{format_duration(seconds)}, {'unknown price' if math.isnan(usd) else f'up to {usd:.2f} USD'}"
    )


def measure_here(flags: Sequence[str]) -> Measurement:
    """Measure this machine; `flags` are those of `arguments`. Raises `UserError` if the training fails."""
    started, result = datetime.datetime.now(datetime.UTC), ""
    command = [sys.executable, *COMMAND[1:], *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(RESULT):
                result = line.removeprefix(RESULT)
            else:
                print(line, end="", flush=True)
    check(process.returncode == 0, f"`trainer benchmark` ended with status {process.returncode}; see above")
    return benchmark_results.of_result(result, benchmark_results.LOCAL, started)


def measure_plans(
    environment: Environment, plans: Mapping[str, TrainingPlan], steps: int
) -> Iterator[tuple[str, Any]]:
    """Start a job for each plan, and yield each name with its `Measurement`, or with the reason why there is none.

    One that lacks quota or an image, that Vertex AI refuses or that fails does not stop the others. Raises
    `UserError` before anything is started if the caller may not read logs.
    """
    from google.cloud.aiplatform_v1 import JobServiceClient

    api, service = Api(environment), vertex_api.service_client(JobServiceClient, environment)
    _check_readable(api)
    running: dict[str, str] = {}
    for name, plan in plans.items():
        image = environment.image_of(plan.accelerator.image)
        questions: list[Question] = [
            (image, partial(doctor_questions.ask_for_image, api, environment.name, image)),
            *doctor_questions.about_quota(api, {name: plan}),
        ]
        if lacking := [finding.text for finding in ask(questions) if finding.state == MISSING]:
            yield name, "; ".join(lacking)
            continue
        try:
            with vertex_api.reported_errors():
                job = service.create_custom_job(
                    parent=vertex_api.parent_of(environment),
                    custom_job=_job(environment, plan, image, steps),
                    timeout=vertex_api.TIMEOUT_S,
                )
        except UserError as error:
            yield name, str(error)
            continue
        running[name] = job.name
        print(f"{name}: {_link(environment, job.name)}", flush=True)
    while running:
        for name, job_name in list(running.items()):
            with vertex_api.reported_errors(f"the jobs continue, such as {_link(environment, job_name)}"):
                job = vertex_api.retried(
                    partial(service.get_custom_job, name=job_name, timeout=vertex_api.TIMEOUT_S)
                )
            if job.state.name.removeprefix("JOB_STATE_").lower() in ENDED:
                del running[name]
                yield name, _outcome(api, job, name)
        time.sleep(POLL_S if running else 0)


def _job(environment: Environment, plan: TrainingPlan, image: str, steps: int) -> dict[str, Any]:
    settings = (plan.batch_size, plan.training.accumulation, plan.precision)
    return single_job.single_job(
        f"msinet-benchmark-{plan.accelerator.name}",
        plan,
        image,
        COMMAND,
        arguments(plan.accelerator.name, plan.data.image_size, *settings, steps),
        timeout_s=round(TIMEOUT_S + 6 * steps * plan.seconds_per_step),
        account=environment.service_account,
        network=environment.network,
        labels={**OWNER, **environment.labels},
    )


def _link(region: vertex_api.VertexRegion, job_name: str) -> str:
    """The console's page of a job."""
    number = job_name.rpartition("/")[2]
    return f"{vertex_api.CONSOLE}/locations/{region.location}/training/{number}?project={region.project}"


# === The log of a job ===


def _outcome(api: Api, job: Any, name: str) -> Measurement | str:
    """The measurement of a job that has ended, or why there is none."""
    link = _link(api.region, job.name)
    state = job.state.name.removeprefix("JOB_STATE_").lower()
    if state != "succeeded":
        return f"the job ended as {state}{f' ({job.error.message})' if job.error.message else ''}; see {link}"
    line = _find_result(api, job.name.rpartition("/")[2])
    if not line:
        return f"the log of the job has no result {LOG_S:.0f} s after its end; see {link}"
    try:
        return benchmark_results.of_result(line, name, job.start_time)
    except UserError as error:
        return f"{error}; see {link}"


def _find_result(api: Api, number: str) -> str:
    """The JSON that a job has printed; empty if its log does not have it in time."""
    ends = time.monotonic() + LOG_S
    while True:
        with suppress(UnansweredError):
            for entry in _entries(api, f'resource.labels.job_id="{number}" AND "{RESULT.strip()}"'):
                # Vertex AI writes what a container prints into either of them.
                texts = entry.get("textPayload", ""), entry.get("jsonPayload", {}).get("message", "")
                for text in texts:
                    if RESULT in text:
                        return str(text).partition(RESULT)[2]
        if time.monotonic() >= ends:
            return ""
        time.sleep(POLL_S)


def _entries(api: Api, condition: str) -> list[dict[str, Any]]:
    """The newest entries of the logs of training jobs in the last 24 hours; raises `UnansweredError`."""
    request = {
        "resourceNames": [f"projects/{api.region.project}"],
        "filter": f'resource.type="ml_job" AND {condition}',
        "orderBy": "timestamp desc",
        "pageSize": 10,
    }
    return list(api.send("POST", "logging", "v2/entries:list", json=request).get("entries", ()))


def _check_readable(api: Api) -> None:
    """Raise `UserError` unless the caller may read logs: the result of a job would be lost."""
    try:
        _entries(api, 'resource.labels.job_id="0"')
    except UnansweredError as error:
        raise UserError(f"the logs, which have the results, cannot be read ({error}); ask for {READER}") from None
