"""Kubeflow's own code reads the compiled pipeline: `make check-kubeflow` runs this.

tests/kubeflow/ is a program of Kubeflow's compiler, Argo's validation and Kubeflow's importer, built with two
releases: 2.1.0 (go.mod) and 2.0.5 (older.mod). From 2.5 on, Kubeflow replaces modules of its own by folders, so no
other program can require it as it is. The driver is left out: before 2.14 it does not find the outputs of tasks
that have a display name. The rules of `pipeline.graph.rules` follow 2.17.0; these tests compare them with code.
"""

import functools
import re
import subprocess

import pytest

from tests.pipeline.graph import test_rules as rules

PROGRAM = rules.CONFIGS.parent / "tests" / "kubeflow"
RELEASES = {"2.1.0": "go.mod", "2.0.5": "older.mod"}
"""Release of Kubeflow -> the file that pins it and all that it needs."""
REFUSED = {
    rules.from_a_task: 'task "importer" of root: .*parent DAG does not have input parameter',
    rules.from_a_constant_input: 'task "importer" of comp-named-model: .*parent DAG does not have input parameter',
    rules.condition_of_importer: "triggerPolicy.condition on importer task is not supported",
    rules.no_component: 'cannot find component ref name="comp-evaluate-model"',
    rules.no_executor: r'executor\(label="exec-evaluate-model"\) not found in deployment config',
    rules.custom_job: "non-container and non-importer executor not implemented",
    rules.unknown_producer: 'unknown producer task "x" in DAG',
    rules.unknown_dependency: "invalid dependency import-model",
    rules.artifact_iterator: "artifact iterator not implemented yet",
    rules.long_task_name: "'m{122}-driver' is invalid: must be no more than 128 characters",
}
"""What breaks a rule, in this code's own words."""


@pytest.fixture(scope="module", params=RELEASES)
def program(request, tmp_path_factory):
    """The program with a release of Kubeflow. The first build of it takes minutes."""
    path = tmp_path_factory.mktemp("kubeflow") / "judge"
    command = ["go", "build", f"-modfile={RELEASES[request.param]}", "-o", path, "."]
    subprocess.run(command, cwd=PROGRAM, check=True)
    return functools.partial(subprocess.run, [path], capture_output=True, text=True, check=False)


def test_committed_pipeline_becomes_a_valid_workflow(program):
    finished = program(input=rules.TEXTS["kubeflow"])
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.startswith("an Argo workflow of ")
    assert 'task "importer" of comp-named-model imports gs://bucket/uri' in finished.stdout


@pytest.mark.parametrize("breach", REFUSED)
def test_what_breaks_a_rule_is_refused(program, breach):
    pipeline = rules.Broken("kubeflow")
    breach(pipeline)
    finished = program(input=rules.text_of(pipeline))
    assert finished.returncode == 1, finished.stdout
    assert re.search(REFUSED[breach], finished.stderr), finished.stderr
