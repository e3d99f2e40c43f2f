"""The commands of gcloud that this project sends and writes down, by Google's own gcloud; `make check-gcloud`.

It is told that servers on loopback are Google's. They answer as the APIs describe themselves; what the real ones
think of a request, only they know.
"""

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest

from serving.settings import MODEL, PREDICT
from tests import vertex_models  # noqa: F401 - routes
from tests.guide import GCLOUD, PAGES, ROOT
from tests.https import STORAGE, answered_by
from tests.pipeline import test_images_command as test_images
from tests.test_images import BUILD
from tests.vertex import IMAGES, LOCATION, PARENT, PROJECT, SERVICE_ACCOUNT, ApiError, operation, route

VERTEX = (
    "cloudbuild.googleapis.com",
    "artifactregistry.googleapis.com",
    "containeranalysis.googleapis.com",
    f"{LOCATION}-aiplatform.googleapis.com",
    f"{LOCATION}-prediction-aiplatform.googleapis.com",
)
"""Hosts that tests/vertex.py answers as."""


clone, prod = test_images.clone, test_images.prod
"""Fixtures: a repository, and the environment in it."""

# === What the services answer ===


@route("POST", "builds")
def build(server, request):
    server.state["build"] = {**request.body, "id": "b-1", "projectId": PROJECT, "status": "QUEUED"}
    kind = "type.googleapis.com/google.devtools.cloudbuild.v1.BuildOperationMetadata"
    return {"name": "operations/b", "metadata": {"@type": kind, "build": server.state["build"]}}


@route("GET", "builds/b-1")
def follow(server, request):
    """Each look finds one more line in the log, until the build is what `server.state["builds"]` says."""
    made, lines = server.state["build"], server.state.setdefault("lines", [])
    lines.append(f"Step #{len(lines)}: done")
    bucket, _, folder = made["logsBucket"].removeprefix("gs://").partition("/")
    assert bucket == server.state["bucket"].name
    server.state["bucket"].blob(f"{folder}/log-b-1.txt").upload_from_string("\n".join(lines) + "\n")
    last = server.state.get("builds", "SUCCESS")
    made["status"] = "CANCELLED" if "cancelled" in server.state else last if len(lines) > 3 else "WORKING"
    return made


@route("POST", "builds/b-1:cancel")
def cancel(server, request):
    server.state["cancelled"] = True
    return {}


@route("GET", "repositories/msinet")
def repository(server, request):
    return {"name": f"{PARENT}/repositories/msinet", "format": "DOCKER"}


@route("GET", r"repositories/msinet/packages/msinet-cpu/tags")
def tags(server, request):
    if "tags" not in server.state:
        raise ApiError(404, "Requested entity was not found.")
    package = f"{PARENT}/repositories/msinet/packages/msinet-cpu"
    version = f"{package}/versions/sha256:{'0' * 64}"
    return {"tags": [{"name": f"{package}/tags/{tag}", "version": version} for tag in server.state["tags"]]}


@route("POST", "endpoints")
def create_endpoint(server, request):
    return operation(server, "Endpoint", {"name": f"{PARENT}/endpoints/7", **request.body})


@route("POST", "endpoints/7:deployModel")
def deploy(server, request):
    return operation(
        server, "DeployModelResponse", {"deployedModel": {"id": "1", **request.body["deployedModel"]}}
    )


@route("POST", "endpoints/7:predict")
def predict(server, request):
    return {"predictions": []}


# === gcloud ===


@pytest.fixture
def environment(vertex, bucket, gcs_url, tmp_path_factory, monkeypatch):
    """A gcloud that knows nothing of this machine, is nobody, and reaches loopback alone."""
    assert shutil.which("gcloud"), "there is no gcloud on the PATH; install the Google Cloud CLI"
    vertex.state["bucket"] = bucket
    folder = tmp_path_factory.mktemp("gcloud")
    (folder / "token").write_text("nobody")
    servers = dict.fromkeys(STORAGE, gcs_url) | dict.fromkeys(VERTEX, vertex.environment.endpoint)
    with answered_by(servers, folder) as (proxy, trusted):
        variables = {
            "CLOUDSDK_CONFIG": str(folder),
            "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(folder / "token"),
            "CLOUDSDK_CORE_PROJECT": PROJECT,
            "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
            "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE": trusted,
            "REQUESTS_CA_BUNDLE": trusted,
            "SSL_CERT_FILE": trusted,
            "https_proxy": proxy,
            "no_proxy": "",
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("STORAGE_EMULATOR_HOST")
        yield folder


@pytest.fixture
def program(environment, prod, clone):
    """`python -m pipeline images`, as a process that becomes gcloud."""
    lines = (
        "import pathlib, sys",
        "from pipeline.graph import environment",
        "from pipeline.commands import images",
        "from pipeline.__main__ import run",
        f"images.ROOT = pathlib.Path({str(clone)!r})",
        "environment.CONFIGS = images.ROOT / 'configs'",
        "sys.argv = ['images', 'images', '--env', 'prod', *sys.argv[1:]]",
        "sys.exit(run())",
    )
    return [sys.executable, "-c", "\n".join(lines)]


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)


def test_build_is_accepted_and_its_log_shown(program, vertex, prod, bucket):
    finished = run(*program)
    assert finished.returncode == 0, finished.stderr
    assert [line for line in finished.stdout.splitlines() if line.startswith("Step #")] == vertex.state["lines"]
    sent = vertex.state["build"]
    assert [step["id"] for step in sent["steps"]] == [step["id"] for step in BUILD["steps"]]
    assert sent["substitutions"].keys() == BUILD["substitutions"].keys()
    assert sent["options"]["logging"] == "GCS_ONLY"
    assert "machineType" not in sent["options"]
    assert sent["serviceAccount"] == f"projects/{PROJECT}/serviceAccounts/{SERVICE_ACCOUNT}"
    assert sent["logsBucket"] == f"{prod.bucket}/builds/logs"
    source = sent["source"]["storageSource"]
    assert bucket.blob(source["object"]).exists()


def test_failed_build_is_a_failed_command(program, vertex):
    vertex.state |= {"builds": "FAILURE", "tags": ["v0"]}
    assert run(*program, "--machine", "e2-highcpu-8").returncode == 1
    assert vertex.state["build"]["options"]["machineType"] == "E2_HIGHCPU_8"


def test_tag_that_exists_is_seen(program, vertex):
    vertex.state["tags"] = ["v0", "v1"]
    finished = run(*program)
    assert finished.returncode == 1
    assert "msinet-cpu:v1 exists" in finished.stderr
    assert not vertex.sent("POST", "/builds")


def test_interrupt_cancels_the_build(program, vertex):
    vertex.state["builds"] = "WORKING"
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while not vertex.state.get("lines") and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) != 0
    assert vertex.sent("POST", "/builds/b-1:cancel")


# === The guide to serving ===


def commands():
    """The commands of gcloud that ask Vertex AI, with the names of the tests."""
    values = {
        "PROJECT": PROJECT,
        "LOCATION": LOCATION,
        "BUCKET": "b",
        "TAG": "v1",
        "ENDPOINT_ID": "7",
        "MODEL_ID": "4000",
    }
    lines = re.findall(r"^gcloud ai .*$", (ROOT / "docs" / "serving.md").read_text(), re.MULTILINE)
    for line in lines:
        for name, value in values.items():
            line = re.sub(rf"\$?\b{name}\b", value, line)
        yield line


def test_commands_of_the_guide_to_serving_are_accepted(environment, vertex):
    (environment / "request.json").write_text('{"instances": [{"b64": ""}]}')
    version = {
        "name": f"{PARENT}/models/4000",
        "displayName": "msinet",
        "versionId": "1",
        "versionAliases": ["default"],
        "supportedDeploymentResourcesTypes": ["DEDICATED_RESOURCES"],
    }
    vertex.kept("models")["4000"] = {"versions": {"1": {**version, "labels": {}}}}
    for command in commands():
        finished = run("bash", "-c", command, cwd=environment)
        assert finished.returncode == 0, f"{command}\n{finished.stderr}"
    (uploaded,) = vertex.sent("POST", "models:upload")
    assert uploaded.body["model"]["containerSpec"] == {
        "imageUri": f"{IMAGES}/msinet-serving:v1",
        "predictRoute": PREDICT,
        "healthRoute": MODEL,
        "ports": [{"containerPort": 8080}],
    }
    assert vertex.sent("POST", "endpoints/7:predict")


# === What is written down ===


def test_commands_of_the_documentation_are_parsed(tmp_path, monkeypatch):
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    lines = [words for page in PAGES for words in page.commands if words[0] == "gcloud"]
    assert len(lines) > 20
    # Its parser checks the form of a project's id, and takes the word after --recursive for its value.
    moved = [sorted(words, key="--recursive".__eq__) for words in lines]
    commands = [shlex.join(words).replace("$PROJECT", "my-project-1").replace("'", "") for words in moved]
    mistake = "gcloud ai models list --regoin=us-central1"
    path = tmp_path / "commands.json"
    path.write_text(json.dumps([{"command_string": command} for command in [*commands, mistake]]))
    # A command of its developers, which parses others without running them.
    lint = [GCLOUD, "meta", "lint-gcloud-commands", f"--commands-file={path}", "--quiet"]
    finished = subprocess.run(lint, capture_output=True, text=True, timeout=120, check=True)
    refused = {each["command_string"]: each for each in json.loads(finished.stdout) if not each["success"]}
    assert list(refused) == [mistake], refused
