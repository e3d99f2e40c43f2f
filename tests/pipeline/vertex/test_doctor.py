"""`doctor` against a project on loopback: each thing that can be missing, services that fail, and its live job."""

import dataclasses
import json
import math
import re

import pytest
from google.cloud.aiplatform_v1 import CustomJob

from lifecycle.runs.needs import State
from pipeline.__main__ import main
from pipeline.vertex import doctor, rights
from tests import patches
from tests.vertex import DROP, PROJECT, PROJECT_NUMBER, SERVICE_ACCOUNT, write_config
from tests.vertex_project import CALLER, furnish
from trainer.errors import UserError
from trainer.io import files
from trainer.training import doctor_probe
from trainer.training.doctor_probe import BAD, Fact

OK, MISSING, UNKNOWN = State.OK, State.MISSING, State.UNKNOWN
ME, ACCOUNT = f"user:{CALLER}", f"serviceAccount:{SERVICE_ACCOUNT}"


@pytest.fixture
def project(vertex):
    """The project on the server of the tests, which lacks nothing."""
    return vertex.state["project"]


def found(vertex, **parameters):
    """Every finding for a run with these parameters."""
    run = doctor.ExaminedRun.of(vertex.environment, parameters)
    return [*run.settings[1], *(finding for _, group in run.examine() for finding in group)]


def only(findings, state):
    """The one finding with this state; all others must be OK."""
    others = [finding for finding in findings if finding.state != OK]
    assert [finding.state for finding in others] == [state], others
    return others[0]


def test_project_that_lacks_nothing(vertex, project):
    states = {finding.state for finding in found(vertex)}
    assert states == {OK}
    assert {request.method for request in vertex.requests} == {"GET", "POST"}
    assert all(re.search(":testIamPermissions|:getIamPolicy", request.path) for request in vertex.sent("POST"))


def test_accelerator_to_fall_back_on_is_examined_in_place_of_one_without_quota(vertex, project):
    project.quotas["custom_model_training_tpu_v5e"] = {"": 0}
    findings = found(vertex, accelerator="v5e-1,l4", base_batch_size=0, finetune_batch_size=0)
    assert {finding.state for finding in findings} == {OK}
    assert findings[0].text.startswith("accelerator is l4, not v5e-1: quota custom_model_training_tpu_v5e")


def test_images_of_another_project_are_pulled_by_the_agent_of_vertex_ai(vertex, project):
    images = vertex.environment.image_repository.replace(f"/{PROJECT}/", "/shared/")
    vertex.environment = dataclasses.replace(vertex.environment, image_repository=images)
    agent = f"serviceAccount:service-{PROJECT_NUMBER}@gcp-sa-aiplatform.iam.gserviceaccount.com"
    missing = only(found(vertex), MISSING)
    assert "artifactregistry.repositories.downloadArtifacts" in missing.text
    assert "repositories add-iam-policy-binding msinet --location=us-central1 --project=shared" in missing.remedy
    assert missing.remedy.endswith(f"--member={agent} --role=roles/artifactregistry.reader")
    project.bind("repositories/msinet", agent, "roles/artifactregistry.reader")
    assert {finding.state for finding in found(vertex)} == {OK}


@pytest.mark.parametrize("grant", rights.DEPLOYER)
def test_missing_permission_of_yours_is_named_with_its_role(vertex, project, grant):
    if grant.resource in (rights.TEMPLATES, rights.ITSELF):
        pytest.skip("as of the other repository; asked of service accounts only")
    permission = grant.permissions[-1]
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


def test_permissions_that_may_not_be_seen_are_unknown_with_the_command_that_grants_them(vertex, project):
    project.may_read_policies = False
    others = [finding for finding in found(vertex) if finding.state != OK]
    assert {finding.state for finding in others} == {UNKNOWN}
    assert all("you may not see it" in finding.text for finding in others)
    assert {re.search(r"--role=(\S+)", finding.remedy)[1] for finding in others} == {
        grant.role for grant in rights.PIPELINE if grant.resource != rights.DATA
    }


# === What is missing ===

CHANGES = {
    "api": (
        lambda project: project.apis.remove("logging"),
        "logging.googleapis.com",
        "gcloud services enable logg",
    ),
    "image": (
        lambda project: project.repositories["msinet"]["tags"].remove("msinet-serving/v1"),
        *("msinet/msinet-serving:v1 does not exist", "make images ENV=prod"),
    ),
    "region": (
        lambda project: next(iter(project.buckets.values())).update(location="EUROPE-WEST4"),
        *("is in europe-west4, but runs are in us-central1", "set bucket to one in us-central1"),
    ),
    "data": (
        lambda project: next(iter(project.buckets.values())).update(objects=["salicon-of-others/x"]),
        *("/salicon: there is nothing", "gcloud storage cp FOLDER gs://"),
    ),
    "archive": (
        lambda project: project.buckets["hmm-ml-models"]["objects"].clear(),
        *("add1000.tar.gz: there is nothing", "finetune_dataset=osie"),
    ),
    "permission": (
        lambda project: project.denied.add((ME, "iam.serviceAccounts.actAs")),
        *("lacks iam.serviceAccounts.actAs on account ", f"--member={ME} --role=roles/iam.serviceAccountUser"),
    ),
    "conditional role": (
        lambda project: project.policies[f"projects/{PROJECT}"][-1].update(condition={"expression": "false"}),
        *("lacks logging.logEntries.create on project", f"--member={ACCOUNT} --role=roles/logging.logWriter"),
    ),
}


def test_published_data_that_may_not_be_read_have_other_data_for_a_remedy(vertex, project):
    vertex.fail(403, math.inf, path="add1000", message="access denied")
    finding = only(found(vertex), UNKNOWN)
    assert "access denied" in finding.text
    for other in ("finetune_dataset=osie", "finetune_source=sample", "finetune_source=gs://"):
        assert other in finding.remedy


def test_images_are_those_of_the_plan(vertex, project):
    for kind in ("gpu", "tpu"):
        project.repositories["msinet"]["tags"].remove(f"msinet-{kind}/v1")
    missing = [
        finding.text for finding in found(vertex, accelerator="l4", base_batch_size=0) if finding.state == MISSING
    ]
    assert [text for text in missing if "image" in text] == [
        f"image {vertex.environment.image_of('gpu')} does not exist"
    ]


@pytest.mark.parametrize("name", CHANGES)
def test_each_thing_that_is_missing_has_a_remedy(vertex, project, name):
    change, text, remedy = CHANGES[name]
    change(project)
    finding = only(found(vertex), MISSING)
    assert text in finding.text
    assert remedy in finding.remedy


# === Quota ===

ONE_L4 = {"base_accelerator": "l4", "base_batch_size": 0}


@pytest.mark.parametrize(
    ("parameters", "metric", "count"),
    [
        (ONE_L4, "custom_model_training_nvidia_l4_gpus", 1),
        ({**ONE_L4, "base_accelerator": "l4-2", "base_workers": 2}, "custom_model_training_nvidia_l4_gpus", 4),
        ({**ONE_L4, "base_accelerator": "v5e-4"}, "custom_model_training_tpu_v5e", 4),
        (
            {**ONE_L4, "finetune_accelerator": "l4-8", "finetune_batch_size": 0},
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


@pytest.mark.parametrize(
    ("limits", "state"), [({"": -1}, OK), ({"": 8}, OK), ({"": 8, "us-central1": 0}, MISSING), (None, UNKNOWN)]
)
def test_limits_are_read_as_the_api_writes_them(vertex, project, monkeypatch, limits, state):
    metric = "custom_model_training_nvidia_l4_gpus"
    project.quotas[metric] = limits
    if limits is None:  # a metric that Google does not have
        monkeypatch.setattr("tests.vertex_project.METRICS", [])
        del project.quotas[metric]
    assert {each.state for each in found(vertex, **ONE_L4) if metric in each.text} == {state}


# === Services that do not answer as they should ===


@pytest.mark.parametrize("status", [403, 404, 503, DROP])
def test_no_answer_is_never_a_traceback(vertex, project, status):
    vertex.fail(status, 999, message="out of order")
    findings = found(vertex)
    assert {finding.state for finding in findings} <= {OK, MISSING, UNKNOWN}
    assert len([finding for finding in findings if finding.state == UNKNOWN]) > 10
    assert all("Traceback" not in finding.text for finding in findings)


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
    assert f"Your account (user:{CALLER})\n  ✓ roles/" in out
    assert run(vertex, tmp_path, "base_accelerator=l4", "--base-batch-size", "0") == 1
    out = capsys.readouterr().out
    assert "  ✗ quota custom_model_training_nvidia_l4_gpus in us-central1 is 0, but the plan takes 1" in out
    assert "1 missing, 0 unknown: run the commands above" in out.splitlines()[-1]


# === Commands of gcloud ===


# === The job on the accelerator ===

L4 = ("base_accelerator=l4", "base_batch_size=0")


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(doctor, "POLL_S", 0.0)


@pytest.fixture
def job(vertex, tmp_path, monkeypatch):
    """A project whose jobs run the command of their container here, without its training."""
    furnish(vertex).quotas["custom_model_training_nvidia_l4_gpus"] = {"": 1}
    trained = [Fact("training", "one step on 8 images, loss 2.250, 20 s with the start")]
    patches.replace(monkeypatch, files, "MOUNT", tmp_path / "gcs")
    monkeypatch.setattr(doctor_probe, "train_a_step", lambda *arguments: trained[-1])

    def run(command):
        assert command[:3] == ["python", "-m", "trainer.training.doctor_probe"]
        try:
            doctor_probe.main(command[3:])
        except UserError:
            return "QUEUED", "PENDING", "RUNNING", "FAILED"
        return "QUEUED", "PENDING", "PENDING", "RUNNING", "SUCCEEDED"

    vertex.state["job"] = run
    return trained


def run_live(vertex, tmp_path, *arguments):
    return run(vertex, tmp_path, "--live", *arguments, *L4)


def sent(vertex):
    return [request.body for request in vertex.sent("POST", "/customJobs")]


def test_job_says_what_it_found(vertex, job, tmp_path, capsys):
    assert run_live(vertex, tmp_path, "--yes") == 0
    out = capsys.readouterr().out
    offer = (
        r"One custom job on 1 x l4 \(g2-standard-8, standard\) takes about \d+ minutes, .* about 0\.\d\d USD\.\n"
    )
    assert re.search(offer, out)
    assert re.findall(r"(?m)^Job (\w+)$", out) == ["queued", "pending", "running", "succeeded"]
    assert "Job: https://console.cloud.google.com/vertex-ai/locations/us-central1/training/1?project=proj\n" in out
    assert "\nJob on the accelerator\n  ✓ machine: " in out
    for name in ("user", "locked memory", "devices", "mkdir", "rename a folder", "chmod", "training"):
        assert f"  ✓ {name}: " in out
    (body,) = sent(vertex)
    job_spec = CustomJob.from_json(json.dumps(body)).job_spec
    (pool,) = job_spec.worker_pool_specs
    machine, container = pool.machine_spec, pool.container_spec
    assert (machine.machine_type, machine.accelerator_type.name) == ("g2-standard-8", "NVIDIA_L4")
    assert (machine.accelerator_count, pool.replica_count) == (1, 1)
    assert container.image_uri == vertex.environment.image_of("gpu")
    assert re.fullmatch(rf"--folder={vertex.environment.bucket}/doctor/\d{{14}}", container.args[0])
    assert container.args[1] == "--accelerator=l4"
    assert job_spec.service_account == SERVICE_ACCOUNT
    assert job_spec.scheduling.strategy.name == "STANDARD"
    assert job_spec.scheduling.timeout.seconds == doctor.TIMEOUT_S


@pytest.mark.parametrize("answer", ["no", "y", EOFError])
def test_job_is_run_only_after_yes(vertex, job, tmp_path, capsys, monkeypatch, answer):
    def asked(question):
        if answer is EOFError:
            raise EOFError
        return answer

    monkeypatch.setattr("builtins.input", asked)
    assert run_live(vertex, tmp_path) == 0
    assert "No job is run.\n" in capsys.readouterr().out
    assert not sent(vertex)
    monkeypatch.setattr("builtins.input", lambda question: "Yes ")
    assert run_live(vertex, tmp_path) == 0
    assert len(sent(vertex)) == 1


@pytest.mark.parametrize("has_report", [True, False])
def test_job_that_fails_is_a_finding_with_its_log(vertex, job, tmp_path, capsys, has_report):
    job.append(Fact("training", "`train` ended with status 1", BAD, "its messages are above"))
    if not has_report:
        vertex.state["job"] = lambda command: ("PENDING", "FAILED")
    vertex.fail(DROP, times=2, method="GET", path="customJobs/")  # an outage is survived
    assert run_live(vertex, tmp_path, "--yes") == 1
    out = capsys.readouterr().out
    assert "\nJob failed\n" in out
    said = "training: `train` ended with status 1" if has_report else "the job ended as failed, without a report"
    assert re.search(rf"  ✗ {said}.*\n      https://console", out)
