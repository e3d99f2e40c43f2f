import dataclasses
import pathlib
import re

import pytest
import yaml

from components import IMAGE
from pipeline.__main__ import main
from pipeline.commands.compile import FILES
from pipeline.graph import compiled as compiling
from pipeline.graph.dag import build_pipeline
from pipeline.graph.environment import CONFIGS, TARGET_NAMES, load_environment
from pipeline.local.worker import outline
from pipeline.parameters import PARAMETERS, PipelineConfig
from pipeline.training_job import JobConfig
from trainer.config import DataGateConfig
from trainer.errors import UserError

GOLDEN = CONFIGS.parent / "pipeline.yaml"
CHAINS = {
    "local": ["plan-training", "train-model"],
    "vertex": ["plan-training", "custom-training-job", "collect-training"],
    "kubeflow": ["plan-training", "train-model"],
}
"""The tasks of a training step on each target."""
TRAINING = {name for chain in CHAINS.values() for name in chain}


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


def parameter_of(source):
    """The pipeline parameter that an input comes from, in a branch or outside; None for other inputs."""
    name = source.get("componentInputParameter", "").removeprefix("pipelinechannel--")
    return name if name in PARAMETERS else None


@pytest.mark.parametrize(("target", "name"), FILES.items())
def test_golden_file_is_what_the_code_compiles_to(target, name):
    compiling.check_pipeline(load_environment(target), GOLDEN.with_name(name))


def test_check_names_what_differs_but_for_the_version_of_the_sdk(tmp_path):
    other = tmp_path / "pipeline.yaml"
    other.write_text(GOLDEN.read_text().replace("sdkVersion: kfp-", "sdkVersion: kfp-0"))
    assert main(["compile", "--check", "--output", str(other)]) == 0
    other.write_text(GOLDEN.read_text().replace("defaultValue: 42.0", "defaultValue: 43.0"))
    with pytest.raises(UserError, match=r"(?s)make compile.*-.*43\.0.*\+.*42\.0"):
        main(["compile", "--check", "--output", str(other)])


@pytest.mark.parametrize(
    ("arguments", "named"), [([], "name your file"), (["--output", "pipeline.yaml"], "profile_steps is 10-20")]
)
def test_file_of_your_own_needs_a_name_and_parameters_that_its_target_takes(
    arguments, named, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    example = re.sub(r"my-(project|bucket)", "our-own", (CONFIGS / "kubeflow.toml").read_text())
    pathlib.Path("mine.toml").write_text(example + 'profile_steps = "10-20"\n')
    with pytest.raises(UserError, match=named):
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
        # A local run checks its registry before it starts.
        assert set(shared(other)) == {*shared(local), "check-registry"}
        for name in shared(local):
            task = shared(other)[name]
            assert task["taskInfo"] == shared(local)[name]["taskInfo"]
            assert inputs(task) == inputs(shared(local)[name])
            assert set(task["inputs"].get("artifacts", {})) == set(
                shared(local)[name]["inputs"].get("artifacts", {})
            )


def test_steps_are_in_the_order_of_the_design():
    outlined = outline(build_pipeline("local").pipeline_spec)
    order = list(outlined["steps"])
    thrice = ["fingerprint", "fetch-dataset"]
    twice = [*thrice, "plan-training", "train-model"]
    once = ["check-unchanged", "check-data", "import-model", "importer"]
    once += ["evaluate-model", "upload-model", "deploy-version"]
    assert sorted(order) == sorted(
        [*twice, *(f"{name}-2" for name in twice), *(f"{name}-3" for name in thrice), *once]
    )
    assert (
        order.index("fingerprint")
        < order.index("check-unchanged")
        < order.index("fetch-dataset")
        < order.index("plan-training")
    )
    assert order.index("plan-training") < order.index("train-model") < order.index("plan-training-2")
    for name in ("fetch-dataset", "fetch-dataset-2", "fetch-dataset-3"):
        assert order.index(name) < order.index("check-data") < order.index("plan-training")
    last = ["importer", "plan-training-2", "train-model-2", "evaluate-model", "upload-model", "deploy-version"]
    assert order[-6:] == last
    groups = {name: sorted(members) for name, members in outlined["groups"].items() if "branches" not in name}
    new = groups.pop("condition-1")
    assert set(order) - set(new) == {"fingerprint", "fingerprint-2", "fingerprint-3", "check-unchanged"}
    trained = ["plan-training", "train-model"]
    assert sorted(groups.values()) == [["deploy-version"], ["import-model"], ["importer"], trained]
    titles = list(outlined["steps"].values())
    assert titles.count("Base model") == 1
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize(("target", "chain"), CHAINS.items())
def test_fine_tuning_starts_from_the_base_model_and_base_training_from_none(compiled, target, chain):
    by_name = tasks(compiled[target])
    artifacts = {name: task["inputs"].get("artifacts", {}) for name, task in by_name.items()}
    trained = chain[-1]
    starts = [name for name in chain if name in ("plan-training", "train-model")]
    for name in starts:
        assert "base_model" not in artifacts[name]
        base_model = artifacts[f"{name}-2"]["base_model"]["taskOutputArtifact"]
        assert base_model == {"producerTask": "named-model", "outputArtifactKey": "Output"}
    inner = compiled[target]["components"]["comp-named-model"]["dag"]["outputs"]["artifacts"]["Output"]
    assert inner["artifactSelectors"] == [{"producerSubtask": "importer", "outputArtifactKey": "artifact"}]
    candidate = artifacts["evaluate-model"]["model"]["taskOutputArtifact"]
    assert candidate["producerTask"] == artifacts["upload-model"]["model"]["taskOutputArtifact"]["producerTask"]
    assert candidate["producerTask"] == f"{trained}-2"


@pytest.mark.parametrize(("target", "chain"), CHAINS.items())
def test_base_model_is_trained_or_imported_by_the_one_parameter(compiled, target, chain):
    pipeline = compiled[target]
    named = changed(pipeline)["named-model"]["inputs"]["parameters"]
    chosen = named["uri"]["taskOutputParameter"]
    branches = pipeline["components"][f"comp-{chosen['producerTask']}"]["dag"]
    selectors = branches["outputs"]["parameters"][chosen["outputParameterKey"]]["valueFromOneof"]
    conditions = {}
    for selector in selectors["parameterSelectors"]:
        branch = branches["tasks"][selector["producerSubtask"]]
        dag = pipeline["components"][branch["componentRef"]["name"]]["dag"]
        conditions[branch["triggerPolicy"]["condition"]] = sorted(dag["tasks"])
    uri = "inputs.parameter_values['pipelinechannel--base_model_uri'] == ''"
    assert conditions == {uri: sorted(chain), f"!({uri})": ["import-model"]}


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
    first = compiled[target]["root"]["dag"]["tasks"]
    assert first["condition-1"]["dependentTasks"].count("check-unchanged") == 1
    assert ("check-registry" in first["check-unchanged"]["dependentTasks"]) is (target != "local")


def test_every_setting_that_a_model_depends_on_decides_whether_there_is_anything_new(compiled):
    """`settings` is pasted, so no text that may have a quotation mark is in it (components/__init__.py)."""
    (condition,) = [
        task["triggerPolicy"]["condition"]
        for task in compiled["kubeflow"]["root"]["dag"]["tasks"].values()
        if "triggerPolicy" in task
    ]
    assert condition == "inputs.parameter_values['pipelinechannel--check-unchanged-Output'] != ''"
    given = tasks(compiled["kubeflow"])["check-unchanged"]["inputs"]["parameters"]
    pasted = set(re.findall(r"(\w+)={{", given["settings"]["runtimeValue"]["constant"]))
    own = {parameter for source in given.values() if (parameter := parameter_of(source))} - pasted
    places = {"base_source", "finetune_source", "test_source", "base_model_uri"}  # read by `fingerprint`
    assert own >= {"skip_unchanged", "model_name", "registry", "columns", "initial_weights"}
    left_out = {name for name in PARAMETERS if name not in pasted | own | places}
    kinds = {PARAMETERS[name].config for name in left_out}
    assert kinds == {DataGateConfig, JobConfig, PipelineConfig}
    assert {name for name in left_out if PARAMETERS[name].config is PipelineConfig} == {
        "checkpoint_dir",
        "endpoint",
        "evaluate_base",
        "traffic",
    }


def test_a_changed_registry_is_checked_but_trains_nothing_again(compiled):
    for target, chain in CHAINS.items():
        by_name = tasks(compiled[target])
        for name in (*chain, *(f"{each}-2" for each in chain)):
            used = {parameter_of(source) for source in by_name[name]["inputs"].get("parameters", {}).values()}
            assert used.isdisjoint({"registry", "model_name"})
    inputs = tasks(compiled["kubeflow"])["check-registry"]["inputs"]["parameters"]
    assert {name: parameter_of(source) for name, source in inputs.items()} == {
        "platform": None,
        **{name: name for name in ("registry", "model_name", "checkpoint_dir", "endpoint")},
    }


@pytest.mark.parametrize(("target", "chain"), CHAINS.items())
def test_training_is_cached_by_the_digest_of_the_initial_weights(compiled, target, chain):
    by_name = tasks(compiled[target])
    assert parameter_of(by_name["fingerprint"]["inputs"]["parameters"]["initial_weights"]) == "initial_weights"
    unused = by_name["fingerprint-2"]["inputs"]["parameters"]["initial_weights"]
    assert unused == {"runtimeValue": {"constant": "none"}}
    for name in chain:
        if name in ("plan-training", "train-model"):
            digest, tuned = (
                by_name[task]["inputs"]["parameters"]["initial_weights_fingerprint"]
                for task in (name, f"{name}-2")
            )
            assert digest == {"componentInputParameter": "pipelinechannel--fingerprint-weights"}
            assert tuned == {"componentInputParameter": "pipelinechannel--fingerprint-2-weights"}


@pytest.mark.parametrize("target", TARGET_NAMES)
def test_only_what_follows_from_its_inputs_is_cached(compiled, target):
    cached = {name for name, task in tasks(compiled[target]).items() if task["cachingOptions"].get("enableCache")}
    data = {"fetch-dataset", "fetch-dataset-2", "fetch-dataset-3"}
    training = {name for chain in CHAINS[target] for name in (chain, f"{chain}-2")}
    assert cached == (data if target == "local" else data | training | {"import-model"})


def test_parameter_goes_to_the_component_argument_of_its_name(compiled):
    used = set()
    renamed = {"training_service_account", "training_network", "restart_training", "persistent_resource"}
    steps = {"-2": "finetune", "-3": "test"}
    for name, task in tasks(compiled["vertex"]).items():
        step = steps.get(name[-2:], "base")
        for argument, source in task["inputs"].get("parameters", {}).items():
            if parameter := parameter_of(source):
                of_step = f"{step}_{argument.removeprefix('step_')}"
                others = ("fetch-dataset-3", "check-unchanged")
                assert parameter in (argument, of_step) or parameter in renamed or name in others
                used.add(parameter)
    assert used == set(PARAMETERS)


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


def test_mail_goes_to_the_addresses_of_the_environment(tmp_path):
    mailing = dataclasses.replace(load_environment("vertex"), notify=["owner@example.org"])
    compiling.write_pipeline(mailing, tmp_path / "mailing.yaml")
    spec = yaml.safe_load((tmp_path / "mailing.yaml").read_text())
    mail = spec["root"]["dag"]["tasks"]["vertex-pipelines-notification-email"]
    assert mail["triggerPolicy"]["strategy"] == "ALL_UPSTREAM_TASKS_COMPLETED"
    assert mail["inputs"]["parameters"]["recipients"]["runtimeValue"]["constant"] == ["owner@example.org"]
    inner = spec["components"]["comp-exit-handler-1"]["dag"]["tasks"]
    assert {"fingerprint", "check-unchanged"} <= set(inner)
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
