"""The recipe of the image for TensorFlow Serving, parsed.

Its health check runs, against a server on loopback, and its bounds, in the scheduler of batches that TensorFlow
Serving has from TensorFlow.
"""

import http.server
import json
import os
import re
import subprocess
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from pipeline.registry.address import Address
from tests.images import DOCKERFILE, stages
from tests.serving_server import Handler

FOLDER = DOCKERFILE.parent / "serving"
GUIDE = (FOLDER.parent.parent / "docs" / "serving.md").read_text()
_, STAGES = stages((FOLDER / "Dockerfile").read_text())
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
    assert source == "batching.config"
    assert set(BOUNDS) == PARAMETERS
    said = "{num_batch_threads} images at once, {max_enqueued_batches} waiting, {max_batch_size} in a request"
    assert said.format(**BOUNDS) in GUIDE


def scheduled(function):
    """`function` of images (N, H, W, 3), which TensorFlow's scheduler calls within `BOUNDS`."""
    images = tf.TensorSpec((None, None, None, 3))

    @tf.function(input_signature=[images])
    def called(images):
        return tf.ensure_shape(tf.py_function(function, [images], tf.float32), (None, None, None, 3))

    names = PARAMETERS - {"enable_large_batch_splitting", "max_execution_batch_size"}
    options = {name: int(BOUNDS[name]) for name in names} | {
        "enable_large_batch_splitting": BOUNDS["enable_large_batch_splitting"] == "true",
        "allowed_batch_sizes": [int(BOUNDS["max_execution_batch_size"])],  # the last is its name for that
        "f": called.get_concrete_function(),
    }

    @tf.function(input_signature=[images])
    def served(images):
        return tf.raw_ops.BatchFunction(in_tensors=[images], captured_tensors=[], Tout=[tf.float32], **options)[0]

    return served


def test_requests_of_several_sizes_do_not_fail_each_other():
    all_there = threading.Event()
    batches, answers = [], {}

    def network(images):
        assert all_there.wait(60)
        batches.append(len(images))
        return images + 1

    def send(count, side):
        answers[count, side] = served(tf.fill((count, side, side, 3), float(side))).numpy()

    served = scheduled(network)
    requests = [(1, 8), (1, 16), (4, 24), (2, 16), (1, 24), (int(BOUNDS["max_batch_size"]), 8)]
    senders = [threading.Thread(target=send, args=request) for request in requests]
    for sender in senders:
        sender.start()
    time.sleep(0.2)  # they wait together, if they may
    all_there.set()
    for sender in senders:
        sender.join(60)
    assert set(answers) == set(requests)
    for (count, side), answer in answers.items():
        np.testing.assert_array_equal(answer, np.full((count, side, side, 3), side + 1, np.float32))
    assert set(batches) == {1}


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
