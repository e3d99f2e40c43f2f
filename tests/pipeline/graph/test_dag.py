import dataclasses
import pathlib
import re

import pytest
import yaml

from components import IMAGE
from lifecycle.runs.parameters import CONSOLE_FIELDS, SETTINGS
from lifecycle.runs.preflight import CheckedRun
from pipeline.__main__ import main
from pipeline.commands.compile import FILES, check_pipeline
from pipeline.graph import compiled as compiling
from pipeline.graph.dag import build_pipeline
from pipeline.graph.environment import CONFIGS, TARGET_NAMES, Environment, load_environment
from pipeline.local.run_worker import outline
from tests.refusals import refused
from trainer.errors import ContentError, SettingError

GOLDEN = CONFIGS.parent / "pipeline.yaml"
CHAINS = {
    "local": ["plan-training", "train-model"],
    "vertex": ["plan-training", "custom-training-job", "collect-training"],
    "kubeflow": ["plan-training", "train-model"],
}
"""The tasks of a training step on each target."""
CHECKED = "pipelinechannel--check-run-"
ENDS = {"local": [], "vertex": [], "kubeflow": ["end-branch"]}
"""What ends a branch of the base model on each target."""
TRAINING = {"importer", *(name for chain in (*CHAINS.values(), *ENDS.values()) for name in chain)}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Target -> the pipeline from its YAML file, without the Kubernetes settings that may follow it."""
    folder = tmp_path_factory.mktemp("compiled")
    for target in TARGET_NAMES:
        compiling.write_pipeline(load_environment(target), folder / f"{target}.yaml")
    return {target: next(yaml.safe_load_all((folder / f"{target}.yaml").read_text())) for target in TARGET_NAMES}


def tasks(pipeline):
    """Name -> task, including the tasks in branches, but not the branches themselves."""
    leaves = {}

    def walk(dag):
        for name, task in dag["tasks"].items():
            component = pipeline["components"][task["componentRef"]["name"]]
            if "dag" in component:
                walk(component["dag"])
            else:
                leaves[name] = task

    walk(pipeline["root"]["dag"])
    return leaves


def changed(pipeline):
    """The tasks of the branch that a run with nothing new does not take."""
    return pipeline["components"]["comp-condition-1"]["dag"]["tasks"]


def containers(pipeline):
    """Name of an executor -> its container, if it has one."""
    executors = pipeline["deploymentSpec"]["executors"]
    return {name: entry["container"] for name, entry in executors.items() if "container" in entry}


def checked(task):
    """The outputs of the first task that go into another task."""
    names = (each.get("componentInputParameter", "") for each in task["inputs"].get("parameters", {}).values())
    return {name.removeprefix(CHECKED) for name in names if name.startswith(CHECKED)}


@pytest.mark.parametrize(("target", "name"), FILES.items())
def test_golden_file_is_what_the_code_compiles_to(target, name):
    check_pipeline(load_environment(target), GOLDEN.with_name(name))


def test_check_names_what_differs_but_for_the_version_of_the_sdk(tmp_path):
    other = tmp_path / "pipeline.yaml"
    other.write_text(GOLDEN.read_text().replace("sdkVersion: kfp-", "sdkVersion: kfp-0"))
    assert main(["compile", "--check", "--output", str(other)]) == 0
    other.write_text(GOLDEN.read_text().replace("defaultValue: 42.0", "defaultValue: 43.0"))
    with refused(ContentError, other, "make compile", "43.0", "42.0"):
        main(["compile", "--check", "--output", str(other)])


@pytest.mark.parametrize(
    ("arguments", "named"),
    [([], ("pipeline-kubeflow.yaml", "--output")), (["--output", "pipeline.yaml"], ("profile_steps", "10-20"))],
)
def test_file_of_your_own_needs_a_name_and_parameters_that_its_target_takes(
    arguments, named, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    example = re.sub(r"my-(project|bucket)", "our-own", (CONFIGS / "kubeflow.toml").read_text())
    pathlib.Path("mine.toml").write_text(example + 'profile_steps = "10-20"\n')
    with refused(SettingError, *named):
        main(["compile", "--target", "kubeflow", "--env", "mine.toml", *arguments])
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


def shared(pipeline):
    """The tasks that do not belong to a training step."""
    return {name: task for name, task in tasks(pipeline).items() if name.removesuffix("-2") not in TRAINING}


def inputs(task):
    """The parameters that go into a task, except for the name of its run."""
    return {name: source for name, source in task["inputs"].get("parameters", {}).items() if name != "run"}


@pytest.mark.parametrize("task", ["evaluate-model", "upload-model"])
def test_version_and_report_have_the_run_by_a_name_that_no_other_run_has(task, compiled):
    # On Kubeflow {{$.pipeline_job_name}} is the name that a person gives to a run, perhaps to several.
    for target, run in (("local", "name"), ("vertex", "name"), ("kubeflow", "uuid")):
        given = tasks(compiled[target])[task]["inputs"]["parameters"]["run"]
        assert given == {"runtimeValue": {"constant": f"{{{{$.pipeline_job_{run}}}}}"}}


def test_targets_differ_in_training_steps_alone(compiled):
    local, *others = compiled.values()
    for other in others:
        assert set(shared(other)) == set(shared(local))
        for name, task in shared(local).items():
            given, expected = inputs(shared(other)[name]), inputs(task)
            for own in ("platform", "location", "image_pattern", "compiled"):
                given.pop(own, None)
                expected.pop(own, None)
            assert given == expected
            assert shared(other)[name]["taskInfo"] == task["taskInfo"]
            assert shared(other)[name]["inputs"].get("artifacts") == task["inputs"].get("artifacts") or (
                name in ("evaluate-model", "upload-model")  # the model is of another task
            )


def test_steps_are_in_the_order_of_the_design():
    outlined = outline(build_pipeline(Environment("local")).pipeline_spec)
    order = list(outlined["tasks"])
    fetched = ["fetch-dataset", "fetch-dataset-2", "fetch-dataset-3"]
    assert order[0] == "check-run"
    assert sorted(order[1:4]) == fetched
    assert order[4] == "check-data"
    assert sorted(order[5:8]) == ["import-model", "plan-training", "train-model"]
    assert order.index("plan-training") < order.index("train-model")
    assert sorted(order[8:10]) == ["importer", "plan-training-2"]
    assert order[10:] == ["train-model-2", "evaluate-model", "upload-model", "deploy-version"]
    groups = {name: sorted(members) for name, members in outlined["groups"].items() if "branches" not in name}
    assert sorted(groups.pop("condition-1")) == sorted(order[1:])
    trained = ["plan-training", "train-model"]
    assert sorted(groups.values()) == [["deploy-version"], ["import-model"], ["importer"], trained]
    titles = list(outlined["tasks"].values())
    assert titles.count("Base model") == 1
    assert len(set(titles)) == len(titles)


def test_a_person_sees_at_most_fourteen_boxes_at_once(compiled):
    for pipeline in compiled.values():
        dags = [pipeline["root"], *pipeline["components"].values()]
        assert max(len(each["dag"]["tasks"]) for each in dags if "dag" in each) <= 14
        assert len(pipeline["root"]["inputDefinitions"]["parameters"]) <= 20


@pytest.mark.parametrize(("target", "chain"), CHAINS.items())
def test_fine_tuning_starts_from_the_base_model_and_base_training_from_none(compiled, target, chain):
    by_name = tasks(compiled[target])
    artifacts = {name: task["inputs"].get("artifacts", {}) for name, task in by_name.items()}
    trained = chain[-1]
    uris = {name: inputs(task).get("base_model_uri") for name, task in by_name.items()}
    assert uris["plan-training"] == {"runtimeValue": {"constant": ""}}
    if "train-model" in chain:
        assert changed(compiled[target])["named-model"]["inputs"]["parameters"]["uri"] == uris["plan-training-2"]
        assert "base_model" not in artifacts["train-model"]
        base_model = artifacts["train-model-2"]["base_model"]["taskOutputArtifact"]
        assert base_model == {"producerTask": "named-model", "outputArtifactKey": "Output"}
        inner = compiled[target]["components"]["comp-named-model"]["dag"]["outputs"]["artifacts"]["Output"]
        assert inner["artifactSelectors"] == [{"producerSubtask": "importer", "outputArtifactKey": "artifact"}]
    candidate = artifacts["evaluate-model"]["model"]["taskOutputArtifact"]
    assert candidate["producerTask"] == artifacts["upload-model"]["model"]["taskOutputArtifact"]["producerTask"]
    assert candidate["producerTask"] == f"{trained}-2"


@pytest.mark.parametrize(("target", "chain"), CHAINS.items())
def test_base_model_is_trained_or_imported_by_the_one_parameter(compiled, target, chain):
    pipeline = compiled[target]
    chosen = changed(pipeline)["plan-training-2"]["inputs"]["parameters"]["base_model_uri"]["taskOutputParameter"]
    branches = pipeline["components"][f"comp-{chosen['producerTask']}"]["dag"]
    selectors = branches["outputs"]["parameters"][chosen["outputParameterKey"]]["valueFromOneof"]
    conditions = {}
    for selector in selectors["parameterSelectors"]:
        branch = branches["tasks"][selector["producerSubtask"]]
        dag = pipeline["components"][branch["componentRef"]["name"]]["dag"]
        made = [name.removesuffix("-2") for name in dag["tasks"]]
        conditions[branch["triggerPolicy"]["condition"]] = sorted(made)
        # Kubeflow completes a branch when a task of it has run, and a task from the cache does not run.
        for output in dag["outputs"]["parameters"].values():
            last = dag["tasks"][output["valueFromParameter"]["producerSubtask"]]
            assert target != "kubeflow" or not last["cachingOptions"].get("enableCache")
    uri = "inputs.parameter_values['pipelinechannel--base_model_uri'] == ''"
    ends = ENDS[target]
    assert conditions == {uri: sorted([*chain, *ends]), f"!({uri})": sorted(["import-model", *ends])}


def test_kubeflow_can_run_the_importer(compiled):
    """Kubeflow records an importer by its display name, but other tasks look for it by its own."""
    pipeline = compiled["kubeflow"]
    (label, importer), *others = [
        (label, entry["importer"])
        for label, entry in pipeline["deploymentSpec"]["executors"].items()
        if "importer" in entry
    ]
    assert not others
    ((name, task),) = [
        (name, task)
        for name, task in tasks(pipeline).items()
        if pipeline["components"][task["componentRef"]["name"]]["executorLabel"] == label
    ]
    # Kubeflow looks the URI up in the inputs of the pipeline around it.
    uri = task["inputs"]["parameters"][importer["artifactUri"]["runtimeParameter"]]
    assert set(uri) == {"componentInputParameter"}
    assert task["taskInfo"]["name"] == name


@pytest.mark.parametrize("target", TARGET_NAMES)
def test_all_data_and_the_registry_are_checked_before_anything_is_trained(compiled, target):
    dag = changed(compiled[target])
    branches = next(task for name, task in dag.items() if name.startswith("condition-branches"))
    assert {"fetch-dataset", "fetch-dataset-2", "fetch-dataset-3"} <= set(dag["check-data"]["dependentTasks"])
    for task in (branches, dag["plan-training-2"]):
        assert "check-data" in task["dependentTasks"]
    assert list(compiled[target]["root"]["dag"]["tasks"]) == ["check-run", "condition-1"]


def test_first_task_has_every_field_of_the_form_and_each_of_its_outputs_is_used(compiled):
    for target, pipeline in compiled.items():
        given = pipeline["root"]["dag"]["tasks"]["check-run"]["inputs"]["parameters"]
        fields = {name for name, each in given.items() if each.get("componentInputParameter") == name}
        assert fields == {*CONSOLE_FIELDS, SETTINGS}
        assert set(pipeline["root"]["inputDefinitions"]["parameters"]) == {*CONSOLE_FIELDS, SETTINGS}
        used = set().union(*(checked(task) for task in tasks(pipeline).values()))
        assert used == set(CheckedRun._fields), target


def test_a_changed_registry_trains_nothing_again(compiled):
    of_step = {"": {"base_training", "weights_digest"}, "-2": {"finetune_training"}}
    for target, chain in CHAINS.items():
        by_name = tasks(compiled[target])
        for suffix, used in of_step.items():
            plan = by_name[f"plan-training{suffix}"]
            assert checked(plan) == {*used, "checkpoint_dir"}
            for name in chain[1:]:
                assert checked(by_name[name + suffix]) <= {"checkpoint_dir", "weights_digest"}
        for step, suffix in (("base", ""), ("finetune", "-2"), ("test", "-3")):
            assert checked(by_name[f"fetch-dataset{suffix}"]) == {"data", f"{step}_digest"}


@pytest.mark.parametrize("target", TARGET_NAMES)
def test_only_what_follows_from_its_inputs_is_cached(compiled, target):
    cached = {name for name, task in tasks(compiled[target]).items() if task["cachingOptions"].get("enableCache")}
    data = {"fetch-dataset", "fetch-dataset-2", "fetch-dataset-3"}
    training = {name for chain in CHAINS[target] for name in (chain, f"{chain}-2")}
    assert cached == (data if target == "local" else data | training | {"import-model"})


def test_no_task_that_vertex_ai_caches_has_an_optional_artifact(compiled):
    """Tasks that have one are reported to be never cached there (kubeflow/pipelines issue 11410)."""
    pipeline = compiled["vertex"]
    optional = {
        (name, argument)
        for name, task in tasks(pipeline).items()
        for argument, artifact in pipeline["components"][task["componentRef"]["name"]]
        .get("inputDefinitions", {})
        .get("artifacts", {})
        .items()
        if artifact.get("isOptional")
    }
    assert {name for name, _ in optional} <= {"evaluate-model"}
    assert not tasks(pipeline)["evaluate-model"]["cachingOptions"].get("enableCache")


@pytest.mark.parametrize("target", TARGET_NAMES)
def test_test_set_goes_to_no_training(compiled, target):
    by_name = tasks(compiled[target])
    prepared = {"producerTask": "fetch-dataset-3", "outputArtifactKey": "prepared"}
    users = {
        (name, argument)
        for name, task in by_name.items()
        for argument, source in task["inputs"].get("artifacts", {}).items()
        if source.get("taskOutputArtifact") == prepared
    }
    assert users == {(name, "test_data") for name in ("check-data", "evaluate-model", "upload-model")}


def test_training_on_kubeflow_is_found_in_the_cache_in_another_run(compiled):
    for task in tasks(compiled["kubeflow"]).values():
        if task["cachingOptions"].get("enableCache"):
            constants = [source.get("runtimeValue", {}) for source in task["inputs"]["parameters"].values()]
            assert "{{$.pipeline_job" not in str(constants)


def test_tasks_on_kubeflow_mount_the_volume_of_the_environment(tmp_path):
    environment = load_environment("kubeflow")
    compiling.write_pipeline(environment, tmp_path / "bucket.yaml")
    mounting = dataclasses.replace(environment, bucket="/data", volume_claim="saliency")
    compiling.write_pipeline(mounting, tmp_path / "volume.yaml")

    def mounts(name):
        pipeline, platform = yaml.safe_load_all((tmp_path / name).read_text())
        executors = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
        mounted = {executor: settings.get("pvcMount") for executor, settings in executors.items()}
        return {executor: mounted.get(executor) for executor in containers(pipeline)}

    assert not any(mounts("bucket.yaml").values())
    for mounted in mounts("volume.yaml").values():
        (mount,) = mounted
        assert mount["mountPath"] == "/data"
        assert mount["pvcNameParameter"] == {"runtimeValue": {"constant": "saliency"}}


def test_trainings_alone_on_kubeflow_have_shared_memory_of_the_size_of_their_pod(tmp_path):
    """Without a limit of its own, what is in it counts as memory of the pod."""
    _, (platform,) = written(load_environment("kubeflow"), tmp_path)
    executors = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    mounts = {name: each["emptyDirMounts"] for name, each in executors.items() if "emptyDirMounts" in each}
    assert set(mounts) == {"exec-train-model", "exec-train-model-2"}
    for (mount,) in mounts.values():
        assert mount == {"volumeName": "shared-memory", "mountPath": "/dev/shm", "medium": "Memory"}


def test_mail_goes_to_the_addresses_of_the_environment(tmp_path):
    mailing = dataclasses.replace(load_environment("vertex"), notify=["owner@example.org"])
    compiling.write_pipeline(mailing, tmp_path / "mailing.yaml")
    spec = yaml.safe_load((tmp_path / "mailing.yaml").read_text())
    mail = spec["root"]["dag"]["tasks"]["vertex-pipelines-notification-email"]
    assert mail["triggerPolicy"]["strategy"] == "ALL_UPSTREAM_TASKS_COMPLETED"
    assert mail["inputs"]["parameters"]["recipients"]["runtimeValue"]["constant"] == ["owner@example.org"]
    inner = spec["components"]["comp-exit-handler-1"]["dag"]["tasks"]
    assert "check-run" in inner
    assert {"custom-training-job", "import-model", "upload-model"} <= set(tasks(spec))
    images = {each["image"] for each in containers(spec).values()}
    assert IMAGE not in images


def written(environment, folder):
    """The pipeline of an environment, and its Kubernetes settings if it has any."""
    compiling.write_pipeline(environment, folder / "pipeline.yaml")
    spec, *platform = yaml.safe_load_all((folder / "pipeline.yaml").read_text())
    return spec, platform


@pytest.mark.parametrize("mail", [(), ("owner@example.org",)])
def test_message_is_a_task_after_all_others_beside_the_mail(tmp_path, mail):
    secret = "projects/my-project/secrets/webhook"
    changes = {"webhook": secret, "webhook_on": "failure", "notify": mail}
    environment = dataclasses.replace(load_environment("vertex"), **changes)
    spec, _ = written(environment, tmp_path)
    root = spec["root"]["dag"]["tasks"]
    told = root.pop("report-end")
    if mail:  # the service takes both for exit tasks, because both have the form of one
        sent = root.pop("vertex-pipelines-notification-email")
        assert [sent[key] for key in ("dependentTasks", "triggerPolicy")] == [
            told[key] for key in ("dependentTasks", "triggerPolicy")
        ]
    assert list(root) == ["exit-handler-1"] == told["dependentTasks"]
    assert told["triggerPolicy"]["strategy"] == "ALL_UPSTREAM_TASKS_COMPLETED"
    assert "enableCache" not in told["cachingOptions"]
    given = told["inputs"]["parameters"]
    assert given["status"] == {"taskFinalStatus": {"producerTask": "exit-handler-1"}}
    assert given["webhook"]["runtimeValue"]["constant"] == secret
    assert given["only_failures"]["runtimeValue"]["constant"] is True
    assert given["run"] == tasks(spec)["upload-model"]["inputs"]["parameters"]["run"]
    executor = spec["components"][told["componentRef"]["name"]]["executorLabel"]
    assert containers(spec)[executor]["image"] == environment.image


def test_pod_has_the_address_from_its_secret_and_does_not_wait_for_one(tmp_path):
    environment = dataclasses.replace(load_environment("kubeflow"), webhook="kubernetes:slack/address")
    spec, (platform,) = written(environment, tmp_path)
    told = spec["root"]["dag"]["tasks"]["report-end"]
    assert told["inputs"]["parameters"]["webhook"]["runtimeValue"]["constant"] == ""
    executors = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    (variable,) = executors["exec-report-end"]["secretAsEnv"]
    assert (variable["secretName"], variable["optional"]) == ("slack", True)
    assert variable["keyToEnv"] == [{"secretKey": "address", "envVar": "MSINET_WEBHOOK"}]


@pytest.mark.parametrize("target", ["vertex", "kubeflow"])
def test_no_message_is_sent_unless_the_environment_asks(compiled, target):
    assert "report-end" not in tasks(compiled[target])
    assert not [name for name in compiled[target]["components"] if "exit-handler" in name]
