"""What a backend requires of the compiled files, and neither KFP's compiler nor `make check-kubeflow` notices."""

import pytest
import yaml

from pipeline.commands.compile import FILES
from pipeline.graph.environment import CONFIGS

TEXTS = {target: (CONFIGS.parent / name).read_text() for target, name in FILES.items()}
SPECS = {target: next(yaml.load_all(text, Loader=yaml.CSafeLoader)) for target, text in TEXTS.items()}


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
    # The base model is an artifact for the task that trains on Kubeflow alone.
    assert {len(each["artifactSelectors"]) for each in artifacts} == ({1} if target == "kubeflow" else set())
