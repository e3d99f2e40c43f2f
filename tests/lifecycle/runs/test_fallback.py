"""The last task of a run: which run follows one whose training got no machine, and where."""

import dataclasses

import pytest

from lifecycle.runs import parameters
from lifecycle.runs.fallback import next_run_id, step_without_machine
from pipeline.vertex.submit import Submission
from tests.refusals import assert_named, refused
from tests.vertex import ALWAYS, ELSEWHERE, LOCATION
from tests.vertex_regions import EU_BUCKET, last_task, regions, two_environments, without_machine
from trainer.errors import UnreachableError
from trainer.training import ACCELERATORS

LISTS = {"accelerator": "v5e-1,l4", "base_batch_size": 0, "finetune_batch_size": 0}
TUNED = {"base_model_uri": "pretrained", "accelerator": "v5e-1,l4", "finetune_batch_size": 0}


@pytest.fixture
def begin(vertex, address):
    """Function: starts the run `msinet-1` with these parameters. Its first training gets no machine by default."""
    prod, eu = two_environments(vertex, address)
    prod = dataclasses.replace(prod, further=(eu,))

    def begin(passed, script=None, caching="as-compiled"):
        first = "custom-training-job-2" if "base_model_uri" in passed else "custom-training-job"
        vertex.state["script"] = script or without_machine(first)
        Submission.prepare(prod, passed, caching=caching, run="msinet-1").send()

    return begin


@pytest.fixture
def end(vertex, tmp_path, capsys):
    """Function: runs the last task of a run, and returns what it prints."""

    def end(run, state="FAILED"):
        capsys.readouterr()
        last_task(vertex, run, tmp_path, state)
        return capsys.readouterr().out

    return end


def job(vertex, run):
    return vertex.kept("runs")[run]["job"]


def values(vertex, run):
    return parameters.Values.flattened(job(vertex, run)["runtimeConfig"]["parameterValues"])


def test_next_accelerator_comes_first_and_then_the_next_region_with_all_of_them(vertex, begin, end):
    begin({**LISTS, "base_epochs": 3})
    text = end("msinet-1")
    assert_named(text, "Base training", "v5e-1", LOCATION, "l4", "msinet-1-next2")
    assert_named(end("msinet-1-next2"), "l4", LOCATION, ELSEWHERE, "msinet-1-next3")
    assert_named(end("msinet-1-next3"), "l4", ELSEWHERE)  # which has no v5e
    assert list(vertex.kept("runs")) == ["msinet-1", "msinet-1-next2", "msinet-1-next3"]
    assert regions(vertex) == [LOCATION, LOCATION, ELSEWHERE]
    first, second, third = (job(vertex, run) for run in vertex.kept("runs"))
    assert [values(vertex, run)["accelerator"] for run in vertex.kept("runs")] == ["v5e-1,l4", "l4", "v5e-1,l4"]
    assert values(vertex, "msinet-1-next3") == values(vertex, "msinet-1")
    for later in (second, third):
        assert {key for key in later if later[key] != first[key]} <= {"name", "labels", "runtimeConfig"}
    assert second["runtimeConfig"]["gcsOutputDirectory"] == first["runtimeConfig"]["gcsOutputDirectory"]
    assert third["runtimeConfig"]["gcsOutputDirectory"] == f"gs://{EU_BUCKET}/msinet/runs"
    assert third["labels"] == first["labels"]


def test_base_training_that_has_ended_is_not_paid_again(vertex, begin, end):
    begin(LISTS, without_machine("custom-training-job-2"))
    end("msinet-1")
    changed = values(vertex, "msinet-1-next2")
    assert (changed["accelerator"], changed["base_accelerator"]) == ("l4", "v5e-1")  # found in the cache
    assert_named(end("msinet-1-next2"), "Fine-tuning", "l4", "base training")
    assert regions(vertex) == [LOCATION, LOCATION]


def test_without_caching_a_base_training_is_not_repeated(vertex, begin, end):
    begin(LISTS, without_machine("custom-training-job-2"), "off")
    assert_named(end("msinet-1"), "Fine-tuning", "base training")
    assert regions(vertex) == [LOCATION]


def test_run_of_a_published_template_is_followed_by_one_of_the_same_version(vertex, begin, end):
    """As the workflow of infra/trigger.tf starts it. The service adds labels of its own."""
    begin({**TUNED, "accelerator": "l4"})
    template = f"https://{LOCATION}-kfp.pkg.dev/proj/templates/msinet/sha256:{'0' * 64}"
    labels = {"managed_by": "msinet-pipelines", "vertex-ai-pipelines-run-billing-id": "1"}
    first = job(vertex, "msinet-1") | {"templateUri": template, "displayName": "msinet-new-data", "labels": labels}
    vertex.kept("runs")["msinet-1"]["job"] = first
    end("msinet-1")
    later = job(vertex, "msinet-1-next2")
    assert (later["templateUri"], later["displayName"]) == (template, "msinet-new-data")
    assert later["labels"] == {"managed_by": "msinet-pipelines"}


def test_resources_of_one_region_stay_there(vertex, begin, end):
    board = f"projects/proj/locations/{LOCATION}/tensorboards/1"
    given = {"accelerator": "l4", "tensorboard": board, "seed": 7}
    begin({**TUNED, **given})
    assert_named(end("msinet-1"), ELSEWHERE, "tensorboard")
    moved = values(vertex, "msinet-1-next2")
    assert (moved["tensorboard"], moved["seed"], moved["accelerator"]) == ("", 7, "l4")


@pytest.mark.parametrize(
    ("script", "state"),
    [
        (
            [("FAILED", {"custom-training-job": ("FAILED", "The replica exited with a non-zero status of 1.")})],
            "FAILED",
        ),
        ([("FAILED", {"check-data": ("FAILED", "Resources are insufficient in region")})], "FAILED"),
        ([("SUCCEEDED", {})], "SUCCEEDED"),
        ([("CANCELLED", {})], "CANCELLED"),
    ],
)
def test_no_run_follows_any_other_end(vertex, begin, end, script, state):
    begin(TUNED, script)
    end("msinet-1", state)
    assert regions(vertex) == [LOCATION]


def test_task_that_is_retried_starts_no_second_run(vertex, begin, end):
    begin(TUNED)
    vertex.fail(503, method="POST", after=True)
    end("msinet-1")
    vertex.kept("runs")["msinet-1-next2"]["script"] = [("RUNNING", {})]
    end("msinet-1")
    assert list(vertex.kept("runs")) == ["msinet-1", "msinet-1-next2"]


def test_next_run_of_a_schedule_does_not_repeat_what_follows_the_last_one(vertex, begin, end):
    begin({**TUNED, "accelerator": "l4"})
    end("msinet-1")
    vertex.kept("runs")["msinet-1-next2"]["script"] = [("RUNNING", {})]
    again = {**job(vertex, "msinet-1"), "name": job(vertex, "msinet-1")["name"].replace("msinet-1", "msinet-9")}
    vertex.kept("runs")["msinet-9"] = {**vertex.kept("runs")["msinet-1"], "job": again}
    assert_named(end("msinet-9"), "msinet-1-next2")
    assert regions(vertex) == [LOCATION, ELSEWHERE]
    vertex.kept("runs")["msinet-1-next2"]["script"] = [("FAILED", {})]
    end("msinet-9")
    assert list(vertex.kept("runs"))[-1] == "msinet-9-next2"


def test_refused_run_is_an_error_of_the_task(vertex, begin, end):
    begin({**TUNED, "accelerator": "l4"})
    vertex.fail(403, times=ALWAYS, method="POST", message="pipelineJobs.create denied")
    with refused(UnreachableError, ELSEWHERE, "pipelineJobs.create"):
        end("msinet-1")


def test_ids_that_follow_are_numbered_and_not_too_long():
    assert next_run_id("msinet-1") == "msinet-1-next2"
    assert next_run_id("msinet-1-next2") == "msinet-1-next3"
    assert next_run_id("msinet-1-next9") == "msinet-1-next10"
    longest = next_run_id("m" * 128)
    assert len(longest) == 128
    assert next_run_id(longest) == f"{'m' * 122}-next3"


def test_quota_that_is_used_up_counts_as_no_machine():
    said = "The following quota metrics exceed quota limits: aiplatform.googleapis.com/custom_model_training_cpus"
    assert step_without_machine({"Fine-tuning": said}) == "finetune"
    assert not step_without_machine({"Data": said})


def test_names_of_accelerators_can_stand_in_a_label():
    assert not [name for name in ACCELERATORS if "_" in name]
