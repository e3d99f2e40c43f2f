"""`doctor` against a project on loopback: each thing that can be missing, once."""

import dataclasses
import re

import pytest

from pipeline import grants
from pipeline.vertex.doctor import examine
from pipeline.vertex.doctor.findings import MISSING, OK, UNKNOWN
from tests.pipeline.vertex.doctoring import NETWORK, TENSORBOARD, found, only
from tests.vertex import PROJECT, PROJECT_NUMBER, SERVICE_ACCOUNT
from tests.vertex_project import CALLER
from trainer.errors import UserError

ME, ACCOUNT = f"user:{CALLER}", f"serviceAccount:{SERVICE_ACCOUNT}"


def bucket_of(vertex):
    return vertex.environment.bucket.split("/")[2]


def test_project_that_lacks_nothing(vertex, project):
    states = {finding.state for finding in found(vertex)}
    assert states == {OK}
    assert {request.method for request in vertex.requests} == {"GET", "POST"}
    asking = r":testIamPermissions|:generateAccessToken"
    assert all(re.search(asking, request.path) for request in vertex.sent("POST"))


@pytest.mark.parametrize("member", [ME, ACCOUNT])
def test_each_permission_is_asked_for_and_its_role_named(vertex, project, member):
    needed = grants.DEPLOYER if member == ME else grants.PIPELINE
    kinds = {grants.PROJECT, grants.BUCKET, grants.IMAGES, grants.TEMPLATES, grants.ACCOUNT}
    if member == ACCOUNT:
        kinds = kinds - {grants.ACCOUNT} | {grants.ITSELF}
    for grant in (each for each in needed if each.resource in kinds):
        for permission in grant.permissions:
            project.denied = {(member, permission)}
            others = [finding for finding in found(vertex) if finding.state != OK]
            assert {finding.state for finding in others} == {MISSING}
            assert all(f"lacks {permission} on " in finding.text for finding in others)
            assert any(f"--member={member} --role={grant.role}" in finding.remedy for finding in others)


@pytest.mark.parametrize(
    "values", [{"base_source": "gs://data/set"}, {"test_dataset": "osie", "test_source": "gs://data/set"}]
)
def test_permissions_on_data_are_the_accounts_alone(vertex, project, values):
    project.buckets["data"] = {"location": "us-central1", "objects": ["set/x"]}
    finding = only(found(vertex, **values), MISSING)
    assert finding.text == "lacks storage.objects.get, storage.objects.list on bucket gs://data"
    command = "gcloud storage buckets add-iam-policy-binding gs://data"
    assert finding.remedy == f"{command} --member={ACCOUNT} --role=roles/storage.objectViewer"
    project.bind("b/data", ACCOUNT, "roles/storage.objectViewer")
    assert {finding.state for finding in found(vertex, **values)} == {OK}


def test_service_agent_must_read_versions_in_a_bucket_of_another_project(vertex, project):
    project.is_owner = True
    registry = f"vertex://{PROJECT}/us-central1?serving=cpu&staging=gs://models/msinet"
    project.buckets["models"] = {"location": "us-central1", "objects": [], "projectNumber": "42"}
    for member in (ACCOUNT, ME):
        for role in ("roles/storage.bucketViewer", "roles/storage.objectUser"):
            project.bind("b/models", member, role)
    finding = only(found(vertex, registry=registry), MISSING)
    agent = f"serviceAccount:service-{PROJECT_NUMBER}@gcp-sa-aiplatform.iam.gserviceaccount.com"
    assert finding.text.startswith("Vertex AI's service agent lacks storage.objects.get on bucket gs://models")
    assert finding.remedy.endswith(f"gs://models --member={agent} --role=roles/storage.objectViewer")
    project.bind("b/models", agent, "roles/storage.objectViewer")
    assert {finding.state for finding in found(vertex, registry=registry)} == {OK}


def test_data_in_another_region_is_only_said(vertex, project):
    project.buckets["data"] = {"location": "EU", "objects": ["salicon/x"]}
    project.bind("b/data", ACCOUNT, "roles/storage.objectViewer")
    findings = found(vertex, base_source="gs://data/salicon")
    assert {finding.state for finding in findings} == {OK}
    assert "bucket gs://data is in eu; reading it from us-central1 costs" in "\n".join(
        each.text for each in findings
    )


def test_commands_have_a_placeholder_for_an_address_that_is_unknown(vertex, project):
    vertex.fail(403, path="/userinfo")
    project.denied = {(ME, "iam.serviceAccounts.actAs")}
    assert " --member=user:YOUR_ADDRESS --role=" in only(found(vertex), MISSING).remedy


def test_owner_reads_the_accounts_roles_from_policies(vertex, project):
    project.is_owner, project.is_impersonable = True, False
    assert {finding.state for finding in found(vertex)} == {OK}
    bindings = project.policies[f"projects/{PROJECT}"]
    bindings[:] = [each for each in bindings if each["role"] != "roles/logging.logWriter"]
    finding = only(found(vertex), MISSING)
    assert finding.text == f"lacks logging.logEntries.create on project {PROJECT}"


def test_conditional_role_does_not_count(vertex, project):
    project.is_owner, project.is_impersonable = True, False
    for binding in project.policies[f"projects/{PROJECT}"]:
        if binding["role"] == "roles/logging.logWriter":
            binding["condition"] = {"expression": "request.time < timestamp('2026-01-01T00:00:00Z')"}
    assert "logging.logEntries.create" in only(found(vertex), MISSING).text


def test_permissions_that_may_not_be_seen_are_unknown_with_the_command_that_grants_them(vertex, project):
    project.is_impersonable = False
    others = [finding for finding in found(vertex) if finding.state != OK]
    assert {finding.state for finding in others} == {UNKNOWN}
    assert {finding.reason for finding in others} == {
        "you may not see whether it has these; their owner can grant them, or run this"
    }
    assert {re.search(r"--role=(\S+)", finding.remedy)[1] for finding in others} == {
        grant.role for grant in grants.PIPELINE if grant.resource != grants.DATA
    }


def set_state(project):
    project.state = "DELETE_REQUESTED"


def end_billing(project):
    project.billing = ""


def turn_off(project):
    project.apis.remove("logging")


def remove_account(project):
    del project.accounts[SERVICE_ACCOUNT]


def disable_account(project):
    project.accounts[SERVICE_ACCOUNT] = {"disabled": True}


def remove_template(project):
    project.repositories["templates"]["tags"].clear()


def remove_image(project):
    project.repositories["msinet"]["tags"].remove("msinet-gpu/v1")


def change_format(project):
    project.repositories["templates"]["format"] = "DOCKER"


def move_bucket(project):
    next(iter(project.buckets.values()))["location"] = "EUROPE-WEST4"


def remove_data(project):
    next(iter(project.buckets.values()))["objects"] = ["salicon-of-others/x"]


def remove_archive(project):
    project.buckets["hmm-ml-models"]["objects"].clear()


@pytest.mark.parametrize(
    ("change", "text", "remedy"),
    [
        (set_state, "project proj is in state DELETE_REQUESTED", "gcloud projects undelete proj"),
        (end_billing, "project proj has no open billing account", "https://console.cloud.google.com/billing/"),
        (
            turn_off,
            "APIs that are off: logging.googleapis.com",
            "gcloud services enable logging.googleapis.com --pro",
        ),
        (disable_account, f"{SERVICE_ACCOUNT} is disabled", f"service-accounts enable {SERVICE_ACCOUNT}"),
        (remove_template, "template msinet with tag v1 does not exist", "pipeline publish --env prod --tag v1"),
        (remove_image, "msinet/msinet-gpu:v1 does not exist", "make images ENV=prod"),
        (change_format, "repository templates has format DOCKER, not KFP", "name another repository"),
        (move_bucket, "is in europe-west4, but runs are in us-central1", "set bucket to one in us-central1"),
        (remove_data, "/salicon: there is nothing", "gcloud storage cp FOLDER gs://"),
        (remove_archive, "add1000.tar.gz: there is nothing", "gcloud storage cp ARCHIVE gs://hmm-ml-models/"),
    ],
)
def test_each_thing_that_is_missing_has_a_remedy(vertex, project, change, text, remedy):
    change(project)
    finding = only(found(vertex), MISSING)
    assert text in finding.text
    assert remedy in finding.remedy


@pytest.mark.parametrize(
    ("lost", "text", "remedy"),
    [
        ("accounts", f"account {SERVICE_ACCOUNT} does not exist", "gcloud iam service-accounts create runner"),
        ("buckets", "bucket gs://bucket-", "gcloud storage buckets create gs://bucket-"),
        (
            "repositories",
            "repository msinet does not exist",
            "repositories create msinet --repository-format=docker",
        ),
    ],
)
def test_what_depends_on_something_missing_is_not_called_missing_for_its_permissions(
    vertex, project, lost, text, remedy
):
    project.is_owner = True  # so that the account's roles can still be read
    getattr(project, lost).clear()
    findings = found(vertex)
    assert any(text in each.text and remedy in each.remedy for each in findings if each.state == MISSING)
    assert "to be asked once these exist" in {finding.reason for finding in findings}
    assert not [
        each for each in findings if each.state == MISSING and "lacks" in each.text and lost[:6] in each.text
    ]


def test_project_that_does_not_exist(vertex, project):
    vertex.fail(403, 99, path=f"/v3/projects/{PROJECT}", message="The caller does not have permission")
    texts = [finding.text for finding in found(vertex) if finding.state == MISSING]
    assert texts == [
        f"project {PROJECT} does not exist, or you may not see it; its id is `project` of environment prod"
    ]


# === What an environment may name ===


@pytest.mark.parametrize(
    ("parameters", "there", "remedy"),
    [
        (
            {"tensorboard": TENSORBOARD},
            lambda project: project.others.update({"tensorboards/7": {}}),
            "gcloud ai tensorboards create --display-name=msinet --region=us-central1",
        ),
        (
            {"persistent_resource": "gpus-1"},
            lambda project: project.others.update({"persistentResources/gpus-1": {"state": "RUNNING"}}),
            "gcloud ai persistent-resources list --region=us-central1",
        ),
    ],
)
def test_resources_that_parameters_name_must_exist(vertex, project, parameters, there, remedy):
    finding = only(found(vertex, **parameters), MISSING)
    assert finding.text.endswith("does not exist")
    assert finding.remedy.startswith(remedy)
    there(project)
    assert {finding.state for finding in found(vertex, **parameters)} == {OK}


def test_network_must_exist_and_be_peered(vertex, project):
    project.apis.add("servicenetworking")
    vertex.environment = dataclasses.replace(vertex.environment, network=NETWORK)
    assert only(found(vertex), MISSING).text == f"network {NETWORK} does not exist"
    project.networks["main"] = []
    assert "vpc-peerings connect" in only(found(vertex), MISSING).remedy
    project.networks["main"] = ["servicenetworking-googleapis-com"]
    assert {finding.state for finding in found(vertex)} == {OK}


def test_account_is_the_default_one_if_the_environment_names_none(vertex, project):
    vertex.environment = dataclasses.replace(vertex.environment, service_account="")
    texts = [finding.text for finding in found(vertex) if finding.state == MISSING]
    assert texts[0] == "account 123456789-compute@developer.gserviceaccount.com does not exist"


def test_images_elsewhere_cannot_be_asked_for(vertex, project):
    vertex.environment = dataclasses.replace(vertex.environment, image_repository="docker.io/ann/msinet")
    others = [finding for finding in found(vertex) if finding.state != OK]
    assert {finding.state for finding in others} == {UNKNOWN}
    assert "image docker.io/ann/msinet/msinet-cpu:v1 is not in Artifact Registry" in others[0].text


def test_data_that_only_the_account_may_read_is_unknown(vertex, project):
    project.buckets[bucket_of(vertex)]["is_secret"] = True
    assert "you may not read it" in only(found(vertex), UNKNOWN).text


# === Parameters ===


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"base_accelerator": "l5"}, "unknown accelerator 'l5'; did you mean 'l4'"),
        ({"base_source": "ftp://h.org/salicon.zip"}, "addresses that begin with ftp:// are not fetched"),
        ({"base_source": "data/salicon"}, "which machines on Vertex AI cannot access"),
        ({"base_accelerator": "v5e-1", "base_batch_size": 512}, "base training: "),
        ({"timeout_hours": 0.5}, "but timeout_hours is 0.5"),
    ],
)
def test_what_the_plan_refuses_is_a_finding_too(vertex, project, parameters, text):
    findings = [finding for finding in found(vertex, **parameters) if finding.state == MISSING]
    assert len([finding for finding in findings if text in finding.text]) == 1
    assert any(f"project {PROJECT} exists" in finding.text for finding in found(vertex, **parameters))


def test_environment_of_another_target_is_one_error(vertex):
    with pytest.raises(UserError, match="environment prod is for target local"):
        examine.make_case(dataclasses.replace(vertex.environment, target="local"), {})
