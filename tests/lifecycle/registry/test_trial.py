"""The trial of a version, with the server of images/serving as its container, on Vertex AI's API on loopback."""

import contextlib
import shutil

import pytest

from lifecycle.registry import trial, vertex_registry
from lifecycle.registry.register import open_registry
from serving.model import ServedModel
from serving.settings import Contract
from tests import kinds, vertex_endpoints
from tests.lifecycle.registry.test_contract import record
from tests.lifecycle.registry.test_endpoint import answering
from tests.narrow import narrowed
from tests.refusals import refused
from tests.serving.server import ask, serving
from tests.trainer import predictable
from trainer.errors import GateError
from trainer.io.files import write_json
from trainer.models.model_names import DEFAULT
from trainer.network import model_folder
from trainer.network.export import Export

ONE_KIND = {"image_size": [64, 80], "dataset": "osie", "settings": {}}


@contextlib.contextmanager
def container(version):
    """The address of a server on loopback that is started as Vertex AI starts the container of a version."""
    spec = version["containerSpec"]
    contract = Contract.of(
        {
            "AIP_STORAGE_URI": version["artifactUri"],
            "AIP_PREDICT_ROUTE": spec["predictRoute"],
            "AIP_HEALTH_ROUTE": spec["healthRoute"],
        }
    )
    model = ServedModel("", 2, contract.model)
    model.load()
    with serving(model, contract) as (address, _):
        yield address


@pytest.fixture
def endpoint(vertex):
    """An empty endpoint `maps`, whose versions are answered for by their containers."""

    def answer(version, body):
        with container(version) as address:
            assert ask(address, path=version["containerSpec"]["healthRoute"])[0] == 200
            return ask(address, body, version["containerSpec"]["predictRoute"])[:2]

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
