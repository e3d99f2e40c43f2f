import dataclasses
import re

import pytest

from components import IMAGE
from pipeline.graph.dag import build_pipeline
from pipeline.graph.environment import CONFIGS, Environment, load_environment
from pipeline.graph.parameters import PARAMETERS, validate
from trainer.errors import UserError

ADDRESS = "night.shift+saliency@lab.example.org"
CLUSTER = "target = 'kubeflow'\nimage_repository = 'host/project'\n"
ENVIRONMENTS = sorted(path.stem for path in CONFIGS.glob("*.toml"))


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "mine.toml"
        path.write_text(text)
        return str(path)

    return write


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_environment_of_the_project_is_valid(name):
    environment = load_environment(name)
    validate(environment.parameters)
    assert environment.image.endswith(f"{IMAGE}:{environment.image_tag}")


def test_keys_are_no_names_of_parameters():
    assert not {field.name for field in dataclasses.fields(Environment)} & set(PARAMETERS)


def test_local_environment_trains_with_the_papers_settings():
    assert load_environment("local").parameters == {}


def test_file_given_by_its_path_is_an_environment(write):
    environment = load_environment(write("[parameters]\nbase_epochs = 2\nbase_learning_rate = 1\n"))
    assert (environment.name, environment.target) == ("mine", "local")
    assert environment.parameters == {"base_epochs": 2, "base_learning_rate": 1.0}


def test_image_has_its_repository_and_tag():
    environment = Environment("mine", image_repository="host/project", image_tag="v1")
    assert environment.image == f"host/project/{IMAGE}:v1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("projekt = 'x'", "unknown key 'projekt'; did you mean 'project'"),
        ("base_epochs = 2", r"unknown key 'base_epochs'.*belong below \[parameters\]"),
        ("project = 3", r"project is 3; it must be a string \(str\)"),
        ("notify = 'me@example.org'", "notify is 'me@example.org'; it must be a list of strings"),
        ("[labels]\nteam = 3", "labels has 3; it must be a table of strings"),
        ("target = 'vertx'", "target is 'vertx'; choose one of local, vertex, kubeflow; did you mean 'vertex'"),
        ("target = 'vertex'", "project is empty; target vertex needs it"),
        ("target = 'kubeflow'", "bucket is empty; target kubeflow needs it"),
        (CLUSTER + "bucket = 'data'", "bucket is 'data'; write it as .*, or /FOLDER with volume_claim"),
        (CLUSTER + "bucket = '/data'", "bucket is '/data'; write it as .*, or /FOLDER with volume_claim"),
        (
            CLUSTER + "bucket = 'gs://b'\nvolume_claim = 'v'",
            "bucket is 'gs://b', but volume_claim is 'v'; set bucket",
        ),
        (
            CLUSTER + "bucket = '/gcs/b'\nvolume_claim = 'v'",
            "bucket is '/gcs/b', but on Kubeflow /gcs is a folder",
        ),
        ("volume_claim = 'v'", "volume_claim is 'v', but target local mounts no volumes"),
        ("[parameters]\nbase_epoch = 2", "unknown parameter 'base_epoch'; did you mean 'base_epochs'"),
        ("[parameters]\nbase_epochs = 'two'", "base_epochs is 'two'; it must be an integer"),
        ("target = ", "mine.toml cannot be read as TOML"),
        ("parameters = 2", r"write \[parameters\]"),
    ],
)
def test_mistake_in_a_file_is_reported_with_its_name(write, text, message):
    with pytest.raises(UserError, match=f"mine.toml: .*{message}" if ".toml" not in message else message):
        load_environment(write(text))


@pytest.mark.parametrize(
    "content",
    [
        "image_tag = 'grün'".encode("cp1252"),
        b"notify = " + b"[" * 5000,
        b"[parameters]\nbase_epochs = " + b"9" * 5000,
    ],
    ids=["cp1252", "deep", "digits"],
)
def test_file_that_is_no_toml_in_utf_8_is_refused_with_its_name(content, tmp_path):
    (tmp_path / "mine.toml").write_bytes(content)
    with pytest.raises(UserError, match=r"mine\.toml cannot be read as TOML in UTF-8"):
        load_environment(str(tmp_path / "mine.toml"))


def test_file_in_utf_8_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "mine.toml").write_bytes(b"\xef\xbb\xbfimage_tag = 'v1'")
    assert load_environment(str(tmp_path / "mine.toml")).image_tag == "v1"


@pytest.mark.parametrize("name", ["x" * 5000, "x" * 5000 + ".toml"])
def test_name_that_no_file_can_have_is_unknown(name):
    with pytest.raises(UserError, match="unknown environment 'xxx"):
        load_environment(name)


def test_unknown_environment_is_refused_with_the_nearest_one():
    with pytest.raises(UserError, match=r"unknown environment 'vertx'; did you mean 'vertex'.*known: kubeflow"):
        load_environment("vertx")


def test_unknown_environment_names_the_guide():
    with pytest.raises(
        UserError, match=r"unknown environment 'prod' .*; to make one .*, see docs/vertex.md, step \d"
    ):
        load_environment("prod")


@pytest.mark.parametrize(
    ("bucket", "place"),
    [("gs://name", "gs://name"), ("gs://name/folder/", "gs://name/folder"), ("/data", "/data")],
)
def test_registry_and_checkpoints_on_kubeflow_follow_from_its_bucket(bucket, place):
    claim = "" if "://" in bucket else "saliency"
    environment = Environment(
        "mine", "kubeflow", bucket=bucket, volume_claim=claim, image_repository="host/project"
    )
    assert environment.derived == {"registry": f"{place}/models", "checkpoint_dir": f"{place}/checkpoints"}
    validate(environment.derived, "kubeflow")
    chosen = dataclasses.replace(environment, parameters={"registry": "vertex://project/us-central1"})
    defaults = build_pipeline("kubeflow", chosen).pipeline_spec.root.input_definitions.parameters
    assert defaults["registry"].default_value.string_value == "vertex://project/us-central1"
    assert defaults["checkpoint_dir"].default_value.string_value == f"{place}/checkpoints"


def test_only_one_module_has_the_image_names():
    root = CONFIGS.parent
    sources = [path for folder in ("pipeline", "components", "trainer") for path in (root / folder).rglob("*.py")]
    assert len(sources) > 10
    assert [path.parent.name for path in sources if IMAGE in path.read_text()] == ["components"]


def notifying(addresses, target="vertex"):
    return dataclasses.replace(load_environment(target), notify=addresses)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_up_to_three_addresses_are_told(count):
    assert len(notifying([ADDRESS] * count).notify) == count


def test_fourth_address_is_refused():
    with pytest.raises(UserError, match="notify has 4 addresses, but Vertex AI sends to at most 3"):
        notifying([ADDRESS] * 4)


@pytest.mark.parametrize(
    "address",
    ["", "lab", "lab@", "@example.org", "a@b", "a b@c.org", "a@b.org,c@d.org", "<a@b.org>", "a@.org", "a@@b.org"],
)
def test_text_that_is_no_address_is_refused(address):
    with pytest.raises(UserError, match="which is not an e-mail address"):
        notifying([address])


@pytest.mark.parametrize("target", ["local", "kubeflow"])
def test_addresses_are_refused_where_nothing_sends_e_mails(target):
    with pytest.raises(UserError, match=f"notify is {re.escape(ADDRESS)}, .*target {target}"):
        notifying([ADDRESS], target)


def test_environment_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        load_environment("local").target = "vertex"  # type: ignore[misc]


@pytest.mark.parametrize("bucket", ["gs://name/folder/", "gs://name/folder//"])
def test_slash_at_the_end_of_a_bucket_is_left_out(tmp_path, bucket):
    path = tmp_path / "mine.toml"
    path.write_text(f'target = "local"\nbucket = "{bucket}"\n')
    assert load_environment(str(path)).bucket == "gs://name/folder"


@pytest.mark.parametrize("bucket", ["gs://Name", "gs://name//folder", "gs:///folder"])
def test_bucket_that_cannot_exist_is_refused(bucket):
    with pytest.raises(UserError, match="write it as gs://NAME or gs://NAME/FOLDER"):
        Environment("mine", bucket=bucket)
