"""Finds where a compiled pipeline breaks a rule of a backend: one function for each row of `rules.RULES`."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.graph.compiled import Compiled
from pipeline.graph.environment import MAX_ADDRESSES
from pipeline.graph.titles import NEVER_CACHED
from pipeline.plan.settings import parse_labels
from trainer.errors import UserError

MAX_ARGUMENT_BYTES = 128 * 1024
MAX_OBJECT_BYTES = 3 * 2**19
MAX_RUN_ID = 128
TIMESTAMP = len("-20261122213000")
"""aiplatform makes the id of a run from the pipeline's name and the time."""
MAX_WORKFLOW_NAME = 63 - len("-abcde")
"""Kubernetes adds random characters, and cuts the name if both have more than 63."""
MAX_ARGO_NAME = 128
ARGO_SUFFIX = "-driver"
"""Kubeflow adds a task of this suffix to each of ours."""
POD_LABEL = r"[a-zA-Z0-9]([-a-zA-Z0-9_.]{0,61}[a-zA-Z0-9])?"
MAX_CPUS, MAX_MEMORY_GB = 96, 624
GB = {"": 1e-9, "K": 1e-6, "M": 1e-3, "G": 1.0, "Ki": 1.024e-6, "Mi": 1.024**2 / 1e3, "Gi": 1.024**3}
"""Unit of memory -> gigabytes."""

Places = Iterator[str]
"""Where a pipeline breaks a rule, and with which value."""


# === Importers ===


def uri_of_importer(compiled: Compiled) -> Places:
    for task in compiled.importers():
        uri = task.executor["importer"].get("artifactUri", {})
        given = task.parameters.get(uri.get("runtimeParameter", ""), {})
        if "componentInputParameter" not in given and not uri.get("constant"):
            yield f"{task} takes its URI from {_kind(given) or 'nothing'}"


def name_of_importer(compiled: Compiled) -> Places:
    for task in compiled.importers():
        if task.title != task.name:
            yield f"{task} has the display name {task.title!r}"


def condition_of_importer(compiled: Compiled) -> Places:
    for task in compiled.importers():
        if task.condition:
            yield f"{task} runs only if {task.condition}"


# === The graph ===


def references(compiled: Compiled) -> Places:
    for task in compiled.tasks:
        if not task.component:
            yield f"{task} refers to {task.spec['componentRef']}"
        elif not task.subtasks and not task.executor:
            yield f"{task} has no executor {task.component.get('executorLabel')!r}"


def executors(compiled: Compiled) -> Places:
    for name, executor in compiled.executors.items():
        if not {"container", "importer"} & executor.keys():
            yield f"{name} is {_kind(executor) or 'empty'}"


def producers(compiled: Compiled) -> Places:
    for task in compiled.tasks:
        for name in task.spec.get("dependentTasks", ()):
            if name not in task.siblings:
                yield f"{task} waits for {name!r}"
        for kind, given in task.inputs:
            if source := given.get(f"taskOutput{kind}"):
                producer, key = source.get("producerTask"), source.get(f"output{kind}Key")
                if producer not in task.siblings or key not in task.siblings[producer].outputs(kind):
                    yield f"{task} reads the output {key!r} of {producer!r}"


def parents(compiled: Compiled) -> Places:
    for task in compiled.tasks:
        for kind, given in task.inputs:
            name = given.get(f"componentInput{kind}")
            if name is not None and name not in task.around.inputs(kind):
                yield f"{task} reads the input {name!r} of {task.around}"


def required(compiled: Compiled) -> Places:
    for task in compiled.tasks:
        for kind, given in (("Parameter", task.parameters), ("Artifact", task.artifacts)):
            for name, declared in task.declared(kind).items():
                if name not in given and not declared.get("isOptional") and "defaultValue" not in declared:
                    yield f"{task} gets no {kind.lower()} {name!r}"


def branches(compiled: Compiled) -> Places:
    for task in compiled.tasks:
        for kind, given in task.inputs:
            producer = task.siblings.get(given.get(f"taskOutput{kind}", {}).get("producerTask"))
            if producer and producer.condition:
                yield f"{task} reads an output of {producer.name!r}, which may be skipped"
    for around in compiled.dags:
        for name, output in around.outputs("Parameter").items():
            single = output.get("valueFromParameter", {}).get("producerSubtask")
            subtask = around.subtasks.get(single)
            if subtask and subtask.condition:
                yield f"output {name!r} of {around} comes from {single!r}, which may be skipped"
            for selector in output.get("valueFromOneof", {}).get("parameterSelectors", ()):
                chosen = selector.get("producerSubtask")
                if not getattr(around.subtasks.get(chosen), "condition", ""):
                    yield f"output {name!r} of {around} chooses {chosen!r}, which is no branch of it"


def conditions(compiled: Compiled) -> Places:
    for task in compiled.tasks:
        for name in re.findall(r"inputs\.parameter_values\['([^']+)'\]", task.condition):
            if name not in task.parameters:
                yield f"{task} depends on {name!r}, which is no input of it"


def choices(compiled: Compiled) -> Places:
    for around in compiled.dags:
        for name, output in around.outputs("Artifact").items():
            if len(output.get("artifactSelectors", ())) > 1:
                yield f"output {name!r} of {around}"


def iterators(compiled: Compiled) -> Places:
    for task in compiled.tasks:
        if "artifactIterator" in task.spec:
            yield str(task)


# === Constants and run-time values ===


def channels(compiled: Compiled) -> Places:
    for found in sorted(set(re.findall(r"\{\{channel:[^}]*", compiled.text))):
        yield f"{found}}}}}"


def variables(compiled: Compiled) -> Places:
    for name, executor in compiled.executors.items():
        for variable in executor.get("container", {}).get("env", ()):
            if "{{$" in str(variable.get("value", "")):
                yield f"{variable['name']} of {name} is {variable['value']}"


def platform(compiled: Compiled) -> Places:
    for name, settings in compiled.platform.items():
        users = [task for task in compiled.tasks if task.component.get("executorLabel") == name]
        if not users:
            yield f"{name} is no executor of the pipeline"
        for found in _values(settings, "taskOutputParameter"):
            for task in users:
                if found.get("producerTask") not in task.siblings:
                    yield f"{name} reads {found.get('producerTask')!r}, which is not beside {task}"


def documents(compiled: Compiled) -> Places:
    if compiled.platform:
        yield f"a second document with settings of {', '.join(compiled.platform)}"


# === Policies ===


def retries(compiled: Compiled) -> Places:
    for task in compiled.tasks:
        policy = task.spec.get("retryPolicy")
        if policy is None:
            continue
        if task.executor and "container" not in task.executor:
            yield f"{task} is retried, but has no container"
        if not policy.get("maxRetryCount") or not policy.get("backoffDuration"):
            yield f"{task} has maxRetryCount {policy.get('maxRetryCount')}, pause {policy.get('backoffDuration')}"
        if not float(policy.get("backoffFactor", 2)).is_integer():
            yield f"{task} has backoffFactor {policy['backoffFactor']}"


def caches(compiled: Compiled) -> Places:
    for task in compiled.tasks:
        component = re.sub(r"^comp-|-\d+$", "", task.spec["componentRef"].get("name", ""))
        if component in NEVER_CACHED and task.spec.get("cachingOptions", {}).get("enableCache"):
            yield str(task)


# === Names, sizes and counts ===


def run_id(compiled: Compiled) -> Places:
    if not re.fullmatch(rf"[a-z][-a-z0-9]{{0,{MAX_RUN_ID - TIMESTAMP - 1}}}", compiled.name):
        yield f"{compiled.name!r} has {len(compiled.name)} characters"


def workflow_name(compiled: Compiled) -> Places:
    if not re.fullmatch(rf"[a-z0-9][-a-z0-9]{{0,{MAX_WORKFLOW_NAME - 1}}}", compiled.name):
        yield f"{compiled.name!r} has {len(compiled.name)} characters"


def task_names(compiled: Compiled) -> Places:
    for task in compiled.tasks:
        if not re.fullmatch("[a-zA-Z0-9][-a-zA-Z0-9]*", task.name) or len(task.name + ARGO_SUFFIX) > MAX_ARGO_NAME:
            yield f"{task} has {len(task.name)} characters"


def job_labels(compiled: Compiled) -> Places:
    declared = compiled.spec["root"]["inputDefinitions"]["parameters"]
    try:
        parse_labels(declared.get("training_labels", {}).get("defaultValue", ""))
    except UserError as error:
        yield str(error)


def pod_labels(compiled: Compiled) -> Places:
    for executor, settings in compiled.platform.items():
        for labels in _values(settings, "labels"):
            for key, value in labels.items():
                if not re.fullmatch(POD_LABEL, key.rpartition("/")[2]) or not re.fullmatch(
                    POD_LABEL, value or "x"
                ):
                    yield f"{executor} has {key}={value}"


def recipients(compiled: Compiled) -> Places:
    for task in compiled.tasks:
        addresses = task.parameters.get("recipients", {}).get("runtimeValue", {}).get("constant", ())
        if len(addresses) > MAX_ADDRESSES:
            yield f"{task} has {len(addresses)} recipients"


def machines(compiled: Compiled) -> Places:
    for name, executor in compiled.executors.items():
        machine = executor.get("container", {}).get("resources", {})
        cpus, memory = machine.get("resourceCpuLimit"), machine.get("resourceMemoryLimit")
        if cpus is not None and not 0 < _cpus(cpus) <= MAX_CPUS:
            yield f"{name} asks for {cpus} CPUs"
        if memory is not None and not 0 < _gigabytes(memory) <= MAX_MEMORY_GB:
            yield f"{name} asks for {memory} of memory"


def arguments(compiled: Compiled) -> Places:
    sized = [(f"component of {around}", around.component) for around in compiled.dags]
    sized += [(f"container {name}", executor) for name, executor in compiled.executors.items()]
    sized += [(str(task), task.spec) for task in compiled.tasks]
    for name, value in sized:
        if (size := _bytes(value)) >= MAX_ARGUMENT_BYTES:
            yield f"{name} has {size} bytes as JSON"


def workflow_size(compiled: Compiled) -> Places:
    if (size := _bytes(compiled.documents)) >= MAX_OBJECT_BYTES:
        yield f"it has {size} bytes as JSON"


def _bytes(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())


def _cpus(text: str) -> float:
    """Number of CPUs of `text`; NaN if it is no number, with or without an m for thousandths."""
    found = re.fullmatch(r"([\d.]+)(m?)", str(text))
    return float(found[1]) / (1000 if found[2] else 1) if found else float("nan")


def _gigabytes(text: str) -> float:
    """Gigabytes of `text`; NaN if it is no size."""
    found = re.fullmatch(r"([\d.]+)([KMG]i?)?", str(text))
    return float(found[1]) * GB[found[2] or ""] if found else float("nan")


def _kind(message: Mapping[str, Any]) -> str:
    return ", ".join(message)


def _values(value: Any, key: str) -> Iterator[Any]:
    """Every value of `key` in a nested message."""
    if isinstance(value, dict):
        for name, item in value.items():
            if name == key:
                yield item
            yield from _values(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from _values(item, key)
