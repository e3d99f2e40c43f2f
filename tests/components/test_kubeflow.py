"""Each task with the input that Kubeflow Pipelines 2.17.0 handed to it in a real run of pipeline-kubeflow.yaml.

tests/golden/kubeflow/ has these inputs as the launcher printed them; only paths of the pod are replaced here. What
differs from other backends is above all that artifacts come without the name of their class (`schemaTitle`).
"""

import json
import os
import pathlib
import sys

import pytest
import yaml
from kfp.dsl import executor_main
from kfp.dsl.types import artifact_types

from tests.narrow import narrow_pretrained, narrowed, shared_steps
from tests.narrow_tasks import sitecustomize
from trainer import artifacts
from trainer.models import weight_sources

ROOT = pathlib.Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "golden" / "kubeflow"
ORDER = [
    *("fetch-dataset", "fetch-dataset-2", "fetch-dataset-3"),
    *("plan-training", "train-model", "plan-training-2", "train-model-2"),
    *("import-model", "evaluate-model", "upload-model"),
]
"""The recorded tasks, each after those whose outputs it reads."""
FIELDS = {"base_source": "sample", "finetune_source": "sample", "base_image_size": "72x96"}
FIELDS |= {"finetune_image_size": "72x96", "base_batch_size": 4, "finetune_batch_size": 4, "base_model_uri": ""}
EPOCHS = {"base_epochs": 1, "finetune_epochs": 1, "initial_weights": "none", "max_examples": 16}
SETTINGS = {**EPOCHS, "base_learning_rate": 2e-4, "finetune_learning_rate": 1e-4, "evaluate_base": True}
"""The form of the recorded run, whose parameters were not one object yet."""


@pytest.fixture(scope="module", autouse=True)
def narrow():
    with narrowed(), narrow_pretrained(), shared_steps():
        yield


class Pods:
    """Runs tasks as their pods do, with the folders of the pods below `root`."""

    def __init__(self, root):
        self.root = root
        (spec, _) = yaml.safe_load_all((ROOT / "pipeline-kubeflow.yaml").read_text())
        self.spec, self.executors = spec, spec["deploymentSpec"]["executors"]

    def recorded(self, task):
        """The recorded input of `task`, on paths below `root`."""
        text = (RECORDED / f"{task}.json").read_text()
        for folder in ("/minio/", "/tmp/kfp/", "/data/"):
            text = text.replace(f'"{folder}', f'"{self.root}{folder}')
        message = json.loads(text)
        recorded = message["outputs"]["artifacts"]
        declared = self.spec["components"][f"comp-{task}"].get("outputDefinitions", {}).get("artifacts", {})
        for name in set(declared) - set(recorded):  # outputs of later versions
            (log,) = recorded["executor-logs"]["artifacts"]
            uri = log["uri"].replace("executor-logs-0", name)
            recorded[name] = {"artifacts": [{"name": name, "type": declared[name]["artifactType"], "uri": uri}]}
        return message

    def parameters(self, task, outputs):
        """The input parameters of `task`, from the form, constants, and the `outputs` of the tasks before it."""
        dags = [self.spec["root"], *self.spec["components"].values()]
        (found,) = [each["dag"]["tasks"][task] for each in dags if task in each.get("dag", {}).get("tasks", {})]
        form = {
            name: field.get("defaultValue")
            for name, field in self.spec["root"]["inputDefinitions"]["parameters"].items()
        }
        form |= {**FIELDS, "settings": self.settings}
        told = {f"{task}-{name}": value for task, values in outputs.items() for name, value in values.items()}
        given = {}
        for name, source in found["inputs"].get("parameters", {}).items():
            if output := source.get("taskOutputParameter"):
                given[name] = outputs[output["producerTask"]][output["outputParameterKey"]]
            elif parameter := source.get("componentInputParameter"):
                given[name] = (form | told)[parameter.removeprefix("pipelinechannel--")]
            else:
                given[name] = source["runtimeValue"]["constant"]
        return given

    @property
    def settings(self):
        """The settings of the recorded run, on paths below `root`."""
        return {
            **SETTINGS,
            "registry": f"{self.root}/data/models",
            "checkpoint_dir": f"{self.root}/data/checkpoints",
        }

    def run(self, task, message):
        """Run the compiled code of `task`; return its output parameters."""
        command = self.executors[f"exec-{task}"]["container"]["command"]
        module = self.root / f"{task}.py"
        module.write_text(command[-1])
        function = task.rstrip("-0123456789").replace("-", "_")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(artifact_types, "_MINIO_LOCAL_MOUNT_PREFIX", f"{self.root}/minio/")
            words = ["executor_main", "--component_module_path", str(module), "--function_to_execute", function]
            patch.setattr(sys, "argv", [*words, "--executor_input", json.dumps(message)])
            executor_main.executor_main()
        return json.loads(pathlib.Path(message["outputs"]["outputFile"]).read_text()).get("parameterValues", {})


@pytest.fixture(scope="module")
def pods(tmp_path_factory):
    return Pods(tmp_path_factory.mktemp("pods"))


@pytest.fixture(scope="module")
def outputs(pods):
    """The output parameters of the tasks that have run; first of `check_run`, which was not recorded."""
    message = {"inputs": {"parameterValues": pods.parameters("check-run", {})}}
    message["outputs"] = {"outputFile": f"{pods.root}/check-run.json"}
    return {"check-run": pods.run("check-run", message)}


def test_every_recorded_input_is_replayed():
    assert sorted(ORDER) == sorted(path.stem for path in RECORDED.glob("*.json"))


@pytest.mark.parametrize("task", ORDER)
def test_task_takes_what_kubeflow_hands_to_it(pods, outputs, task, monkeypatch):
    message = pods.recorded(task)
    given = message["inputs"]["parameterValues"]
    if task == "evaluate-model":  # the check of the data was not recorded
        outputs["check-data"] = {"warnings": []}
    given |= pods.parameters(task, outputs)
    if task == "import-model":  # in a process of its own; the recorded model, `pretrained`, is no narrow network
        monkeypatch.setenv(
            "PYTHONPATH", os.pathsep.join([str(pathlib.Path(sitecustomize.__file__).parent), str(ROOT)])
        )
        given["base_model_uri"] = outputs["train-model"]["Output"].replace("minio://", f"{pods.root}/minio/")
        given["fingerprint"] = weight_sources.fingerprint(given["base_model_uri"])
    outputs[task] = pods.run(task, message)


def test_run_ends_with_a_version_that_is_fine_tuned_from_the_base_model(pods, outputs):
    assert outputs["upload-model"] == {"version": 1, "alias": "challenger", "Output": ""}
    config = json.loads(
        next(pods.root.glob(f"minio/**/train-model-2/*/model/{artifacts.MODEL_CONFIG}")).read_text()
    )
    assert config["base_model"]["dataset"] == "sample-maps"
