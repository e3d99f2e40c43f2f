"""Runs that were submitted: list, show, follow and cancel them, as requests to a server on loopback."""

import signal

import pytest

from lifecycle.registry.register import open_registry
from pipeline.__main__ import main
from pipeline.vertex.runs import SentRun
from pipeline.vertex.submit import Submission
from tests.refusals import refused
from tests.vertex import ALWAYS, DROP, NAMES, write_config
from tests.vertex_pipelines import PENDING
from trainer.errors import UnreachableError

DONE = (
    "SUCCEEDED",
    {"fetch-dataset": "SUCCEEDED", "plan-training": "SKIPPED", "import-model": "NOT_TRIGGERED"},
)


@pytest.fixture
def started(vertex):
    """Two runs that have ended."""
    vertex.state["script"] = [DONE]
    first = Submission.prepare(vertex.environment, {"base_epochs": 2}, run="first")
    for run in ("first", "second"):
        Submission(vertex.environment, first.job, run).send()
    return vertex


@pytest.fixture
def config(vertex, tmp_path):
    return write_config(vertex.environment, tmp_path)


def test_list_shows_our_runs_newest_first(started, config, capsys):
    other = {"job": {"name": f"{NAMES}/pipelineJobs/other", "pipelineSpec": {"pipelineInfo": {"name": "other"}}}}
    started.kept("runs")["other"] = {**other, "asked": 0, "cancelled": False}
    assert main(["runs", "list", "--env", config, "--limit", "1"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["second"]
    started.requests.clear()
    assert main(["runs", "list", "--env", config]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "second  succeeded   2026-03-02 10:00 UTC  msinet-prod",
        "first  succeeded   2026-03-02 10:00 UTC  msinet-prod",
    ]
    (request,) = started.sent("GET", "pipelineJobs")
    assert request.query["filter"] == 'pipeline_name="msinet"'
    assert "pipelineSpec" not in request.query["readMask"]


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


def test_cancelled_run_ends_also_after_failed_requests(started, config, capsys):
    started.state["script"] = [("RUNNING", {})]
    started.fail(503, times=2, method="POST", path=":cancel")
    assert main(["runs", "cancel", "first", "--env", config]) == 0
    *_, request = started.sent("POST", ":cancel")
    assert request.path.endswith("/pipelineJobs/first:cancel")
    assert "first is being cancelled: https://console" in capsys.readouterr().out
    assert SentRun(started.environment, "first").follow({}, lambda line: None) == 2


# === Summary ===


def test_summary_has_how_the_last_runs_ended(vertex, config, address, model, capsys):
    ended = {"check-run": "SUCCEEDED", "upload-model": "SUCCEEDED"}
    scripts = {
        "promoted": ("SUCCEEDED", ended),
        "challenger": ("SUCCEEDED", ended),
        "unchanged": ("SUCCEEDED", {"check-run": "SUCCEEDED"}),
        "broken": ("FAILED", {"fetch-dataset": ("FAILED", "no such file")}),
        "stopped": ("CANCELLED", {}),
        "going-on": ("RUNNING", {}),
    }
    for run in scripts:
        job = Submission.prepare(vertex.environment, {"registry": address}).job
        Submission(vertex.environment, job, run).send()
        vertex.kept("runs")[run]["script"] = [scripts[run]]
    for run, promote in (("promoted", True), ("challenger", False)):
        record = {"metrics": {}, "reason": "", "promote": promote, "decision": 7}
        record["lineage"] = {"run": run, "code_version": "0.1.0", "data": {}, "model": {}}
        open_registry(address).add("msinet", model, record, promote, 0)
    assert main(["runs", "--summary", "--env", config]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["ended,", "UTC", "run", "result"]
    why = "    Decided: Decision 7 of its year."
    assert [line if line.startswith(" ") else line.split(maxsplit=3)[2:] for line in lines] == [
        ["stopped", "cancelled"],
        ["broken", "failed at Base training: data"],
        ["unchanged", "unchanged"],
        ["challenger", "msinet@2: challenger"],
        why,
        ["promoted", "msinet@1: promoted"],
        why,
    ]
    assert main(["runs", "show", "challenger", "--env", config]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["Result:  msinet@2: challenger", why.strip()]
    assert main(["runs", "show", "broken", "--env", config]) == 0
    assert "Result" not in capsys.readouterr().out
    assert lines[0].startswith("2026-03-02 11:02 ")


# === Following ===

STATES = [
    PENDING,
    ("RUNNING", {"look": "RUNNING", "work": "PENDING"}),
    ("RUNNING", {"look": "SUCCEEDED", "work": "RUNNING"}),
    ("RUNNING", {"look": "SUCCEEDED", "work": "RUNNING"}),
]


def followed(vertex, last):
    """The exit status and the lines of following a run that ends in this state."""
    vertex.state["script"] = [*STATES, last]
    environment = vertex.environment
    job = Submission.prepare(environment, {}).job
    Submission(environment, job, "followed").send()
    lines = []
    return SentRun(environment, "followed").follow({"look": "Look", "work": "Work"}, lines.append), lines


def test_following_shows_each_change_once_and_ends_with_success(vertex):
    status, lines = followed(vertex, ("SUCCEEDED", {"look": "SUCCEEDED", "work": "SUCCEEDED"}))
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
def test_run_that_does_not_succeed_has_its_own_status_and_reason(vertex, state, tasks, status, said):
    ended, lines = followed(vertex, (state, tasks))
    assert (ended, lines[-len(said) :]) == (status, said)


@pytest.mark.parametrize("status", [DROP, 503])
def test_following_survives_failed_requests(vertex, status, capsys):
    vertex.fail(status, times=3, method="GET")
    ended, lines = followed(vertex, ("SUCCEEDED", {}))
    assert (ended, lines[-1]) == (0, "Run succeeded after 1 h 2 min")
    assert capsys.readouterr().err.count("Trying again") == 3


def test_following_ends_after_an_outage_and_says_that_the_run_continues(vertex):
    vertex.fail(503, times=ALWAYS, method="GET", path="pipelineJobs/")
    with refused(UnreachableError, "run followed", "https://console.cloud.google.com"):
        followed(vertex, ("SUCCEEDED", {}))


def test_interrupt_ends_the_following_and_not_the_run(started):
    started.state["script"] = [PENDING]
    lines = []

    def say(line):
        lines.append(line)
        if line == "Run pending":
            signal.raise_signal(signal.SIGINT)

    assert SentRun(started.environment, "first").follow({}, say) == 130
    assert "Run first continues" in lines[-2]
    assert "python -m pipeline runs cancel first --env prod" in lines[-1]
    assert not started.sent("POST", ":cancel")
