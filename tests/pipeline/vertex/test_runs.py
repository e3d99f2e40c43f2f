"""Runs that were submitted before: listing, showing and cancelling them, as requests to a server on loopback."""

import dataclasses

import pytest

from pipeline.__main__ import main
from pipeline.graph.compiled import titles_of
from pipeline.vertex import runs, submit
from tests.vertex import DROP, NAMES, write_config
from trainer.errors import UserError

DONE = (
    "SUCCEEDED",
    {"fetch-dataset": "SUCCEEDED", "plan-training": "SKIPPED", "import-model": "NOT_TRIGGERED"},
)


@pytest.fixture
def started(vertex):
    """Two runs that have ended."""
    vertex.state["script"] = [DONE]
    first = submit.prepare(vertex.environment, {"base_epochs": 2}, run="first")
    for run in ("first", "second"):
        submit.send(submit.Submission(vertex.environment, run, first.job, is_new_id=True))
    return vertex


@pytest.fixture
def config(vertex, tmp_path):
    return write_config(vertex.environment, tmp_path)


def test_list_shows_our_runs_newest_first(started, config, capsys):
    other = {"job": {"name": f"{NAMES}/pipelineJobs/other", "pipelineSpec": {"pipelineInfo": {"name": "other"}}}}
    started.kept("runs")["other"] = {**other, "asked": 0, "cancelled": False}
    assert main(["runs", "list", "--env", config]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "second  succeeded   2026-03-02 10:00 UTC  msinet-prod",
        "first  succeeded   2026-03-02 10:00 UTC  msinet-prod",
    ]
    (request,) = started.sent("GET", "pipelineJobs")
    assert request.query["filter"] == 'pipeline_name="msinet"'
    assert "pipelineSpec" not in request.query["readMask"]


def test_list_stops_at_its_limit(started, config, capsys):
    assert main(["runs", "list", "--env", config, "--limit", "1"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["second"]


def test_show_prints_state_parameters_and_tasks(started, config, capsys):
    assert main(["runs", "show", "first", "--env", config]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Run:     first"
    assert lines[1].endswith("/runs/first?project=proj")
    assert "State:   succeeded" in lines
    assert "  base_epochs = 2" in lines
    assert "[Base training: data] succeeded after 1 h 2 min" in lines
    assert "[Base training: plan] skipped" in lines
    assert not [line for line in lines if "import" in line]  # its branch is not taken


def test_show_without_a_run_shows_the_latest_and_can_wait_for_it(started, config, capsys):
    assert main(["runs", "show", "--env", config, "--wait"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0], lines[-1]) == ("Run:     second", "Run succeeded after 1 h 2 min")


def test_show_of_a_failed_run_says_why(started, config, capsys):
    started.state["script"] = [("FAILED", {"evaluate-model": ("FAILED", "out of memory")})]
    assert main(["runs", "show", "first", "--env", config]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "Evaluation failed: out of memory"


def test_cancel_sends_one_request_and_the_run_then_ends(started, config, capsys):
    started.state["script"] = [("RUNNING", {})]
    assert main(["runs", "cancel", "first", "--env", config]) == 0
    (request,) = started.sent("POST", ":cancel")
    assert request.path.endswith("/pipelineJobs/first:cancel")
    assert "first is being cancelled: https://console" in capsys.readouterr().out
    assert runs.follow(started.environment, "first", {}, lambda line: None) == 2


@pytest.mark.parametrize("status", [DROP, 429, 503])
def test_cancelling_survives_transient_failures(started, config, status):
    started.state["script"] = [("RUNNING", {})]
    started.fail(status, times=2, method="POST", path=":cancel")
    assert main(["runs", "cancel", "first", "--env", config]) == 0
    assert started.kept("runs")["first"]["cancelled"]


def test_run_that_has_ended_is_not_cancelled(started, config):
    with pytest.raises(UserError, match=r"run first has already ended \(succeeded\); there is nothing to cancel"):
        main(["runs", "cancel", "first", "--env", config])
    assert not started.sent("POST", ":cancel")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cancel"], r"name the run: `python -m pipeline runs cancel RUN`"),
        (["show", "third"], r"not found: .*pipelineJobs/third was not found"),
        (["cancel", "../x"], "run '../x' is not a run id; `python -m pipeline runs list` lists them"),
        (["list", "--limit", "0"], "limit is 0; it must be at least 1"),
        (["list", "--env", "local"], "environment local is for target local"),
    ],
)
def test_mistake_is_named(vertex, config, arguments, message):
    with pytest.raises(UserError, match=message):
        main(["runs", "--env", config, *arguments])


def test_show_without_any_run_is_an_error(vertex, config):
    with pytest.raises(UserError, match="there is no run of msinet in proj, us-central1"):
        main(["runs", "show", "--env", config])


def test_tasks_inside_another_one_are_shown_and_those_around_them_are_not(vertex):
    from google.cloud.aiplatform_v1 import PipelineJob

    tasks = [
        {"task_id": 1, "task_name": "msinet-1", "state": "FAILED"},
        {"task_id": 2, "task_name": "exit-handler-1", "parent_task_id": 1, "state": "FAILED"},
        {"task_id": 3, "task_name": "evaluate-model", "parent_task_id": 2, "state": "FAILED"},
    ]
    job = PipelineJob(state="PIPELINE_STATE_FAILED", job_detail={"task_details": tasks})
    assert [task.task_name for task in runs.tasks_of(job)] == ["evaluate-model"]
    assert runs.failures(job, {"evaluate-model": "Evaluation"}) == ["Evaluation failed: see its log"]


def test_notified_run_has_the_titles_of_its_inner_tasks(vertex):
    notifying = dataclasses.replace(vertex.environment, notify=("me@example.org",))
    job = submit.prepare(notifying, {}).job
    assert titles_of(job["pipelineSpec"])["evaluate-model"] == "Evaluation"


def test_task_without_a_title_goes_by_that_of_its_nested_pipeline(vertex):
    titles = titles_of(submit.prepare(vertex.environment, {}).job["pipelineSpec"])
    assert titles["importer"] == "Base model"
    assert titles["condition-branches-1"] == "condition-branches-1"
