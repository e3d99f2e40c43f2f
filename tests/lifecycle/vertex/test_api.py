"""When a request is repeated and when it must not be, and where credentials are sent."""

import dataclasses
import urllib.parse

import pytest
import requests
from google.api_core.exceptions import BadRequest, Conflict, Forbidden, ServiceUnavailable, TooManyRequests
from google.cloud.aiplatform_v1 import ModelServiceClient

from lifecycle.registry.address import check_registry
from lifecycle.vertex import api as vertex_api
from lifecycle.vertex.api import check_api_address
from pipeline.graph import compiled
from pipeline.graph.environment import Environment
from tests.refusals import refused
from trainer.errors import SettingError

DOWN, FULL = ServiceUnavailable("down"), TooManyRequests("full")


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    """The pauses that are made, in seconds."""
    made = []
    monkeypatch.setattr("time.sleep", made.append)
    return made


def service(*outcomes):
    """A request that ends as listed; the last outcome stays."""
    left = list(outcomes)

    def call():
        outcome = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return call


def test_request_is_repeated_while_that_may_help(pauses, capsys):
    assert vertex_api.retried(service(DOWN, requests.ConnectionError("gone"), FULL, "made")) == "made"
    assert len(pauses) == 3
    assert capsys.readouterr().err.count("Trying again") == 3


def test_last_error_is_raised_when_the_time_is_over(monkeypatch):
    monkeypatch.setattr(vertex_api, "RETRY_S", 0.0)
    with pytest.raises(ServiceUnavailable):
        vertex_api.retried(service(DOWN))


@pytest.mark.parametrize("error", [Conflict("taken"), Forbidden("no"), BadRequest("bad")])
def test_refusal_is_final(error, pauses):
    with pytest.raises(type(error)):
        vertex_api.retried(service(error))
    assert not pauses


# === Where credentials go ===


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://evil.example",
        "https://aiplatform.googleapis.com.evil.example",
        "https://evilgoogleapis.com",
        "https://googleapis.com",
        "https://evil.example/.googleapis.com",
        "https://evil.example#.googleapis.com",
        "https://evil.example?.googleapis.com",
        "https://aiplatform.googleapis.com@evil.example",
        "https://evil.example\\.googleapis.com",
        "https://aiplatform.googleapis.com\n.evil.example",
        "https://aiplatform.googleapis.com:8080",
        "http://aiplatform.googleapis.com",
        "http://127.0.0.1.evil.example",
        "http://127.0.0.1@evil.example:80",
        "http://10.0.0.1:8080",
        "ftp://127.0.0.1",
    ],
)
def test_credentials_are_not_sent_to_other_machines(endpoint):
    place = dataclasses.make_dataclass("Place", ["project", "location", "endpoint"])("p", "us-central1", endpoint)
    for use in (
        lambda: vertex_api.service_client(ModelServiceClient, place),
        lambda: vertex_api.service_address(place, "aiplatform"),
        lambda: check_registry(f"vertex://p/us-central1?{urllib.parse.urlencode({'endpoint': endpoint})}"),
        lambda: Environment("prod", target="local", endpoint=endpoint),
    ):
        with refused(SettingError, "endpoint"):
            use()


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "us-central1-aiplatform.googleapis.com",
        "https://us-central1-aiplatform.p.googleapis.com/",
        "http://127.0.0.1:8080",
        "https://localhost:1/",
        "http://[::1]:80",
    ],
)
def test_credentials_are_sent_to_google_and_to_this_machine(endpoint):
    check_api_address(endpoint)


@pytest.mark.parametrize(
    "host", ["https://evil.example", "https://us-kfp.pkg.dev.evil.example", "http://10.0.0.1"]
)
def test_templates_are_fetched_from_artifact_registry_alone(host):
    version = f"{host}/p/r/msinet/sha256:{'0' * 64}"
    with refused(SettingError, f"{host}/p/r"):
        compiled.Template.load(Environment("prod"), version)
