"""docs/vertex.md, followed: every command that needs no cloud is run here, in the guide's order, against a server
on loopback that answers as Vertex AI does; the others are listed, so that no word of them drifts.
"""

import functools
import pathlib
import re
import shlex
import tomllib

import pytest

from pipeline.__main__ import WITH_ASSIGNMENTS, main, parse
from pipeline.commands.flags import passed_parameters
from pipeline.graph.parameters import STEPS, settings_of
from tests.infra import blocks, environment_text
from tests.test_makefile import ROOT, make
from tests.vertex import LOCATION, PROJECT, write_config
from tests.vertex_pipelines import PENDING
from trainer import datasets
from trainer.config import SAMPLE, FetchConfig
from trainer.data import layout, sample

GUIDE = (ROOT / "docs" / "vertex.md").read_text()
NEED_THE_CLOUD = """
gcloud auth login
gcloud auth application-default login
gcloud config set project "$PROJECT"
gcloud services enable serviceusage.googleapis.com cloudresourcemanager.googleapis.com
terraform -chdir=infra init
terraform -chdir=infra apply -var "project=$PROJECT" -var "location=$LOCATION" -var "deployers=[\\"user:$ME\\"]"
terraform -chdir=infra output -raw environment > configs/prod.toml
gcloud storage cp --recursive ~/salicon "$(terraform -chdir=infra output -raw data_bucket)"
export DEPLOYER="$(terraform -chdir=infra output -raw deployer)"
gcloud config set auth/impersonate_service_account "$DEPLOYER"
gcloud auth application-default login --impersonate-service-account="$DEPLOYER"
gcloud config unset auth/impersonate_service_account
gcloud auth application-default login
gcloud ai models list --region="$LOCATION"
gcloud ai models delete MODEL_ID --region="$LOCATION"
terraform -chdir=infra apply -var "project=$PROJECT" -var "location=$LOCATION" -var delete_contents=true
terraform -chdir=infra destroy -var "project=$PROJECT" -var "location=$LOCATION" -var delete_contents=true
gcloud projects delete "$PROJECT"
"""
SET_UP = ("make install", "source .venv/bin/activate")
"""Commands that tests/test_makefile.py runs, and that only a shell can run."""
COMPLETED_BY = {"tensorboard": "training_service_account=trains@my-project-1.iam.gserviceaccount.com"}
"""A parameter that the guide says to set, in words, together with another one."""
VALUES = {"$PROJECT": PROJECT, "$LOCATION": LOCATION, "$TAG": "v1"}


def commands():
    """Each command of the guide's blocks."""
    blocks_of_commands = re.findall(r"^```sh\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    return [line for block in blocks_of_commands for line in block.replace("\\\n", "").splitlines() if line]


def parameters_in_text():
    """Each set of parameters in the guide's text that you may add to its commands."""
    text = re.sub(r"^```sh\n.*?^```", "", GUIDE, flags=re.MULTILINE | re.DOTALL)
    spans = [span.split() for span in re.findall(r"`([^`]+)`", text)]
    return [words for words in spans if all(re.fullmatch(r"[a-z_]+=\S+", word) for word in words)]


def is_local(command):
    return command.startswith(("python ", "make ")) and command not in SET_UP


@functools.cache
def pipeline_arguments(command):
    """The arguments that a local command passes to `python -m pipeline`."""
    for name, value in VALUES.items():
        command = command.replace(name, value)
    words = shlex.split(command)
    if words[0] == "make":
        finished = make("--dry-run", *words[1:])
        assert finished.returncode == 0, finished.stderr
        (line,) = (each for each in finished.stdout.splitlines() if "-m pipeline" in each)
        return shlex.split(line.partition("-m pipeline")[2])
    assert words[:3] == ["python", "-m", "pipeline"], command
    return words[3:]


def local_commands():
    return [command for command in commands() if is_local(command)]


# === What cannot run here ===


def test_commands_that_need_the_cloud_are_these():
    others = [each for each in commands() if not is_local(each) and each not in SET_UP]
    assert others[0].startswith("export PROJECT=")
    assert others[1:] == NEED_THE_CLOUD.strip().splitlines()


def test_every_command_is_one_line_in_a_block_of_shell():
    assert len(re.findall(r"^```", GUIDE, re.MULTILINE)) == 2 * len(re.findall(r"^```sh$", GUIDE, re.MULTILINE))
    for command in commands():
        assert command.split()[0] in {"export", "source", "make", "python", "gcloud", "terraform"}, command


def test_terraform_commands_use_its_variables_and_outputs():
    text = "\n".join(commands())
    assert set(re.findall(r'-var "?(\w+)=', text)) <= set(blocks("variable"))
    required = {name for name, body in blocks("variable").items() if "default" not in body}
    for line in text.splitlines():
        if re.search(r"terraform .* (apply|destroy) ", line):
            assert required <= set(re.findall(r'-var "?(\w+)=', line)), line
    outputs = set(re.findall(r"output -raw (\w+)", text))
    assert outputs <= set(blocks("output"))


def test_variables_of_the_commands_are_exported():
    exports = "\n".join(each for each in commands() if each.startswith("export"))
    assert set(re.findall(r"\$([A-Z]+)\b", "\n".join(commands()))) == {
        *re.findall(r"(?:export |\s)([A-Z]+)=", exports)
    }


def test_tag_of_the_guide_is_the_environments():
    (exported,) = (each for each in commands() if each.startswith("export PROJECT="))
    values = dict(word.split("=") for word in shlex.split(exported)[1:])
    written = tomllib.loads(environment_text())
    assert values["TAG"] == written["image_tag"]
    assert values["LOCATION"] == written["location"]


# === What can ===


@pytest.mark.parametrize("command", local_commands())
def test_parser_accepts_the_commands(command):
    parsed, others = parse(pipeline_arguments(command))
    if parsed.command in WITH_ASSIGNMENTS:
        given = passed_parameters(parsed, others)
        assert {word.partition("=")[0] for word in others} <= set(given)


@pytest.fixture
def followed(vertex, tmp_path, monkeypatch):
    """The environment `prod` of the guide: what Terraform writes, but for where the API and the buckets are."""
    path = pathlib.Path(write_config(vertex.environment, tmp_path))
    assert path.name == "prod.toml"
    monkeypatch.setattr("pipeline.graph.environment.CONFIGS", tmp_path)
    return vertex


def filled_in(vertex, arguments):
    """`arguments` as a reader completes them: the guide writes RUN for the id of a run."""
    return [list(vertex.kept("runs"))[-1] if word == "RUN" else word for word in arguments]


def changes(vertex):
    """Number of requests that create, change or delete something."""
    return sum(each.method != "GET" for each in vertex.requests)


def test_guide_can_be_followed_to_its_end(followed, capsys):
    for command in local_commands():
        arguments = pipeline_arguments(command)
        if arguments[0] in ("registry", "images"):
            continue  # tests/pipeline has versions to look at (registry) and a clone to build (vertex)
        before = changes(followed)
        last = ("RUNNING", {}) if "cancel" in arguments else ("SUCCEEDED", {})
        followed.state["script"] = [PENDING, last]
        assert main(filled_in(followed, arguments)) == 0, f"{command}\n{capsys.readouterr()}"
        looks_only = arguments[0] == "plan" or "--dry-run" in arguments or {"list", "show"} & set(arguments[:2])
        assert (changes(followed) == before) == bool(looks_only), command
    assert len(followed.kept("runs")) == 2
    assert followed.state["schedules made"] == 2
    assert not followed.kept("schedules")


def test_text_has_parameters_to_add():
    assert any("base_source=sample" in words for words in parameters_in_text())


@pytest.mark.parametrize("words", parameters_in_text(), ids=" ".join)
def test_parameters_in_the_text_make_a_run_whose_data_is_accepted(followed, words):
    added = [COMPLETED_BY[name] for name in COMPLETED_BY if words[0].startswith(f"{name}=")]
    assert main(["submit", "--env", "prod", *words, *added]) == 0
    (run,) = followed.kept("runs").values()
    given = run["job"]["runtimeConfig"]["parameterValues"]
    assert {word.partition("=")[0] for word in words} <= set(given)
    for step in STEPS:
        config = FetchConfig(**settings_of(FetchConfig, step, given))
        if config.source == SAMPLE:
            drawn = sample.settings(config.dataset)
            items = {"train": [None] * drawn.n_train, "valid": [None] * drawn.n_valid}
            layout.check_counts(items, datasets.get(config.dataset), SAMPLE, config.accepts_partial)
