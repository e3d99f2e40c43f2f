"""`python -m serving` as a process: what it says, and how it ends."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np

from serving.settings import HEALTH, PREDICT
from tests.serving.server import ask, encoded, instance

ROOT = pathlib.Path(__file__).parents[2]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def start(*arguments, **environment):
    command = [sys.executable, "-m", "serving", "--host", "127.0.0.1", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, cwd=ROOT, env=os.environ | environment, **pipes)


def test_pretrained_is_served_and_a_running_request_is_answered_after_sigterm():
    port = free_port()
    address, answers = f"http://127.0.0.1:{port}", []
    with start("--model", "pretrained", AIP_HTTP_PORT=str(port)) as process:
        try:
            said = process.stdout.readline()
            assert said.startswith("pretrained (MSI-Net")
            assert ask(address, path=HEALTH)[0] == 200
            image = np.random.default_rng(0).integers(0, 256, (600, 800, 3), np.uint8)
            body = {"instances": [instance(encoded(image, "JPEG"))] * 8}
            sender = threading.Thread(target=lambda: answers.append(ask(address, body)))
            sender.start()
            time.sleep(0.5)
        finally:
            process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
        assert process.wait(60) == 0
    sender.join()
    status, answer, _ = answers[0]
    assert (status, sum(bool(each["b64"]) for each in answer["predictions"])) == (200, 8)
    assert rest.count("\n") == 1
    assert f"{PREDICT} 200 " in rest


def test_model_that_cannot_be_loaded_ends_the_server_with_a_reason(tmp_path):
    with start("--port", "0", AIP_STORAGE_URI=str(tmp_path / "nothing")) as process:
        said = process.stdout.read()
        assert process.wait(60) == 1
    assert said.startswith("error: ")
    assert "nothing" in said
    assert "Traceback" not in said


def test_taken_port_is_named():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with start("--model", "pretrained", "--port", str(port)) as process:
            said = process.stdout.read()
            assert process.wait(60) != 0
    assert str(port) in said
    assert "Traceback" not in said


def test_no_tensorflow_is_loaded():
    program = "import sys, serving.__main__, trainer.prediction.predictor; print('tensorflow' in sys.modules)"
    finished = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert json.loads(finished.stdout.lower()) is False
