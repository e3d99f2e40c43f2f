"""Jobs of Vertex AI outside of a run: made, started, followed and explained in one way.

`doctor --live`, `benchmark` and `sweep` start custom jobs, and `sweep` also a tuning job.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any

from lifecycle.machines import TrainingPlan
from lifecycle.vertex import CONSOLE, TIMEOUT_S, VertexRegion, parent_of, reported_errors, retried, service_client
from trainer.errors import UserError

SUCCEEDED = "succeeded"
ENDED = (SUCCEEDED, "failed", "cancelled", "expired")
"""States in which a job does not change any more."""
TUNING, CUSTOM = "hyperparameter_tuning_job", "custom_job"
"""Kinds of jobs, as the methods and arguments of the API's client name them."""


def custom_job(
    name: str,
    plan: TrainingPlan,
    image: str,
    command: Sequence[str],
    args: Sequence[str],
    *,
    timeout_s: int,
    account: str,
    network: str,
    labels: Mapping[str, str],
) -> dict[str, Any]:
    """The API's CustomJob that runs a command once, on the first machine of a plan."""
    specification = {
        "worker_pool_specs": plan.worker_pool_specs(image, command, args)[:1],
        "scheduling": {
            "timeout": f"{timeout_s}s",
            "strategy": plan.scheduling_strategy,
            "disable_retries": True,
        },
        "service_account": account,
        "network": network,
    }
    return {"display_name": name, "job_spec": specification, "labels": dict(labels)}


class Jobs:
    """The jobs of a region.

    Args:
        region: Where they run.
        poll_s: Pause between two looks at a job, in seconds.
    """

    def __init__(self, region: VertexRegion, poll_s: float) -> None:
        self.region, self._poll_s = region, poll_s

    @cached_property
    def _service(self) -> Any:
        from google.cloud.aiplatform_v1 import JobServiceClient

        return service_client(JobServiceClient, self.region)

    def start(self, job: Mapping[str, Any], subject: str = "") -> str:
        """Start a custom job or a tuning job, and return its name, such as `projects/P/locations/L/customJobs/1`.

        Raises `UserError`, which begins with `subject`, if Vertex AI refuses it. An attempt is not repeated: it
        might start a second job.
        """
        with reported_errors(subject):
            return self._create(job)

    def start_once(self, job: Mapping[str, Any], label: str) -> str:
        """The name of the job that has the same `label`. Without one, start it.

        Example: with the label `sweep`, a job labelled `{"sweep": "20261128-data"}` is started once. An
        earlier process may have started it, and not have received or saved the answer.
        """
        kind = _kind_of(job)
        request = {
            "parent": parent_of(self.region),
            "filter": f'labels.{label}="{job["labels"][label]}"',
        }
        with reported_errors(f"the job {job['display_name']}"):
            listed = partial(getattr(self._service, f"list_{kind}s"), request=request, timeout=TIMEOUT_S)
            found = retried(lambda: list(listed()))
            return str(found[0].name) if found else self._create(job)

    def _create(self, job: Mapping[str, Any]) -> str:
        kind, parent = _kind_of(job), parent_of(self.region)
        create = getattr(self._service, f"create_{kind}")
        return str(create(parent=parent, **{kind: job}, timeout=TIMEOUT_S).name)

    def wait(self, name: str, outage: str, show: Callable[[Any], None] = lambda job: None) -> Any:
        """The job with this name, once it has ended. The arguments are as for `ended`."""
        return next(self.ended([name], outage, show))

    def ended(
        self, names: Collection[str], outage: str, show: Callable[[Any], None] = lambda job: None
    ) -> Iterator[Any]:
        """Each of the jobs, as soon as it has ended.

        Args:
            names: Of custom jobs or tuning jobs.
            outage: What the error says if a job cannot be seen any more, with `{}` for the link to its page.
            show: Is called with a job at each look.
        """
        left = list(names)
        while left:
            for name in list(left):
                kind = TUNING if "/hyperparameterTuningJobs/" in name else CUSTOM
                get = partial(getattr(self._service, f"get_{kind}"), name=name, timeout=TIMEOUT_S)
                with reported_errors(outage.format(self.link(name))):
                    job = retried(get)
                show(job)
                if state_of(job) in ENDED:
                    left.remove(name)
                    yield job
            if left:
                time.sleep(self._poll_s)

    @contextmanager
    def watching(self, rest: Callable[[], str]) -> Iterator[None]:
        """Turn Ctrl-C into a `UserError`: it ends the watching, not the job.

        `rest` ends the sentence `no longer watching. The job continues`. Example: ` and ends by itself: LINK`.
        """
        try:
            yield
        except KeyboardInterrupt:
            raise UserError(f"no longer watching. The job continues{rest()}") from None

    def link(self, name: str) -> str:
        """The console's page of a job."""
        number, region = name.rpartition("/")[2], self.region
        return f"{CONSOLE}/locations/{region.location}/training/{number}?project={region.project}"

    def failure(self, job: Any, title: str = "job") -> str:
        """How and why a job has ended without success, such as `the job ended as failed (...); see LINK`.

        Empty for a job that succeeded.
        """
        if state_of(job) == SUCCEEDED:
            return ""
        reason = f" ({job.error.message})" if job.error.message else ""
        return f"the {title} ended as {state_of(job)}{reason}. See {self.link(job.name)}"


def _kind_of(job: Mapping[str, Any]) -> str:
    return TUNING if "study_spec" in job else CUSTOM


def state_of(job: Any) -> str:
    """The state of a job in plain words, such as `running`."""
    return str(job.state.name).removeprefix("JOB_STATE_").lower()
