"""`doctor` against a project on loopback: each thing that can be missing, once."""

import dataclasses
import io
import re
import socket

import pytest

from pipeline import cloud, grants
from pipeline.__main__ import main
from pipeline.vertex.doctor import examine
from pipeline.vertex.doctor.api import Api
from pipeline.vertex.doctor.findings import MISSING, OK, UNKNOWN
from tests.vertex import DROP, PROJECT, SERVICE_ACCOUNT, write_config
from tests.vertex_project import CALLER, SERVICES, Project
from trainer.errors import UserError

ME, ACCOUNT = f"user:{CALLER}", f"serviceAccount:{SERVICE_ACCOUNT}"
TENSORBOARD = f"projects/{PROJECT}/locations/us-central1/tensorboards/7"
NETWORK = "projects/123456789/global/networks/main"


@pytest.fixture
def project(vertex):
    """A project that lacks nothing."""
    return vertex.state["project"]


def found(vertex, **parameters):
    """Every finding for a run with these parameters."""
    case, settings = examine.make_case(vertex.environment, parameters)
    groups = [settings, *examine.examine(case, Api(vertex.environment))]
    return [finding for group in groups for finding in group.findings]


def only(findings, state):
    """The one finding with this state; all others must be OK."""
    others = [finding for finding in findings if finding.state != OK]
    assert [finding.state for finding in others] == [state], others
    return others[0]


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


def test_permissions_on_data_are_the_accounts_alone(vertex, project):
    project.buckets["data"] = {"location": "us-central1", "objects": ["salicon/x"]}
    finding = only(found(vertex, base_source="gs://data/salicon"), MISSING)
    assert finding.text == "lacks storage.objects.get, storage.objects.list on bucket gs://data"
    command = "gcloud storage buckets add-iam-policy-binding gs://data"
    assert finding.remedy == f"{command} --member={ACCOUNT} --role=roles/storage.objectViewer"
    project.bind("b/data", ACCOUNT, "roles/storage.objectViewer")
    assert {finding.state for finding in found(vertex, base_source="gs://data/salicon")} == {OK}


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
        (remove_data, "/salicon: there is nothing", "gcloud storage cp --recursive FOLDER gs://"),
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


# === Quota ===

L4 = {"base_accelerator": "l4", "base_batch_size": 0}


@pytest.mark.parametrize(
    ("parameters", "metric", "count"),
    [
        (L4, "custom_model_training_nvidia_l4_gpus", 1),
        ({**L4, "base_workers": 4}, "custom_model_training_nvidia_l4_gpus", 4),
        ({**L4, "base_accelerator": "l4-2", "base_workers": 2}, "custom_model_training_nvidia_l4_gpus", 4),
        ({**L4, "base_accelerator": "v5e-4"}, "custom_model_training_tpu_v5e", 4),
        (
            {**L4, "finetune_accelerator": "l4-8", "finetune_batch_size": 0},
            "custom_model_training_nvidia_l4_gpus",
            8,
        ),
    ],
)
def test_quota_of_the_plan_is_compared(vertex, project, parameters, metric, count):
    project.quotas[metric] = {"": 0, "us-central1": count - 1, "europe-west4": 99}
    finding = only(found(vertex, **parameters), MISSING)
    assert finding.text.startswith(f"quota {metric} in us-central1 is {count - 1}, but the plan takes {count}")
    assert finding.remedy.endswith(f"iam-admin/quotas?project=proj&metric=aiplatform.googleapis.com/{metric}")
    project.quotas[metric] = {"": 0, "us-central1": count}
    assert {finding.state for finding in found(vertex, **parameters)} == {OK}


@pytest.mark.parametrize("provisioning", ["spot", "flex-start"])
def test_spot_and_flex_start_take_preemptible_quota(vertex, project, provisioning):
    project.quotas.clear()
    project.quotas["custom_model_training_cpus"] = {"": 64}
    both = {**L4, "finetune_accelerator": "l4", "finetune_batch_size": 0, "provisioning": provisioning}
    short = [finding.text for finding in found(vertex, **both) if finding.state == MISSING]
    assert [text.split()[1] for text in short] == [
        "custom_model_training_preemptible_nvidia_l4_gpus",
        "custom_model_training_preemptible_cpus",
    ]
    assert "is 0, but the plan takes 8" in short[1]


def test_limits_are_read_as_the_api_writes_them(vertex, project):
    metric = "custom_model_training_nvidia_l4_gpus"
    for limits, state in (({"": -1}, OK), ({"": 8}, OK), ({"": 8, "us-central1": 0}, MISSING)):
        project.quotas[metric] = limits
        states = {each.state for each in found(vertex, **L4) if metric in each.text}
        assert states == {state}, limits


def test_metric_that_google_does_not_have_is_unknown(vertex, project, monkeypatch):
    monkeypatch.setattr("tests.vertex_project.METRICS", [])
    del project.quotas["custom_model_training_nvidia_l4_gpus"]
    assert "Google names no limit; the plan takes 1" in only(found(vertex, **L4), UNKNOWN).text


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
        ({"base_accelerator": "l5"}, "unknown accelerator 'l5'"),
        ({"base_source": ""}, "salicon has no default source"),
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


# === Services that do not answer as they should ===


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503, DROP])
def test_no_answer_is_never_a_traceback(vertex, project, status):
    vertex.fail(status, 999, message="out of order")
    findings = found(vertex)
    assert {finding.state for finding in findings} <= {OK, MISSING, UNKNOWN}
    assert len([finding for finding in findings if finding.state == UNKNOWN]) > 10
    assert all("Traceback" not in finding.text for finding in findings)


@pytest.mark.parametrize(
    "answer", ["a page of a proxy", [], {}, {"services": [{}]}, {"location": 3, "state": None}]
)
def test_strange_answers_are_never_a_traceback(vertex, project, monkeypatch, answer):
    monkeypatch.setattr(vertex, "answer", lambda request: (200, answer))
    assert found(vertex)


def test_no_network_is_said_with_each_thing(vertex, project):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        vertex.environment = dataclasses.replace(vertex.environment, endpoint=url)
        findings = found(vertex)
    assert any("cannot reach the service" in finding.reason for finding in findings)
    assert {finding.state for finding in findings} == {OK, UNKNOWN}


def test_api_that_is_off_is_said_once_a_group(vertex, capsys, tmp_path):
    vertex.state["project"] = Project(is_owner=True, apis=set(SERVICES) - {"artifactregistry"})
    assert main(["doctor", "--env", write_config(vertex.environment, tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    about = [line for line in lines if "the API artifactregistry.googleapis.com is off" in line]
    assert len(about) == 3
    assert about[-1].startswith("  ? repository msinet, repository templates, image cpu, image gpu, ")


def test_service_that_lists_the_apis_can_be_off_itself(vertex, project):
    message = (
        "Service Usage API has not been used in project 1 before or it is disabled: serviceusage.googleapis.com"
    )
    vertex.fail(403, path="services:batchGet", message=message)
    finding = only(found(vertex), UNKNOWN)
    assert finding.remedy == "gcloud services enable serviceusage.googleapis.com --project=proj"


def test_no_credentials_are_one_sentence_at_once(vertex, capsys):
    vertex.environment = dataclasses.replace(vertex.environment, endpoint="")
    with pytest.raises(UserError, match="there are no credentials, or they have expired"):
        Api(vertex.environment)


def test_expired_credentials_are_one_sentence_at_once(vertex, expired_credentials):
    with pytest.raises(
        UserError, match=r"they have expired .*invalid_grant.*gcloud auth application-default login"
    ):
        Api(dataclasses.replace(vertex.environment, endpoint=""))


# === The command ===


def run(vertex, tmp_path, *arguments):
    return main(["doctor", "--env", write_config(vertex.environment, tmp_path), *arguments])


def test_command_ends_with_counts_and_the_next_step(vertex, project, tmp_path, capsys):
    project.quotas["custom_model_training_nvidia_l4_gpus"] = {"": 0}
    assert run(vertex, tmp_path) == 0
    out = capsys.readouterr().out
    assert re.search(
        r"\n\d\d found, 0 missing, 0 unknown: start a run with `python -m pipeline submit --env ", out
    )
    assert f"Your account ({CALLER})\n  ✓ has all " in out
    assert run(vertex, tmp_path, "base_accelerator=l4", "--base-batch-size", "0") == 1
    out = capsys.readouterr().out
    assert "  ✗ quota custom_model_training_nvidia_l4_gpus in us-central1 is 0, but the plan takes 1" in out
    assert "1 missing, 0 unknown: run the commands above" in out.splitlines()[-1]


def test_signs_are_ascii_where_nothing_else_can_be_shown(vertex, project, tmp_path, monkeypatch):
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", out)
    project.billing = ""
    assert run(vertex, tmp_path) == 1
    out.seek(0)
    text = out.read()
    assert "\n  + project proj exists\n  x project proj has no open billing account" in text


# === Addresses ===


def test_addresses_are_those_of_google(vertex):
    place = dataclasses.replace(vertex.environment, endpoint="")
    assert cloud.address(place, "storage") == "https://storage.googleapis.com"
    assert cloud.address(place, "aiplatform") == "https://us-central1-aiplatform.googleapis.com"
    assert cloud.address(place, "aiplatform", "europe-west4") == "https://europe-west4-aiplatform.googleapis.com"


def test_reply_that_is_no_error_of_an_api_is_shortened(vertex, project):
    vertex.fail(500, path="billingInfo", message="x" * 5000)
    assert len(only(found(vertex), UNKNOWN).reason) < 500
