"""Slow clients of the page: they have limited time, and do not keep others waiting."""

import contextlib
import functools
import socket
import time

import httpx
import pytest

from tests.trainer.demo import Held, encoded, picture, serving, write_model
from trainer.demo import app, connections, uploads

pytestmark = pytest.mark.usefixtures("narrow")

BYTES = {"content-type": "application/octet-stream"}
HEAD = "POST /map HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nContent-Length: {}\r\n\r\n"
LATER = "GET /facts HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    predictor = Held(write_model(tmp_path_factory.mktemp("demo") / "model"))
    with serving(predictor) as address:
        yield httpx.URL(address)


@contextlib.contextmanager
def connected(address, receive_buffer=0):
    with socket.socket() as client:
        if receive_buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.settimeout(60)
        client.connect((address.host, address.port))
        yield client


def is_closed(client):
    """Whether the server ends the connection before it answers."""
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


def drip(client, text):
    for byte in text:
        client.sendall(byte.encode())
        time.sleep(0.05)


def post(address):
    return httpx.post(address.join("/map"), content=encoded(picture(30, 40)), headers=BYTES, timeout=60)


@pytest.mark.parametrize("said", ["", LATER[:20]], ids=["nothing", "a part of a head"])
def test_connection_without_a_request_is_closed(address, monkeypatch, said):
    monkeypatch.setattr(connections, "MAX_HEAD_S", 0.3)
    with connected(address) as client:
        client.sendall(said.encode())
        assert is_closed(client)


def test_head_that_comes_byte_by_byte_is_not_waited_for(address, monkeypatch):
    monkeypatch.setattr(connections, "MAX_HEAD_S", 0.5)
    with connected(address) as client, pytest.raises(ConnectionError):
        drip(client, LATER * 100)


def test_second_head_has_limited_time_too(address, monkeypatch):
    monkeypatch.setattr(connections, "MAX_HEAD_S", 1.0)
    with connected(address) as client, client.makefile("rb") as received:
        client.sendall(f"{LATER}".encode())
        assert received.readline().startswith(b"HTTP/1.1 200")
        time.sleep(0.2)
        client.sendall(LATER[:20].encode())
        started = time.monotonic()
        while received.readline():
            pass
        assert time.monotonic() - started < 4  # uvicorn's own limit ends with the first byte


def test_connection_that_is_used_stays_open(address, monkeypatch):
    monkeypatch.setattr(connections, "MAX_HEAD_S", 0.5)
    with httpx.Client(base_url=address) as client:
        for _ in range(4):
            response = client.get("/facts")
            time.sleep(0.3)
        stream = response.extensions["network_stream"]
        assert stream.get_extra_info("socket").fileno() > 0
        assert client.get("/facts").status_code == 200


def test_rest_of_a_refused_upload_has_limited_time(address, monkeypatch):
    monkeypatch.setattr(uploads, "MAX_READ_S", 0.5)
    with connected(address) as client:
        client.sendall(HEAD.format(10**6).replace("image/png", "text/plain").encode())
        with pytest.raises(ConnectionError):
            drip(client, "x" * 200)


@functools.cache
def large():
    """A picture whose answer is larger than what the system takes of it at once, some 3 MB."""
    return encoded(picture(1500, 2000), "JPEG", quality=95)


def unread(address, stack):
    """Ask for a large answer, and do not read it."""
    body = large()
    client = stack.enter_context(connected(address, receive_buffer=4096))
    head = HEAD.format(len(body)).replace("/map", "/overlay.png?opacity=0")
    client.sendall(head.encode() + body)
    assert client.recv(1) == b"H"  # it is being sent
    return client


def read_all(client):
    """All that still comes, and whether it is the whole answer."""
    received = b"H"
    with contextlib.suppress(ConnectionError):
        while b"\r\n\r\n" not in received:
            received += client.recv(4096)
        length = int(received.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        end = received.index(b"\r\n\r\n") + 4 + length
        while len(received) < end and (part := client.recv(1 << 16)):
            received += part
        return len(received) == end
    return False


def test_answer_that_nobody_reads_is_dropped(address, monkeypatch):
    monkeypatch.setattr(connections, "MAX_UNREAD_S", 0.5)
    with contextlib.ExitStack() as stack:
        client = unread(address, stack)
        time.sleep(1.5)
        assert not read_all(client)


def test_answer_that_is_read_late_is_whole(address):
    with contextlib.ExitStack() as stack:
        client = unread(address, stack)
        time.sleep(1.5)
        assert read_all(client)


def test_of_too_many_unread_answers_the_oldest_are_dropped(address, monkeypatch):
    monkeypatch.setattr(connections, "MAX_UNREAD_BYTES", 1)
    with contextlib.ExitStack() as stack:
        clients = [unread(address, stack) for _ in range(3)]
        assert [read_all(client) for client in clients] == [False, False, True]


def test_slow_uploads_do_not_lock_others_out(address):
    with contextlib.ExitStack() as stack:
        for _ in range(3 * app.MAX_WAITING):
            client = stack.enter_context(connected(address))
            client.sendall(HEAD.format(1000).encode() + b"part")
        time.sleep(0.5)
        assert [post(address).status_code for _ in range(3)] == [200] * 3


@pytest.mark.parametrize(("setting", "most"), [("MAX_UPLOADS", 4), ("MAX_HELD_BYTES", 4 * 5000 + 4000)])
def test_of_too_many_uploads_the_one_sent_for_longest_is_refused(address, monkeypatch, setting, most):
    monkeypatch.setattr(uploads, setting, most)
    with contextlib.ExitStack() as stack:
        clients = []
        for _ in range(6):
            client = stack.enter_context(connected(address))
            client.sendall(HEAD.format(10_000).encode() + bytes(5000))
            clients.append(client)
            time.sleep(0.2)
        for client in clients[:2]:
            answer = client.recv(10_000)
            assert answer.startswith(b"HTTP/1.1 503")
            assert b"retry-after" in answer.lower()
        assert post(address).status_code == 200
        clients[-1].sendall(bytes(5000))
        assert clients[-1].recv(100).startswith(b"HTTP/1.1 422")  # zeros are no picture
