"""Both compiled files keep the rules of their backends, and a file that breaks one is refused."""

import copy
import json

import pytest

from pipeline.__main__ import main
from pipeline.commands.compile import FILES
from pipeline.graph.compiled import Compiled
from pipeline.graph.environment import CONFIGS
from pipeline.graph.rules import BOTH, RULES, check_rules
from trainer.errors import UserError

TEXTS = {target: (CONFIGS.parent / name).read_text() for target, name in FILES.items()}
DOCUMENTS = {target: Compiled.parse(text).documents for target, text in TEXTS.items()}


class Broken:
    """A compiled pipeline to break: its parts by short names."""

    def __init__(self, target):
        self.documents = copy.deepcopy(DOCUMENTS[target])
        self.spec = self.documents[0]
        self.components = self.spec["components"]
        self.executors = self.spec["deploymentSpec"]["executors"]
        self.tasks = self.spec["root"]["dag"]["tasks"]

    def dag(self, name):
        return self.components[f"comp-{name}"]["dag"]

    @property
    def importer(self):
        return self.dag("named-model")["tasks"]["importer"]

    def container(self, name):
        return self.executors[f"exec-{name}"]["container"]


def from_a_task(pipeline):
    """As dsl.importer(artifact_uri=dsl.OneOf(...)) compiles: beside the branches, its URI from their output."""
    uri = pipeline.tasks["named-model"]["inputs"]["parameters"]["uri"]
    assert "taskOutputParameter" in uri
    pipeline.tasks["importer"] = {**pipeline.importer, "inputs": {"parameters": {"uri": uri}}}


def from_a_constant_input(pipeline):
    pipeline.importer["inputs"]["parameters"]["uri"] = {"runtimeValue": {"constant": "gs://bucket/model"}}


def display_name(pipeline):
    pipeline.importer["taskInfo"]["name"] = "Base model"


def condition_of_importer(pipeline):
    pipeline.importer["triggerPolicy"] = {"condition": "inputs.parameter_values['uri'] != ''"}


def no_component(pipeline):
    del pipeline.components["comp-evaluate-model"]


def no_executor(pipeline):
    del pipeline.executors["exec-evaluate-model"]


def custom_job(pipeline):
    pipeline.executors["exec-evaluate-model"] = {"customJob": {}}


def unknown_producer(pipeline):
    pipeline.tasks["upload-model"]["inputs"]["artifacts"]["evaluation"]["taskOutputArtifact"]["producerTask"] = "x"


def unknown_output(pipeline):
    source = pipeline.tasks["fetch-dataset"]["inputs"]["parameters"]["fingerprint"]["taskOutputParameter"]
    source["outputParameterKey"] = "x"


def unknown_dependency(pipeline):
    # Of a branch: as a wait for a task inside it would be compiled.
    pipeline.tasks["upload-model"]["dependentTasks"].append("import-model")


def unknown_parent_input(pipeline):
    pipeline.importer["inputs"]["parameters"]["uri"]["componentInputParameter"] = "url"


def missing_parameter(pipeline):
    del pipeline.tasks["upload-model"]["inputs"]["parameters"]["registry"]


def missing_artifact(pipeline):
    del pipeline.tasks["upload-model"]["inputs"]["artifacts"]["model"]


def required_base_model(pipeline):
    # The base training has no base model.
    for name in ("comp-train-model", "comp-plan-training"):
        if name in pipeline.components:
            del pipeline.components[name]["inputDefinitions"]["artifacts"]["base_model"]["isOptional"]


def output_of_a_branch(pipeline):
    outputs = pipeline.dag("condition-branches-1")["outputs"]["parameters"]
    (name,) = outputs
    outputs[name] = {"valueFromParameter": outputs[name]["valueFromOneof"]["parameterSelectors"][0]}


def branch_without_a_condition(pipeline):
    del pipeline.dag("condition-branches-1")["tasks"]["condition-3"]["triggerPolicy"]


def task_after_a_branch(pipeline):
    # condition-3 reads what condition-2 returns, though only one of them runs.
    tasks = pipeline.dag("condition-branches-1")["tasks"]
    (key,) = pipeline.dag("condition-2")["outputs"]["parameters"]
    tasks["condition-3"]["inputs"]["parameters"]["other"] = {
        "taskOutputParameter": {"producerTask": "condition-2", "outputParameterKey": key}
    }
    outputs = {"parameters": {key: {"parameterType": "STRING"}}}
    pipeline.components["comp-condition-2"]["outputDefinitions"] = outputs


def condition_of_another(pipeline):
    pipeline.tasks["upload-model"]["triggerPolicy"] = {"condition": "inputs.parameter_values['base_uri'] != ''"}


def choice_of_artifacts(pipeline):
    selectors = pipeline.dag("named-model")["outputs"]["artifacts"]["Output"]["artifactSelectors"]
    selectors.append(selectors[0])


def artifact_iterator(pipeline):
    pipeline.tasks["upload-model"]["artifactIterator"] = {
        "itemInput": "model",
        "items": {"inputArtifact": "model"},
    }


def channel(pipeline):
    text = "{{channel:task=;name=registry;type=String;}}"
    pipeline.container("upload-model")["env"] = [{"name": "REGISTRY", "value": text}]


def run_time_variable(pipeline):
    text = "{{$.inputs.parameters['registry']}}"
    pipeline.container("upload-model")["env"] = [{"name": "REGISTRY", "value": text}]


def settings_of(pipeline):
    return pipeline.documents[1]["platforms"]["kubernetes"]["deploymentSpec"]["executors"]


def settings_of_nothing(pipeline):
    settings_of(pipeline)["exec-nothing"] = {"nodeSelector": {}}


def settings_from_afar(pipeline):
    # The plan of the base training is inside a branch, the fine-tuning is not.
    selector = settings_of(pipeline)["exec-train-model-2"]["nodeSelector"]["nodeSelectorJson"]
    selector["taskOutputParameter"]["producerTask"] = "plan-training"


def second_document(pipeline):
    executors = {"exec-upload-model": {"nodeSelector": {"labels": {"a": "b"}}}}
    pipeline.documents.append({"platforms": {"kubernetes": {"deploymentSpec": {"executors": executors}}}})


def retried_importer(pipeline):
    pipeline.importer["retryPolicy"] = pipeline.tasks["upload-model"]["retryPolicy"]


def no_pause(pipeline):
    del pipeline.tasks["upload-model"]["retryPolicy"]["backoffDuration"]


def part_of_a_factor(pipeline):
    pipeline.tasks["upload-model"]["retryPolicy"]["backoffFactor"] = 1.5


def cached_source(pipeline):
    pipeline.tasks["fingerprint-2"]["cachingOptions"] = {"enableCache": True}


def cached_importer(pipeline):
    pipeline.importer["cachingOptions"] = {"enableCache": True}


def long_name(pipeline):
    pipeline.spec["pipelineInfo"]["name"] = "m" * 114


def spoken_name(pipeline):
    pipeline.spec["pipelineInfo"]["name"] = "MSI-Net of today"


def long_task_name(pipeline):
    pipeline.tasks["m" * 122] = pipeline.tasks.pop("upload-model")


def spoken_label(pipeline):
    pipeline.spec["root"]["inputDefinitions"]["parameters"]["training_labels"]["defaultValue"] = "team=Vision Lab"


def long_pod_label(pipeline):
    settings_of(pipeline)["exec-train-model"]["podMetadata"] = {"labels": {"team": "v" * 64}}


def many_recipients(pipeline):
    addresses = [f"{name}@example.org" for name in "abcd"]
    pipeline.tasks["upload-model"]["inputs"]["parameters"]["recipients"] = {
        "runtimeValue": {"constant": addresses}
    }


def too_many_cpus(pipeline):
    pipeline.container("evaluate-model")["resources"]["resourceCpuLimit"] = "97"


def too_much_memory(pipeline):
    pipeline.container("evaluate-model")["resources"]["resourceMemoryLimit"] = "625G"


def no_memory_size(pipeline):
    pipeline.container("evaluate-model")["resources"]["resourceMemoryLimit"] = "32 GB"


def long_argument(pipeline):
    pipeline.container("evaluate-model")["args"].append("x" * 2**17)


def large_object(pipeline):
    for number in range(13):
        copied = copy.deepcopy(pipeline.executors["exec-evaluate-model"])
        copied["container"]["args"] = ["x" * 125_000]
        pipeline.executors[f"exec-{number}"] = copied


BREACHES = {
    "URI of an importer": (from_a_task, from_a_constant_input),
    "name of an importer": (display_name,),
    "condition of an importer": (condition_of_importer,),
    "references": (no_component, no_executor),
    "executors": (custom_job,),
    "producers": (unknown_producer, unknown_output, unknown_dependency),
    "inputs of a nested pipeline": (unknown_parent_input,),
    "required inputs": (missing_parameter, missing_artifact, required_base_model),
    "outputs of branches": (output_of_a_branch, branch_without_a_condition, task_after_a_branch),
    "conditions": (condition_of_another,),
    "choice between artifacts": (choice_of_artifacts,),
    "iteration over artifacts": (artifact_iterator,),
    "constants": (channel,),
    "variables of the environment": (run_time_variable,),
    "settings of Kubernetes": (settings_of_nothing, settings_from_afar),
    "one document": (second_document,),
    "retries": (retried_importer, no_pause, part_of_a_factor),
    "caching": (cached_source, cached_importer),
    "length of a run's id": (long_name, spoken_name),
    "name of a workflow": (long_name, spoken_name),
    "names of tasks": (long_task_name,),
    "labels of a job": (spoken_label,),
    "labels of Kubernetes": (long_pod_label,),
    "recipients of a message": (many_recipients,),
    "machine of a task": (too_many_cpus, too_much_memory, no_memory_size),
    "size of an argument": (long_argument,),
    "size of a workflow": (large_object,),
}
"""Rule -> the ways in which a test breaks it."""


def text_of(pipeline):
    """The documents as YAML, of which JSON is a part."""
    return "\n---\n".join(map(json.dumps, pipeline.documents))


@pytest.mark.parametrize("target", BOTH)
def test_committed_file_keeps_every_rule(target):
    check_rules(TEXTS[target], target)


@pytest.mark.parametrize(
    ("rule", "target", "breach"),
    [
        pytest.param(rule, target, breach, id=f"{rule.name}-{target}-{breach.__name__}")
        for rule in RULES
        for target in rule.targets
        for breach in BREACHES[rule.name]
    ],
)
def test_file_that_breaks_a_rule_is_refused(rule, target, breach):
    pipeline = Broken(target)
    breach(pipeline)
    with pytest.raises(UserError) as refusal:
        check_rules(text_of(pipeline), target)
    said = str(refusal.value)
    assert said.startswith(f"the compiled pipeline breaks a rule of {target}, {rule.name}: "), said
    assert rule.remedy in said
    assert rule.source in said
    assert "\n" not in said


def test_every_rule_is_broken_by_a_test_and_has_a_source():
    assert list(BREACHES) == [rule.name for rule in RULES]
    assert all(len(rule.source) > 20 and rule.remedy[0].islower() for rule in RULES)


def test_rules_of_one_target_do_not_bind_the_other():
    pipeline = Broken("vertex")
    display_name(pipeline)
    check_rules(text_of(pipeline), "vertex")


def test_compile_writes_no_file_that_breaks_a_rule(tmp_path, monkeypatch):
    monkeypatch.setattr("pipeline.graph.dag.SIZES", {"evaluate-model": ("8", "700G")})
    output = tmp_path / "pipeline.yaml"
    with pytest.raises(
        UserError, match=r"machine of a task: exec-evaluate-model asks for 700G of memory; ask for at"
    ):
        main(["compile", "--target", "vertex", "--output", str(output)])
    assert list(tmp_path.iterdir()) == []
    output.write_text("mine")
    with pytest.raises(UserError, match="machine of a task"):
        main(["compile", "--target", "vertex", "--output", str(output)])
    assert output.read_text() == "mine"
