"""The recipe of the server's image, parsed: what it copies is enough, and what it says of itself is true.

research/log.md, 2026-11-29 "The server", has its commands run with the pinned packages alone.
"""

import json
import os
import shutil
import subprocess
import sys

import pytest
import yaml

from lifecycle.registry.address import SERVING_PORT, Address
from serving.model import ServedModel
from serving.settings import HEALTH, MODEL, PREDICT, ServerConfig
from tests.images import DOCKERFILE, stages
from tests.serving.server import serving
from tests.test_pins import pins

ROOT = DOCKERFILE.parent.parent
_, STAGES = stages((ROOT / "images" / "serving" / "Dockerfile").read_text())
IMAGE = STAGES["final"]
MANIFEST = yaml.safe_load((ROOT / "docs" / "kubernetes" / "inference-service.yaml").read_text())


def test_pins_have_no_tensorflow_and_the_versions_of_the_tests():
    pinned = pins("serving")
    assert not [name for name in pinned if name.startswith(("tensorflow", "keras"))]
    tested = pins("cpu") | pins("dev")
    assert {name: version for name, version in pinned.items() if tested.get(name) != version} == {}
    assert {"openvino", "starlette", "uvicorn", "google-cloud-storage"} <= pinned.keys()


def test_runs_as_another_user_than_root():
    assert IMAGE.of("USER") == ["1000"]
    names = [name for name, _ in IMAGE.instructions]
    assert not {"RUN", "COPY", "ADD"} & set(names[names.index("USER") :])


def test_installs_only_wheels_with_hashes():
    (installed,) = [each for each in IMAGE.of("RUN") if "pip install" in each]
    assert {"--no-deps", "--require-hashes", "--only-binary"} <= set(installed.split())


def test_what_is_copied_is_enough(tmp_path):
    for arguments in IMAGE.of("COPY"):
        *sources, target = arguments.split()
        for source in sources:
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, tmp_path / target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / source, tmp_path / target)
    (entry,) = IMAGE.of("ENTRYPOINT")
    command = [sys.executable if word == "python" else word for word in json.loads(entry)]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    program = "import serving.__main__, trainer, sys; print(trainer.__file__)"
    finished = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=variables, capture_output=True, text=True, check=True
    )
    assert finished.stdout.startswith(str(tmp_path))
    helped = subprocess.run([*command, "--help"], cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert "--most-megapixels" in helped.stdout


def test_what_is_copied_reaches_the_build():
    allowed = (ROOT / ".dockerignore").read_text().splitlines()
    for arguments in IMAGE.of("COPY"):
        for source in arguments.split()[:-1]:
            top = source.partition("/")[0]
            assert {f"!{top}", f"!{top}/"} & set(allowed), source


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("is_loaded", [False, True])
def test_health_is_that_of_the_model(tmp_path, is_loaded):
    from tests import kinds

    (check,) = IMAGE.of("HEALTHCHECK")
    python, *arguments = json.loads(check.partition(" CMD ")[2])
    assert python == "python"
    model = ServedModel(str(kinds.write_model(tmp_path / "model")), 1)
    if is_loaded:
        model.load()
    with serving(model) as (address, _):
        variables = os.environ | {"AIP_HTTP_PORT": address.rpartition(":")[2]}
        command = [sys.executable, *arguments]
        finished = subprocess.run(command, env=variables, capture_output=True, timeout=60)
    assert (finished.returncode == 0) == is_loaded


def test_all_who_start_the_image_ask_it_where_it_answers():
    spec = Address("proj", "us-central1", serving="host/repository/msinet-serving:v1").container_spec
    assert (spec["predict_route"], spec["health_route"]) == (PREDICT, MODEL)
    (container,) = MANIFEST["spec"]["predictor"]["containers"]
    ports = {SERVING_PORT, container["ports"][0]["containerPort"], container["readinessProbe"]["httpGet"]["port"]}
    assert ports == {ServerConfig().port} == set(map(int, IMAGE.of("EXPOSE")))
    assert container["readinessProbe"]["httpGet"]["path"] in (MODEL, HEALTH)
