"""The names of the pipeline and of its tasks, and the titles of a compiled pipeline's tasks. Loads no kfp."""

from collections.abc import Iterator, Mapping
from typing import Any

NAME = "msinet"
NEVER_CACHED = ("check-registry", "fingerprint", "named-model", "importer", "evaluate-model", "upload-model")
"""Tasks whose result depends on more than their inputs: on the current source or registry."""


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
