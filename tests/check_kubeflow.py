"""Kubeflow's own code reads the compiled pipeline: `make check-kubeflow` runs this.

tests/kubeflow/ is a program of Kubeflow's compiler, Argo's validation and Kubeflow's importer, built with two
releases: 2.1.0 (go.mod) and 2.0.5 (older.mod). From 2.5 on, Kubeflow replaces modules of its own by folders, so no
other program can require it as it is. The driver is left out: before 2.14 it does not find the outputs of tasks
that have a display name.
"""

import copy
import functools
import json
import pathlib
import re
import subprocess

import pytest
import yaml

ROOT = pathlib.Path(__file__).parent.parent
PROGRAM = ROOT / "tests" / "kubeflow"
RELEASES = {"2.1.0": "go.mod", "2.0.5": "older.mod"}
"""Release of Kubeflow -> the file that pins it and all that it needs."""
TEXT = (ROOT / "pipeline-kubeflow.yaml").read_text()
DOCUMENTS = list(yaml.load_all(TEXT, Loader=yaml.CSafeLoader))


def importer_beside_branches(branch, importer):
    """As dsl.importer(artifact_uri=dsl.OneOf(...)) compiles: its URI comes from the output of a task."""
    uri = branch["named-model"]["inputs"]["parameters"]["uri"]
    assert "taskOutputParameter" in uri
    branch["importer"] = {**importer, "inputs": {"parameters": {"uri": uri}}}


def condition_of_importer(branch, importer):
    importer["triggerPolicy"] = {"condition": "inputs.parameter_values['uri'] != ''"}


def unknown_producer(branch, importer):
    branch["upload-model"]["inputs"]["artifacts"]["evaluation"]["taskOutputArtifact"]["producerTask"] = "x"


def long_task_name(branch, importer):
    branch["m" * 122] = branch["upload-model"]


REFUSED = {
    importer_beside_branches: 'task "importer" of comp-condition-1: .*parent DAG does not have input parameter',
    condition_of_importer: "triggerPolicy.condition on importer task is not supported",
    unknown_producer: 'unknown producer task "x" in DAG',
    long_task_name: "'m{122}-driver' is invalid: must be no more than 128 characters",
}
"""A change of the pipeline -> how the importer, the compiler or Argo's validation refuses it, in its own words."""


@pytest.fixture(scope="module", params=RELEASES)
def program(request, tmp_path_factory):
    """The program with a release of Kubeflow. The first build of it takes minutes."""
    path = tmp_path_factory.mktemp("kubeflow") / "judge"
    command = ["go", "build", f"-modfile={RELEASES[request.param]}", "-o", path, "."]
    subprocess.run(command, cwd=PROGRAM, check=True)
    return functools.partial(subprocess.run, [path], capture_output=True, text=True, check=False)


def test_committed_pipeline_becomes_a_valid_workflow(program):
    finished = program(input=TEXT)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.startswith("an Argo workflow of ")
    assert 'task "importer" of comp-named-model imports gs://bucket/uri' in finished.stdout


@pytest.mark.parametrize("change", REFUSED)
def test_wrong_pipeline_is_refused(program, change):
    documents = copy.deepcopy(DOCUMENTS)
    spec = documents[0]
    named = spec["components"]["comp-named-model"]["dag"]["tasks"]
    branch = spec["components"]["comp-condition-1"]["dag"]["tasks"]
    change(branch, named["importer"])
    finished = program(input="\n---\n".join(map(json.dumps, documents)))
    assert finished.returncode == 1, finished.stdout
    assert re.search(REFUSED[change], finished.stderr), finished.stderr
