import dataclasses

import pytest
from google.protobuf import json_format

from components import IMAGE
from lifecycle.runs.settled import validate_values
from pipeline.__main__ import main
from pipeline.graph.compiled import Template
from pipeline.graph.dag import build_pipeline
from pipeline.graph.environment import CONFIGS, Environment, layered_values, load_environment, sample_settings
from pipeline.local.run_folder import prepare_run
from tests.refusals import refused
from trainer.errors import ContentError, SettingError, UnknownNameError, UserError

CLUSTER = "target = 'kubeflow'\nimage_repository = 'host/project'\n"
ENVIRONMENTS = sorted(path.stem for path in CONFIGS.glob("*.toml"))
SAMPLE = load_environment("sample").parameters
BOTH = {"base_source": "sample", "finetune_source": "sample"}


@pytest.fixture
def write(tmp_path):
    def write(content):
        path = tmp_path / "mine.toml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


@pytest.mark.parametrize("name", ["/dev/zero", "x" * 300, "a\0b", "../configs/local", f"{'x' * 300}.toml", "LINK"])
def test_environment_that_is_no_plain_file_is_named(name, tmp_path):
    (tmp_path / "zero.toml").symlink_to("/dev/zero")
    with refused(UserError, "docs/vertex.md"):
        load_environment(str(tmp_path / "zero.toml") if name == "LINK" else name)


def test_template_without_end_or_bottom_is_refused(tmp_path):
    """What LibYAML composes calls itself for each level, and ends the process at some 100,000."""
    (tmp_path / "deep.yaml").write_text("[" * 200_000)
    for path in ("/dev/zero", str(tmp_path / "deep.yaml")):
        with refused(ContentError, path):
            Template.load(load_environment("local"), path)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_environment_of_the_project_is_valid(name):
    environment = load_environment(name)
    validate_values(environment.parameters)
    assert environment.image.endswith(f"{IMAGE}:{environment.image_tag}")


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("projekt = 'x'", (UnknownNameError, "projekt", "project")),
        ("base_epochs = 2", (UnknownNameError, "base_epochs", "[parameters]")),
        ("notify = 'me@example.org'", (SettingError, "notify", "me@example.org")),
        ("target = 'vertx'", (SettingError, "target", "vertx", "vertex")),
        ("target = 'vertex'", (SettingError, "project", "target vertex")),
        (CLUSTER + "bucket = 'data'", (SettingError, "bucket", "data")),
        (CLUSTER + "bucket = '/data'", (SettingError, "bucket", "/data", "volume_claim")),
        (CLUSTER + "bucket = 'gs://b'\nvolume_claim = 'v'", (SettingError, "bucket", "gs://b")),
        (CLUSTER + "bucket = '/gcs/b'\nvolume_claim = 'v'", (SettingError, "bucket", "/gcs/b")),
        ("[parameters]\nbase_epoch = 2", (UnknownNameError, "base_epoch", "base_epochs")),
        ("[parameters]\nbase_epochs = 'two'", (SettingError, "base_epochs", "two")),
        ("target = ", (ContentError, "TOML")),
        ("image_tag = 'grün'".encode("cp1252"), (ContentError, "TOML", "UTF-8")),
    ],
)
def test_mistake_in_a_file_is_reported_with_its_name(write, content, named):
    with refused(*named, "mine.toml"):
        load_environment(write(content))


def test_unknown_environment_is_refused_with_the_nearest_one():
    with refused(UnknownNameError, "vertx", "vertex"):
        load_environment("vertx")


@pytest.mark.parametrize(
    ("bucket", "place"),
    [("gs://name", "gs://name"), ("gs://name/folder//", "gs://name/folder"), ("/data", "/data")],
)
def test_registry_and_checkpoints_on_kubeflow_follow_from_its_bucket(bucket, place):
    claim = "" if "://" in bucket else "saliency"
    environment = Environment(
        "mine", "kubeflow", bucket=bucket, volume_claim=claim, image_repository="host/project"
    )
    assert environment.bucket == place
    assert environment.derived == {"registry": f"{place}/models", "checkpoint_dir": f"{place}/checkpoints"}
    validate_values(environment.derived, "kubeflow")
    chosen = dataclasses.replace(environment, parameters={"registry": "vertex://project/us-central1"})
    values = Template(json_format.MessageToDict(build_pipeline(chosen).pipeline_spec)).values()
    assert values["registry"] == "vertex://project/us-central1"
    assert values["checkpoint_dir"] == f"{place}/checkpoints"


def test_only_one_module_has_the_image_names():
    root = CONFIGS.parent
    sources = [
        path
        for folder in ("trainer", "lifecycle", "components", "pipeline")
        for path in (root / folder).rglob("*.py")
    ]
    assert len(sources) > 10
    assert [path.parent.name for path in sources if IMAGE in path.read_text()] == ["components"]


@pytest.mark.parametrize("target", ["local", "kubeflow"])
def test_addresses_are_refused_where_nothing_sends_e_mails(target):
    with refused(SettingError, "notify", f"target {target}"):
        dataclasses.replace(load_environment(target), notify=["night.shift+saliency@lab.example.org"])


@pytest.mark.parametrize(
    ("target", "webhook"),
    [
        ("vertex", "https://hooks.slack.com/services/T0/B0/x9"),
        ("vertex", "kubernetes:slack/address"),
        ("vertex", "slack"),
        ("kubeflow", "https://hooks.slack.com/services/T0/B0/x9"),
        ("kubeflow", "kubernetes:slack"),
        ("local", "projects/my-project/secrets/webhook"),
    ],
)
def test_webhook_is_the_name_of_a_secret_and_no_address(target, webhook):
    with refused(SettingError, "webhook") as caught:
        dataclasses.replace(load_environment(target), webhook=webhook)
    assert webhook not in str(caught.value)


# === Values of a run's parameters ===


def test_settings_of_both_steps_are_those_of_the_file():
    assert sample_settings("base") | sample_settings("finetune") == SAMPLE
    assert not set(sample_settings("base")) & set(sample_settings("finetune"))
    assert {"initial_weights", "evaluate_base"} <= set(sample_settings("base"))


@pytest.mark.parametrize("below", [{}, {"base_source": "gs://b/s", "base_epochs": 9, "base_batch_size": 0}])
def test_source_sample_brings_its_settings_where_it_is_chosen(below):
    assert layered_values(below, BOTH) == SAMPLE
    assert layered_values(below, BOTH | {"base_epochs": 5}) == SAMPLE | {"base_epochs": 5}
    finetune = {"finetune_source": "sample"}
    assert layered_values(below, finetune) == {**below, **sample_settings("finetune")}


def test_recipe_replaces_its_settings_of_earlier_layers_and_of_the_sample():
    below = {"base_epochs": 9, "finetune_learning_rate": 1.0, "base_batch_size": 2, "patience": 1}
    assert layered_values(below, {"recipe": "small"}) == {"base_batch_size": 2, "recipe": "small"}
    assert layered_values(below, {"recipe": "best"}) == {"base_batch_size": 2, "patience": 1, "recipe": "best"}
    rest = {name: value for name, value in SAMPLE.items() if not name.endswith(("_epochs", "_learning_rate"))}
    for layers in ((SAMPLE, {"recipe": "best"}), (BOTH | {"recipe": "best"},), ({"recipe": "best"}, BOTH)):
        assert layered_values(*layers) == rest | {"recipe": "best"}


@pytest.mark.parametrize(
    "layers",
    [({"recipe": "small"}, {"finetune_epochs": 10}), ({"recipe": "small", "finetune_epochs": 10},)],
)
def test_setting_in_or_after_the_layer_of_a_recipe_is_refused_even_with_its_default(layers):
    with refused(UserError, "finetune_epochs=10", "recipe=small", "finetune_epochs=5"):
        validate_values(layered_values(*layers))


@pytest.mark.parametrize("environment", ["", "local"])
def test_local_run_of_the_sample_is_the_default_run(environment, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    default, named = prepare_run("", "run", "", {}), prepare_run(environment, "run", "", BOTH)
    assert named.parameters == default.parameters
    assert named.environment == (environment or "sample")
    assert not {"base_epochs", "finetune_epochs"} & set(prepare_run("", "", "", {"recipe": "best"}).parameters)


def test_parameters_of_the_command_are_defaults_of_the_compiled_file(tmp_path):
    output = tmp_path / "mine.yaml"
    assignments = [f"{name}={value}" for name, value in {**BOTH, "base_model_uri": ""}.items()]
    assert main(["compile", "--env", "vertex", "--output", str(output), *assignments, "--base-epochs", "5"]) == 0
    defaults = Template.load(load_environment("vertex"), str(output)).values()
    assert (SAMPLE | {"base_epochs": 5}).items() <= defaults.items()
    with refused(SettingError, "--output"):
        main(["compile", *assignments])
