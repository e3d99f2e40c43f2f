"""docs/vertex.md and its reference, followed. Each of their commands runs:

- all of them in bash, in their order, with programs that note their arguments;
- those of this project, with these arguments, against a server on loopback that imitates Vertex AI;
- `gcloud config` in the real Google Cloud CLI, and all its commands in its own parser, if it is installed;
- `terraform` does not run: its variables and outputs are compared with infra/.

Nothing else of gcloud runs: `gcloud auth` opens a browser, and the others read or change a project.
"""

import dataclasses
import functools
import itertools
import json
import pathlib
import re
import shlex
import subprocess
import tomllib

import pytest

from pipeline.__main__ import WITH_ASSIGNMENTS, main, parse
from pipeline.commands.flags import passed_parameters
from pipeline.grants import DATA, DEPLOYER
from pipeline.registry.register import connect
from pipeline.vertex import images
from tests import guide
from tests.guide import BLOCK, BUILTINS, DOCS, GCLOUD, PROGRAMS, Page
from tests.infra import blocks, environment_text, filled
from tests.pipeline.conftest import address, model  # noqa: F401  fixtures
from tests.pipeline.registry.test_both import add
from tests.test_makefile import make
from tests.vertex import LOCATION, PROJECT, SERVICE_ACCOUNT, write_config
from tests.vertex_pipelines import PENDING
from tests.vertex_project import furnish

GUIDE = Page("vertex.md")
REFERENCE = Page("vertex-reference.md")
PAGES = (GUIDE, REFERENCE)
COMPLETED_BY = {"tensorboard": "training_service_account=trains@my-project-1.iam.gserviceaccount.com"}
"""A parameter that the reference says to set, in words, together with another one."""
ASKED_BY_POST = ":testIamPermissions$|:getIamPolicy$"


@pytest.fixture(params=PAGES, ids=lambda page: page.name)
def page(request):
    return request.param


@pytest.fixture
def calls(page):
    """The calls of the page's programs."""
    return guide.run(page)


@functools.cache
def pipeline_calls(page):
    """The arguments of each call of `python -m pipeline`, those by way of `make` among them."""
    found = []
    for program, *arguments in guide.run(page):
        if program == "make" and arguments != ["install"]:
            finished = make("--dry-run", *arguments)
            assert finished.returncode == 0, finished.stderr
            (line,) = (each for each in finished.stdout.splitlines() if "-m pipeline" in each)
            found.append(shlex.split(line.partition("-m pipeline")[2]))
        elif program == "python":
            assert arguments[:2] == ["-m", "pipeline"]
            found.append(arguments[2:])
    return found


# === Each command ===


def test_blocks_are_shell_or_output_and_begin_with_known_programs(page):
    assert {language for language, _ in BLOCK.findall(page.text)} <= {"sh", "text"}
    assert len(re.findall("^ *```", page.text, re.MULTILINE)) == 2 * len(BLOCK.findall(page.text))
    for command in page.commands:
        assert command.split()[0] in (*PROGRAMS, *BUILTINS), command


def test_bash_runs_every_command(page, calls):
    programs = [command.split()[0] for command in page.commands]
    for program in PROGRAMS:
        # Terraform is also called for the values of others.
        assert sum(call[0] == program for call in calls) >= programs.count(program)
    assert not any("" in call for call in calls), "a variable was empty"


def test_parser_accepts_the_commands(page):
    assert pipeline_calls(page)
    for arguments in pipeline_calls(page):
        parsed, others = parse(arguments)
        if parsed.command in WITH_ASSIGNMENTS:
            given = passed_parameters(parsed, others)
            assert {word.partition("=")[0] for word in others} <= set(given)


def gcloud_commands(folder):
    """Every command of gcloud in the documentation."""
    lines = [line for path in sorted(folder.glob("*.md")) for line in Page(path.name).commands]
    # The parser of the developers' command takes the word after --recursive for its value.
    moved = [
        line.replace(" --recursive", "") + " --recursive" if "--recursive" in line else line for line in lines
    ]
    # It checks the form of a project's id.
    return [line.partition(" > ")[0].replace("$PROJECT", PROJECT) for line in moved if line.startswith("gcloud ")]


@pytest.mark.skipif(not GCLOUD, reason="the Google Cloud CLI is not installed")
def test_gcloud_parses_its_commands(tmp_path, monkeypatch):
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    commands = gcloud_commands(DOCS)
    assert len(commands) > 20
    mistake = "gcloud ai models list --regoin=us-central1"
    path = tmp_path / "commands.json"
    path.write_text(json.dumps([{"command_string": command} for command in [*commands, mistake]]))
    # A command of its developers, which parses others without running them.
    lint = [GCLOUD, "meta", "lint-gcloud-commands", f"--commands-file={path}", "--quiet"]
    finished = subprocess.run(lint, capture_output=True, text=True, timeout=120, check=True)
    refused = {
        each["command_string"]: each["error_message"]
        for each in json.loads(finished.stdout)
        if not each["success"]
    }
    assert list(refused) == [mistake], refused


def test_terraform_commands_use_its_variables_and_outputs(calls):
    terraform = [call for call in calls if call[0] == "terraform"]
    required = {name for name, body in blocks("variable").items() if "default" not in body}
    for call in terraform:
        assert call[1] == "-chdir=infra"
        given = {word.partition("=")[0] for option, word in itertools.pairwise(call) if option == "-var"}
        assert given <= set(blocks("variable"))
        assert required <= given or call[2] not in ("apply", "destroy"), call
        assert call[2:4] != ["output", "-raw"] or call[4] in blocks("output")


def test_values_of_the_guide_are_the_environments(tmp_path):
    exported = dict(word.split("=") for word in shlex.split(GUIDE.commands[0])[1:])
    written = tomllib.loads(environment_text())
    assert exported["LOCATION"] == written["location"]
    assert f"--tag {written['image_tag']}" in GUIDE.text
    assert written["project"] + "-msinet-data" in filled(blocks("output")["data_bucket"]["value"])
    assert "gs://$PROJECT-msinet-data/" in GUIDE.text


def test_data_is_uploaded_by_an_account_that_may_write_it():
    who, uploads = "", []
    for program, *arguments in guide.run(GUIDE):
        if (
            program == "gcloud"
            and arguments[:1] == ["config"]
            and arguments[2] == "auth/impersonate_service_account"
        ):
            who = arguments[3] if arguments[1] == "set" else ""
        if program == "gcloud" and arguments[:2] == ["storage", "cp"]:
            uploads.append(who)
    assert uploads
    assert DATA not in {grant.resource for grant in DEPLOYER}
    assert set(uploads) == {""}


# === Followed to its end ===


@pytest.fixture
def followed(vertex, tmp_path, monkeypatch):
    """The environment `prod` of the guide: what Terraform writes, but for where the API and the buckets are."""
    project = furnish(vertex)
    project.quotas["custom_model_training_nvidia_l4_gpus"] = {LOCATION: 1}
    # The bucket for data has what the guide's commands copy to it.
    bucket = f"{PROJECT}-msinet-data"
    copied = [pathlib.Path(call[3]).name for call in guide.run(GUIDE) if call[-2] == f"gs://{bucket}"]
    project.buckets[bucket] = {"location": LOCATION, "objects": [f"{name}/images.zip" for name in copied]}
    project.bind(f"b/{bucket}", f"serviceAccount:{SERVICE_ACCOUNT}", "roles/storage.objectViewer")
    (tmp_path / "bin").mkdir()
    # `images` asks gcloud for the tag, then becomes gcloud.
    (tmp_path / "bin" / "gcloud").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bin" / "gcloud").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setattr(images, "commit_of", lambda environment: "0123456789ab")
    monkeypatch.setattr(
        "os.execvp", lambda program, command: vertex.state.setdefault("builds", []).append(command) or 0
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.chdir", lambda folder: None)
    written = tomllib.loads(environment_text())["parameters"]
    vertex.environment = dataclasses.replace(vertex.environment, parameters=written)
    write_config(vertex.environment, tmp_path)
    monkeypatch.setattr("pipeline.graph.environment.CONFIGS", tmp_path)
    return vertex


def changes(vertex):
    """Number of requests that create, change or delete something."""
    return sum(each.method != "GET" and not re.search(ASKED_BY_POST, each.path) for each in vertex.requests)


def looks_only(arguments):
    verbs = {"plan", "doctor", "compile", "images"}
    return arguments[0] in verbs or "--dry-run" in arguments or bool({"list", "show"} & set(arguments[:2]))


def filled_in(arguments, vertex, registry):
    """`arguments` as a reader completes them: RUN is the id of a run. The registry is that of the server."""
    names = {"RUN": list(vertex.kept("runs"))[-1:], f"vertex://{PROJECT}/{LOCATION}": [registry]}
    return [value for word in arguments for value in names.get(word, [word])]


def test_page_can_be_followed_to_its_end(page, followed, request, tmp_path, capsys):
    registry = request.getfixturevalue("address")
    add(connect(registry), request.getfixturevalue("model"))
    found = pipeline_calls(page)
    for arguments in found:
        before = changes(followed)
        last = ("RUNNING", {}) if "cancel" in arguments else ("SUCCEEDED", {})
        followed.state["script"] = [PENDING, last]
        assert main(filled_in(arguments, followed, registry)) == 0, f"{arguments}\n{capsys.readouterr()}"
        assert (changes(followed) == before) == looks_only(arguments), arguments
    started = [each for each in found if each[0] == "submit" and "--dry-run" not in each]
    assert len(followed.kept("runs")) == len(started)
    made = [each for each in found if each[:2] in (["schedule", "create"], ["schedule", "replace"])]
    assert followed.state.get("schedules made", 0) == len(made)
    assert not followed.kept("schedules")
    assert len(followed.state.get("builds", [])) == sum(each[0] == "images" for each in found)
    compiled = {path.name: path.read_text() for path in tmp_path.glob("*.yaml")}
    assert len(compiled) == sum(each[0] == "compile" for each in found)
    assert not any("my-project" in text for text in compiled.values())


def test_printed_lines_are_what_a_run_prints(followed, capsys):
    (shown,) = (text for language, text in BLOCK.findall(GUIDE.text) if language == "text")
    data = "fetch-dataset-2"
    followed.state["script"] = [
        ("RUNNING", {}),
        ("RUNNING", {data: ("RUNNING", "")}),
        ("SUCCEEDED", {data: ("SUCCEEDED", "")}),
    ]
    assert main(["submit", "--env", "prod", "--wait"]) == 0
    printed = re.sub(r"msinet-\d+-\w{4}", "msinet-20260302100000-1a2b", capsys.readouterr().out)
    printed = re.sub(r"(?<=\] succeeded after ).*", "2 min 5 s", printed)
    printed = re.sub(r"(?<=Run succeeded after ).*", "41 min", printed)
    assert printed.replace(f"={PROJECT}", "=my-project").splitlines() == shown.splitlines()
