"""Submitting with the real client to a server on loopback."""

import dataclasses
import json
import re

import pytest
import yaml

from lifecycle.runs import parameters
from pipeline.__main__ import main
from pipeline.vertex.accelerator_choice import choose_accelerators
from pipeline.vertex.submit import Submission
from tests.refusals import assert_named, refused
from tests.vertex import ALWAYS, DROP, PARENT, SERVICE_ACCOUNT, SERVING, write_config
from tests.vertex_pipelines import small
from trainer.errors import NotFoundError, SettingError, UnknownNameError, UnreachableError

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
    return Submission.prepare(prod, {"rate": 0.5}, small_file)


def created(vertex):
    return vertex.sent("POST", "/pipelineJobs")


def test_request_is_what_the_api_documents(vertex, prod, small_file):
    network = "projects/123/global/networks/main"
    submission = Submission.prepare(dataclasses.replace(prod, network=network), {"rate": 0.5}, small_file)
    submission.send()
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
    assert values | values.pop("settings") == {
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
    assert re.fullmatch(
        r"Base training: 1 x cpu, standard, about 2 h 38 min to \d h \d+ min, about 2\.30 to [\d.]+ USD", base
    )
    assert finetune.startswith("Fine-tuning: 1 x cpu, standard, about ")
    assert rest[:2] == [f"Run:     {run}", f"Console: {link}"]


@pytest.mark.parametrize(
    ("accelerator", "tags", "limits", "named"),
    [
        ("cpu", {"msinet-gpu/v1"}, {"": 64}, ("msinet-cpu:v1",)),
        ("l4", {"msinet-cpu/v1"}, {"": 64}, ("msinet-gpu:v1",)),
        (
            "l4",
            {"msinet-cpu/v1", "msinet-gpu/v1", "msinet-serving/v1"},
            {"": 64, "us-central1": 0},
            ("custom_model_training_nvidia_l4_gpus", 0, 1),
        ),
    ],
)
def test_missing_image_or_quota_is_named_before_anything_costs(vertex, tmp_path, accelerator, tags, limits, named):
    project = vertex.state["project"]
    project.repositories["msinet"]["tags"] = tags
    project.quotas["custom_model_training_nvidia_l4_gpus"] = limits
    path = write_config(vertex.environment, tmp_path)
    with refused(NotFoundError, *named):
        main(["submit", "--env", path, f"base_accelerator={accelerator}", "base_batch_size=0"])
    assert not created(vertex)


def test_what_cannot_be_asked_before_a_run_does_not_stop_it(vertex, tmp_path):
    vertex.fail(403, times=ALWAYS, method="GET", path="/v1beta1/", message="serviceusage.quotas.get denied")
    vertex.fail(503, times=ALWAYS, method="GET", path="/repositories/")
    vertex.fail(403, times=ALWAYS, method="GET", path="/storage/", message="storage.buckets.get denied")
    assert main(["submit", "--env", write_config(vertex.environment, tmp_path)]) == 0
    assert len(created(vertex)) == 1


def test_dry_run_says_in_few_lines_what_would_be_started_and_sends_nothing(vertex, tmp_path, capsys):
    command = [
        "submit",
        "--env",
        write_config(vertex.environment, tmp_path),
        "--job-id",
        "mine-1",
        "base_epochs=3",
    ]
    assert main([*command, "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 10
    assert lines[:2] == ["Run:        mine-1", "Project:    proj, us-central1"]
    (written,) = (line for line in lines if line.startswith("Parameters: "))
    assert "base_epochs=3" in written.split()
    assert "finetune_epochs" not in written
    assert any(line.startswith("Fine-tuning: 1 x cpu") for line in lines)
    assert main([*command, "--dry-run", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert not vertex.requests
    assert main(command) == 0
    assert (printed["parent"], printed["pipelineJobId"]) == (PARENT, "mine-1")
    assert printed["pipelineJob"] == created(vertex)[0].body


# === Failures: never a second run ===


@pytest.mark.parametrize("status", [DROP, 429, 503])
@pytest.mark.parametrize("after", [False, True], ids=["lost-before", "carried-out"])
def test_transient_failure_is_retried_for_the_same_run(vertex, submission, status, after, capsys):
    vertex.fail(status, times=2, method="POST", after=after)
    submission.send()
    assert list(vertex.kept("runs")) == [submission.run]
    assert len({request.query["pipelineJobId"] for request in created(vertex)}) == 1
    # The second attempt finds that the first one has taken the id.
    assert len(created(vertex)) == (2 if after else 3)
    assert capsys.readouterr().err.count(". Trying again\n") == len(created(vertex)) - 1


@pytest.mark.parametrize("status", [400, 503, DROP])
def test_permanent_failure_names_the_run_and_starts_none(vertex, submission, status):
    vertex.fail(status, times=ALWAYS, method="POST", message="bad spec")
    with refused(UnreachableError, submission.run):
        submission.send()
    assert (len(created(vertex)) > 1) is (status != 400)
    assert not vertex.kept("runs")


def test_id_of_an_existing_run_is_refused(vertex, prod, small_file):
    Submission.prepare(prod, {"rate": 0.5}, small_file, run="mine").send()
    with refused(UnreachableError, "run mine", "https://console.cloud.google.com"):
        Submission.prepare(prod, {"rate": 0.5}, small_file, run="mine").send()


def test_expired_credentials_are_named_before_anything_is_sent(vertex, prod, small_file, expired_credentials):
    # Tokens are sent to https only, and these credentials are refused before there is a token.
    environment = dataclasses.replace(prod, endpoint="https://127.0.0.1:1")
    with refused(UnreachableError, "invalid_grant", "gcloud auth application-default login"):
        Submission.prepare(environment, {"rate": 0.5}, small_file).send()
    assert {request.path for request in vertex.requests} == {"/token"}


# === Refused before any request ===


def test_name_that_the_template_does_not_have_is_refused_before_any_request(vertex, prod, small_file):
    with refused(UnknownNameError, "rat", "rate"):
        Submission.prepare(prod, {"rat": 0.5}, small_file)
    assert not vertex.requests


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["accelerator=v5e-1", "finetune_workers=2"], (SettingError, "fine-tuning", "workers", 2)),
        (["base_epochs=100000"], (SettingError, "base training", "timeout_hours", 168)),
        (["base_source=/data/salicon"], (SettingError, "base_source", "/data/salicon")),
        (
            ["base_source=/data/salicon", "base_model_uri=gs://b/m", "evaluate_base=true"],
            (SettingError, "base_source", "/data/salicon"),
        ),
        (["base_model_uri=models/msinet"], (SettingError, "base_model_uri", "models/msinet")),
        (["registry=models"], (SettingError, "registry", "models", "vertex://PROJECT")),
        (["checkpoint_dir=/data/c"], (SettingError, "checkpoint_dir", "/data/c")),
        (["--cache", "maybe"], (SettingError, "caching", "maybe")),
        (
            ["--template", "https://us-kfp.pkg.dev/p/r/msinet/latest"],
            (SettingError, "https://us-kfp.pkg.dev/p/r/msinet/latest"),
        ),
    ],
)
def test_mistake_on_the_command_line_is_named_before_any_request(vertex, tmp_path, arguments, named):
    with refused(*named):
        main(["submit", "--env", write_config(vertex.environment, tmp_path), *arguments])
    assert not vertex.requests


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("base_model_uri", "pretained", "pretrained"),
        ("base_model_uri", "author:salicn", "author:salicon"),
        ("base_model_uri", "msinet", "msinet@default"),
        ("base_model_uri", "msinet@", "msinet@default"),
        ("base_model_uri", "models/mine", ""),
        ("initial_weights", "imagnet", "imagenet"),
        ("initial_weights", "author:osei", "author:osie"),
        ("finetune_source", "sampel", "sample"),
    ],
)
def test_misspelt_name_of_a_model_or_a_source_is_refused_with_the_nearest_one(prod, name, value, meant):
    with refused(SettingError, name, value) as caught:
        Submission.prepare(prod, {name: value})
    assert re.findall(r"'(\S+)'\?$", str(caught.value)) == ([meant] if meant else [])


# === Caching ===


def test_caching_on_leaves_out_tasks_that_depend_on_the_current_source_or_registry(vertex):
    def cached(caching):
        spec = Submission.prepare(vertex.environment, {}, "", caching).job["pipelineSpec"]
        dags = [each["dag"] for each in (spec["root"], *spec["components"].values()) if "dag" in each]
        tasks = [named for dag in dags for named in dag["tasks"].items()]
        return {name for name, task in tasks if task.get("cachingOptions", {}).get("enableCache")}

    now = {"check-run", "condition-1", "importer", "evaluate-model", "upload-model"}
    assert not cached("on") & now
    assert {"fetch-dataset", "custom-training-job-2"} <= cached("on")
    assert not cached("off")


# === Several accelerators ===

LIST = (
    "base_accelerator=v5e-1, l4,t4",
    "base_batch_size=0",
    "finetune_accelerator=a100,l4",
    "finetune_batch_size=0",
)


def test_accelerator_without_quota_or_in_other_regions_is_passed_over(vertex, tmp_path, capsys):
    quotas = vertex.state["project"].quotas
    quotas["custom_model_training_tpu_v5e"] = {"": 0}
    assert main(["submit", "--env", write_config(vertex.environment, tmp_path), *LIST]) == 0
    values = created(vertex)[0].body["runtimeConfig"]["parameterValues"]
    settings = values["settings"]
    assert (settings["base_accelerator"], settings["finetune_accelerator"]) == ("l4", "a100")
    lines = capsys.readouterr().out.splitlines()
    assert_named(lines[0], "base_accelerator", "l4", "v5e-1", "custom_model_training_tpu_v5e", "us-central1", 0)
    assert [line.split(",")[0] for line in lines[1:3]] == ["Base training: 1 x l4", "Fine-tuning: 1 x a100"]

    elsewhere = dataclasses.replace(vertex.environment, location="europe-west4")
    given = {"accelerator": "v5e-1,l4", "base_batch_size": 0, "finetune_batch_size": 0}
    chosen, (why, *_) = choose_accelerators(elsewhere, {**parameters.DEFAULTS, **elsewhere.derived, **given})
    assert chosen == {"accelerator": "l4"}
    assert_named(why, "v5e-1", "europe-west4")


def test_no_accelerator_of_several_is_an_error(vertex, tmp_path):
    quotas = vertex.state["project"].quotas
    for name in ("tpu_v5e", "nvidia_l4_gpus", "nvidia_t4_gpus"):
        quotas[f"custom_model_training_{name}"] = {"": 0}
    with refused(NotFoundError, "base_accelerator", "v5e-1, l4,t4", "custom_model_training_tpu_v5e", "t4", 0):
        main(["submit", "--env", write_config(vertex.environment, tmp_path), *LIST])
    assert not created(vertex)


NO_MACHINE = "Resources are insufficient in region: us-central1. Please try a different region or accelerators."


def ended(task, message):
    """A run whose task fails with this message."""
    return [("FAILED", {"check-run": "SUCCEEDED", task: ("FAILED", message)})]


def accelerators(vertex):
    """The accelerators of each run that was started, base training's first."""
    values = [
        parameters.Values.flattened(request.body["runtimeConfig"]["parameterValues"])
        for request in created(vertex)
    ]
    return [tuple(each.get(f"{step}accelerator", "") for step in ("", "base_", "finetune_")) for each in values]


def submit_several(vertex, tmp_path, *scripts, flags=()):
    vertex.state["scripts"] = [*scripts, [("SUCCEEDED", {})]]
    several = ("accelerator=v5e-1,l4,t4", "base_batch_size=0", "finetune_batch_size=0")
    return main(["submit", "--wait", *flags, "--env", write_config(vertex.environment, tmp_path), *several])


def test_training_without_a_machine_falls_back_on_the_next_accelerator(vertex, tmp_path, capsys):
    both = (ended("custom-training-job", NO_MACHINE), ended("custom-training-job-2", NO_MACHINE))
    assert submit_several(vertex, tmp_path, *both) == 0
    # The base training of the second run has ended, and is found in the cache of the third.
    assert accelerators(vertex) == [("v5e-1", "", ""), ("l4", "", ""), ("t4", "l4", "")]
    assert len({request.query["pipelineJobId"] for request in created(vertex)}) == 3
    assert capsys.readouterr().out.count("got no machine") == 2


def test_base_training_is_not_repeated_without_caching(vertex, tmp_path, capsys):
    scripts = [ended("custom-training-job-2", NO_MACHINE)]
    assert submit_several(vertex, tmp_path, *scripts, flags=["--cache", "off"]) == 1
    assert len(created(vertex)) == 1
    assert "Without caching" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("scripts", "started"),
    [
        ([ended("custom-training-job", "The replica exited with a non-zero status of 1.")], 1),
        ([ended("check-data", NO_MACHINE)], 1),
        ([ended("custom-training-job", NO_MACHINE)] * 3, 3),
    ],
)
def test_other_failures_and_the_end_of_the_list_end_the_run(vertex, tmp_path, scripts, started):
    assert submit_several(vertex, tmp_path, *scripts) == 1
    assert len(created(vertex)) == started


def test_several_accelerators_in_a_dry_run_ask_nothing_and_must_all_exist(vertex, tmp_path, capsys):
    config = write_config(vertex.environment, tmp_path)
    assert main(["submit", "--env", config, "--dry-run", *LIST]) == 0
    assert "Base training: 1 x v5e-1, " in capsys.readouterr().out
    assert not vertex.requests
    with refused(UnknownNameError, "t5"):
        main(["submit", "--env", config, "base_accelerator=l4,t5"])
