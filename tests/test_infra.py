"""The Terraform files, parsed: what they keep private and safe, and the environment that they write.

Terraform and its provider judge the files in `make check-infra`.
"""

import re

import pytest

from lifecycle.machines.settings import JobConfig
from lifecycle.runs.parameters import DEFAULTS, Values
from lifecycle.runs.settled import require_sources, settle, validate_values
from pipeline.graph import compiled
from pipeline.graph.environment import Environment, layered_values, load_environment, load_environments
from pipeline.vertex.rights import AGENT
from pipeline.vertex.submit import Submission
from tests.infra import FILES, FURTHER, PROJECT, blocks, environment_text, filled
from trainer.models.model_names import PRETRAINED

OF_KUBEFLOW = {"volume_claim"}
"""Keys of an environment that Vertex AI does not have."""


def resources(prefix):
    return {name: body for name, body in blocks("resource").items() if name[0].startswith(prefix)}


# === Resources ===


def test_buckets_are_private_and_uniform_in_one_region_without_versions():
    bucket_resources = resources("google_storage_bucket")
    buckets = {name: body for name, body in bucket_resources.items() if name[0] == "google_storage_bucket"}
    assert len(buckets) == 4
    for name, bucket in buckets.items():
        assert bucket["uniform_bucket_level_access"] is True, name
        assert bucket["public_access_prevention"] == "enforced", name
        where = "further_location" if name[1] == "further_runs" else "location"
        assert bucket["location"] == f"${{var.{where}}}", name
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


# === Who may do what; the roles of each account are in tests/pipeline/vertex/test_grants.py ===


def test_no_role_is_a_broad_one():
    roles = [role for path in FILES for role in re.findall(r"roles/[\w.]+", path.read_text())]
    assert len(roles) > 10
    assert not [role for role in roles if re.search(r"/(owner|editor|viewer|browser)$|[aA]dmin", role)]


def test_grants_add_to_what_others_granted():
    # A binding or a policy would take the roles away from everybody else.
    assert not [name for name in blocks("resource") if name[0].endswith(("_iam_binding", "_iam_policy"))]
    assert not resources("google_service_account_key")


def test_grants_go_to_the_two_accounts_and_to_the_people_named():
    members = {body["member"] for body in blocks("resource").values() if "member" in body}
    trigger = "serviceAccount:${google_service_account.trigger[0].email}"
    storage = "serviceAccount:${data.google_storage_project_service_account.storage[0].email_address}"
    agent = AGENT.format("${data.google_project.own[count.index].number}")
    assert members == {"${local.pipeline}", "${local.deployer}", "${each.value}", trigger, storage, agent}
    people = [name for name, body in blocks("resource").items() if body.get("member") == "${each.value}"]
    assert people == [("google_service_account_iam_member", "people")]
    assert blocks("variable")["deployers"]["default"] == []


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
    assert re.fullmatch(compiled.REPOSITORY, environment.template_repository)
    validate_values(environment.parameters)


def test_bucket_of_another_region_is_made_only_if_asked_for_and_is_otherwise_the_same():
    first, further = (blocks("resource")["google_storage_bucket", name] for name in ("runs", "further_runs"))
    assert blocks("variable")["further_location"]["default"] == ""
    counts = [body["count"] for name, body in blocks("resource").items() if "further" in name[1]]
    assert counts == ["${local.further}"] * 5
    (first_expiring,), (further_expiring,) = first["dynamic"], further["dynamic"]
    assert first_expiring == further_expiring
    assert further["soft_delete_policy"] == first["soft_delete_policy"]
    builds = [rule for rule in first["lifecycle_rule"] if rule not in further["lifecycle_rule"]]
    assert [rule["condition"][0]["matches_prefix"] for rule in builds] == [["builds/"]]


def test_environments_of_both_regions_can_take_over_runs_of_each_other(environment, tmp_path):
    other = tmp_path / "prod-eu.toml"
    other.write_text(environment_text("regions.tf"))
    both = load_environments(f"{tmp_path / 'prod.toml'},{other}")
    assert both.places == [
        (environment.location, environment.bucket),
        (FURTHER, f"gs://{PROJECT}-msinet-runs-{FURTHER}"),
    ]


@pytest.mark.parametrize("written", [True, False], ids=["terraform", "example"])
def test_runs_by_default_need_no_upload_and_train_for_minutes(environment, written):
    parameters = (environment if written else load_environment("vertex")).parameters
    assert parameters["base_model_uri"] == PRETRAINED
    for passed in ({}, {"base_model_uri": ""}):
        values = DEFAULTS | environment.derived | layered_values(parameters, passed)
        require_sources(Values(values))
        assert not values["base_source"]
        plans = settle(values, "vertex", environment.location, given={}).plans
        assert len(plans) == 1 + len(passed)
        assert all(plan.most_hours < 1 for plan in plans.values())


def test_tensorboard_costs_nothing_unless_it_is_asked_for_and_its_name_is_the_parameters():
    body = blocks("resource")["google_vertex_ai_tensorboard", "trainings"]
    assert (body["count"], blocks("variable")["tensorboard"]["default"]) == ("${var.tensorboard ? 1 : 0}", False)
    # The provider's name is that of the resource in the API.
    name = f"projects/123/locations/{blocks('variable')['location']['default']}/tensorboards/456"
    assert JobConfig(tensorboard=name, training_service_account="a@b").tensorboard == name
    assert blocks("output")["tensorboard"]["value"].count("google_vertex_ai_tensorboard.trainings[*].name") == 1


def test_runs_go_where_files_may_expire_and_models_do_not(environment):
    job = Submission.prepare(environment, {}).job
    assert job["runtimeConfig"]["gcsOutputDirectory"] == f"gs://{PROJECT}-msinet-runs/runs"


def test_every_key_of_an_environment_that_the_cloud_decides_is_in_the_output(tmp_path):
    keys = set(re.findall(r"(?m)^(\w+) =", environment_text().partition("[labels]")[0]))
    all_keys = {name for name in Environment.__dataclass_fields__ if name not in ("name", "parameters", "further")}
    # A network to peer with, another address of the API and people to notify have no default.
    own = {"network", "endpoint", "notify", "webhook", "webhook_on"}
    assert keys | {"labels"} == all_keys - own - OF_KUBEFLOW
