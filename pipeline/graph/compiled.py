"""A compiled pipeline as its backends see it: its tasks at any depth, each with its component and its executor."""

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any

Message = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Dag:
    """A component that is made of tasks: the pipeline itself, a branch, or a nested pipeline."""

    name: str
    component: dict[str, Any]
    pipeline: "Compiled"

    def __str__(self) -> str:
        return self.name

    @functools.cached_property
    def subtasks(self) -> dict[str, "Task"]:
        tasks = self.component["dag"].get("tasks", {})
        return {name: Task(name, spec, self) for name, spec in tasks.items()}

    def inputs(self, kind: str) -> Message:
        return _declared(self.component, "inputDefinitions", kind)

    def outputs(self, kind: str) -> Message:
        found: Message = self.component["dag"].get("outputs", {}).get(f"{kind.lower()}s", {})
        return found


@dataclasses.dataclass(frozen=True)
class Task:
    """A task of a DAG. `kind` is Parameter or Artifact in its methods."""

    name: str
    spec: dict[str, Any]
    around: Dag

    def __str__(self) -> str:
        return f"task {self.name!r} of {self.around}"

    @property
    def component(self) -> dict[str, Any]:
        """Its component; empty if there is none of the name."""
        components = self.around.pipeline.spec.get("components", {})
        found: dict[str, Any] = components.get(self.spec["componentRef"].get("name"), {})
        return found

    @property
    def executor(self) -> dict[str, Any]:
        """Its container or importer; empty for a DAG."""
        found: dict[str, Any] = self.around.pipeline.executors.get(self.component.get("executorLabel", ""), {})
        return found

    @property
    def subtasks(self) -> bool:
        return "dag" in self.component

    @property
    def siblings(self) -> dict[str, "Task"]:
        return self.around.subtasks

    @property
    def title(self) -> str:
        return str(self.spec.get("taskInfo", {}).get("name", self.name))

    @property
    def condition(self) -> str:
        return str(self.spec.get("triggerPolicy", {}).get("condition", ""))

    @property
    def parameters(self) -> Message:
        found: Message = self.spec.get("inputs", {}).get("parameters", {})
        return found

    @property
    def artifacts(self) -> Message:
        found: Message = self.spec.get("inputs", {}).get("artifacts", {})
        return found

    @property
    def inputs(self) -> Iterator[tuple[str, Message]]:
        """The kind of each input and where its value comes from."""
        yield from (("Parameter", given) for given in self.parameters.values())
        yield from (("Artifact", given) for given in self.artifacts.values())

    def declared(self, kind: str) -> Message:
        """The inputs that the component declares."""
        return _declared(self.component, "inputDefinitions", kind)

    def outputs(self, kind: str) -> Message:
        return _declared(self.component, "outputDefinitions", kind)


@dataclasses.dataclass(frozen=True)
class Compiled:
    """The documents of a compiled pipeline: its specification, then the settings of platforms, if any."""

    text: str
    documents: list[dict[str, Any]]

    @classmethod
    def parse(cls, text: str) -> "Compiled":
        import yaml

        # The parser in C takes 0.1 s for our file, the one in Python 1 s.
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        return cls(text, list(yaml.load_all(text, Loader=loader)))

    @property
    def spec(self) -> dict[str, Any]:
        return self.documents[0]

    @property
    def name(self) -> str:
        return str(self.spec["pipelineInfo"]["name"])

    @property
    def executors(self) -> dict[str, Any]:
        found: dict[str, Any] = self.spec["deploymentSpec"]["executors"]
        return found

    @property
    def platform(self) -> dict[str, Any]:
        """Executor -> its settings of Kubernetes."""
        found: dict[str, Any] = {}
        for document in self.documents[1:]:
            for platform in document["platforms"].values():
                found |= platform["deploymentSpec"]["executors"]
        return found

    @functools.cached_property
    def dags(self) -> list[Dag]:
        components = {"root": self.spec["root"], **self.spec.get("components", {})}
        return [Dag(name, component, self) for name, component in components.items() if "dag" in component]

    @functools.cached_property
    def tasks(self) -> list[Task]:
        return [task for dag in self.dags for task in dag.subtasks.values()]

    def importers(self) -> Iterator[Task]:
        return (task for task in self.tasks if "importer" in task.executor)


def _declared(component: Message, definitions: str, kind: str) -> Message:
    found: Message = component.get(definitions, {}).get(f"{kind.lower()}s", {})
    return found
