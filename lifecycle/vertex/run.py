"""A run on Vertex AI as the API describes it: its state, its tasks with their titles, and what failed."""

from collections.abc import Iterator, Mapping
from typing import Any

FAILED = "failed"


def state_of(job: Any) -> str:
    """The state of a run or a task in plain words, such as `running`."""
    return str(job.state.name).removeprefix("PIPELINE_STATE_").lower().replace("_", "-")


def titles_of_job(job: Any) -> dict[str, str]:
    """The titles of a run's tasks, by the tasks' names."""
    return titles_of(message_as_json(job)["pipelineSpec"])


def message_as_json(job: Any) -> dict[str, Any]:
    """A run as the JSON that the API sends."""
    return dict(type(job).to_dict(job, preserving_proto_field_name=False))


def tasks_of(job: Any) -> list[Any]:
    """The tasks of a run in the order they started, without the DAGs that contain them."""
    details = list(job.job_detail.task_details)
    parents = {task.parent_task_id for task in details}
    leaves = [task for task in details if task.task_id not in parents]
    return sorted(leaves, key=lambda task: (not task.start_time, task.start_time or task.task_id, task.task_id))


def failed_tasks(job: Any, titles: Mapping[str, str]) -> dict[str, str]:
    """Title of each task that failed -> why."""
    return {
        titles.get(task.task_name, task.task_name): task.error.message or "see its log"
        for task in tasks_of(job)
        if state_of(task) == FAILED
    }


def failures(job: Any, titles: Mapping[str, str]) -> list[str]:
    """Which tasks failed and why; the run's own error if no task failed."""
    lines = [f"{title} failed: {why}" for title, why in failed_tasks(job, titles).items()]
    return lines or [job.error.message or "no reason is given; see the run's page in the console"]


# === Titles ===


def titles_of(spec: Mapping[str, Any]) -> dict[str, str]:
    """Name of each task in the compiled pipeline `spec` -> its title.

    A task without a display name that is the only task of a nested pipeline has the title of that pipeline.
    """
    return dict(_titles(spec, spec["root"], ""))


def _titles(spec: Mapping[str, Any], component: Mapping[str, Any], around: str) -> Iterator[tuple[str, str]]:
    """The titles of the tasks in a component, at any depth; `around` is the title of the component itself."""
    tasks = component.get("dag", {}).get("tasks", {})
    for key, task in tasks.items():
        title = task.get("taskInfo", {}).get("name", key)
        has_own = title != key
        yield key, around if around and not has_own and len(tasks) == 1 else title
        inner = spec.get("components", {}).get(task["componentRef"]["name"], {})
        yield from _titles(spec, inner, title if has_own else around)
