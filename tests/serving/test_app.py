"""Requests to the server: the predictor's maps in their order, and a status with a reason for all others."""

import base64
import json
import socket
import threading
import time

import numpy as np
import pytest

from serving.app import CLIENT_LEFT
from serving.model import ServedModel
from serving.settings import HEALTH, MODEL, PREDICT, Contract
from tests import kinds
from tests.serving.server import ask, encoded, instance, levels, loaded, serving
from trainer.pictures import read_picture
from trainer.prediction.heat import draw_grey
from trainer.prediction.predictor import Predictor

pytestmark = pytest.mark.usefixtures("narrow")

SMALL = encoded(np.full((9, 9, 3), 7, np.uint8))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return kinds.write_model(tmp_path_factory.mktemp("served") / "model")


@pytest.fixture(scope="module")
def model(folder):
    return loaded(folder)


@pytest.fixture(scope="module")
def server(model):
    with serving(model, most_megabytes=2, most_instances=20, most_megapixels=1) as (address, _):
        yield address


def turned():
    from PIL import Image

    tags = Image.Exif()
    tags[0x0112] = 6
    return encoded(kinds.sky(90, 130), "JPEG", exif=tags)


# === Maps ===


def test_maps_are_the_predictors_whatever_is_beside_them(server, folder):
    alone = Predictor(folder)
    contents = [turned(), encoded(kinds.page()), encoded(kinds.sky(1400, 400)), encoded(kinds.sky(64, 80), "WEBP")]
    bad = [b"", b"words", contents[1][:300]]
    instances = [instance(contents[0]), instance(bad[0]), {"image_bytes": instance(contents[1])}]
    instances += [*map(instance, bad[1:]), *map(instance, contents[2:]), {"b64": "no base64"}]
    status, answer, _ = ask(server, {"instances": instances})
    assert status == 200
    failed = [index for index, each in enumerate(answer["predictions"]) if not each["b64"]]
    assert failed == [1, 3, 4, 7]
    assert all(answer["predictions"][index]["error"] for index in failed)
    right = [each for each in answer["predictions"] if each["b64"]]
    for content, found in zip(contents, right, strict=True):
        expected = alone.predict(read_picture(content, "it"))
        np.testing.assert_array_equal(levels(found), np.asarray(draw_grey(expected)))
        assert (found["kind"], found["seen_as"]) == (expected.kind, alone.seen_as(expected.page))
        assert found["windows"] == [[rows.start, rows.stop] for rows, _ in expected.screens]
    assert [each["kind"] for each in right[:2]] == ["picture", "page"]


def test_many_clients_at_once_have_the_map_that_each_has_alone(server, folder):
    alone = Predictor(folder)
    images = [kinds.sky(60 + 10 * index, 90) for index in range(6)]
    answers = {}

    def send(index):
        answers[index] = ask(server, {"instances": [instance(encoded(images[index]))] * 3})

    threads = [threading.Thread(target=send, args=(index,)) for index in range(len(images))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, image in enumerate(images):
        status, answer, _ = answers[index]
        assert status == 200
        for found in answer["predictions"]:
            np.testing.assert_array_equal(levels(found), np.asarray(draw_grey(alone.predict(image))))


def test_kind_can_be_asked_for(server, folder):
    body = {"instances": [instance(encoded(kinds.page()))], "parameters": {"kind": "picture"}}
    status, answer, _ = ask(server, body)
    assert (status, answer["predictions"][0]["kind"]) == (200, "picture")
    expected = draw_grey(Predictor(folder).predict(kinds.page(), kind="picture"))
    np.testing.assert_array_equal(levels(answer["predictions"][0]), np.asarray(expected))


# === Refusals ===


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"", 400, "JSON"),
        (b"{", 400, "JSON"),
        (b"\xff\xfe", 400, "JSON"),
        (b"[" * 100_000, 400, "JSON"),
        ([], 400, "instances"),
        ({}, 400, "instances"),
        ({"instances": []}, 400, "instances"),
        ({"instances": {"b64": ""}}, 400, "instances"),
        ({"instances": [instance(SMALL), "words"]}, 400, "instance 1 "),
        ({"instances": [{"b64": 7}]}, 400, "instance 0 "),
        ({"instances": [{"image_bytes": "AAAA"}]}, 400, "instance 0 "),
        ({"instances": [instance(SMALL)], "parameters": {"kind": 7}}, 400, "parameters"),
        ({"instances": [instance(SMALL)], "parameters": {"kind": "poster"}}, 400, "poster"),
        ({"instances": [instance(SMALL)], "parameters": "page"}, 400, "parameters"),
        ({"instances": [instance(SMALL)] * 21}, 413, "21 instances"),
        ({"instances": [{"b64": "A" * 2_100_000}]}, 413, "2 MB"),
    ],
)
def test_mistakes_of_a_client_have_a_reason(server, capfd, body, status, said):
    found, answer, _ = ask(server, body)
    assert found == status
    assert said in answer["error"]
    assert capfd.readouterr() == ("", "")


def test_too_large_an_image_fails_alone(server):
    large = encoded(np.zeros((1001, 1000, 3), np.uint8))
    status, answer, _ = ask(server, {"instances": [instance(large), instance(SMALL)]})
    assert status == 200
    assert "megapixels" in answer["predictions"][0]["error"]
    assert levels(answer["predictions"][1]).shape == (9, 9)


def test_unknown_paths_and_methods(server):
    assert ask(server, path="/v1/models/other")[0] == 404
    assert ask(server, path=PREDICT)[0] == 405


# === Health ===


def test_until_the_model_is_loaded_health_and_requests_say_so(folder):
    contract = Contract.of(
        {
            "AIP_HTTP_PORT": "8181",
            "AIP_HEALTH_ROUTE": "/v1/endpoints/1/deployedModels/2",
            "AIP_PREDICT_ROUTE": "/v1/endpoints/1/deployedModels/2:predict",
            "AIP_STORAGE_URI": str(folder),
        }
    )
    assert contract.port == 8181
    model = ServedModel("", 2, contract.model)
    body = {"instances": [instance(SMALL)]}
    health = (HEALTH, MODEL, contract.health)
    with serving(model, contract) as (address, _):
        assert [ask(address, path=path)[0] for path in health] == [503] * 3
        assert ask(address, path="/")[0] == 200
        assert ask(address, body)[0] == 503
        model.load()
        assert [ask(address, path=path)[:2] for path in health] == [ask(address, path=HEALTH)[:2]] * 3
        status, facts, _ = ask(address, path=MODEL)
        assert (status, facts["ready"], facts["image_sizes"]) == (
            200,
            True,
            {"picture": [64, 80], "page": [40, 72]},
        )
        for path in (PREDICT, contract.predict):
            assert ask(address, body, path)[0] == 200


# === Waiting ===


class Gate:
    """Holds every map back until `open` is set, and has the heights of the images that have begun, in order."""

    def __init__(self, predictor):
        self._predictor, self.open, self.heights = predictor, threading.Event(), []

    def __getattr__(self, name):
        return getattr(self._predictor, name)

    @property
    def begun(self):
        return len(self.heights)

    def predict(self, image, **options):
        self.heights.append(len(image))
        assert self.open.wait(60)
        return self._predictor.predict(image, **options)


@pytest.fixture
def held(folder):
    model = loaded(folder)
    gate = Gate(model.loaded.predictor)
    object.__setattr__(model.loaded, "predictor", gate)
    yield model, gate
    gate.open.set()


def until(holds):
    for _ in range(3000):
        if holds():
            return
        time.sleep(0.01)
    pytest.fail("it did not come to pass")


def test_more_images_than_may_wait_are_refused_and_asked_for_again(held):
    model, gate = held
    body = {"instances": [instance(SMALL)] * 5}
    with serving(model, most_waiting=8) as (address, _):
        answers = []
        first = threading.Thread(target=lambda: answers.append(ask(address, body)))
        first.start()
        until(lambda: gate.begun)
        status, answer, headers = ask(address, body)
        assert status == 429
        assert int(headers["Retry-After"]) >= 1
        assert "waiting" in answer["error"]
        gate.open.set()
        first.join()
        assert answers[0][0] == 200
        assert ask(address, body)[0] == 200


def test_more_bytes_than_may_wait_are_refused_and_asked_for_again(held):
    model, gate = held
    large = {"instances": [instance(SMALL + bytes(1_200_000))]}
    with serving(model, most_waiting_megabytes=3) as (address, _):
        answers = []
        first = threading.Thread(target=lambda: answers.append(ask(address, large)))
        first.start()
        until(lambda: gate.begun)
        for _ in range(2):  # what is refused holds nothing
            status, answer, headers = ask(address, large)
            assert (status, int(headers["Retry-After"])) == (429, 1)
            assert "megabytes" in answer["error"]
        gate.open.set()
        first.join()
        assert answers[0][0] == 200
        assert ask(address, large)[0] == 200


def test_request_that_could_never_be_taken_is_not_asked_for_again(model):
    with serving(model, most_waiting=2, most_waiting_megabytes=1) as (address, _):
        assert ask(address, {"instances": [instance(SMALL)] * 3})[0] == 413
        assert ask(address, {"instances": [instance(SMALL + bytes(1_000_000))]})[0] == 413


def test_requests_take_turns_so_that_one_with_many_images_holds_none_up(held):
    model, gate = held
    other = encoded(np.full((11, 9, 3), 7, np.uint8))
    with serving(model) as (address, _):
        many = threading.Thread(target=ask, args=(address, {"instances": [instance(SMALL)] * 20}))
        many.start()
        until(lambda: gate.begun == 3)  # two networks, and one more thread
        one = threading.Thread(target=ask, args=(address, {"instances": [instance(other)]}))
        one.start()
        time.sleep(0.3)
        gate.open.set()
        one.join()
        many.join()
    assert sorted(gate.heights) == [9] * 20 + [11]
    assert gate.heights.index(11) < 3 + 2 + 3  # the threads may exchange places


def test_images_of_a_client_that_left_are_not_computed(held):
    model, gate = held
    lines = []
    content = json.dumps({"instances": [instance(SMALL)] * 20}).encode()
    with serving(model, lines=lines) as (address, _):
        port = int(address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as sender:
            sender.sendall(
                f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(content)}\r\n\r\n".encode()
            )
            sender.sendall(content)
            until(lambda: gate.begun == 3)  # two networks, and one more thread
        time.sleep(0.3)
        gate.open.set()
        assert ask(address, {"instances": [instance(SMALL)]})[0] == 200
        until(lambda: len(lines) == 2)
        assert gate.begun == 4
        assert sorted(line.split()[1] for line in lines) == ["200", str(CLIENT_LEFT)]


def test_a_line_of_each_request_has_nothing_of_its_images(model):
    lines = []
    with serving(model, lines=lines) as (address, _):
        ask(address, {"instances": [instance(SMALL), instance(b"secret words")]})
        ask(address, b"secret words")
    (first, second) = lines
    assert first.startswith(f"{PREDICT} 200 ")
    assert "2 images" in first
    assert "1 of them" in first
    assert second.startswith(f"{PREDICT} 400 ")
    assert not any(word in line for line in lines for word in ("secret", base64.b64encode(b"secret").decode()[:6]))
