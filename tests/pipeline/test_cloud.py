"""When a request is repeated and when it must not be, and where credentials are sent."""

import dataclasses
import urllib.parse

import pytest
from google.api_core.exceptions import Conflict, ServiceUnavailable, TooManyRequests
from google.cloud.aiplatform_v1 import ModelServiceClient

from pipeline import cloud
from pipeline.endpoint import check_endpoint
from pipeline.graph.environment import Environment
from pipeline.registry.address import check_registry
from pipeline.vertex import template
from trainer.errors import UserError


class Service:
    """A service whose calls and looks end as listed; the last outcome stays. `log` has them in order."""

    def __init__(self, calls, looks=(None,)):
        self.log = []
        self.outcomes = {"call": list(calls), "look": list(looks)}

    def do(self, what):
        self.log.append(what)
        outcomes = self.outcomes[what]
        outcome = outcomes.pop(0) if len(outcomes) > 1 else outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def once(self, **options):
        return cloud.once(lambda: self.do("call"), lambda: self.do("look"), **options)


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    """The pauses that are made, in seconds."""
    made = []
    monkeypatch.setattr("time.sleep", made.append)
    return made


DOWN, FULL, TAKEN = ServiceUnavailable("down"), TooManyRequests("full"), Conflict("taken")


@pytest.mark.parametrize(
    ("calls", "looks", "log"),
    [
        (["made"], [None], "call"),
        ([DOWN], [None, "made"], "call look call look"),  # the response was lost
        ([DOWN, "made"], [DOWN, DOWN, None], "call look look look call"),  # not repeated before a look succeeds
        ([DOWN, TAKEN], [None, "made"], "call look call look"),  # the id is taken by the first attempt
    ],
)
def test_result_is_that_of_the_first_attempt_that_succeeded(calls, looks, log):
    service = Service(calls, looks)
    assert service.once() == "made"
    assert " ".join(service.log) == log


@pytest.mark.parametrize(
    ("calls", "looks", "log"),
    [([TAKEN], ["other"], "call"), ([DOWN, TAKEN], [None, None], "call look call look")],
)
def test_id_that_something_else_has_taken_is_an_error(calls, looks, log):
    service = Service(calls, looks)
    with pytest.raises(Conflict):
        service.once()
    assert " ".join(service.log) == log


def test_request_that_takes_time_to_show_is_repeated_after_15_seconds(pauses):
    service = Service([DOWN, "made"])
    assert service.once(repeat_after=cloud.SETTLED) == "made"
    assert service.log == ["call", *["look"] * 4, "call"]
    assert sum(pauses) == 15


@pytest.mark.parametrize("look", [None, DOWN])
def test_request_that_must_not_arrive_twice_is_sent_once(look):
    service = Service([DOWN], [look])
    with pytest.raises(UserError, match=r"the service failed: down \(503\).*. It may still appear"):
        service.once(repeat_after=None, unknown="It may still appear")
    assert service.log.count("call") == 1
    assert service.log.count("look") == len(cloud.PAUSES_S) + 1


@pytest.mark.parametrize(("outcomes", "calls"), [([FULL, FULL, "made"], 3), ([FULL, DOWN, "made"], 2)])
def test_request_that_must_not_arrive_twice_is_repeated_only_if_it_did_nothing(outcomes, calls):
    service = Service(outcomes)
    try:
        assert service.once(repeat_after=None) == "made"
    except ServiceUnavailable:
        assert calls == 2
    assert service.log.count("call") == calls


@pytest.mark.parametrize(("looks", "is_known"), [([None], True), ([None, DOWN], False)])
def test_failure_says_so_if_the_outcome_is_unknown(looks, is_known):
    service = Service([DOWN], looks)
    with pytest.raises(ServiceUnavailable if is_known else UserError):
        service.once(unknown="Look yourself")


def test_error_that_stays_is_raised_after_all_pauses(pauses):
    service = Service([DOWN])
    with pytest.raises(ServiceUnavailable):
        service.once()
    assert pauses == list(cloud.PAUSES_S)
    assert service.log.count("call") == len(cloud.PAUSES_S) + 1


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
    message = r"^endpoint is '.*'; credentials are sent only to https://NAME.googleapis.com and to this machine"
    place = dataclasses.make_dataclass("Place", ["project", "location", "endpoint"])("p", "us-central1", endpoint)
    for use in (
        lambda: cloud.connect(place),
        lambda: cloud.client(ModelServiceClient, place),
        lambda: cloud.address(place, "aiplatform"),
        lambda: check_registry(f"vertex://p/us-central1?{urllib.parse.urlencode({'endpoint': endpoint})}"),
        lambda: Environment("prod", target="local", endpoint=endpoint),
    ):
        with pytest.raises(UserError, match=message):
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
    check_endpoint(endpoint)


@pytest.mark.parametrize(
    "host", ["https://evil.example", "https://us-kfp.pkg.dev.evil.example", "http://10.0.0.1"]
)
def test_templates_are_fetched_from_artifact_registry_alone(host):
    version = f"{host}/p/r/msinet/sha256:{'0' * 64}"
    with pytest.raises(UserError, match=rf"^template {version} is not in Artifact Registry; write it as https://"):
        template.load(Environment("prod"), version)
