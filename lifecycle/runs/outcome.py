"""How a run of the pipeline ended: promoted or not and why, unchanged, or what failed and why."""

import contextlib
import dataclasses
import datetime
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from lifecycle.registry.address import VERTEX, Address
from lifecycle.registry.register import open_registry
from lifecycle.registry.versions import Registry, Version, what_followed
from lifecycle.runs import argo, webhook
from lifecycle.vertex import api as vertex_api
from lifecycle.vertex.run import failed_tasks, titles_of_job
from trainer.models.model_names import DEFAULT
from trainer.models.registry_layout import PRETRAINED_VERSION

PROMOTED, CHALLENGER, UNDECIDED = "promoted", "challenger", "not decided"
UNCHANGED, FAILED = "unchanged", "failed"
JOB = r"projects/([^/]+)/locations/([^/]+)/pipelineJobs/([^/]+)"
"""Resource name of a run on Vertex AI."""
SUCCEEDED = ("SUCCEEDED", "COMPLETE")
"""States of all tasks if none failed."""


@dataclasses.dataclass(frozen=True)
class End:
    """How a run ended."""

    model: str
    """Name of the model, or the version that the run added, such as `msinet@3`."""
    result: str
    """PROMOTED, CHALLENGER, UNDECIDED or UNCHANGED, or FAILED and the task."""
    why: str
    """One or more sentences."""
    earlier: str = ""
    """A sentence about the last move of the default before; empty if there was none."""

    @property
    def is_failure(self) -> bool:
        """Whether the run failed."""
        return self.result.startswith(FAILED)

    @property
    def text(self) -> str:
        """The message."""
        return " ".join(filter(None, (f"{self.model}: {self.result}.", self.why, self.earlier)))


def decided(record: Mapping[str, Any]) -> str:
    """What the gate decided about the version with this record."""
    if end := record.get("end"):
        return str(end)
    if record.get("promote"):
        return PROMOTED
    return CHALLENGER if record.get("decided", True) else UNDECIDED


def version_of(run: str, versions: Iterable[Version]) -> Version | None:
    """The version that a run has added; None if it has added none."""
    return next((each for each in versions if each.record.get("lineage", {}).get("run") == run), None)


def failed_at(titles: Iterable[str]) -> str:
    """The result of a run that failed at the tasks with these titles."""
    return f"{FAILED} at {', '.join(titles)}" if any(titles) else FAILED


def of_version(registry: Registry, name: str, version: Version) -> End:
    """The end of a run that has added `version` of the model `name`."""
    result, why = decided(version.record), str(version.record.get("reason", ""))
    if registry.aliases(name).get(DEFAULT) == version.number:
        result = PROMOTED
    elif result == PROMOTED:
        moves = registry.default_moves(name)
        was_default = any(move.version == version.number for move in moves)
        result, why = PROMOTED if was_default else CHALLENGER, f"{why} {what_followed(version, moves)}".strip()
    return End(f"{name}@{version.number}", result, why, earlier(registry, name, version.number))


def of_failure(registry: Registry, name: str, tasks: Mapping[str, str], version: Version | None = None) -> End:
    """The end of a run that failed: title of each failed task -> why; it may have added `version` before."""
    added = [f"Version {version.number} is registered nevertheless."] if version else []
    why = " ".join(filter(None, [*tasks.values(), *added])) or "The run's page says why."
    return End(name, failed_at(tasks), why, earlier(registry, name))


def of_unchanged(registry: Registry, name: str) -> End:
    """The end of a run that found nothing to train."""
    default = registry.aliases(name).get(DEFAULT, PRETRAINED_VERSION)
    why = (
        f"A version was made of the same data, settings, code and start, and how it compares with the default, "
        f"version {default}, is known."
    )
    return End(name, UNCHANGED, why, earlier(registry, name))


def earlier(registry: Registry, name: str, number: int | None = None) -> str:
    """A sentence about the last move of the default to a version other than `number`; empty if there was none."""
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


def report(model: str, location: str, run: str, status: Any, secret: str, only_failures: bool) -> None:
    """Print how a run ended, and post it; what goes wrong is printed, because it is no reason to fail a run.

    Args:
        model: Name of the model.
        location: Its registry.
        run: Name of the run in the registry.
        status: `dsl.PipelineTaskFinalStatus` of all other tasks. On Kubeflow the workflow that it names is asked.
        secret: Secret of Secret Manager with the address of the webhook; empty if `webhook.VARIABLE` has it.
        only_failures: Whether only the end of a run that failed is posted.
    """
    job = re.fullmatch(JOB, status.pipeline_job_resource_name or "")
    end = _end(model, location, run, status, job)
    link = f": {vertex_api.run_link(Address(job[1], job[2]), job[3])}" if job else ""
    text = f"{end.text}\nRun {run}{link}"
    print(text)
    if only_failures and not end.is_failure:
        return

    def address() -> str:
        if not secret:
            return os.environ.get(webhook.VARIABLE, "")
        return webhook.read_secret(secret, Address(secret.split("/")[1], "global", _endpoint(location)))

    if wrong := webhook.post(text, address):
        print(f"warning: the webhook did not take this message: {wrong}")


def _end(model: str, location: str, run: str, status: Any, job: re.Match[str] | None) -> End:
    tasks, state = {"": status.error_message or ""}, status.state
    try:
        if state == "FAILED" and job:
            tasks = _failed_tasks(Address(job[1], job[2], _endpoint(location)), job[0]) or tasks
        elif not job and argo.ACCOUNT.exists():
            from kubernetes.client import ApiException  # type: ignore[import-untyped]
            from urllib3.exceptions import HTTPError

            # Otherwise the state, which may be behind, is all there is.
            with contextlib.suppress(ApiException, HTTPError):
                tasks = argo.failed_in_workflow(status.pipeline_job_resource_name)
                state = "FAILED" if tasks else "SUCCEEDED"
        registry = open_registry(location)
        version = version_of(run, registry.versions(model))
        if state == "FAILED":
            return of_failure(registry, model, tasks, version)
        if version is not None:
            return of_version(registry, model, version)
        is_unchanged = state in SUCCEEDED  # else cancelled
        return of_unchanged(registry, model) if is_unchanged else of_failure(registry, model, {})
    except Exception as error:
        result = "succeeded" if state in SUCCEEDED else failed_at(tasks)
        return End(model, result, f"{' '.join(tasks.values())} More is not known: {error}".strip())


def _failed_tasks(region: Address, name: str) -> dict[str, str]:
    from google.cloud.aiplatform_v1 import PipelineServiceClient

    service = vertex_api.service_client(PipelineServiceClient, region)
    with vertex_api.reported_errors():
        job = vertex_api.retried(lambda: service.get_pipeline_job(name=name, timeout=vertex_api.TIMEOUT_S))
    return failed_tasks(job, titles_of_job(job))


def _endpoint(location: str) -> str:
    """The address of the API that a registry names; empty for the public one."""
    return Address.at(location).endpoint if location.startswith(VERTEX) else ""
