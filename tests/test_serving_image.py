"""The recipe of the image for TensorFlow Serving, parsed.

Its health check runs, against a server on loopback, and its bounds, in the scheduler of batches that TensorFlow
Serving has from TensorFlow.
"""

import json
import os
import re
import subprocess
import threading
import urllib.request

import pytest

from lifecycle.registry.address import SERVING_PORT, Address
from tests.images import DOCKERFILE, stages
from tests.serving_server import Handler, Server

FOLDER = DOCKERFILE.parent / "serving"
GUIDE = (FOLDER.parent.parent / "docs" / "serving.md").read_text()
ARGUMENTS, STAGES = stages((FOLDER / "Dockerfile").read_text())
SERVING = STAGES["serving"]
BOUNDS = dict(
    re.fullmatch(r"(\w+) { value: (\w+) }", line).groups()
    for line in (FOLDER / "batching.config").read_text().splitlines()
    if not line.startswith("#")
)
PARAMETERS = {
    "max_batch_size",
    "enable_large_batch_splitting",
    "max_execution_batch_size",
    "batch_timeout_micros",
    "num_batch_threads",
    "max_enqueued_batches",
}
"""Of TensorFlow Serving's BatchingParameters."""


@pytest.fixture
def server():
    with Server(("127.0.0.1", 0), Handler) as server:
        server.models = {"msinet": None}
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_runs_as_another_user_than_root():
    assert SERVING.of("USER") == ["1000"]
    assert not any(stage.of("USER") for name, stage in STAGES.items() if name != "serving")
    names = [name for name, _ in SERVING.instructions]
    assert not {"RUN", "COPY", "ADD"} & set(names[names.index("USER") :])


def test_bounds_are_a_file_that_the_server_is_given():
    (copied,) = SERVING.of("COPY")
    *sources, folder = copied.split()
    (command,) = SERVING.of("CMD")
    flags = json.loads(command)
    assert {"--enable_batching", f"--batching_parameters_file={folder}batching.config"} <= set(flags)
    assert all((FOLDER / source).is_file() for source in sources)
    (entry,) = SERVING.of("ENTRYPOINT")
    assert json.loads(entry) == ["bash", f"{folder}serve.sh"]
    assert set(BOUNDS) == PARAMETERS
    said = "{num_batch_threads} images at once, {max_enqueued_batches} waiting, {max_batch_size} in a request"
    assert said.format(**BOUNDS) in GUIDE


def started(tmp_path, *arguments, **environment):
    """The flags that the start script gives to the server, which is a program that writes them down."""
    program = tmp_path / "tensorflow_model_server"
    program.write_text("#!/bin/bash\necho $$; printf '%s\\n' \"$@\"\n")
    program.chmod(0o755)
    # MODEL_BASE_PATH is set by TensorFlow Serving's own image.
    variables = {**SERVING.pairs("ENV"), "MODEL_BASE_PATH": "/models", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["bash", FOLDER / "serve.sh", *arguments]
    with subprocess.Popen(command, env=variables | environment, stdout=subprocess.PIPE, text=True) as process:
        number, *words = process.stdout.read().splitlines()
    assert process.returncode == 0
    assert int(number) == process.pid  # a signal to stop reaches the server itself
    return words


def test_model_of_a_folder_is_served_on_the_ports_of_tensorflow_serving(tmp_path):
    assert started(tmp_path, "--enable_batching") == [
        "--port=8500",
        "--rest_api_port=8501",
        "--model_name=msinet",
        "--model_base_path=/models/msinet",
        "--enable_batching",
    ]


def test_on_vertex_ai_the_model_is_read_where_it_says(tmp_path):
    uri = "gs://caip-tenant/1 2/artifacts"
    words = started(tmp_path, AIP_STORAGE_URI=uri, AIP_HTTP_PORT="8080", AIP_MODE="PREDICTION")
    assert {"--rest_api_port=8080", "--model_name=msinet", f"--model_base_path={uri}"} < set(words)
    assert "--file_system_poll_wait_seconds=30" in words


def test_version_is_uploaded_with_the_routes_of_the_model_that_is_served(server):
    uploaded = Address("proj", "us-central1", serving="host/repository/msinet-serving:v1").container_spec
    name = SERVING.pairs("ENV")["MODEL_NAME"]
    assert uploaded["predict_route"] == f"/v1/models/{name}:predict"
    health = f"http://127.0.0.1:{server.server_port}{uploaded['health_route']}"
    with urllib.request.urlopen(health, timeout=60) as answer:
        assert answer.status == 200
    # AIP_HTTP_PORT is the first of them.
    assert uploaded["ports"] == [{"container_port": SERVING_PORT}]


@pytest.mark.parametrize(("model", "healthy"), [("msinet", True), ("other", False)])
def test_health_is_that_of_the_model(server, model, healthy):
    (check,) = SERVING.of("HEALTHCHECK")
    command = json.loads(check.partition(" CMD ")[2])
    variables = os.environ | {
        "AIP_HTTP_PORT": str(server.server_port),
        **SERVING.pairs("ENV"),
        "MODEL_NAME": model,
    }
    assert (subprocess.run(command, env=variables, capture_output=True, timeout=60).returncode == 0) == healthy
