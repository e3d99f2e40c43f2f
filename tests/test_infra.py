"""The Terraform files, parsed: there is no cloud here, and no provider that could validate them."""

import re
import tomllib

import pytest

from pipeline.graph.environment import CONFIGS, Environment, load_environment
from pipeline.graph.parameters import DEFAULTS, require_sources, validate
from pipeline.graph.values import layered
from pipeline.registry import staging
from pipeline.vertex import checks, publish, submit
from tests.infra import FILES, FOLDER, PROJECT, blocks, environment_text, filled
from trainer.config import PRETRAINED

DEFAULT_NAME = "msinet"
OF_KUBEFLOW = {"volume_claim"}
"""Keys of an environment that Vertex AI does not have."""
SERVICE_OF_RESOURCE = {
    "google_artifact_registry_": "artifactregistry",
    "google_project_iam_": "cloudresourcemanager",
    "google_service_account": "iam",
    "google_storage_": "storage",
}


def resources(prefix):
    return {name: body for name, body in blocks("resource").items() if name[0].startswith(prefix)}


def texts(value):
    """Every text in a parsed value."""
    if isinstance(value, dict):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    else:
        yield str(value)


def all_texts():
    for kind in ("resource", "output", "locals", "provider", "variable"):
        yield from texts(blocks(kind))


def roles():
    return [role for text in all_texts() for role in re.findall(r"roles/[\w.]+", text)]


# === Form ===


def test_references_lead_to_what_is_declared():
    variables, local_values = set(blocks("variable")), set(blocks("locals"))
    declared = {".".join(name) for name in blocks("resource")}
    used = set()
    for text in all_texts():
        for kind, name in re.findall(r"\b(var|local)\.(\w+)", text):
            assert name in (variables if kind == "var" else local_values), text
            used.add(f"{kind}.{name}")
        for name in re.findall(r"\b(google_\w+\.\w+)", text):
            assert name in declared, text
    assert used == {f"var.{name}" for name in variables} | {f"local.{name}" for name in local_values}


def test_provider_is_pinned_to_one_major_version():
    text = (FOLDER / "versions.tf").read_text()
    assert re.search(r'source\s+= "hashicorp/google"\s+version\s+= "~> \d+\.\d+"', text)
    assert re.search(r'required_version = ">= [\d.]+"', text)


def test_variables_and_outputs_say_what_they_are():
    for name, body in (blocks("variable") | blocks("output")).items():
        assert body["description"].endswith("."), name


# === Resources ===


def test_every_required_api_is_enabled():
    enabled = set(blocks("locals")["apis"])
    used = {service for prefix, service in SERVICE_OF_RESOURCE.items() if resources(prefix)}
    # Service Usage enables the others, so it is enabled already.
    used |= {role.removeprefix("roles/").partition(".")[0] for role in roles()} - {"serviceusage"}
    # Machines of training jobs; clients that look up the project's number; people who act as an account.
    assert enabled == used | {"compute", "cloudresourcemanager", "iamcredentials"}
    (service,) = resources("google_project_service").values()
    assert service["for_each"] == "${local.apis}"
    assert service["service"] == "${each.key}.googleapis.com"
    assert service["disable_on_destroy"] is False


def test_everything_waits_for_the_apis():
    for name, body in blocks("resource").items():
        if name[0] == "google_project_service" or "_iam_" in name[0]:
            continue  # grants refer to what waits already
        assert "${google_project_service.api}" in body["depends_on"], name


def test_buckets_are_private_and_uniform_in_one_region_without_versions():
    bucket_resources = resources("google_storage_bucket")
    buckets = {name: body for name, body in bucket_resources.items() if name[0] == "google_storage_bucket"}
    assert len(buckets) == 3
    for name, bucket in buckets.items():
        assert bucket["uniform_bucket_level_access"] is True, name
        assert bucket["public_access_prevention"] == "enforced", name
        assert bucket["location"] == "${var.location}", name
        assert bucket["versioning"] == [{"enabled": False}], name
        assert bucket["force_destroy"] == "${var.delete_contents}", name


def test_replaced_checkpoints_are_not_billed_and_sources_and_models_can_be_restored():
    runs, data, models = (blocks("resource")["google_storage_bucket", name] for name in ("runs", "data", "models"))
    assert models["soft_delete_policy"] == [{"retention_duration_seconds": 30 * 24 * 3600}]
    assert runs["soft_delete_policy"] == [{"retention_duration_seconds": 0}]
    assert "soft_delete_policy" not in data  # Cloud Storage's default: seven days


def test_only_intermediates_expire():
    rules = blocks("resource")["google_storage_bucket", "runs"]["lifecycle_rule"]
    (expiring,) = blocks("resource")["google_storage_bucket", "runs"]["dynamic"]
    rules = [*rules, *(rule["content"][0] for rule in expiring.values())]
    deleting = [rule["condition"][0] for rule in rules if rule["action"][0]["type"] == "Delete"]
    assert [rule["matches_prefix"] for rule in deleting] == [["builds/"], ["runs/"]]
    data = blocks("resource")["google_storage_bucket", "data"]["lifecycle_rule"]
    assert [rule["action"][0]["type"] for rule in data] == ["AbortIncompleteMultipartUpload"]
    assert blocks("variable")["runs_kept_days"]["default"] == 0


def test_there_is_a_registry_of_images_and_one_of_templates():
    repositories = resources("google_artifact_registry_repository").items()
    formats = {name[1]: body["format"] for name, body in repositories if "_iam_" not in name[0]}
    assert formats == {"images": "DOCKER", "templates": "KFP"}


# === Who may do what ===


def test_no_role_is_a_broad_one():
    assert len(roles()) > 10
    for role in roles():
        assert not re.search(r"/(owner|editor|viewer|browser)$|[aA]dmin", role), role


def test_each_role_has_its_reason_next_to_it():
    lines = [line for path in FILES for line in path.read_text().splitlines()]
    named = [line for line in lines if re.search(r'"roles/|role\s+=', line.partition("#")[0])]
    assert len([line for line in named if '"roles/' in line]) == len(roles())
    for line in named:
        assert len(line.partition(" # ")[2].split()) >= 3, line


def test_grants_add_to_what_others_granted():
    # A binding or a policy would take the roles away from everybody else.
    assert not [name for name in blocks("resource") if name[0].endswith(("_iam_binding", "_iam_policy"))]
    assert not resources("google_service_account_key")


def test_grants_go_to_the_two_accounts_and_to_the_people_named():
    members = {body["member"] for body in blocks("resource").values() if "member" in body}
    assert members == {"${local.pipeline}", "${local.deployer}", "${each.value}"}
    people = [name for name, body in blocks("resource").items() if body.get("member") == "${each.value}"]
    assert people == [("google_service_account_iam_member", "people")]
    assert blocks("variable")["deployers"]["default"] == []


def granted_to(account):
    """Role -> the grants of it to one of the accounts."""
    granted = {}
    for body in blocks("resource").values():
        if body.get("member") == f"${{local.{account}}}":
            granted.setdefault(body["role"], []).append(body)
    return granted


def test_account_that_runs_may_write_its_logs():
    # Without it, a failed task has an exit status and an empty log.
    (grant,) = granted_to("pipeline")["roles/logging.logWriter"]
    assert grant["project"] == "${var.project}"


def test_account_that_runs_cannot_deploy():
    granted = granted_to("pipeline")
    assert "roles/artifactregistry.writer" not in granted
    assert "roles/cloudbuild.builds.editor" not in granted
    (acting,) = granted["roles/iam.serviceAccountUser"]
    assert acting["service_account_id"] == "${google_service_account.pipeline.name}"


# === Variables ===


def pattern_of(variable):
    (validation,) = blocks("variable")[variable]["validation"]
    return re.search(r'regex\("(.+?)",', validation["condition"])[1].replace("\\\\", "\\")


@pytest.mark.parametrize(
    ("variable", "good", "bad"),
    [
        ("project", ["my-project", "abc123"], ["123456789", "My Project", "ab", "a" * 31, "my-project-"]),
        ("location", ["us-central1", "europe-west4", "asia-northeast1"], ["us", "EU", "us-central1-a", ""]),
        ("name", [DEFAULT_NAME, "a-b", "a" * 20], ["ab", "a" * 21, "Msinet", "1st", "a_b", "abc-"]),
        (
            "deployers",
            ["user:ann@example.org", "group:ml@example.org", "serviceAccount:a@b.iam.gserviceaccount.com"],
            ["ann@example.org", "allUsers", "allAuthenticatedUsers", "domain:example.org", "user:ann"],
        ),
    ],
)
def test_validation_accepts_only_valid_values(variable, good, bad):
    pattern = pattern_of(variable)
    assert [value for value in good if not re.search(pattern, value)] == []
    assert [value for value in bad if re.search(pattern, value)] == []


def test_longest_names_are_within_the_clouds_limits():
    def longest(text):
        return len(text.replace("${var.project}", "p" * 30).replace("${var.name}", "n" * 20))

    for name, body in blocks("resource").items():
        if name[0] == "google_service_account":
            assert len(body["account_id"].replace("${var.name}", "nnn")) >= 6
            assert longest(body["account_id"]) <= 30
        if name[0] == "google_storage_bucket":
            assert longest(body["name"]) <= 63
        if name[0] == "google_artifact_registry_repository":
            assert longest(body["repository_id"]) <= 63


# === Outputs ===


@pytest.fixture
def environment(tmp_path):
    path = tmp_path / "prod.toml"
    path.write_text(environment_text())
    return load_environment(str(path))


def test_output_is_an_environment_that_the_pipeline_takes(environment):
    assert environment.target == "vertex"
    assert environment.project == PROJECT
    assert environment.bucket == f"gs://{PROJECT}-msinet-runs"
    assert environment.service_account == f"msinet-pipeline@{PROJECT}.iam.gserviceaccount.com"
    assert environment.image == f"us-central1-docker.pkg.dev/{PROJECT}/msinet/msinet-cpu:v1"
    assert environment.image_repository == filled(blocks("output")["image_repository"]["value"])
    publish.check_repository(environment.template_repository)
    validate(environment.parameters)


@pytest.mark.parametrize("written", [True, False], ids=["terraform", "example"])
def test_runs_by_default_need_no_upload_and_train_for_minutes(environment, written):
    parameters = (environment if written else load_environment("vertex")).parameters
    assert parameters["base_model_uri"] == PRETRAINED
    for passed in ({}, {"base_dataset": "salicon"}):
        values = DEFAULTS | layered(parameters, passed)
        require_sources(values)
        assert not values["base_source"]
        plans = checks.plans(environment, values)
        assert len(plans) == 1 + len(passed)
        assert all(plan.hours < 1 for plan in plans.values())


def test_runs_go_where_files_may_expire_and_models_do_not(environment):
    job = submit.prepare(environment, {}).job
    assert job["runtimeConfig"]["gcsOutputDirectory"] == f"gs://{PROJECT}-msinet-runs/runs"
    assert staging.STAGING == "models"


def test_every_key_of_an_environment_that_the_cloud_decides_is_in_the_output(tmp_path):
    keys = set(re.findall(r"(?m)^(\w+) =", environment_text().partition("[labels]")[0]))
    all_keys = {name for name in Environment.__dataclass_fields__ if name not in ("name", "parameters")}
    # A network to peer with, another address of the API and e-mail addresses have no default.
    assert keys | {"labels"} == all_keys - {"network", "endpoint", "notify"} - OF_KUBEFLOW


def test_example_environment_has_every_key_with_a_comment():
    text = (CONFIGS / "vertex.toml").read_text()
    fields = {name for name in Environment.__dataclass_fields__ if name != "name"}
    assert set(tomllib.loads(text)) == fields - OF_KUBEFLOW
    for paragraph in re.split(r"\n\n+", text.strip()):
        assert paragraph.startswith("# "), paragraph
    load_environment("vertex")
