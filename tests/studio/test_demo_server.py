"""The server of the page: the predictor's maps for allowed requests, a reason for all others."""

import concurrent.futures
import contextlib
import io
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
from urllib.parse import unquote

import httpx
import numpy as np
import pytest
from PIL import Image

from studio.demo import app
from studio.demo.app import is_loopback
from studio.demo.turns import OTHERS
from tests import site
from tests.refusals import assert_named
from tests.studio.demo import Held, encoded, picture, serving, unpacked, write_model, written
from tests.studio.pages import needs_browser
from trainer.pictures import read_picture
from trainer.prediction.heat import blend, draw_grey
from trainer.prediction.regions import Region, measure_regions

pytestmark = pytest.mark.usefixtures("narrow")

BYTES = {"content-type": "application/octet-stream"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("demo") / "model")


@pytest.fixture(scope="module")
def predictor(folder):
    return Held(folder)


@pytest.fixture(scope="module")
def client(predictor):
    with serving(predictor) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client


def connected(client):
    """A socket to the server, for requests that no client sends."""
    return socket.create_connection((client.base_url.host, client.base_url.port), timeout=30)


def shown(response):
    """The facts of a map and its values, of several screens (n, h, w)."""
    assert response.status_code == 200, response.text
    lines, maps = unpacked(response.content)
    return lines[-1], maps.squeeze()


# === Maps ===

LEVEL = 0.51 / 65535
"""Error of a map's value in 16 bits."""


def test_map_is_the_predictors(client, predictor):
    pixels = picture(90, 130)
    facts, small = shown(client.post("/map", content=encoded(pixels), headers=BYTES))
    assert (facts["imageWidth"], facts["imageHeight"]) == (130, 90)
    np.testing.assert_allclose(small, predictor.predict(pixels), rtol=0, atol=LEVEL)


def test_map_of_a_large_image_is_shrunk_and_keeps_the_shares(client, predictor):
    pixels = picture(1201, 1803)
    response = client.post("/map", content=encoded(pixels, "JPEG", quality=95), headers=BYTES)
    facts, small = shown(response)
    assert [facts[side] for side in ("imageWidth", "imageHeight", "width", "height")] == [1803, 1201, 1024, 682]
    whole = predictor.predict(read_picture(response.request.content, "it"))
    assert small.mean(dtype=float) == pytest.approx(whole.mean(dtype=float), abs=1e-5)
    half = Region("half", 0, 0, 900, 1201)
    columns = small.sum(axis=0, dtype=float) / small.sum(dtype=float)
    share = columns[:511].sum() + columns[511] * (900 * 1024 / 1803 - 511)
    assert share == pytest.approx(measure_regions(whole, [half])[0].share, abs=1e-5)


def test_packed_map_is_small_and_its_worst_share_is_hardly_off(folder):
    maps = app.shrink_maps(Held(folder).predict(picture(800, 1280)))
    packed = app.pack_maps(maps)
    assert len(packed) < 0.16 * maps.nbytes
    _, found = unpacked(json.dumps({"width": 1024, "height": 640}).encode() + b"\n" + packed)
    parts = [each.reshape(20, 32, 16, 64).sum(axis=(1, 3), dtype=float) for each in (maps[0], found[0])]
    before, after = (part / part.sum() for part in parts)  # a grid of regions of 64 x 32 cells
    assert np.abs(after - before).max() < 2e-8
    assert np.abs(found - maps).max() < LEVEL


@pytest.mark.parametrize(
    ("screen", "rows"),
    [
        ("", [[0, 960], [440, 1400]]),
        ("whole", [[0, 1400]]),
        ("desktop", [[0, 250], [250, 500], [500, 750], [750, 1000], [1000, 1250], [1150, 1400]]),
    ],
)
def test_a_long_page_is_cut_as_predict_cuts_it_unless_the_page_asks_for_another_map(
    client, predictor, screen, rows
):
    pixels = written(1400, 400)
    response = client.post(f"/map?screen={screen}", content=encoded(pixels), headers=BYTES)
    facts, small = shown(response)
    assert facts["windows"] == rows
    assert (facts["kind"], facts["page"]) == ("page", 1)
    expected = app.shrink_maps(predictor.predict(pixels, screen)).squeeze()
    np.testing.assert_allclose(small, expected, rtol=0, atol=LEVEL)


def test_downloads_are_what_predict_writes(client, predictor):
    pixels = picture(120, 80)
    expected = predictor.predict(pixels)
    grey = client.post("/map.png", content=encoded(pixels), headers=BYTES)
    levels = np.asarray(Image.open(io.BytesIO(grey.content)))
    np.testing.assert_array_equal(levels, np.asarray(draw_grey(expected)))
    overlay = client.post("/overlay.png?opacity=0.35", content=encoded(pixels), headers=BYTES)
    drawn = np.asarray(Image.open(io.BytesIO(overlay.content)))
    np.testing.assert_array_equal(drawn, blend(pixels, expected, opacity=0.35))


# === Refusals ===


@pytest.mark.parametrize(
    ("path", "content", "status", "reason"),
    [
        ("/map.png", b"words, not an image", 422, "is not a JPEG, PNG"),
        ("/map.png", b"", 422, "the file is empty"),
        ("/overlay.png?opacity=2", encoded(picture(9, 9)), 400, "opacity"),
        ("/map?screen=tv", encoded(picture(9, 9)), 400, "screen must be one of whole, desktop, phone"),
        ("/map.png", encoded(picture(210, 210)), 422, "megapixels. At most 0.04 are allowed"),
        ("/map", bytes(380_000), 413, "more than 0.3 MB"),
        ("/map", (bytes(200_000), bytes(200_000)), 413, "more than 0.3 MB"),
    ],
)
def test_every_limit_has_its_reason(client, monkeypatch, path, content, status, reason):
    monkeypatch.setattr(app, "MAX_PIXELS", 40_000)
    monkeypatch.setattr(app, "MAX_BYTES", 300_000)
    body = iter(content) if isinstance(content, tuple) else content
    response = client.post(path, content=body, headers=BYTES)
    assert response.status_code == status, response.text
    assert reason in response.json()["error"]
    assert "--" not in response.json()["error"]  # no flag of a terminal


def test_an_image_that_cannot_be_read_ends_the_stream_of_its_map(client):
    lines, maps = unpacked(client.post("/map", content=b"words", headers=BYTES).content)
    assert "is not a JPEG, PNG" in lines[-1]["error"]
    assert maps is None


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"host": "localhost:8000", "origin": "http://localhost:8000"}, 200),
        ({"origin": "http://elsewhere.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"host": "elsewhere.example"}, 400),
        ({"host": "[::1]:8000"}, 200),
        ({"content-type": "text/plain"}, 415),
    ],
)
def test_browsers_may_send_images_from_the_page_only(client, headers, status):
    response = client.post("/map", content=encoded(picture(9, 9)), headers=BYTES | headers)
    assert response.status_code == status


def test_no_other_site_makes_the_server_open_an_address(client, predictor):
    with site.running() as asked:
        foreign = ({"origin": "http://elsewhere.example"}, {"sec-fetch-site": "cross-site"}, {"host": "elsewhere"})
        for headers in foreign:
            assert client.post("/picture", content=asked.url, headers=BYTES | headers).status_code in (400, 403)
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):  # those of forms
            assert client.post("/picture", content=asked.url, headers={"content-type": kind}).status_code == 415
        assert client.get("/picture", params={"address": asked.url}).status_code == 404
        with serving(predictor, pages=None) as shared:  # as where others can reach the server
            assert httpx.post(f"{shared}/picture", content=asked.url, headers=BYTES).status_code == 403
        assert asked.requests == []


@pytest.mark.parametrize("address", ["file:///etc/passwd", "/etc/passwd", "https://", "chrome://version", ""])
def test_only_addresses_of_the_web_are_opened(client, address):
    response = client.post("/picture", content=address, headers=BYTES)
    assert response.status_code == 422
    assert "https://example.com" in response.json()["error"]


def test_an_html_file_of_this_machine_is_opened_with_its_elements(client, tmp_path):
    needs_browser()
    page = tmp_path / "a page.html"
    page.write_text("<body style='margin: 0'><button id=buy style='width: 80px; height: 40px'>Buy</button>")
    for name in (str(page), page.as_uri()):
        response = client.post("/picture", content=name, headers=BYTES)
        assert unquote(response.headers["picture-name"]) == "a page.png"
        start = int(response.headers["elements-bytes"])
        (element,) = json.loads(response.content[:start])
        assert (
            element.items() >= {"kind": "button", "name": "Buy", "selector": "#buy", "x": 0, "width": 80}.items()
        )
        assert Image.open(io.BytesIO(response.content[start:])).size == (400, 300)
    page.write_text("<body style='height: 20000px'>")
    high = client.post("/picture?whole=1", content=str(page), headers=BYTES)
    assert high.status_code == 422
    assert "--" not in high.json()["error"]
    missing = client.post("/picture", content=str(tmp_path / "none.html"), headers=BYTES)
    assert missing.status_code == 422
    assert_named(missing.json()["error"], str(tmp_path / "none.html"))


@pytest.mark.parametrize(
    ("path", "status"),
    [("/", 200), ("/app.js", 200), ("/colors.css", 200), ("/icon.svg", 200), ("/nothing", 404), ("/map", 404)],
)
def test_every_response_has_the_security_headers(client, path, status):
    response = client.get(path)
    assert response.status_code == status
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cache-control"] == "no-store"
    assert "server" not in response.headers
    assert client.get("/", headers={"host": "elsewhere.example"}).headers["content-security-policy"] == policy


def test_only_the_pages_files_are_served(client):
    for path in ("/../app.py", "/..%2fapp.py", "/%2e%2e/%2e%2e/errors.py", "//etc/passwd"):
        with connected(client) as sender:
            sender.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            assert sender.recv(100).startswith(b"HTTP/1.1 404"), path


# === Waiting ===


def test_one_prediction_runs_at_a_time(client, predictor):
    predictor.let_go.clear()
    before = predictor.count
    with concurrent.futures.ThreadPoolExecutor() as senders:
        body = encoded(picture(40, 40))
        responses = [senders.submit(client.post, "/map", content=body, headers=BYTES) for _ in range(3)]
        try:
            time.sleep(0.5)
            assert predictor.count <= before + 1
        finally:
            predictor.let_go.set()
    told = [unpacked(response.result().content)[0] for response in responses]
    assert sorted(len(lines) for lines in told) == [2, 3, 3]
    assert sum(lines[0] == {"waiting": OTHERS} for lines in told) == 2
    assert predictor.count == before + 3


def test_screens_of_a_long_page_are_told_and_none_is_predicted_after_the_client_leaves(client, predictor):
    long = encoded(written(42060, 390))
    before = predictor.screens
    with client.stream("POST", "/map", content=long, headers=BYTES) as response:
        lines = response.iter_lines()
        told = [json.loads(next(lines)) for _ in range(2)]
    assert told == [{"waiting": f"Predicting screen {number} of 45…"} for number in (1, 2)]
    assert client.post("/map", content=encoded(picture(40, 40)), headers=BYTES).status_code == 200
    assert predictor.screens - before < 45


def test_nothing_is_stored_or_logged(client, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert client.post("/map", content=encoded(picture(1500, 1500)), headers=BYTES).status_code == 200
    assert client.post("/map", content=b"secret words", headers=BYTES).status_code == 200
    assert client.post("/map.png", content=b"secret words", headers=BYTES).status_code == 422
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")


# === The command ===


def test_loopback_is_recognised():
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.0.7", "example.com")))


@contextlib.contextmanager
def commanded(folder, host):
    """Run the command; yields its process, the port, and its lines before the one with the address."""
    arguments = ["demo", "--model", str(folder), "--port", "0", "--host", host]
    command = [sys.executable, "-m", "tests.studio.narrow_command", *arguments]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Where there is no /sys, a library of OpenVINO would write a line of its own.
        env=os.environ | {"PYTHONUNBUFFERED": "1", "HWLOC_HIDE_ERRORS": "2"},
        cwd=pathlib.Path(__file__).parents[2],
    ) as process:
        try:
            lines = []
            while "is served at" not in (line := next(process.stdout)):
                lines.append(line)
            yield process, line.partition(f"http://{host}:")[2].partition("/")[0], lines
        finally:
            process.kill()


def test_command_prints_the_address_and_shuts_down_cleanly(folder):
    with commanded(folder, "0.0.0.0") as (process, port, lines):
        assert lines[0] == "loading the model\n"
        assert lines[1].startswith("warning: everyone who can reach 0.0.0.0 can use the page")
        response = httpx.post(f"http://127.0.0.1:{port}/map", content=encoded(picture(30, 40)), headers=BYTES)
        assert shown(response)[1].shape == (30, 40)
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "stopped\n"
        assert process.wait(30) == 0


@pytest.mark.parametrize(("path", "status"), [("/map", 200), ("/map.png", 503)])
def test_ctrl_c_during_a_prediction_ends_in_one_line(folder, path, status):
    with commanded(folder, "127.0.0.1") as (process, port, _), httpx.Client(timeout=60) as client:
        body = encoded(written(60_000, 320))
        with concurrent.futures.ThreadPoolExecutor(8) as senders:
            address = f"http://127.0.0.1:{port}{path}"
            waiting = [senders.submit(client.post, address, content=body, headers=BYTES) for _ in range(8)]
            time.sleep(1)
            process.send_signal(signal.SIGINT)
            start = time.monotonic()
            assert process.stdout.read() == "stopped\n"
            assert process.wait(30) == 0
            assert time.monotonic() - start < 10
        assert status in {each.result().status_code for each in waiting}
        assert process.stderr.read().count("\n") == 1  # which model it is
