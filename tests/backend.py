"""Runs the tasks of a compiled pipeline one after the other, as Vertex AI does: inputs, placeholders, outputs.

The messages are KFP's (kubeflow/pipelines, api/v2alpha1/pipeline_spec.proto: PipelineSpec and ExecutorInput). The
container of a custom job is started from the payload that the file has for Google's launcher.
"""

import dataclasses
import json
import pathlib
import re
from collections.abc import Callable
from typing import Any

REMOTE, MOUNTED = "gs://", "/gcs/"
LAUNCHER = "google_cloud_pipeline_components.container.v1.custom_job.launcher"
PLACEHOLDER = re.compile(r"\{\{\$\.(inputs|outputs)\.parameters\['([^']+)'\](\.output_file)?\}\}")


@dataclasses.dataclass
class Values:
    """Parameters and artifacts by their names: the inputs of a task, or its outputs."""

    parameters: dict[str, Any] = dataclasses.field(default_factory=dict)
    artifacts: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Backend:
    """A run of the pipeline `spec`.

    Attributes:
        spec: the PipelineSpec of a compiled file.
        root: gs:// address below which outputs are written.
        mount: folder of this machine that the containers see as /gcs.
        start: runs a container: title, image, command with arguments, variables.
    """

    spec: dict[str, Any]
    root: str
    mount: pathlib.Path
    start: Callable[[str, str, list[str], dict[str, str]], None]

    def run(self, **parameters: Any) -> None:
        """Run the whole pipeline with these parameters in place of the defaults."""
        self._run_dag(self.spec["root"], Values(parameters), "")

    def _run_dag(self, component: dict[str, Any], given: Values, prefix: str) -> Values:
        inputs = Values(_defaults(component) | given.parameters, given.artifacts)
        results: dict[str, Values] = {}
        tasks = component["dag"]["tasks"]
        while waiting := {name: task for name, task in tasks.items() if name not in results}:
            for name, task in waiting.items():
                if set(task.get("dependentTasks", ())) <= results.keys():
                    results[name] = self._run_task(prefix + name, task, inputs, results)
        return _outputs_of_dag(component["dag"].get("outputs", {}), results)

    def _run_task(self, name: str, task: dict[str, Any], dag: Values, results: dict[str, Values]) -> Values:
        component = self.spec["components"][task["componentRef"]["name"]]
        inputs = _inputs(task, dag, results)
        if not _is_triggered(task.get("triggerPolicy", {}).get("condition"), inputs.parameters):
            return Values()
        if "dag" in component:
            return self._run_dag(component, inputs, f"{name}/")
        inputs.parameters = _defaults(component) | inputs.parameters
        inputs.parameters = {key: self._filled(value) for key, value in inputs.parameters.items()}
        executor = self.spec["deploymentSpec"]["executors"][component["executorLabel"]]
        if "importer" in executor:
            uri = inputs.parameters[executor["importer"]["artifactUri"]["runtimeParameter"]]
            return Values({}, {"artifact": {"name": name, "uri": uri, "type": executor["importer"]["typeSchema"]}})
        return self._run_container(name, task["taskInfo"]["name"], component, executor["container"], inputs)

    def _run_container(
        self, name: str, title: str, component: dict[str, Any], container: dict[str, Any], inputs: Values
    ) -> Values:
        place = f"{self.root}/{name}"
        message = _executor_input(place, component.get("outputDefinitions", {}), inputs)
        command = [*container["command"], *container.get("args", ())]
        filled = [_fill(word, message) for word in command]
        if LAUNCHER in command:
            self._run_custom_job(title, json.loads(filled[filled.index("--payload") + 1]))
            return Values({"gcp_resources": json.dumps({"resources": [{"resourceType": "CustomJob"}]})})
        self.start(title, container["image"], filled, {})
        return self._outputs(message)

    def _run_custom_job(self, title: str, payload: dict[str, Any]) -> None:
        """Run the first worker of a CustomJob, with the variables that the service sets for its output folder."""
        job = payload["job_spec"]
        container = job["worker_pool_specs"][0]["container_spec"]
        folder = job["base_output_directory"]["output_uri_prefix"]
        variables = {
            "CLOUD_ML_JOB_ID": "1",
            "AIP_MODEL_DIR": f"{folder}/model/",
            "AIP_CHECKPOINT_DIR": f"{folder}/checkpoints/",
            "AIP_TENSORBOARD_LOG_DIR": f"{folder}/logs/",
        }
        variables |= {each["name"]: each["value"] for each in container.get("env", ())}
        self.start(title, container["image_uri"], [*container["command"], *container["args"]], variables)

    def _outputs(self, message: dict[str, Any]) -> Values:
        """What the executor of a Python component says about its outputs, in its output file."""
        outputs = message["outputs"]
        said = json.loads((self.mount / outputs["outputFile"].removeprefix(MOUNTED)).read_text())
        artifacts = {key: listed["artifacts"][0] for key, listed in outputs["artifacts"].items()}
        for key, listed in said.get("artifacts", {}).items():
            artifacts[key] = artifacts[key] | listed["artifacts"][0]
        return Values(said.get("parameterValues", {}), artifacts)

    def _filled(self, value: Any) -> Any:
        """A parameter with the run's placeholders filled; whole numbers are written as protobuf does."""
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if not isinstance(value, str):
            return value
        run = {"pipeline_job_name": self.root.rpartition("/")[2], "pipeline_persistent_resource_id": ""}
        run |= {"pipeline_google_cloud_project_id": "my-project", "pipeline_google_cloud_location": "us-central1"}
        return re.sub(r"\{\{\$\.(pipeline_\w+)\}\}", lambda found: run[found[1]], value)


def _defaults(component: dict[str, Any]) -> dict[str, Any]:
    declared = component.get("inputDefinitions", {}).get("parameters", {})
    return {name: each["defaultValue"] for name, each in declared.items() if "defaultValue" in each}


def _inputs(task: dict[str, Any], dag: Values, results: dict[str, Values]) -> Values:
    """The inputs of a task, of its pipeline's inputs and of the outputs of earlier tasks."""
    inputs, declared = Values(), task.get("inputs", {})
    for name, source in declared.get("parameters", {}).items():
        if "runtimeValue" in source:
            inputs.parameters[name] = source["runtimeValue"]["constant"]
        elif "componentInputParameter" in source:
            inputs.parameters[name] = dag.parameters[source["componentInputParameter"]]
        else:
            output = source["taskOutputParameter"]
            inputs.parameters[name] = results[output["producerTask"]].parameters[output["outputParameterKey"]]
    for name, source in declared.get("artifacts", {}).items():
        if "componentInputArtifact" in source:
            inputs.artifacts[name] = dag.artifacts[source["componentInputArtifact"]]
        else:
            output = source["taskOutputArtifact"]
            inputs.artifacts[name] = results[output["producerTask"]].artifacts[output["outputArtifactKey"]]
    return inputs


def _is_triggered(condition: str | None, parameters: dict[str, Any]) -> bool:
    """Evaluate a condition of `dsl.If` or `dsl.Else`: one comparison with a text, or its opposite."""
    if condition is None:
        return True
    found = re.fullmatch(r"(!\()?inputs\.parameter_values\['([^']+)'\] == '([^']*)'\)?", condition)
    assert found, condition
    return (parameters[found[2]] == found[3]) is not bool(found[1])


def _outputs_of_dag(declared: dict[str, Any], results: dict[str, Values]) -> Values:
    outputs = Values()
    for name, each in declared.get("parameters", {}).items():
        sources = each.get("valueFromOneof", {}).get("parameterSelectors") or [each["valueFromParameter"]]
        for source in sources:
            values = results[source["producerSubtask"]].parameters
            if source["outputParameterKey"] in values:
                outputs.parameters[name] = values[source["outputParameterKey"]]
    for name, each in declared.get("artifacts", {}).items():
        (source,) = each["artifactSelectors"]
        outputs.artifacts[name] = results[source["producerSubtask"]].artifacts[source["outputArtifactKey"]]
    return outputs


def _executor_input(place: str, declared: dict[str, Any], inputs: Values) -> dict[str, Any]:
    """The message ExecutorInput of a task whose outputs go below `place`."""
    mounted = place.replace(REMOTE, MOUNTED, 1)
    made = {
        name: {"name": name, "uri": f"{place}/{name}", "type": each["artifactType"], "metadata": {}}
        for name, each in declared.get("artifacts", {}).items()
    }
    return {
        "inputs": {"parameterValues": inputs.parameters, "artifacts": _listed(inputs.artifacts)},
        "outputs": {
            "parameters": {name: {"outputFile": f"{mounted}/{name}"} for name in declared.get("parameters", {})},
            "artifacts": _listed(made),
            "outputFile": f"{mounted}/executor_output.json",
        },
    }


def _listed(artifacts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {name: {"artifacts": [artifact]} for name, artifact in artifacts.items()}


def _fill(word: str, message: dict[str, Any]) -> str:
    """A word of a command with its placeholders filled: texts as they are, all else as JSON."""
    if word == "{{$}}":
        return json.dumps(message)

    def value(found: re.Match[str]) -> str:
        if found[1] == "outputs":
            return str(message["outputs"]["parameters"][found[2]]["outputFile"])
        parameter = message["inputs"]["parameterValues"][found[2]]
        return parameter if isinstance(parameter, str) else json.dumps(parameter)

    return PLACEHOLDER.sub(value, word)
