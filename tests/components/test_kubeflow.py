"""Each task with the input that Kubeflow Pipelines 2.17.0 handed to it in a real run of pipeline-kubeflow.yaml.

tests/golden/kubeflow/ has these inputs, as `make check-cluster KFP=FOLDER RECORD=1` recorded them from the pods
of its runs; a component's new input can also be added to them by hand. The tasks go on in the order of their run,
each with the outputs of those before it. Only the folders of the pods and the length of the trainings are
changed. What differs from other backends is above all that artifacts come without the name of their class
(`schemaTitle`).
"""

import json
import os
import pathlib
import sys

import pytest
import yaml
from kfp.dsl import executor_main
from kfp.dsl.types import artifact_types

from tests.gcs import create_bucket
from tests.narrow import narrow_pretrained, narrowed, shared_steps
from tests.narrow_tasks import sitecustomize
from tests.refusals import refused
from trainer.errors import UnknownNameError
from trainer.models.weight_sources import WeightSource
from trainer.network import model_folder

ROOT = pathlib.Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "golden" / "kubeflow"
FETCHED = ("fetch-dataset", "fetch-dataset-2", "fetch-dataset-3")
TRAINED = ("plan-training", "train-model", "end-branch")
TUNED = ("plan-training-2", "train-model-2")
LAST = ("evaluate-model", "upload-model", "report-end")
RUNS = {
    "sample": ["check-run", *FETCHED, "check-data", *TRAINED, *TUNED, *LAST],
    "again": ["check-run", "check-data", "end-branch", *LAST],
    "imported": ["check-run", "check-data", "import-model", "end-branch-2", *TUNED, *LAST],
    "bucket": ["check-run", *FETCHED, "check-data", *TRAINED, *TUNED, *LAST],
    "recurring": ["check-run", "report-end"],
}
"""Run -> its tasks that were not in the cache, in their order."""
REFUSED = {"wrong-check-run": (UnknownNameError, "l5", "l4")}
"""A recorded input that a user got wrong -> the kind of the mistake, and what the task names."""
OTHERS = ["wrong-report-end", *REFUSED]
"""Inputs of other runs."""
SHORTER = {"max_examples": 4, "epochs": 1}
"""Settings in place of those of the recorded run, where a task has them."""


@pytest.fixture(scope="module", autouse=True)
def narrow():
    with narrowed(), narrow_pretrained(), shared_steps():
        yield


@pytest.fixture(scope="module")
def storage_address(gcs_url):
    """Address of a Cloud Storage with the bucket of one of the runs."""
    create_bucket(gcs_url, "msinet")
    return gcs_url


class Pods:
    """Runs tasks as their pods do, with the folders of the pods below `root`."""

    def __init__(self, root):
        self.root = root
        (spec, _) = yaml.safe_load_all((ROOT / "pipeline-kubeflow.yaml").read_text())
        self.executors = spec["deploymentSpec"]["executors"]

    def recorded(self, name):
        """The recorded input `name`, on paths below `root`."""
        text = (RECORDED / f"{name}.json").read_text()
        for folder in ("/minio/", "/tmp/kfp/", "/data/"):
            text = text.replace(f'"{folder}', f'"{self.root}{folder}')
        message = json.loads(text)
        settings = message["inputs"]["parameterValues"].get("settings", {})
        settings |= {key: value for key, value in SHORTER.items() if key in settings}
        return message

    def run(self, task, message):
        """Run the compiled code of `task`; return its output parameters."""
        if task == "report-end":  # of pipelines that are compiled with a webhook
            from components.report_end import report_end

            command = report_end.component_spec.implementation.container.command
        else:
            command = self.executors[f"exec-{task}"]["container"]["command"]
        module = self.root / f"{task}.py"
        module.write_text(command[-1])
        function = task.rstrip("-0123456789").replace("-", "_")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(artifact_types, "_MINIO_LOCAL_MOUNT_PREFIX", f"{self.root}/minio/")
            words = ["executor_main", "--component_module_path", str(module), "--function_to_execute", function]
            patch.setattr(sys, "argv", [*words, "--executor_input", json.dumps(message)])
            executor_main.executor_main()
        written = pathlib.Path(message["outputs"]["outputFile"])
        return json.loads(written.read_text()).get("parameterValues", {}) if written.exists() else {}


@pytest.fixture(scope="module")
def pods(tmp_path_factory):
    return Pods(tmp_path_factory.mktemp("pods"))


class Outputs(dict):
    """The output parameters of the tasks that have run."""

    def __missing__(self, task):
        pytest.skip(f"takes the outputs of {' / '.join(task)}, which has not run")


@pytest.fixture(scope="module")
def outputs():
    return Outputs()


def test_every_recorded_input_is_replayed():
    recorded = {path.stem for path in RECORDED.glob("*.json")}
    assert recorded == {*(f"{run}-{task}" for run, tasks in RUNS.items() for task in tasks), *OTHERS}


@pytest.mark.parametrize(("run", "task"), [(run, task) for run, tasks in RUNS.items() for task in tasks])
def test_task_takes_what_kubeflow_hands_to_it(pods, outputs, storage_address, run, task, monkeypatch):
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", storage_address)
    message = pods.recorded(f"{run}-{task}")
    if task == "import-model":  # in a process of its own; the recorded model, `pretrained`, is no narrow network
        folders = [str(pathlib.Path(sitecustomize.__file__).parent), str(ROOT)]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(folders))
        uri = outputs["sample", "train-model"]["Output"].replace("minio://", f"{pods.root}/minio/")
        given = message["inputs"]["parameterValues"]
        given |= {"base_model_uri": uri, "fingerprint": WeightSource(uri).fingerprint()}
    outputs[run, task] = pods.run(task, message)


HANDED_ON = {
    ("check-run", "base_training"): "plan-training",
    ("check-run", "finetune_training"): "plan-training-2",
    ("plan-training", "settings"): "train-model",
    ("plan-training-2", "settings"): "train-model-2",
}
"""Task and its output -> the task that takes it as `settings`."""


@pytest.mark.parametrize(
    ("run", "task", "name"),
    [(run, *output) for run, tasks in RUNS.items() for output, taker in HANDED_ON.items() if taker in tasks],
)
def test_settings_that_a_task_hands_on_are_those_that_the_next_one_takes(pods, outputs, run, task, name):
    message = pods.recorded(f"{run}-{HANDED_ON[task, name]}")
    expected = message["inputs"]["parameterValues"]["settings"]
    assert outputs[run, task][name] | SHORTER == expected | SHORTER


def test_runs_end_with_a_version_that_is_fine_tuned_from_the_base_model(pods, outputs):
    # All have the same weights. A run adds those from the cache, and not those that it has made again.
    versions = {"sample": 1, "again": 2, "imported": 1, "bucket": 1}
    for run, version in versions.items():
        assert outputs[run, "upload-model"]["version"] == version
        assert outputs[run, "upload-model"]["alias"] == "challenger"
    tuned = list(pods.root.glob(f"minio/**/train-model-2/*/model/{model_folder.MODEL_CONFIG}"))
    assert len(tuned) == sum("train-model-2" in tasks for tasks in RUNS.values())
    for path in tuned:
        assert json.loads(path.read_text())["base_model"]["dataset"] == "sample-maps"


def test_branch_ends_with_the_uri_of_its_model(pods, outputs):
    given = pods.recorded("imported-end-branch-2")["inputs"]["parameterValues"]
    assert outputs["imported", "end-branch-2"] == {"Output": given["uri"]}


@pytest.mark.parametrize(("name", "named"), REFUSED.items())
def test_wrong_parameter_is_refused(pods, name, named):
    with refused(*named):
        pods.run(name.partition("-")[2], pods.recorded(name))


def test_end_of_a_failed_run_is_told(pods, capsys):
    pods.run("report-end", pods.recorded("wrong-report-end"))
    assert "msinet: failed. " in capsys.readouterr().out
