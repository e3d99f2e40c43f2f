"""`doctor` when services do not answer as they should, and what its command prints."""

import dataclasses
import io
import json
import re
import socket
import subprocess

import pytest

from pipeline import cloud
from pipeline.__main__ import main
from pipeline.vertex.doctor.questions import MISSING, OK, UNKNOWN, Api, Finding, lines
from tests.guide import GCLOUD
from tests.pipeline.vertex.doctoring import found, only
from tests.vertex import DROP, write_config
from tests.vertex_project import CALLER, SERVICES, Project
from trainer.errors import UserError

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
    assert any("cannot reach the service" in finding.text for finding in findings)
    assert {finding.state for finding in findings} == {OK, UNKNOWN}


def test_api_that_is_off_is_named_with_the_command_that_turns_it_on(vertex, project):
    project.apis.remove("iam")
    remedies = {finding.remedy for finding in found(vertex) if finding.state != OK}
    assert remedies == {"gcloud services enable iam.googleapis.com --project=proj"}


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
    assert f"Your account (user:{CALLER})\n  ✓ roles/" in out
    assert run(vertex, tmp_path, "base_accelerator=l4", "--base-batch-size", "0") == 1
    out = capsys.readouterr().out
    assert "  ✗ quota custom_model_training_nvidia_l4_gpus in us-central1 is 0, but the plan takes 1" in out
    assert "1 missing, 0 unknown: run the commands above" in out.splitlines()[-1]


def test_terminal_without_the_signs_gets_others(vertex, project, tmp_path, monkeypatch):
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", out)
    assert run(vertex, tmp_path) == 0
    out.seek(0)
    assert "\n  ? all 9 APIs are on\n" in out.read()


# === Addresses ===


def test_addresses_are_those_of_google(vertex):
    place = dataclasses.replace(vertex.environment, endpoint="")
    assert cloud.address(place, "storage") == "https://storage.googleapis.com"


def test_command_that_mends_several_things_is_printed_once():
    findings = [Finding(MISSING, "one", "make it"), Finding(MISSING, "two", "make it"), Finding(OK, "three")]
    assert list(lines(findings)) == ["  ✗ one", "      make it", "  ✗ two", "  ✓ three"]


# === Commands of gcloud ===


@pytest.mark.skipif(not GCLOUD, reason="the Google Cloud CLI is not installed")
def test_gcloud_parses_the_commands_that_are_proposed(vertex, tmp_path, monkeypatch):
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    remedies = []
    full, empty = vertex.state["project"], Project(is_owner=True, apis=set(SERVICES))
    full.policies.clear()
    full.apis.remove("logging")
    for vertex.state["project"] in (full, empty):
        remedies += [finding.remedy for finding in found(vertex)]
    commands = sorted({remedy for remedy in remedies if remedy.startswith("gcloud ")})
    groups = {" ".join(command.split()[1:4]) for command in commands}
    assert len(groups) > 5, groups
    path = tmp_path / "commands.json"
    path.write_text(json.dumps([{"command_string": command} for command in commands]))
    lint = [GCLOUD, "meta", "lint-gcloud-commands", f"--commands-file={path}", "--quiet"]
    finished = subprocess.run(lint, capture_output=True, text=True, timeout=120, check=True)
    assert [each["error_message"] for each in json.loads(finished.stdout) if not each["success"]] == []
