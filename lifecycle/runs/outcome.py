"""How a run ended, and the message about it: promoted or not and why, unchanged, or what failed and why."""

import contextlib
import dataclasses
import datetime
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from lifecycle.registry import Address, Registry, Version, open_registry
from lifecycle.runs import argo, webhook
from lifecycle.vertex import TIMEOUT_S, Run, reported_errors, retried, run_link, service_client
from trainer.evaluation import Ending
from trainer.models import DEFAULT, PRETRAINED_VERSION

FAILED = "failed"
JOB = r"projects/([^/]+)/locations/([^/]+)/pipelineJobs/([^/]+)"
"""Resource name of a run on Vertex AI. Example: `projects/p/locations/us-central1/pipelineJobs/msinet-2026`."""
SUCCEEDED = ("SUCCEEDED", "COMPLETE")
"""States of all tasks if none failed."""


@dataclasses.dataclass(frozen=True)
class End:
    """How a run ended, and the message about it.

    Example: `End("msinet@3", "challenger", "The current default stays: KLD worse by 0.1.")`.
    """

    UNCHANGED: ClassVar[str] = "unchanged"
    """The result of a run that found nothing to train."""
    model: str
    """Name of the model, or the version that the run added, such as `msinet@3`."""
    result: str
    """UNCHANGED, FAILED and the task, or what the gate decided (`Version.end`). Example: `failed at Data`."""
    why: str
    """One or more sentences."""
    earlier: str = ""
    """A sentence about the last move of the default before this run. Empty if there was none."""

    @classmethod
    def of_version(cls, registry: Registry, name: str, version: Version) -> "End":
        """The end of a run that has added `version` of the model `name`.

        The registry may have moved the default since the gate decided. So `result` is

        - promoted if the version is the default, or was it,
        - challenger if the gate promoted it, but it never became the default,
        - what the gate decided in all other cases.
        """
        result, why = version.end, version.facts.reason
        if registry.aliases(name).get(DEFAULT) == version.number:
            result = Ending.PROMOTED
        elif result == Ending.PROMOTED:
            moves = registry.default_moves(name)
            was_default = any(move.version == version.number for move in moves)
            result = Ending.PROMOTED if was_default else Ending.CHALLENGER
            why = f"{why} {version.what_followed(moves)}".strip()
        return cls(f"{name}@{version.number}", result, why, _earlier(registry, name, version.number))

    @classmethod
    def of_failure(
        cls, registry: Registry, name: str, tasks: Mapping[str, str], version: Version | None = None
    ) -> "End":
        """The end of a run that failed.

        Args:
            registry: Where the model is registered.
            name: Name of the model.
            tasks: Title of each task that failed -> why.
            version: The version that the run had added before it failed, if any.
        """
        added = [f"Version {version.number} is registered nevertheless."] if version else []
        why = " ".join(filter(None, [*tasks.values(), *added])) or "The run's page says why."
        return cls(name, cls.failed_at(tasks), why, _earlier(registry, name))

    @classmethod
    def of_unchanged(cls, registry: Registry, name: str) -> "End":
        """The end of a run that found nothing to train."""
        default = registry.aliases(name).get(DEFAULT, PRETRAINED_VERSION)
        why = (
            "A version was made of the same data, settings, code and start, and how it compares with the default, "
            f"version {default}, is known."
        )
        return cls(name, cls.UNCHANGED, why, _earlier(registry, name))

    @staticmethod
    def failed_at(titles: Iterable[str]) -> str:
        """The result of a run that failed at tasks with these titles. Example: `failed at Data, Evaluation`."""
        return f"{FAILED} at {', '.join(titles)}" if any(titles) else FAILED

    @property
    def is_failure(self) -> bool:
        """Whether the run failed."""
        return self.result.startswith(FAILED)

    @property
    def text(self) -> str:
        """The message. Example: `msinet: failed at Data. There are too few images.`"""
        return " ".join(filter(None, (f"{self.model}: {self.result}.", self.why, self.earlier)))

    def post(self, run: str, address: Callable[[], str]) -> str:
        """Post the message and the name of the run to a webhook. Returns what went wrong, or "" if nothing did.

        `address` finds the address of the webhook. It may raise `UserError`.
        """
        return webhook.post(f"{self.text}\nRun {run}", address)


def _earlier(registry: Registry, name: str, number: int | None = None) -> str:
    """A sentence about the last move of the default to a version other than `number`. Empty if there was none."""
    moves = registry.default_moves(name)
    place = next((place for place in reversed(range(len(moves))) if moves[place].version != number), None)
    if place is None:
        return ""
    move = moves[place]
    before = moves[place - 1].version if place else PRETRAINED_VERSION
    weeks = (datetime.datetime.now(datetime.UTC) - move.since).days // 7
    ago = f"{weeks} week{'' if weeks == 1 else 's'} ago" if weeks else "less than a week ago"
    if not move.by_person:
        return f"Last promotion before this run: version {move.version}, {ago}."
    if move.version < before:
        return f"Rolled back to version {move.version} by a person, {ago}."
    return f"Version {move.version} was made the default by a person, {ago}."


# === On Vertex AI and Kubeflow ===


def report_end(model: str, location: str, run: str, status: Any, secret: str, only_failures: bool) -> None:
    """Print how a run ended, and post it. What goes wrong is printed too: it is no reason to fail a run.

    Args:
        model: Name of the model.
        location: Its registry.
        run: Name of the run in the registry.
        status: `dsl.PipelineTaskFinalStatus` of all other tasks. On Kubeflow it names the workflow to ask.
        secret: Secret of Secret Manager with the address of the webhook. Empty if the environment variable
            WEBHOOK_VARIABLE has the address.
        only_failures: Whether only the end of a run that failed is posted.
    """
    job = re.fullmatch(JOB, status.pipeline_job_resource_name or "")
    end = _end(model, location, run, status, job)
    link = f": {run_link(Address(job[1], job[2]), job[3])}" if job else ""
    print(f"{end.text}\nRun {run}{link}")
    if only_failures and not end.is_failure:
        return

    def address() -> str:
        if not secret:
            return os.environ.get(webhook.WEBHOOK_VARIABLE, "")
        return webhook.read_secret(secret, Address(secret.split("/")[1], "global", _endpoint(location)))

    if wrong := end.post(f"{run}{link}", address):
        print(f"warning: the webhook did not take this message: {wrong}")


def _end(model: str, location: str, run: str, status: Any, job: re.Match[str] | None) -> End:
    """How a run ended, asked at its service and its registry. What cannot be asked for becomes part of `why`."""
    tasks, state = {"": status.error_message or ""}, status.state
    try:
        if state == "FAILED" and job:
            tasks = _failed_tasks(Address(job[1], job[2], _endpoint(location)), job[0]) or tasks
        elif not job and argo.ACCOUNT.exists():
            from kubernetes.client import ApiException  # type: ignore[import-untyped]
            from urllib3.exceptions import HTTPError

            # Otherwise the state is all there is. It may be behind.
            with contextlib.suppress(ApiException, HTTPError):
                tasks = argo.failed_in_workflow(status.pipeline_job_resource_name)
                state = "FAILED" if tasks else "SUCCEEDED"
        registry = open_registry(location)
        version = next((each for each in registry.versions(model) if each.run == run), None)
        if state == "FAILED":
            return End.of_failure(registry, model, tasks, version)
        if version is not None:
            return End.of_version(registry, model, version)
        is_unchanged = state in SUCCEEDED  # else cancelled
        return End.of_unchanged(registry, model) if is_unchanged else End.of_failure(registry, model, {})
    except Exception as error:
        result = "succeeded" if state in SUCCEEDED else End.failed_at(tasks)
        return End(model, result, f"{' '.join(tasks.values())} More is not known: {error}".strip())


def _failed_tasks(region: Address, name: str) -> dict[str, str]:
    from google.cloud.aiplatform_v1 import PipelineServiceClient

    service = service_client(PipelineServiceClient, region)
    with reported_errors():
        job = retried(lambda: service.get_pipeline_job(name=name, timeout=TIMEOUT_S))
    return Run(job).failed_tasks


def _endpoint(location: str) -> str:
    """The address of the API that a registry names. Empty for the public one."""
    address = Address.found(location)
    return address.endpoint if address else ""
