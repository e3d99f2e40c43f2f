"""The recipe of the image for TensorFlow Serving, parsed; its health check runs, against a server on loopback."""

import http.server
import json
import os
import re
import subprocess
import threading

import pytest

from pipeline.registry_address import Address
from tests.images import DOCKERFILE, stages
from tests.serving_server import Handler

FOLDER = DOCKERFILE.parent / "serving"
GUIDE = (FOLDER.parent.parent / "docs" / "serving.md").read_text()
_, STAGES = stages((FOLDER / "Dockerfile").read_text())
SERVING = STAGES["serving"]
PARAMETERS = {"max_batch_size", "batch_timeout_micros", "num_batch_threads", "max_enqueued_batches"}
"""Of TensorFlow Serving's BatchingParameters."""


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.models = {"msinet": None}
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_base_is_a_release_that_loads_the_export():
    version = re.fullmatch(r"tensorflow/serving:(\d+)\.(\d+)\.\d+", SERVING.base)
    assert (int(version[1]), int(version[2])) >= (2, 15)
    assert {stage.base for name, stage in STAGES.items() if name != "serving"} == {"serving"}


def test_runs_as_another_user_than_root():
    assert SERVING.of("USER") == ["1000"]
    assert not any(stage.of("USER") for name, stage in STAGES.items() if name != "serving")
    names = [name for name, _ in SERVING.instructions]
    assert not {"RUN", "COPY", "ADD"} & set(names[names.index("USER") :])


def test_what_is_built_without_a_target_has_no_model():
    assert not STAGES["final"].instructions
    assert all(each.startswith("--from=model ") for each in STAGES["built-in"].of("COPY"))


def test_bounds_are_a_file_that_the_server_is_given():
    (copied,) = SERVING.of("COPY")
    source, place = copied.split()
    (command,) = SERVING.of("CMD")
    flags = json.loads(command)
    assert {"--enable_batching", f"--batching_parameters_file={place}"} <= set(flags)
    lines = [line for line in (FOLDER / source).read_text().splitlines() if not line.startswith("#")]
    given = dict(re.fullmatch(r"(\w+) { value: (\d+) }", line).groups() for line in lines)
    assert set(given) == PARAMETERS
    said = "{num_batch_threads} requests, {max_enqueued_batches} waiting, {max_batch_size} images each"
    assert said.format(**given) in GUIDE


@pytest.mark.parametrize(("model", "healthy"), [("msinet", True), ("other", False)])
def test_health_is_that_of_the_model(server, model, healthy):
    (check,) = SERVING.of("HEALTHCHECK")
    command = json.loads(check.partition(" CMD ")[2])
    variables = os.environ | {"PORT": str(server.server_port), **SERVING.pairs("ENV"), "MODEL_NAME": model}
    assert (subprocess.run(command, env=variables, capture_output=True, timeout=60).returncode == 0) == healthy


def test_guide_builds_and_runs_what_is_here():
    builds = re.findall(r"^docker build .*$", GUIDE, re.MULTILINE)
    assert len(builds) == 2
    for command in builds:
        assert command.endswith(" images/serving")
        target = re.search(r"--target (\S+)", command)
        assert target is None or target[1] in STAGES
    assert 'model=models/msinet/$VERSION" images/serving' in builds[1]


def test_guide_uploads_with_the_registrys_container():
    assert f"--container-image-uri={Address('my-project', 'us-central1').image} " in GUIDE
