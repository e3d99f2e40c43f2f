import pathlib

import pytest
import yaml

from pipeline import compile as compiling
from pipeline import settings
from pipeline.__main__ import main
from pipeline.dag import build
from pipeline.parameters import PARAMETERS
from pipeline.settings import TARGET_NAMES
from pipeline.worker import titles
from trainer.errors import UserError

GOLDEN = pathlib.Path(settings.__file__).parent.parent / "pipeline.yaml"
TYPES = {bool: "BOOLEAN", int: "NUMBER_INTEGER", float: "NUMBER_DOUBLE", str: "STRING"}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Target -> the pipeline as YAML has it."""
    folder = tmp_path_factory.mktemp("compiled")
    for target in TARGET_NAMES:
        compiling.write(settings.load(target), folder / f"{target}.yaml")
    return {target: yaml.safe_load((folder / f"{target}.yaml").read_text()) for target in TARGET_NAMES}


def tasks(pipeline):
    return pipeline["root"]["dag"]["tasks"]


def test_golden_file_is_what_the_code_compiles_to():
    compiling.check(settings.load("vertex"), GOLDEN)


def test_check_names_what_differs(tmp_path):
    stale = tmp_path / "pipeline.yaml"
    stale.write_text(GOLDEN.read_text().replace("defaultValue: 42.0", "defaultValue: 43.0"))
    with pytest.raises(UserError, match=r"(?s)make compile.*-.*43\.0.*\+.*42\.0"):
        main(["compile", "--check", "--output", str(stale)])


def test_golden_file_may_be_of_another_sdk_version(tmp_path):
    older = tmp_path / "pipeline.yaml"
    older.write_text(GOLDEN.read_text().replace("sdkVersion: kfp-", "sdkVersion: kfp-0"))
    assert main(["compile", "--check", "--output", str(older)]) == 0


@pytest.mark.parametrize("target", TARGET_NAMES)
def test_parameters_have_types_defaults_and_descriptions(compiled, target):
    inputs = compiled[target]["root"]["inputDefinitions"]["parameters"]
    assert set(inputs) == set(PARAMETERS)
    for name, parameter in PARAMETERS.items():
        assert inputs[name]["defaultValue"] == parameter.default
        assert inputs[name]["description"].split() == parameter.help.split()
        assert inputs[name]["parameterType"] == TYPES[parameter.kind]
        assert inputs[name]["isOptional"]


def test_targets_have_the_same_tasks_names_and_inputs(compiled):
    local, *others = compiled.values()
    for other in others:
        assert {name: task["inputs"] for name, task in tasks(other).items()} == {
            name: task["inputs"] for name, task in tasks(local).items()
        }
        assert {name: task["taskInfo"] for name, task in tasks(other).items()} == {
            name: task["taskInfo"] for name, task in tasks(local).items()
        }


def test_steps_are_in_the_order_of_the_design():
    order = list(titles(build("local").pipeline_spec))
    twice = ["fingerprint", "fetch-dataset", "train-model"]
    assert sorted(order) == sorted([*twice, *(f"{name}-2" for name in twice), "evaluate-model", "upload-model"])
    assert order.index("fingerprint") < order.index("fetch-dataset") < order.index("train-model")
    assert order.index("fetch-dataset-2") < order.index("train-model-2")
    assert order[-3:] == ["train-model-2", "evaluate-model", "upload-model"]


def test_fine_tuning_starts_from_the_base_model_and_base_training_from_none(compiled):
    artifacts = {name: task["inputs"].get("artifacts", {}) for name, task in tasks(compiled["vertex"]).items()}
    assert "base_model" not in artifacts["train-model"]
    base_model = artifacts["train-model-2"]["base_model"]["taskOutputArtifact"]
    assert base_model == {"producerTask": "train-model", "outputArtifactKey": "model"}
    candidate = artifacts["evaluate-model"]["model"]["taskOutputArtifact"]
    assert candidate["producerTask"] == artifacts["upload-model"]["model"]["taskOutputArtifact"]["producerTask"]
    assert candidate["producerTask"] == "train-model-2"


@pytest.mark.parametrize("target", TARGET_NAMES)
def test_only_what_follows_from_its_inputs_is_cached(compiled, target):
    cached = {name for name, task in tasks(compiled[target]).items() if task["cachingOptions"].get("enableCache")}
    data = {"fetch-dataset", "fetch-dataset-2"}
    assert cached == (data | {"train-model", "train-model-2"} if target == "vertex" else data)


def test_parameter_goes_to_the_component_argument_of_its_name(compiled):
    used = set()
    for name, task in tasks(compiled["vertex"]).items():
        step = "finetune" if name.endswith("-2") else "base"
        for argument, source in task["inputs"].get("parameters", {}).items():
            if parameter := source.get("componentInputParameter"):
                assert parameter in (argument, f"{step}_{argument}")
                used.add(parameter)
    assert used == set(PARAMETERS)


def test_every_task_runs_the_image_of_the_environment(compiled):
    for target, pipeline in compiled.items():
        executors = pipeline["deploymentSpec"]["executors"].values()
        assert {each["container"]["image"] for each in executors} == {settings.load(target).image}


def test_no_task_installs_anything(compiled):
    for executor in compiled["vertex"]["deploymentSpec"]["executors"].values():
        assert "pip install" not in " ".join(executor["container"]["command"])
