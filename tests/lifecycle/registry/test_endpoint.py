"""Versions at an endpoint of Vertex AI, on the server of tests/vertex.py: what users are answered by, and when."""

import base64
import collections
import datetime
import io

import numpy as np
import pytest
from PIL import Image

from lifecycle.registry import endpoint as endpoints
from lifecycle.registry.register import check_shared, open_registry
from lifecycle.runs.settled import validate_values
from pipeline.__main__ import main
from tests import vertex_endpoints
from tests.lifecycle.registry.test_contract import record
from tests.refusals import refused
from tests.vertex import DROP, LOCATION, PROJECT
from trainer.errors import (
    AmbiguousError,
    GateError,
    MismatchError,
    NotFoundError,
    SettingError,
    UnreachableError,
    UserError,
)
from trainer.evaluation.evaluation import SHIPPED_MAP
from trainer.models.model_names import DEFAULT
from trainer.network import model_folder

GRAPH = f"{model_folder.SAVED_MODEL}/saved_model.pb"


def png(level, size=None):
    """A map of one grey level, of the size of the image that is asked for."""
    with Image.open(endpoints.SHIPPED_IMAGE) as image:
        height, width = size or image.size[::-1]
    content = io.BytesIO()
    Image.fromarray(np.full((height, width), level, np.uint8)).save(content, "PNG")
    return content.getvalue()


@pytest.fixture
def registry(address):
    return open_registry(address)


@pytest.fixture
def endpoint(vertex, bucket):
    """An empty endpoint `maps`. In place of its container, the bytes of a version's graph are its map."""

    def answer(version, body):
        assert body["signature_name"] == "serve_bytes"
        assert base64.b64decode(body["instances"][0]["b64"]) == endpoints.SHIPPED_IMAGE.read_bytes()
        path = version["artifactUri"].removeprefix(f"gs://{bucket.name}/")
        graph = bucket.blob(f"{path}/1/saved_model.pb").download_as_bytes()
        return 200, {"predictions": [{"b64": base64.b64encode(graph).decode()}]}

    vertex.state["answer"] = answer
    return vertex_endpoints.add(vertex, "maps", labels={"team": "vision"})


@pytest.fixture
def add(registry, model, tmp_path):
    """Registers the default of the next number, whose map is of the level 10 times the number."""

    def add(number, map=None, expected=None):
        (model / GRAPH).write_bytes(png(10 * number) if map is None else map)
        evaluation = tmp_path / f"evaluation-{number}"
        evaluation.mkdir()
        for name in (model_folder.EVALUATION, model_folder.PER_IMAGE):
            (evaluation / name).write_text(name)
        if expected != b"":
            (evaluation / SHIPPED_MAP).write_bytes(expected or png(10 * number))
        run = record(f"msinet-{number}")
        assert registry.add("msinet", model, run, True, number - 1, evaluation) == (number, DEFAULT)

    return add


@pytest.fixture
def command(address):
    return lambda *arguments: main(["registry", *arguments, "--registry", address])


def answering(vertex, endpoint):
    """Number of a version -> how many of 100 requests it answers."""
    split = {each["id"]: each["modelVersionId"] for each in endpoint.get("deployedModels", ())}
    return {int(split[name]): share for name, share in endpoint.get("trafficSplit", {}).items() if share}


def deployed(endpoint):
    return sorted(int(each["modelVersionId"]) for each in endpoint.get("deployedModels", ()))


def titles(vertex):
    return [each["displayName"] for each in vertex.kept("endpoints").values()]


def test_first_version_answers_all_requests_and_the_second_its_share(vertex, registry, endpoint, add):
    add(1)
    registry.deploy("msinet", 1, "maps", 10)
    assert answering(vertex, endpoint) == {1: 100}
    assert endpoint["labels"] == {"team": "vision", "managed_by": "msinet-pipelines", "default_of": "msinet"}
    assert endpoint["deployedModels"][0]["dedicatedResources"]["machineSpec"]["machineType"] == "n1-standard-4"
    # The second takes over what somebody has set for the first.
    endpoint["deployedModels"][0]["dedicatedResources"]["maxReplicaCount"] = 3
    add(2)
    registry.deploy("msinet", 2, "maps", 10)
    assert answering(vertex, endpoint) == {1: 90, 2: 10}
    assert endpoint["deployedModels"][1]["dedicatedResources"]["maxReplicaCount"] == 3
    answers = collections.Counter(
        np.asarray(Image.open(io.BytesIO(endpoints.Endpoints(registry, "msinet")._ask(endpoint["name"]))))[0, 0]
        for _ in range(100)
    )
    assert answers == {10: 90, 20: 10}
    assert titles(vertex) == ["maps"]


def test_promote_gives_the_default_all_traffic_and_removes_the_others(vertex, registry, endpoint, add, command):
    add(1)
    with refused(NotFoundError, "proj", "us-central1", "msinet", "--endpoint"):
        command("promote")
    command("promote", "--endpoint", "maps")
    assert answering(vertex, endpoint) == {1: 100}
    add(2)
    registry.deploy("msinet", 2, "maps", 10)
    command("promote")
    assert (answering(vertex, endpoint), deployed(endpoint)) == ({2: 100}, [2])
    command("promote")
    assert deployed(endpoint) == [2]


def test_endpoint_answers_with_pretrained_which_is_uploaded_once(
    vertex, registry, endpoint, add, command, bucket, capsys
):
    answer = vertex.state["answer"]

    def answer_of_either(version, body):
        """The container of `pretrained` returns its map, as the others return that of their graph."""
        if "pretrained" not in version["labels"]:
            return answer(version, body)
        path = version["artifactUri"].removeprefix(f"gs://{bucket.name}/")
        own = bucket.blob(f"{path}/1/assets.extra/{SHIPPED_MAP}").download_as_bytes()
        return 200, {"predictions": [{"b64": base64.b64encode(own).decode()}]}

    vertex.state["answer"] = answer_of_either
    add(1)
    command("promote", "--endpoint", "maps")
    command("set-default", "0")
    assert answering(vertex, endpoint) == {2: 100}
    uploaded = vertex.kept("models")["4000"]["versions"]["2"]["artifactUri"]
    assert bucket.blob(f"{uploaded.removeprefix(f'gs://{bucket.name}/')}/1/saved_model.pb").exists()
    # It is none of the registry's versions.
    assert [version.number for version in registry.versions("msinet")] == [1]
    assert (registry.aliases("msinet"), registry.default("msinet")) == ({}, None)
    with refused(UserError, 2, "0, 1"):
        command("set-default", "2")
    command("set-default", "1")
    assert answering(vertex, endpoint) == {1: 100}
    command("set-default", "0")
    assert answering(vertex, endpoint) == {2: 100}
    assert len(vertex.sent("POST", "models:upload")) == 2


@pytest.mark.parametrize("promoted", [False, True])
def test_default_and_endpoint_go_back_together(vertex, registry, endpoint, add, command, promoted):
    add(1)
    registry.deploy("msinet", 1, "maps", 10)
    add(2)
    registry.deploy("msinet", 2, "maps", 10)
    if promoted:
        command("promote")
    before = len(vertex.sent("POST", ":deployModel"))
    command("set-default", "1")
    assert (answering(vertex, endpoint), deployed(endpoint)) == ({1: 100}, [1])
    assert registry.aliases("msinet")[DEFAULT] == 1
    # The version before was still there, unless it had been removed: then it is tried and deployed again.
    assert len(vertex.sent("POST", ":deployModel")) - before == (2 if promoted else 0)
    assert titles(vertex) == ["maps"]


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [(png(23), "differs by 3 grey levels"), (png(20, (9, 9)), "(9, 9)"), (b"", "no map")],
)
def test_version_with_another_map_leaves_the_one_before_answering(
    vertex, registry, endpoint, add, command, answer, complaint
):
    add(1)
    registry.deploy("msinet", 1, "maps", 10)
    add(2, answer, png(20))
    with refused(GateError, "version 2", "msinet", complaint):
        registry.deploy("msinet", 2, "maps", 10)
    assert (answering(vertex, endpoint), deployed(endpoint)) == ({1: 100}, [1])
    assert titles(vertex) == ["maps"]
    command("set-default", "1")
    with refused(GateError, "version 2", complaint):
        command("set-default", "2")
    assert registry.aliases("msinet")[DEFAULT] == 1
    assert (answering(vertex, endpoint), titles(vertex)) == ({1: 100}, ["maps"])


def test_map_may_differ_by_rounding_and_must_have_the_images_size_if_none_is_known(registry, endpoint, add):
    add(1, png(12))
    registry.deploy("msinet", 1, "maps", 10)
    add(2, png(50), b"")
    registry.deploy("msinet", 2, "maps", 100)
    assert deployed(endpoint) == [1, 2]
    add(3, png(50, (9, 9)), b"")
    with refused(GateError, "version 3", "(9, 9)"):
        registry.deploy("msinet", 3, "maps", 10)


@pytest.mark.parametrize("request_number", [1, 2])
def test_refused_deployment_leaves_the_one_before_answering(vertex, registry, endpoint, add, request_number):
    add(1)
    registry.deploy("msinet", 1, "maps", 10)
    add(2)
    path = ":deployModel" if request_number == 1 else f"{endpoint['name']}:deployModel"
    vertex.fail(429, path=path, message="quota custom_model_serving_cpus")
    with refused(UnreachableError, "custom_model_serving_cpus", 429):
        registry.deploy("msinet", 2, "maps", 10)
    assert (answering(vertex, endpoint), titles(vertex)) == ({1: 100}, ["maps"])
    registry.deploy("msinet", 2, "maps", 10)
    assert answering(vertex, endpoint) == {1: 90, 2: 10}


def test_deployment_whose_reply_was_lost_is_found_by_the_next_attempt(vertex, registry, endpoint, add):
    add(1)
    vertex.fail(DROP, path=f"{endpoint['name']}:deployModel", after=True)
    with refused(UnreachableError):
        registry.deploy("msinet", 1, "maps", 10)
    registry.deploy("msinet", 1, "maps", 10)
    assert deployed(endpoint) == [1]


def test_trial_of_a_killed_process_is_removed_by_the_next_one(vertex, registry, endpoint, add):
    labels = {"managed_by": "msinet-pipelines", "trial_of": "msinet"}
    now = datetime.datetime.now(datetime.UTC)
    for title, hours in (("old", 4), ("new", 1)):
        created = (now - datetime.timedelta(hours=hours)).isoformat()
        vertex_endpoints.add(vertex, title, labels=labels, createTime=created)
    add(1)
    registry.deploy("msinet", 1, "maps", 10)
    assert titles(vertex) == ["maps", "new"]


# === Mistakes ===


def test_endpoint_must_exist_and_have_no_other_model(vertex, registry, address, endpoint, add):
    check_shared(address, "msinet", "maps")
    check_shared(address, "msinet", endpoint["name"].rpartition("/")[2])
    with refused(NotFoundError, "endpoint", "map", "maps (8000)"):
        check_shared(address, "msinet", "map")
    add(1)
    registry.deploy("msinet", 1, "maps", 10)
    check_shared(address, "msinet", "maps")
    with refused(MismatchError, "maps (8000)", "other", 4000):
        check_shared(address, "other", "maps")
    vertex_endpoints.add(vertex, "maps")
    with refused(AmbiguousError, "endpoint", "maps", 2):
        registry.deploy("msinet", 1, "maps", 10)
    assert answering(vertex, endpoint) == {1: 100}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"endpoint": "maps", "registry": "gs://bucket/models"}, ("endpoint", "maps", "gs://bucket/models")),
        ({"endpoint": "maps"}, ("endpoint", "maps", "models")),
        ({"traffic": 0}, ("traffic", 0)),
        ({"traffic": 101}, ("traffic", 101)),
    ],
)
def test_parameters_that_deploy_nothing_are_refused(given, named):
    with refused(SettingError, *named):
        validate_values(given)
    validate_values({"endpoint": "maps", "registry": f"vertex://{PROJECT}/{LOCATION}"})


@pytest.mark.parametrize(
    ("split", "traffic", "expected"),
    [
        ({}, 10, {"new": 100}),
        ({"a": 100}, 10, {"a": 90, "new": 10}),
        ({"a": 67, "b": 33}, 10, {"a": 61, "b": 29, "new": 10}),
        ({"a": 90, "new": 10}, 100, {"new": 100}),
        ({"a": 0, "new": 100}, 10, {"new": 100}),
    ],
)
def test_shares_of_the_traffic_add_up(split, traffic, expected):
    assert endpoints.shares(split, "new", traffic) == expected
