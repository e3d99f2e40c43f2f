"""The trial of a version, with the server of images/serving as its container, on Vertex AI's API on loopback."""

import contextlib
import json
import shutil
import threading
import time
import urllib.request

import pytest
import uvicorn

from lifecycle.registry import trial, vertex_registry
from lifecycle.registry.register import open_registry
from serving.app import build_app
from serving.maps import Maps
from serving.model import ServedModel
from serving.settings import Contract, ServerConfig
from tests import kinds, vertex_endpoints
from tests.lifecycle.registry.test_contract import record
from tests.lifecycle.registry.test_endpoint import answering
from tests.narrow import narrowed
from tests.refusals import refused
from tests.trainer import predictable
from trainer.errors import GateError
from trainer.io.files import write_json
from trainer.models.model_names import DEFAULT
from trainer.network import model_folder
from trainer.network.export import Export

ONE_KIND = {"image_size": [64, 80], "dataset": "osie", "settings": {}}


@contextlib.contextmanager
def container(version):
    """The address of a server on loopback that runs as Vertex AI runs the container of a version."""
    spec = version["containerSpec"]
    environment = {
        "AIP_STORAGE_URI": version["artifactUri"],
        "AIP_PREDICT_ROUTE": spec["predictRoute"],
        "AIP_HEALTH_ROUTE": spec["healthRoute"],
    }
    contract, config = Contract.of(environment), ServerConfig()
    served, maps = ServedModel("", 1, contract.model), Maps(1, config)
    served.load()
    app = build_app(served, maps, config, contract, lambda line: None)
    server = uvicorn.Server(uvicorn.Config(app, port=0, lifespan="off", ws="none", log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        maps.close()
    assert not thread.is_alive()


@pytest.fixture
def endpoint(vertex):
    """An empty endpoint `maps`, whose versions are answered for by their containers."""

    def answer(version, body):
        spec = version["containerSpec"]
        with container(version) as address:
            with urllib.request.urlopen(address + spec["healthRoute"], timeout=60) as healthy:
                assert healthy.status == 200
            content = json.dumps(body).encode()
            with urllib.request.urlopen(address + spec["predictRoute"], content, timeout=60) as answered:
                return answered.status, json.load(answered)

    vertex.state["answer"] = answer
    with narrowed():
        yield vertex_endpoints.add(vertex, "maps")


@pytest.fixture
def add(address, tmp_path):
    """Registers a model of two kinds as version 1, and an evaluation of it or of `evaluated`."""

    def add(evaluated=None):
        model = kinds.write_model(tmp_path / "model")
        (model / model_folder.HISTORY).write_text("")
        (model / model_folder.SAVED_MODEL).mkdir()
        (model / model_folder.SAVED_MODEL / "saved_model.pb").write_bytes(b"graph")
        evaluation = tmp_path / "evaluation"
        evaluation.mkdir()
        for name in (model_folder.EVALUATION, model_folder.PER_IMAGE):
            (evaluation / name).write_text(name)
        trial.write_shipped_maps(str(evaluated or model), evaluation)
        registry = open_registry(address)
        assert registry.add("msinet", model, record("msinet-1"), True, 0, evaluation) == (1, DEFAULT)
        return registry

    return add


def test_version_that_answers_as_in_its_evaluation_is_deployed(vertex, endpoint, add):
    add().deploy("msinet", 1, "maps", 10)
    assert answering(vertex, endpoint) == {1: 100}


def test_container_with_other_weights_is_not_deployed(vertex, endpoint, add, tmp_path):
    other = predictable.write_model(tmp_path / "other", predictable.network(6))
    shutil.copy(kinds.write_model(tmp_path / "kinds") / model_folder.MODEL_CONFIG, other)
    with refused(GateError, "version 1", "trial.jpg"):
        add(other).deploy("msinet", 1, "maps", 10)
    assert answering(vertex, endpoint) == {}


def test_container_that_sees_a_page_as_another_kind_is_not_deployed(vertex, endpoint, add, tmp_path):
    """The photograph has the same map."""
    plain = kinds.write_model(tmp_path / "plain")
    write_json(plain / model_folder.MODEL_CONFIG, ONE_KIND)
    with refused(GateError, "version 1", "trial.png"):
        add(plain).deploy("msinet", 1, "maps", 10)
    assert answering(vertex, endpoint) == {}


def test_pretrained_answers_from_its_compact_form(vertex, endpoint, add, tmp_path, monkeypatch):
    Export(kinds.write_model(tmp_path / "whole")).compact(tmp_path / "compact")
    monkeypatch.setattr(vertex_registry, "find_model", lambda name: tmp_path / "compact")
    registry = add()
    registry.deploy("msinet", 1, "maps", 10)
    registry.set_alias("msinet", DEFAULT, 0)
    assert answering(vertex, endpoint) == {2: 100}
