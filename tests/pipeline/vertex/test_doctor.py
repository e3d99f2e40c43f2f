"""`doctor` against a project on loopback: each thing that can be missing, once."""

import dataclasses
import re

import pytest

from pipeline import grants
from pipeline.vertex.doctor import examine
from pipeline.vertex.doctor.questions import MISSING, OK, UNKNOWN
from tests.pipeline.vertex.doctoring import found, only
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
    assert all(re.search(":testIamPermissions|:getIamPolicy", request.path) for request in vertex.sent("POST"))


def test_each_permission_is_asked_for_and_its_role_named(vertex, project):
    kinds = (grants.PROJECT, grants.BUCKET, grants.IMAGES, grants.ACCOUNT)
    for grant in (each for each in grants.DEPLOYER if each.resource in kinds):
        for permission in grant.permissions:
            project.denied = {(ME, permission)}
            others = [finding for finding in found(vertex) if finding.state != OK]
            assert {finding.state for finding in others} == {MISSING}
            assert all(f"lacks {permission} on " in finding.text for finding in others)
            assert any(f"--member={ME} --role={grant.role}" in finding.remedy for finding in others)


def test_each_role_of_the_account_is_read_from_policies(vertex, project):
    for resource, bindings in project.policies.items():
        for binding in [each for each in bindings if ACCOUNT in each["members"]]:
            if resource == "repositories/templates":
                continue
            bindings.remove(binding)
            remedies = [finding.remedy for finding in found(vertex) if finding.state == MISSING]
            assert remedies, binding
            assert all(f"--member={ACCOUNT} --role={binding['role']}" in remedy for remedy in remedies)
            bindings.append(binding)


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


def test_data_may_be_in_another_region(vertex, project):
    project.buckets["data"] = {"location": "EU", "objects": ["salicon/x"]}
    project.bind("b/data", ACCOUNT, "roles/storage.objectViewer")
    assert {finding.state for finding in found(vertex, base_source="gs://data/salicon")} == {OK}


def test_commands_have_a_placeholder_for_an_address_that_is_unknown(vertex, project):
    vertex.fail(403, path="/userinfo")
    project.denied = {(ME, "iam.serviceAccounts.actAs")}
    assert " --member=user:YOUR_ADDRESS --role=" in only(found(vertex), MISSING).remedy


def test_conditional_role_does_not_count(vertex, project):
    for binding in project.policies[f"projects/{PROJECT}"]:
        if binding["role"] == "roles/logging.logWriter":
            binding["condition"] = {"expression": "request.time < timestamp('2026-01-01T00:00:00Z')"}
    assert "logging.logEntries.create" in only(found(vertex), MISSING).text


def test_permissions_that_may_not_be_seen_are_unknown_with_the_command_that_grants_them(vertex, project):
    project.may_read_policies = False
    others = [finding for finding in found(vertex) if finding.state != OK]
    assert {finding.state for finding in others} == {UNKNOWN}
    assert all("you may not see it" in finding.text for finding in others)
    assert {re.search(r"--role=(\S+)", finding.remedy)[1] for finding in others} == {
        grant.role for grant in grants.PIPELINE if grant.resource != grants.DATA
    }


def turn_off(project):
    project.apis.remove("logging")


def remove_image(project):
    project.repositories["msinet"]["tags"].remove("msinet-gpu/v1")


def move_bucket(project):
    next(iter(project.buckets.values()))["location"] = "EUROPE-WEST4"


def remove_data(project):
    next(iter(project.buckets.values()))["objects"] = ["salicon-of-others/x"]


def remove_archive(project):
    project.buckets["hmm-ml-models"]["objects"].clear()


@pytest.mark.parametrize(
    ("change", "text", "remedy"),
    [
        (
            turn_off,
            "APIs that are off: logging.googleapis.com",
            "gcloud services enable logging.googleapis.com --pro",
        ),
        (remove_image, "msinet/msinet-gpu:v1 does not exist", "make images ENV=prod"),
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


def test_what_does_not_exist_is_not_called_missing_for_its_permissions(vertex, project):
    project.buckets.clear()
    findings = found(vertex)
    assert any(each.text == f"bucket gs://{bucket_of(vertex)} does not exist" for each in findings)
    assert not [each for each in findings if "lacks" in each.text]


# === What an environment may name ===


def test_account_is_the_default_one_if_the_environment_names_none(vertex, project):
    vertex.environment = dataclasses.replace(vertex.environment, service_account="")
    remedies = [finding.remedy for finding in found(vertex) if finding.state == MISSING]
    assert "--member=serviceAccount:123456789-compute@developer.gserviceaccount.com" in remedies[-1]


def test_images_elsewhere_cannot_be_asked_for(vertex, project):
    vertex.environment = dataclasses.replace(vertex.environment, image_repository="docker.io/ann/msinet")
    others = [finding for finding in found(vertex) if finding.state != OK]
    assert {finding.state for finding in others} == {UNKNOWN}
    assert "image docker.io/ann/msinet/msinet-cpu:v1 is not in Artifact Registry" in others[0].text


def test_data_that_only_the_account_may_read_is_unknown(vertex, project):
    project.buckets[bucket_of(vertex)]["is_secret"] = True
    assert "storage.objects.list" in only(found(vertex), UNKNOWN).text


# === Parameters ===


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"base_accelerator": "l5"}, "unknown accelerator 'l5'; did you mean 'l4'"),
        ({"base_source": "ftp://h.org/salicon.zip"}, "ftp://h.org/salicon.zip' is no address that can be fetched"),
        ({"base_source": "data/salicon"}, "which machines on Vertex AI cannot access"),
        ({"base_accelerator": "v5e-1", "base_batch_size": 512}, "base training: "),
        ({"timeout_hours": 0.5}, "but timeout_hours is 0.5"),
    ],
)
def test_what_the_plan_refuses_is_a_finding_too(vertex, project, parameters, text):
    findings = [finding for finding in found(vertex, **parameters) if finding.state == MISSING]
    assert len([finding for finding in findings if text in finding.text]) == 1


def test_environment_of_another_target_is_one_error(vertex):
    with pytest.raises(UserError, match="environment prod is for target local"):
        examine.make_case(dataclasses.replace(vertex.environment, target="local"), {})
