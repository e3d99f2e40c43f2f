"""Submitting with the real client to a server on loopback."""

import copy
import dataclasses
import json
import re
import signal

import pytest
import requests
import yaml

from pipeline import cloud
from pipeline.__main__ import main
from pipeline.graph.compiled import write_pipeline
from pipeline.graph.environment import load_environment
from pipeline.graph.parameters import STEPS
from pipeline.vertex import runs, submit
from tests.vertex import ALWAYS, DROP, PARENT, SERVICE_ACCOUNT, SERVING, write_config
from tests.vertex_pipelines import PENDING, small
from trainer.errors import UserError

SPEC = small(count="NUMBER_INTEGER", rate="NUMBER_DOUBLE", title="STRING", fast="BOOLEAN")
PARAMETERS = SPEC["root"]["inputDefinitions"]["parameters"]
PARAMETERS["count"]["defaultValue"] = 3.0
del PARAMETERS["rate"]["isOptional"]


@pytest.fixture
def small_file(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(SPEC))
    return str(path)


@pytest.fixture
def prod(vertex):
    """The environment of the server, without the parameters of our own pipeline."""
    return dataclasses.replace(vertex.environment, parameters={})


@pytest.fixture
def submission(prod, small_file):
    return submit.prepare(prod, {"rate": 0.5}, small_file)


def created(vertex):
    return vertex.sent("POST", "/pipelineJobs")


def test_setting_beside_a_recipe_is_refused_even_with_its_default(vertex, tmp_path, capsys):
    path = write_config(vertex.environment, tmp_path)
    for dry_run in ([], ["--dry-run"]):
        with pytest.raises(
            UserError, match="fine-tuning: epochs is given twice: epochs=10, and recipe=small sets"
        ):
            main(["submit", "--env", path, *dry_run, "recipe=small", "finetune_epochs=10"])
    assert created(vertex) == []


def test_recipe_replaces_its_settings_of_the_environment(vertex):
    environment = dataclasses.replace(
        vertex.environment, parameters={**vertex.environment.parameters, "base_epochs": 3, "base_batch_size": 4}
    )
    values = submit.prepare(environment, {"recipe": "best"}).job["runtimeConfig"]["parameterValues"]
    assert {"recipe": "best", "base_epochs": 10, "base_batch_size": 4}.items() <= values.items()


def test_request_is_what_the_api_documents(vertex, prod, small_file):
    network = "projects/123/global/networks/main"
    submission = submit.prepare(dataclasses.replace(prod, network=network), {"rate": 0.5}, small_file)
    submit.send(submission)
    (request,) = created(vertex)
    assert request.path == f"/v1/{PARENT}/pipelineJobs"
    assert request.query == {"pipelineJobId": submission.run}
    assert request.body == {
        "displayName": "small-prod",
        "labels": {"managed_by": "msinet-pipelines", "team": "vision"},
        "runtimeConfig": {"gcsOutputDirectory": f"{prod.bucket}/runs", "parameterValues": {"rate": 0.5}},
        "pipelineSpec": SPEC,
        "serviceAccount": SERVICE_ACCOUNT,
        "network": network,
    }
    assert re.fullmatch(r"small-\d{14}-[0-9a-f]{4}", submission.run)


def test_own_pipeline_is_compiled_for_the_environment(vertex, tmp_path, capsys):
    path = write_config(vertex.environment, tmp_path)
    assert main(["submit", "--env", path, "--base-epochs", "2", "finetune_learning_rate=1"]) == 0
    body = created(vertex)[0].body
    assert body["pipelineSpec"]["pipelineInfo"]["name"] == "msinet"
    executors = body["pipelineSpec"]["deploymentSpec"]["executors"].values()
    images = {executor["container"]["image"] for executor in executors if "container" in executor}
    assert vertex.environment.image in images
    values = body["runtimeConfig"]["parameterValues"]
    assert values == {
        "base_epochs": 2,
        "finetune_learning_rate": 1,
        "base_source": vertex.environment.parameters["base_source"],
        "registry": f"vertex://proj/us-central1?serving={SERVING}",
        "training_service_account": SERVICE_ACCOUNT,
        "training_labels": "managed_by=msinet-pipelines,team=vision",
    }
    run = next(iter(vertex.kept("runs")))
    link = f"https://console.cloud.google.com/vertex-ai/pipelines/locations/us-central1/runs/{run}?project=proj"
    base, finetune, *rest = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"Base training: 1 x cpu, standard, about (\d+ h )?\d+ min, about [\d.]+ USD", base)
    assert finetune.startswith("Fine-tuning: 1 x cpu, standard, about ")
    assert rest[:2] == [f"Run:     {run}", f"Console: {link}"]


def test_accelerator_that_the_region_does_not_have_is_refused(vertex):
    elsewhere = dataclasses.replace(vertex.environment, location="europe-north1")
    with pytest.raises(UserError, match="v5e-4 is not available for training in europe-north1; it is in us-"):
        submit.prepare(elsewhere, {"base_accelerator": "v5e-4"})


@pytest.mark.parametrize(
    ("accelerator", "tags", "limits", "message"),
    [
        ("cpu", {"msinet-gpu/v1"}, {"": 64}, "msinet-cpu:v1 does not exist: make images ENV=prod"),
        ("l4", {"msinet-cpu/v1"}, {"": 64}, "msinet-gpu:v1 does not exist: make images ENV=prod"),
        (
            "l4",
            {"msinet-cpu/v1", "msinet-gpu/v1"},
            {"": 64, "us-central1": 0},
            "is 0, but the plan takes 1; ask for",
        ),
    ],
)
def test_missing_image_or_quota_is_one_sentence_before_anything_costs(
    vertex, tmp_path, accelerator, tags, limits, message
):
    project = vertex.state["project"]
    project.repositories["msinet"]["tags"] = tags
    project.quotas["custom_model_training_nvidia_l4_gpus"] = limits
    path = write_config(vertex.environment, tmp_path)
    with pytest.raises(UserError, match=message):
        main(["submit", "--env", path, f"base_accelerator={accelerator}", "base_batch_size=0"])
    assert not created(vertex)


def test_what_cannot_be_asked_before_a_run_does_not_stop_it(vertex, tmp_path):
    vertex.fail(403, times=ALWAYS, method="GET", path="/v1beta1/", message="serviceusage.quotas.get denied")
    vertex.fail(503, times=ALWAYS, method="GET", path="/repositories/")
    assert main(["submit", "--env", write_config(vertex.environment, tmp_path)]) == 0
    assert len(created(vertex)) == 1


def test_dry_run_prints_the_request_and_sends_nothing(vertex, prod, small_file, tmp_path, capsys):
    path = write_config(vertex.environment, tmp_path)
    assert main(["submit", "--env", path, "--dry-run", "--json", "--job-id", "mine-1"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert not vertex.requests
    assert main(["submit", "--env", path, "--job-id", "mine-1"]) == 0
    assert (printed["parent"], printed["pipelineJobId"]) == (PARENT, "mine-1")
    assert printed["pipelineJob"] == created(vertex)[0].body


def test_dry_run_says_in_few_lines_what_would_be_started(vertex, prod, small_file, tmp_path, capsys):
    path = write_config(vertex.environment, tmp_path)
    assert main(["submit", "--env", path, "--dry-run", "--job-id", "mine-1", "base_epochs=3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert not vertex.requests
    assert len(lines) <= 10
    assert lines[0] == "Run:        mine-1"
    assert lines[1] == f"Project:    {vertex.environment.project}, {vertex.environment.location}"
    (parameters,) = (line for line in lines if line.startswith("Parameters: "))
    assert "base_epochs=3" in parameters.split()
    assert "finetune_epochs" not in parameters
    assert any(line.startswith("Fine-tuning: 1 x cpu") for line in lines)
    assert lines[-1].startswith("Nothing was sent.")


# === Failures: never a second run ===


@pytest.mark.parametrize("status", [DROP, 429, 500, 503, 504])
@pytest.mark.parametrize("after", [False, True], ids=["lost-before", "carried-out"])
def test_transient_failure_is_retried_for_the_same_run(vertex, submission, status, after, capsys):
    vertex.fail(status, times=2, method="POST", after=after)
    submit.send(submission)
    assert list(vertex.kept("runs")) == [submission.run]
    assert len({request.query["pipelineJobId"] for request in created(vertex)}) == 1
    # The second attempt finds that the first one has taken the id.
    assert len(created(vertex)) == (2 if after else 3)
    assert capsys.readouterr().err.count("; trying again\n") == len(created(vertex)) - 1


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (400, "bad spec", r"the request is refused: bad spec \(400\)"),
        (401, "who", r"credentials"),
        (
            403,
            "Permission 'aiplatform.pipelineJobs.create' denied",
            r"no permission: .*roles/aiplatform.user on the project",
        ),
        (403, "You do not have permission to act as service_account: x", "roles/iam.serviceAccountUser"),
        (
            403,
            "Vertex AI API has not been used in project 1 before or it is disabled. aiplatform.googleapis.com",
            "gcloud services enable aiplatform.googleapis.com",
        ),
        (404, "no project", r"not found: .*check project, location and name"),
    ],
)
def test_refusal_is_final_and_says_what_to_do(vertex, submission, status, message, expected):
    vertex.fail(status, times=ALWAYS, method="POST", message=message)
    with pytest.raises(UserError, match=expected):
        submit.send(submission)
    assert len(created(vertex)) == 1
    assert not vertex.kept("runs")


def test_project_that_is_being_set_up_is_said_to_be(vertex, submission):
    message = "Service agents are being provisioned (...). So please try again in a few minutes."
    vertex.fail(400, times=ALWAYS, method="POST", message=message)
    with pytest.raises(UserError, match=r"still setting up this project: .*; try again in a few minutes$"):
        submit.send(submission)


@pytest.mark.parametrize(
    ("status", "names_doctor"), [(403, True), (404, True), (429, True), (400, False), (503, False)]
)
def test_refused_run_names_the_command_that_finds_what_is_missing(
    vertex, prod, tmp_path, capsys, status, names_doctor
):
    path, template = write_config(prod, tmp_path), tmp_path / "small.yaml"
    template.write_text(yaml.safe_dump(small()))
    vertex.fail(status, times=ALWAYS, method="POST")
    with pytest.raises(UserError) as raised:
        main(["submit", "--env", path, "--template", str(template)])
    assert (f"`python -m pipeline doctor --env {path}` says what else" in str(raised.value)) is names_doctor
    assert capsys.readouterr().err.startswith(f"Checking bucket {prod.bucket}, images and quota ...\n")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (429, r"too many requests, or no quota: .* \(429\); wait, or raise the quota"),
        (503, r"the service failed: .* \(503\); try again in a few minutes"),
        (DROP, r"cannot reach the service .*check the network"),
    ],
)
def test_permanent_failure_ends_in_an_error_and_no_run(vertex, submission, status, expected):
    vertex.fail(status, times=ALWAYS, method="POST")
    with pytest.raises(UserError, match=expected):
        submit.send(submission)
    assert len(created(vertex)) > 5
    assert not vertex.kept("runs")


def test_run_whose_response_was_lost_counts_as_submitted(vertex, submission):
    vertex.fail(DROP, method="POST", after=True)
    submit.send(submission)
    assert list(vertex.kept("runs")) == [submission.run]


def test_unknown_outcome_is_reported_with_a_way_to_find_out(vertex, submission):
    vertex.fail(DROP, times=ALWAYS)
    with pytest.raises(
        UserError, match=rf"unknown whether .* Look at .*--job-id {submission.run}, which never starts a second"
    ):
        submit.send(submission)


def test_id_of_an_existing_run_is_refused_before_a_second_request(vertex, prod, small_file):
    submit.send(submit.prepare(prod, {"rate": 0.5}, small_file, run="mine"))
    with pytest.raises(UserError, match="run mine already exists: https://console"):
        submit.send(submit.prepare(prod, {"rate": 0.5}, small_file, run="mine"))
    assert len(created(vertex)) == 1


def test_expired_credentials_are_named_before_anything_is_sent(vertex, prod, small_file, expired_credentials):
    # Tokens are sent to https only, and these credentials are refused before there is a token.
    environment = dataclasses.replace(prod, endpoint="https://127.0.0.1:1")
    with pytest.raises(UserError, match=r"have expired .*invalid_grant.*gcloud auth application-default login"):
        submit.send(submit.prepare(environment, {"rate": 0.5}, small_file))
    assert {request.path for request in vertex.requests} == {"/token"}


def test_missing_credentials_are_named(prod, small_file, monkeypatch):
    environment = dataclasses.replace(prod, endpoint="https://127.0.0.1:1")
    with pytest.raises(UserError, match=r"there are no credentials.*gcloud auth application-default login"):
        submit.send(submit.prepare(environment, {"rate": 0.5}, small_file))


# === Refused before any request ===


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rat": 0.5}, "no parameter 'rat'; did you mean 'rate'"),
        ({}, "needs a value for rate"),
        ({"rate": "0.5"}, "rate is '0.5'; the template wants a number"),
        ({"rate": True}, "rate is True; the template wants a number"),
        ({"rate": 1, "count": 1.5}, "count is 1.5; the template wants an integer"),
        ({"rate": 1, "count": True}, "count is True; the template wants an integer"),
        ({"rate": 1, "title": 3}, "title is 3; the template wants a string"),
        ({"rate": 1, "fast": "true"}, "fast is 'true'; the template wants true or false"),
    ],
)
def test_wrong_names_and_types_are_refused_before_any_request(vertex, prod, small_file, values, message):
    with pytest.raises(UserError, match=message):
        submit.prepare(prod, values, small_file)
    assert not vertex.requests


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["base_accelerator=v5e-1", "base_workers=2"], "workers is 2, but v5e-1 trains on one machine"),
        (["accelerator=v5e-1", "finetune_workers=2"], "fine-tuning: workers is 2, but v5e-1 trains on one"),
        (
            ["base_batch_size=4", "accumulation=3"],
            "base training: batch_size is 4, which 1 replicas of cpu, in 3 parts each .* cannot share",
        ),
        (["finetune_accelerator=l4", "finetune_batch_size=900"], "fine-tuning: .*there are 800 training images"),
        (["base_epochs=100000"], "base training: training takes about .* but timeout_hours is 168"),
        (
            ["gate_on=test"],
            "gate_on is test, but test_dataset is empty; set test_dataset, or set gate_on to finetune",
        ),
        (
            ["test_dataset=osie", "test_source=/data/osie"],
            "test_source is '/data/osie', which machines on Vertex AI cannot access",
        ),
        (
            ["base_source=/data/salicon"],
            "base_source is '/data/salicon', which machines on Vertex AI cannot access",
        ),
        (["base_source=/data/salicon", "base_model_uri=gs://b/m", "evaluate_base=true"], "which machines on Ver"),
        (
            ["base_model_uri=author:salicn"],
            "base_model_uri is 'author:salicn': unknown weights .*did you mean",
        ),
        (
            ["base_model_uri=models/msinet"],
            "base_model_uri is 'models/msinet', which machines on Vertex AI cannot",
        ),
        (
            ["registry=models"],
            "registry is 'models', a folder that machines .* do not share; use vertex://proj/us-c",
        ),
        (["registry="], "registry is 'models', a folder that machines on Vertex AI do not share"),
        (["base_source=pretrained"], "base_source is 'pretrained', which machines on Vertex AI cannot access"),
        (["checkpoint_dir=/data/c"], "checkpoint_dir is '/data/c', which machines .* use a gs:// address"),
        (["initial_weights=~/vgg.h5"], "initial_weights is '~/vgg.h5', which machines .* use a gs:// address"),
        (["--cache", "maybe"], "caching is 'maybe'; choose one of as-compiled, on, off"),
        (["--job-id", "Mine!"], "job id is 'Mine!'"),
        (["--template", "nowhere.yaml"], "template nowhere.yaml: No such file"),
        (["--template", "https://us-kfp.pkg.dev/p/r/msinet/latest"], "does not name one version.*sha256"),
    ],
)
def test_mistake_on_the_command_line_is_named_before_any_request(vertex, tmp_path, arguments, message):
    with pytest.raises(UserError, match=message):
        main(["submit", "--env", write_config(vertex.environment, tmp_path), *arguments])
    assert not vertex.requests


def test_locations_that_machines_on_vertex_can_access_are_accepted(vertex):
    for reached in (
        {"registry": f"vertex://other/us-central1?serving={SERVING}", "initial_weights": "none"},
        {"registry": "/gcs/bucket/models", "checkpoint_dir": "/gcs/bucket/state"},
        {"registry": "gs://bucket/models"},
        {"checkpoint_dir": "gs://bucket/state", "initial_weights": "gs://bucket/vgg16_notop.h5"},
        {"base_source": "/data/salicon", "base_model_uri": "gs://bucket/msi-net"},
        {"base_source": "/data/salicon", "base_model_uri": "pretrained"},
        {"initial_weights": "pretrained"},
        {"base_source": ""},
        {"base_source": "", "base_model_uri": "author:salicon"},
        {"base_source": "", "initial_weights": "author:mit1003"},
        {"base_source": "drive:1g8j-hTT-51IG1UF https://data.example.org/maps.zip"},
        {"base_source": "http://10.0.0.1/a.zip", "private_sources": True},
    ):
        values = submit.prepare(vertex.environment, reached).job["runtimeConfig"]["parameterValues"]
        assert reached.items() <= values.items()


@pytest.mark.parametrize(
    ("values", "machines"),
    [
        ({"accelerator": "l4"}, ["l4", "l4"]),
        ({"accelerator": "l4", "finetune_accelerator": "t4"}, ["l4", "t4"]),
        ({"base_accelerator": "l4"}, ["l4", "cpu"]),
    ],
)
def test_accelerator_is_that_of_both_trainings_unless_one_has_its_own(vertex, values, machines):
    lines = submit.estimates(submit.prepare(vertex.environment, values))
    assert [re.search(r": 1 x (\S+), ", line)[1] for line in lines] == machines


def test_batch_that_fits_only_in_parts_is_accepted(vertex):
    parts = {"base_accelerator": "l4", "base_batch_size": 256, "accumulation": 8, "finetune_batch_size": 8}
    base, _ = submit.estimates(submit.prepare(vertex.environment, parts))
    assert base.startswith("Base training: 1 x l4, ")


def test_time_of_a_partial_dataset_is_not_checked(vertex):
    submission = submit.prepare(vertex.environment, {"allow_partial_data": True, "base_epochs": 100_000})
    assert submission.job["runtimeConfig"]["parameterValues"]["base_epochs"] == 100_000


def test_sample_dataset_is_planned_by_its_own_size_and_settings(vertex):
    submission = submit.prepare(vertex.environment, {f"{step}_source": "sample" for step in STEPS})
    values = submission.job["runtimeConfig"]["parameterValues"]
    assert load_environment("sample").parameters.items() <= values.items()
    base, finetune = submit.estimates(submission)
    for line in (base, finetune):
        minutes, usd = re.search(r"about (\d+) min, about ([\d.]+) USD", line).groups()
        assert int(minutes) < 10
        assert float(usd) < 0.2
    with pytest.raises(UserError, match=r"base training: training takes about .* but timeout_hours is 168"):
        submit.prepare(vertex.environment, {"base_source": "sample", "base_epochs": 10**6})


def test_model_in_place_of_base_training_needs_neither_its_data_nor_its_machines(vertex):
    instead = {"base_source": "", "base_epochs": 100_000, "base_model_uri": "gs://bucket/msi-net"}
    submission = submit.prepare(vertex.environment, instead)
    (line,) = submit.estimates(submission)
    assert line.startswith("Fine-tuning: ")


@pytest.mark.parametrize(
    "content", ["", "just text", "a: 1", "root: {}\n---\nplatforms: {}", "root: [\n", "pipelineInfo: {name: x}"]
)
def test_file_that_is_not_a_compiled_pipeline_is_refused(prod, tmp_path, content):
    path = tmp_path / "other.yaml"
    path.write_text(content)
    with pytest.raises(UserError, match=r"other.yaml is not a pipeline compiled for Vertex AI"):
        submit.prepare(prod, {}, str(path))


def test_file_compiled_by_another_version_is_refused(prod, tmp_path):
    path = tmp_path / "other.yaml"
    write_pipeline(prod, path)
    spec = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**spec, "schemaVersion": "3.0.0", "sdkVersion": "kfp-3.1.0"}))
    with pytest.raises(
        UserError, match=r"other.yaml has the schema version 3.0.0 \(kfp-3.1.0\), but Vertex AI re"
    ):
        submit.prepare(prod, {}, str(path))
    del spec["root"]["inputDefinitions"]["parameters"]["accelerator"]
    path.write_text(yaml.safe_dump(spec))
    with pytest.raises(UserError, match=r"no parameter 'accelerator'.*; another version of this project compiled"):
        submit.prepare(prod, {"accelerator": "l4"}, str(path))


# === Caching ===


@pytest.mark.parametrize(
    ("compiled", "caching", "expected"),
    [
        ({"enableCache": True}, "as-compiled", {"enableCache": True}),
        ({"enableCache": True}, "on", {"enableCache": True}),
        ({"enableCache": True}, "off", {}),
        ({}, "on", {"enableCache": True}),
    ],
)
def test_caching_has_three_states_and_the_source_is_always_looked_at(prod, tmp_path, compiled, caching, expected):
    spec = copy.deepcopy(SPEC)
    spec["root"]["dag"]["tasks"]["work"]["cachingOptions"] = compiled
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(spec))
    job = submit.prepare(prod, {"rate": 1}, str(path), caching).job
    tasks = job["pipelineSpec"]["root"]["dag"]["tasks"]
    assert {name: task.get("cachingOptions", {}) for name, task in tasks.items()} == {"look": {}, "work": expected}


def test_caching_on_leaves_out_tasks_that_depend_on_the_current_source_or_registry(vertex):
    def cached(caching):
        spec = submit.prepare(vertex.environment, {}, "", caching).job["pipelineSpec"]
        tasks = spec["root"]["dag"]["tasks"].items()
        return {name for name, task in tasks if task.get("cachingOptions", {}).get("enableCache")}

    now = {"fingerprint", "fingerprint-2", "importer", "evaluate-model", "upload-model"}
    assert not cached("on") & now
    assert {"fetch-dataset", "custom-training-job-2"} <= cached("on")
    assert not cached("off")


# === Other runs ===


@pytest.mark.parametrize("state", ["QUEUED", "PENDING", "RUNNING", "CANCELLING", "PAUSED"])
def test_run_that_has_not_ended_is_named(vertex, prod, small_file, submission, state):
    submit.send(submission)
    vertex.state["script"] = [(state, {})]
    other = submit.prepare(prod, {"rate": 0.5}, small_file)
    link = cloud.run_link(prod, submission.run)
    assert submit.notes(other) == [f"Run {submission.run} of this pipeline is {state.lower()}: {link}"]
    assert submit.notes(submission) == []


@pytest.mark.parametrize("state", ["SUCCEEDED", "FAILED", "CANCELLED"])
def test_run_that_has_ended_is_not_named(vertex, prod, small_file, submission, state):
    submit.send(submission)
    vertex.state["script"] = [(state, {})]
    assert submit.notes(submit.prepare(prod, {"rate": 0.5}, small_file)) == []


def test_active_run_of_our_pipeline_is_named_before_another_is_sent(vertex, tmp_path, capsys):
    command = ["submit", "--env", write_config(vertex.environment, tmp_path)]
    assert main(command) == 0
    assert "of this pipeline" not in capsys.readouterr().out
    first = created(vertex)[0].query["pipelineJobId"]
    assert main(command) == 0
    named, advice, said, *_ = capsys.readouterr().out.splitlines()[-5:]
    assert named.startswith(f"Run {first} of this pipeline is pending: https://console")
    assert "its training fails if theirs is still writing there. `python -m pipeline runs cancel RUN" in advice
    assert said.startswith("Run:  ")
    assert len(created(vertex)) == 2


# === Following ===

STATES = [
    PENDING,
    ("RUNNING", {"look": "RUNNING", "work": "PENDING"}),
    ("RUNNING", {"look": "SUCCEEDED", "work": "RUNNING"}),
    ("RUNNING", {"look": "SUCCEEDED", "work": "RUNNING"}),
]


def followed(vertex, prod, small_file, last):
    vertex.state["script"] = [*STATES, last]
    submission = submit.prepare(prod, {"rate": 0.5}, small_file)
    submit.send(submission)
    lines = []
    status = runs.follow(prod, submission.run, {"look": "Look", "work": "Work"}, lines.append)
    return status, lines


def test_following_shows_each_change_once_and_ends_with_success(vertex, prod, small_file):
    status, lines = followed(vertex, prod, small_file, ("SUCCEEDED", {"look": "SUCCEEDED", "work": "SUCCEEDED"}))
    assert status == 0
    assert lines == [
        "Run pending",
        "Run running",
        "[Look] running",
        "[Look] succeeded after 1 h 2 min",
        "[Work] running",
        "[Work] succeeded after 1 h 2 min",
        "Run succeeded after 1 h 2 min",
    ]


@pytest.mark.parametrize(
    ("state", "tasks", "status", "said"),
    [
        (
            "FAILED",
            {"look": "SUCCEEDED", "work": ("FAILED", "The replica workerpool0-0 exited with code 1")},
            1,
            ["Run failed after 1 h 2 min", "Work failed: The replica workerpool0-0 exited with code 1"],
        ),
        ("FAILED", {}, 1, ["Run failed after 1 h 2 min", "The DAG failed because of []"]),
        ("CANCELLED", {"look": "SUCCEEDED", "work": "CANCELLED"}, 2, ["Run cancelled after 1 h 2 min"]),
    ],
)
def test_run_that_does_not_succeed_has_its_own_status_and_reason(
    vertex, prod, small_file, state, tasks, status, said
):
    ended, lines = followed(vertex, prod, small_file, (state, tasks))
    assert (ended, lines[-len(said) :]) == (status, said)


@pytest.mark.parametrize("status", [DROP, 429, 500, 503])
def test_following_survives_failed_requests(vertex, prod, small_file, status, capsys):
    vertex.fail(status, times=3, method="GET")
    ended, lines = followed(vertex, prod, small_file, ("SUCCEEDED", {}))
    assert (ended, lines[-1]) == (0, "Run succeeded after 1 h 2 min")
    assert capsys.readouterr().err.count("trying again") == 3


def test_following_ends_after_an_outage_and_says_that_the_run_continues(vertex, prod, small_file):
    vertex.fail(503, times=ALWAYS, method="GET")
    with pytest.raises(UserError, match=r"run small-\S+ continues, see https://console.*the service failed"):
        followed(vertex, prod, small_file, ("SUCCEEDED", {}))


def test_interrupt_ends_the_following_and_not_the_run(vertex, prod, submission):
    submit.send(submission)
    lines = []

    def say(line):
        lines.append(line)
        if line == "Run pending":
            signal.raise_signal(signal.SIGINT)

    assert runs.follow(prod, submission.run, {}, say) == 130
    assert lines[-2].startswith(f"Stopped following; run {submission.run} continues.")
    assert f"python -m pipeline runs cancel {submission.run} --env prod" in lines[-1]
    assert not vertex.sent("POST", ":cancel")


def test_submit_with_wait_ends_with_the_status_of_the_run(vertex, tmp_path, capsys):
    vertex.state["script"] = [("FAILED", {"fetch-dataset": ("FAILED", "no such bucket")})]
    assert main(["submit", "--env", write_config(vertex.environment, tmp_path), "--wait"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "Base training: data failed: no such bucket"


def test_server_of_the_tests_refuses_unknown_paths(vertex):
    answer = requests.get(f"{vertex.environment.endpoint}/v1/{PARENT}/endpoints", timeout=5)
    assert answer.status_code == 404
