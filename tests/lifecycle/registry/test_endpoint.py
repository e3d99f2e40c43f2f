"""Versions at an endpoint of Vertex AI, on the server of tests/vertex.py: what users are answered by, and when."""

import base64
import collections
import datetime
import io
import json

import numpy as np
import pytest
from PIL import Image

from lifecycle.registry import endpoint as endpoints, trial
from lifecycle.registry.register import check_shared, open_registry
from lifecycle.runs.settled import validate_values
from pipeline.__main__ import main
from tests import vertex_endpoints
from tests.lifecycle.registry.test_contract import record
from tests.refusals import refused
from tests.vertex import DROP, LOCATION, PROJECT, SERVING
from trainer.errors import (
    AmbiguousError,
    GateError,
    MismatchError,
    NotFoundError,
    SettingError,
    UnreachableError,
    UserError,
)
from trainer.evaluation.evaluation import SHIPPED_MAPS
from trainer.models.model_names import DEFAULT
from trainer.network import model_folder
from trainer.network.model_folder import ModelFolder

GOOGLES = "us-docker.pkg.dev/vertex-ai/prediction/tf2-cpu.2-15:latest"
GRAPH = f"{model_folder.SAVED_MODEL}/saved_model.pb"


def maps(level, page=None, size=None):
    """The maps of one grey level each, of the sizes of the images that are asked for, or of another one."""
    found = {}
    for (name, image), grey in zip(trial.IMAGES.items(), (level, level if page is None else page), strict=True):
        with Image.open(image) as opened:
            height, width = size or opened.size[::-1]
        content = io.BytesIO()
        Image.fromarray(np.full((height, width), grey, np.uint8)).save(content, "PNG")
        found[name] = content.getvalue()
    return found


def predictions(found):
    return {"predictions": [{"b64": base64.b64encode(content).decode()} for content in found.values()]}


@pytest.fixture
def registry(address):
    return open_registry(address)


@pytest.fixture
def endpoint(vertex, bucket):
    """An empty endpoint `maps`. In place of its container, a version's graph has its answer."""

    def answer(version, body):
        assert body == trial.request()
        path = version["artifactUri"].removeprefix(f"gs://{bucket.name}/")
        return 200, json.loads(bucket.blob(f"{path}/saved_model.pb").download_as_bytes())

    vertex.state["answer"] = answer
    return vertex_endpoints.add(vertex, "maps", labels={"team": "vision"})


@pytest.fixture
def add(registry, model, tmp_path):
    """Registers the default of the next number, whose maps are of the level 10 times the number."""

    def add(number, answer=None, expected=None):
        (model / GRAPH).write_text(json.dumps(answer or predictions(maps(10 * number))))
        evaluation = tmp_path / f"evaluation-{number}"
        evaluation.mkdir()
        for name in (model_folder.EVALUATION, model_folder.PER_IMAGE):
            (evaluation / name).write_text(name)
        for name, content in (maps(10 * number) if expected is None else expected).items():
            (evaluation / name).write_bytes(content)
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
    asked = [endpoints.Endpoints(registry, "msinet")._ask(endpoint["name"]) for _ in range(100)]
    answers = collections.Counter(
        np.asarray(Image.open(io.BytesIO(found[SHIPPED_MAPS[0]])))[0, 0] for found in asked
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

    def uploaded(version, name):
        path = version["artifactUri"].removeprefix(f"gs://{bucket.name}/")
        return bucket.blob(f"{path}/assets.extra/{name}").download_as_bytes()

    def answer_of_either(version, body):
        """The container of `pretrained` returns its own maps, as the others return those of their graph."""
        if "pretrained" not in version["labels"]:
            return answer(version, body)
        return 200, predictions({name: uploaded(version, name) for name in SHIPPED_MAPS})

    vertex.state["answer"] = answer_of_either
    add(1)
    command("promote", "--endpoint", "maps")
    command("set-default", "0")
    assert answering(vertex, endpoint) == {2: 100}
    version = vertex.kept("models")["4000"]["versions"]["2"]
    shipped = ModelFolder.pretrained()
    for path in (shipped.config_file, shipped.weights):
        assert uploaded(version, path.name) == path.read_bytes()
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


def test_pretrained_cannot_answer_without_an_image_that_serves_it(vertex, registry, endpoint, add, address):
    add(1)
    registry.deploy("msinet", 1, "maps", 10)
    bare = open_registry(address.replace(f"&serving={SERVING}", ""))
    with refused(SettingError, f"vertex://{PROJECT}/{LOCATION}", "?serving=IMAGE"):
        bare.set_alias("msinet", DEFAULT, 0)
    assert (registry.aliases("msinet"), answering(vertex, endpoint)) == ({DEFAULT: 1}, {1: 100})


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
    [
        (predictions(maps(24)), "trial.jpg differs by 4 grey levels"),
        (predictions(maps(20, page=99)), "trial.png differs by 79 grey levels"),
        (predictions(maps(20, size=(9, 9))), "(9, 9)"),
        ({"predictions": [{"b64": ""}, {"b64": ""}]}, "no map"),
        ({"predictions": [{"b64": "AA=="}]}, "no map"),
    ],
)
def test_version_with_another_map_leaves_the_one_before_answering(
    vertex, registry, endpoint, add, command, answer, complaint
):
    add(1)
    registry.deploy("msinet", 1, "maps", 10)
    add(2, answer)
    with refused(GateError, "version 2", "msinet", complaint):
        registry.deploy("msinet", 2, "maps", 10)
    assert (answering(vertex, endpoint), deployed(endpoint)) == ({1: 100}, [1])
    assert titles(vertex) == ["maps"]
    command("set-default", "1")
    with refused(GateError, "version 2", complaint):
        command("set-default", "2")
    assert registry.aliases("msinet")[DEFAULT] == 1
    assert (answering(vertex, endpoint), titles(vertex)) == ({1: 100}, ["maps"])


def test_maps_may_differ_by_rounding_and_must_have_the_images_size_if_none_is_known(registry, endpoint, add):
    add(1, predictions(maps(13, page=7)))
    registry.deploy("msinet", 1, "maps", 10)
    add(2, predictions(maps(50)), {})
    registry.deploy("msinet", 2, "maps", 100)
    assert deployed(endpoint) == [1, 2]
    add(3, predictions(maps(50, size=(9, 9))), {})
    with refused(GateError, "version 3", "(9, 9)"):
        registry.deploy("msinet", 3, "maps", 10)


@pytest.mark.parametrize("folder", [False, True], ids=["of-google", "of-a-numbered-folder"])
def test_version_of_an_earlier_commit_goes_on_answering_but_cannot_be_tried(
    vertex, registry, endpoint, add, command, bucket, folder
):
    add(1)
    registry.deploy("msinet", 1, "maps", 10)
    add(2)
    registry.deploy("msinet", 2, "maps", 10)
    for version in vertex.kept("models")["4000"]["versions"].values():
        earlier = version["artifactUri"]
        if folder:
            path = earlier.removeprefix(f"gs://{bucket.name}/")
            for blob in list(bucket.list_blobs(prefix=f"{path}/")):
                bucket.rename_blob(blob, blob.name.replace(path, f"{path}/tensorflow.serving/1", 1))
            version["artifactUri"] = f"{earlier}/tensorflow.serving"
        else:
            version["containerSpec"] = {"imageUri": GOOGLES}
    assert [each.record["lineage"]["run"] for each in registry.versions("msinet")] == ["msinet-1", "msinet-2"]
    assert registry.default("msinet").number == 2
    command("set-default", "1")
    assert (answering(vertex, endpoint), deployed(endpoint)) == ({1: 100}, [1])
    shown = f"{earlier}/tensorflow.serving/1" if folder else GOOGLES
    with refused(MismatchError, "version 2", "msinet", shown):
        command("set-default", "2")
    assert (answering(vertex, endpoint), titles(vertex)) == ({1: 100}, ["maps"])
    # Its folder becomes a version that can be tried, in our container.
    again = {**vertex.kept("models")["4000"]["versions"]["2"], "versionId": "3", "versionAliases": []}
    again |= {"artifactUri": registry.versions("msinet")[1].address, "containerSpec": {"imageUri": SERVING}}
    vertex.kept("models")["4000"]["versions"]["3"] = again
    command("set-default", "3")
    assert answering(vertex, endpoint) == {3: 100}


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
