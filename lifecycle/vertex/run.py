"""A run on Vertex AI as the API describes it: its state, its tasks with their titles, and what failed."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

SUCCEEDED, FAILED, CANCELLED = "succeeded", "failed", "cancelled"


class Run:
    """A run, with the titles of its tasks.

    Args:
        job: The API's PipelineJob.
        titles: Name of each task -> its title. If None, the pipeline in `job` says them.
    """

    def __init__(self, job: Any, titles: Mapping[str, str] | None = None) -> None:
        self.job = job
        self._titles = titles

    @property
    def state(self) -> str:
        """The state in plain words, such as `running`."""
        return state_of(self.job)

    @property
    def has_ended(self) -> bool:
        """Whether the state changes no more."""
        return self.state in (SUCCEEDED, FAILED, CANCELLED)

    @property
    def has_failed(self) -> bool:
        """Whether it ended with an error."""
        return self.state == FAILED

    @property
    def has_succeeded(self) -> bool:
        """Whether it ended without an error."""
        return self.state == SUCCEEDED

    @cached_property
    def content(self) -> dict[str, Any]:
        """The run as the JSON that the API sends."""
        return message_as_json(self.job)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the compiled pipeline. The API returns every number as a float."""
        return dict(self.content["runtimeConfig"].get("parameterValues", {}))

    @property
    def titles(self) -> Mapping[str, str]:
        """The titles of the tasks, by the tasks' names, such as `fetch-dataset` -> `Base training: data`."""
        return titles_of(self.content["pipelineSpec"]) if self._titles is None else self._titles

    @property
    def tasks(self) -> list[Any]:
        """The tasks in the order they started, without the DAGs that contain them."""
        details = list(self.job.job_detail.task_details)
        parents = {task.parent_task_id for task in details}
        leaves = [task for task in details if task.task_id not in parents]
        return sorted(
            leaves, key=lambda task: (not task.start_time, task.start_time or task.task_id, task.task_id)
        )

    @property
    def failed_tasks(self) -> dict[str, str]:
        """Title of each task that failed -> why, such as `{"Fine-tuning": "no machine"}`."""
        titles = self.titles
        return {
            titles.get(task.task_name, task.task_name): task.error.message or "see its log"
            for task in self.tasks
            if state_of(task) == FAILED
        }

    @property
    def failures(self) -> list[str]:
        """Which tasks failed and why. The run's own error if no task failed."""
        lines = [f"{title} failed: {why}" for title, why in self.failed_tasks.items()]
        return lines or [self.job.error.message or "no reason is given. See the run's page in the console"]


def state_of(part: Any) -> str:
    """The state of a run, a task or a schedule in plain words, such as `not-triggered`."""
    return str(part.state.name).removeprefix("PIPELINE_STATE_").lower().replace("_", "-")


def message_as_json(message: Any) -> dict[str, Any]:
    """A message of the API, such as a schedule, as the JSON that it sends."""
    return dict(type(message).to_dict(message, preserving_proto_field_name=False))


def has_cached_tasks(spec: Mapping[str, Any]) -> bool:
    """Whether a repeated run of the compiled pipeline `spec` takes results of any task from the cache."""
    return any(
        task.get("cachingOptions", {}).get("enableCache", False)
        for component in (spec["root"], *spec.get("components", {}).values())
        for task in component.get("dag", {}).get("tasks", {}).values()
    )


# === Titles ===


def titles_of(spec: Mapping[str, Any]) -> dict[str, str]:
    """Name of each task in the compiled pipeline `spec` -> its title.

    A task without a display name that is the only task of a nested pipeline has the title of that pipeline.
    """
    return dict(_titles(spec, spec["root"], ""))


def _titles(spec: Mapping[str, Any], component: Mapping[str, Any], around: str) -> Iterator[tuple[str, str]]:
    """The titles of the tasks in a component, at any depth. `around` is the title of the component itself."""
    tasks = component.get("dag", {}).get("tasks", {})
    for key, task in tasks.items():
        title = task.get("taskInfo", {}).get("name", key)
        has_own = title != key
        yield key, around if around and not has_own and len(tasks) == 1 else title
        inner = spec.get("components", {}).get(task["componentRef"]["name"], {})
        yield from _titles(spec, inner, title if has_own else around)
