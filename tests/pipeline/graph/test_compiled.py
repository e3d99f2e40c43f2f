"""What a backend requires of the compiled files, and neither KFP's compiler nor `make check-kubeflow` notices."""

import pytest
import yaml

from pipeline.commands.compile import FILES
from pipeline.graph.environment import CONFIGS

TEXTS = {target: (CONFIGS.parent / name).read_text() for target, name in FILES.items()}
SPECS = {target: next(yaml.load_all(text, Loader=yaml.CSafeLoader)) for target, text in TEXTS.items()}
MAX_CPUS, MAX_MEMORY_GB = 96, 624
"""Limits of a task on Vertex AI (cloud.google.com/vertex-ai/docs/pipelines/machine-types)."""


def containers(spec):
    executors = spec["deploymentSpec"]["executors"]
    return {name: entry["container"] for name, entry in executors.items() if "container" in entry}


def dags(spec):
    """The pipeline, and each component that is made of tasks."""
    return [each for each in (spec["root"], *spec["components"].values()) if "dag" in each]


def test_file_for_vertex_is_one_document():
    """Vertex AI's client reads files of one document; settings of Kubernetes would be a second one."""
    assert len(list(yaml.load_all(TEXTS["vertex"], Loader=yaml.CSafeLoader))) == 1


@pytest.mark.parametrize("target", FILES)
def test_no_run_time_value_stands_where_no_backend_fills_it_in(target):
    """A channel in a text, or a placeholder in a variable of the environment, would arrive as it is written."""
    assert "{{channel:" not in TEXTS[target]
    variables = [each.get("env", []) for each in containers(SPECS[target]).values()]
    assert variables
    assert "{{$" not in str(variables)


@pytest.mark.parametrize("target", FILES)
def test_no_branches_return_artifacts(target):
    """Kubeflow 2.16 takes the artifact of the last branch, run or not. URIs may be chosen."""
    outputs = [dag["dag"].get("outputs", {}) for dag in dags(SPECS[target])]
    artifacts = [each for output in outputs for each in output.get("artifacts", {}).values()]
    assert artifacts
    assert {len(each["artifactSelectors"]) for each in artifacts} == {1}


@pytest.mark.parametrize("target", FILES)
def test_only_containers_are_retried_after_a_pause(target):
    """Kubeflow retries containers alone, and Argo takes whole factors alone."""
    spec = SPECS[target]
    retried = [task for dag in dags(spec) for task in dag["dag"]["tasks"].values() if "retryPolicy" in task]
    assert retried
    for task in retried:
        component, policy = spec["components"][task["componentRef"]["name"]], task["retryPolicy"]
        assert "dag" in component or component["executorLabel"] in containers(spec)
        assert policy["maxRetryCount"] >= 1
        assert policy["backoffDuration"]
        assert float(policy.get("backoffFactor", 2)).is_integer()


def test_tasks_fit_the_machines_of_vertex():
    sizes = [each["resources"] for each in containers(SPECS["vertex"]).values() if "resources" in each]
    assert sizes
    for size in sizes:
        assert 0 < size.get("cpuLimit", 1) <= MAX_CPUS
        assert 0 < size.get("memoryLimit", 1) <= MAX_MEMORY_GB
