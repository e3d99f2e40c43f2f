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
from typing import Any

from lifecycle.machines.benchmark_results import Measurement
from lifecycle.machines.plan import TrainingPlan
from lifecycle.registry.versions import OWNER
from lifecycle.runs.needs import Image, State, answers, quotas_of
from lifecycle.vertex.api import Api, UnansweredError
from pipeline.graph.environment import Environment
from pipeline.vertex import jobs
from pipeline.vertex.jobs import Jobs
from trainer.commands.benchmark import RESULT
from trainer.errors import FailedError, UnreachableError, UserError, check, format_duration

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
    seconds = plan.start_s + (steps + 1) * plan.most_seconds_per_step
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
    check(
        process.returncode == 0,
        f"`trainer benchmark` ended with status {process.returncode}; see above",
        FailedError,
    )
    return Measurement.of_result(result, started)


def measure_plans(
    environment: Environment, plans: Mapping[str, TrainingPlan], steps: int
) -> Iterator[tuple[str, Any]]:
    """Start a job for each plan, and yield each name with its `Measurement`, or with the reason why there is none.

    One that lacks quota or an image, that Vertex AI refuses or that fails does not stop the others. Raises
    `UserError` before anything is started if the caller may not read logs.
    """
    api, service = Api(environment), Jobs(environment, POLL_S)
    _check_readable(api)
    running: dict[str, str] = {}
    for name, plan in plans.items():
        image = environment.image_of(plan.accelerator.image)
        found = answers([Image(image, environment.name), *quotas_of({name: plan})], api)
        if lacking := [finding.text for finding in found if finding.state == State.MISSING]:
            yield name, "; ".join(lacking)
            continue
        try:
            job_name = service.start(_job(environment, plan, image, steps))
        except UserError as error:
            yield name, str(error)
            continue
        running[job_name] = name
        print(f"{name}: {service.link(job_name)}", flush=True)
    for job in service.ended(running, "the jobs continue, such as {}"):
        yield running[job.name], _outcome(api, service, job, running[job.name])


def _job(environment: Environment, plan: TrainingPlan, image: str, steps: int) -> dict[str, Any]:
    settings = (plan.batch_size, plan.training.accumulation, plan.precision)
    return jobs.custom_job(
        f"msinet-benchmark-{plan.accelerator.name}",
        plan,
        image,
        COMMAND,
        arguments(plan.accelerator.name, plan.data.image_size, *settings, steps),
        timeout_s=round(TIMEOUT_S + 6 * steps * plan.most_seconds_per_step),
        account=environment.service_account,
        network=environment.network,
        labels={**OWNER, **environment.labels},
    )


# === The log of a job ===


def _outcome(api: Api, service: Jobs, job: Any, name: str) -> Measurement | str:
    """The measurement of a job that has ended, or why there is none."""
    if jobs.state_of(job) != jobs.SUCCEEDED:
        return service.failure(job)
    link = service.link(job.name)
    line = _find_result(api, job.name.rpartition("/")[2])
    if not line:
        return f"the log of the job has no result {LOG_S:.0f} s after its end; see {link}"
    try:
        return Measurement.of_result(line, job.start_time, name)
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
        raise UnreachableError(
            f"the logs, which have the results, cannot be read ({error}); ask for {READER}"
        ) from None
