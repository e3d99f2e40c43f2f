"""Measures a training on accelerators of Vertex AI, by one custom job for each, or on this machine.

A job runs `python -m trainer benchmark` in the image of the training jobs, on images that it makes, and writes
nothing: its log has the result.
"""

import dataclasses
import datetime
import math
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from lifecycle.machines import Measurement, TrainingPlan
from lifecycle.registry import OWNER
from lifecycle.runs import PlannedRun, State, ask_all
from lifecycle.vertex import Api, UnansweredError
from pipeline.graph import Environment
from pipeline.vertex import jobs
from pipeline.vertex.jobs import Jobs
from trainer.commands.benchmark import RESULT
from trainer.errors import FailedError, UnreachableError, UserError, check
from trainer.texts import format_duration

COMMAND = ["python", "-m", "trainer", "benchmark"]
TIMEOUT_S = 1800
"""Vertex AI ends a job after this time and six times the time of its steps."""
POLL_S = 10.0
"""Pause between two looks at the jobs, or at a log."""
LOG_S = 180.0
"""How long after the end of a job its lines may take to its log."""
READER = "roles/logging.viewer"


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """A training to measure, for some steps, on images that it makes.

    Example: `Benchmark((240, 320), 32, 1, "bfloat16", 100, "l4")` takes 100 steps of 32 images on one L4.
    """

    image_size: tuple[int, int]
    """(height, width), pixels."""
    batch_size: int
    """Images in one step. 0 for the default of the machine."""
    accumulation: int
    precision: str
    steps: int
    accelerator: str = ""
    """Empty for this machine."""

    @property
    def flags(self) -> list[str]:
        """The flags of `python -m trainer benchmark`, such as `--image-size=240x320`."""
        return [
            *([f"--accelerator={self.accelerator}"] if self.accelerator else []),
            f"--image-size={self.image_size[0]}x{self.image_size[1]}",
            f"--batch-size={self.batch_size}",
            f"--accumulation={self.accumulation}",
            f"--precision={self.precision}",
            f"--steps={self.steps}",
        ]

    def run_here(self) -> Measurement:
        """Measure this machine. Raises `UserError` if the training fails."""
        started, result = datetime.datetime.now(datetime.UTC), ""
        command = [sys.executable, *COMMAND[1:], *self.flags]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith(RESULT):
                    result = line.removeprefix(RESULT)
                else:
                    print(line, end="", flush=True)
        check(
            process.returncode == 0,
            f"`trainer benchmark` ended with status {process.returncode}. See above",
            FailedError,
        )
        return Measurement.of_result(result, started)


@dataclasses.dataclass(frozen=True)
class BenchmarkJob:
    """A custom job that measures the training of a plan on its accelerator."""

    plan: TrainingPlan
    steps: int

    @property
    def most_seconds(self) -> float:
        """The estimated time of the job, at most. Example: 300 s for the start, and 101 steps."""
        return self.plan.start_s + (self.steps + 1) * self.plan.most_seconds_per_step

    @property
    def most_usd(self) -> float:
        """The estimated price of the job, at most. NaN if it is unknown."""
        hourly = self.plan.accelerator.usd_per_hour(self.plan.machines.provisioning)
        return math.nan if hourly is None else hourly * self.most_seconds / 3600

    def __str__(self) -> str:
        plan, usd = self.plan, self.most_usd
        height, width = plan.data.image_size
        return (
            f"{plan.accelerator.name}: {self.steps} steps of batch {plan.batch_size} at {height}x{width} in "
            f"{plan.precision} on 1 x {plan.accelerator.machine_type}, {plan.machines.provisioning}: up to "
            f"{format_duration(self.most_seconds)}, "
            f"{'unknown price' if math.isnan(usd) else f'up to {usd:.2f} USD'}"
        )

    def custom_job(self, environment: Environment, image: str) -> dict[str, Any]:
        """The API's CustomJob."""
        plan, name = self.plan, self.plan.accelerator.name
        settings = (plan.batch_size, plan.training.accumulation, plan.precision)
        return jobs.custom_job(
            f"msinet-benchmark-{name}",
            plan,
            image,
            COMMAND,
            Benchmark(plan.data.image_size, *settings, self.steps, name).flags,
            timeout_s=round(TIMEOUT_S + 6 * self.steps * plan.most_seconds_per_step),
            account=environment.service_account,
            network=environment.network,
            labels={**OWNER, **environment.labels},
        )


def measure_on_vertex(environment: Environment, measured: Sequence[BenchmarkJob]) -> Iterator[tuple[str, Any]]:
    """Start the jobs, and yield the name of each accelerator with its `Measurement`, or with the reason why
    there is none.

    One that lacks quota or an image, that Vertex AI refuses or that fails does not stop the others. Raises
    `UserError` before anything is started if the caller may not read logs.
    """
    api, service = Api(environment), Jobs(environment, POLL_S)
    _check_readable(api)
    running: dict[str, str] = {}
    for each in measured:
        name, image = each.plan.accelerator.name, environment.image_of(each.plan.accelerator.image)
        needs = PlannedRun(image, {name: each.plan}, environment=environment.name).needs
        found = ask_all(needs, api)
        if lacking := [finding.text for finding in found if finding.state == State.MISSING]:
            yield name, ", ".join(lacking)
            continue
        try:
            job_name = service.start(each.custom_job(environment, image))
        except UserError as error:
            yield name, str(error)
            continue
        running[job_name] = name
        print(f"{name}: {service.link(job_name)}", flush=True)
    for job in service.ended(running, "the jobs continue, such as {}"):
        yield running[job.name], _outcome(api, service, job, running[job.name])


# === The log of a job ===


def _outcome(api: Api, service: Jobs, job: Any, name: str) -> Measurement | str:
    """The measurement of a job that has ended, or why there is none."""
    if failure := service.failure(job):
        return failure
    link = service.link(job.name)
    line = _find_result(api, job.name.rpartition("/")[2])
    if not line:
        return f"the log of the job has no result {LOG_S:.0f} s after its end. See {link}"
    try:
        return Measurement.of_result(line, job.start_time, name)
    except UserError as error:
        return f"{error}. See {link}"


def _find_result(api: Api, number: str) -> str:
    """The JSON that a job has printed. Empty if its log does not have it in time."""
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
    """The newest entries of the logs of training jobs in the last 24 hours. Raises `UnansweredError`."""
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
            f"the logs, which have the results, cannot be read ({error}). Ask for {READER}"
        ) from None
