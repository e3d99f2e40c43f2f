"""The page's server: the real one on loopback, whose answers are read from a socket."""

import contextlib
import functools
import http.client
import io
import json
import pathlib
import random
import socket
import threading
import time

import numpy as np

from tests.fuzz import model, pictures, requests
from tests.fuzz.verdicts import Input, RefusedError, expect
from trainer.demo.app import build_app
from trainer.demo.listen import host_names, listen
from trainer.demo.serve import build_server

HOST = "127.0.0.1"
ANSWER_BYTES = 2**26
PATIENCE_S = 1.0
"""Until a client of an incomplete request gives up."""


class Target:
    def __init__(self, folder: pathlib.Path) -> None:
        self._model = model.written(folder)
        bound = listen(HOST, 0)
        self._port = bound.getsockname()[1]
        server = build_server(build_app(self._model.predictor, "narrow", host_names(HOST)))
        threading.Thread(target=server.run, args=([bound],), daemon=True).start()
        while not server.started:
            time.sleep(0.01)
        self._answer: http.client.HTTPResponse | None = None
        self._body = b""

    def make(self, source: random.Random, folder: pathlib.Path) -> Input:
        picture = pictures.picture(source)
        host = f"{HOST}:{self._port}"
        is_odd = source.random() < 0.4
        request = (requests.odd if is_odd else requests.posted)(picture.data, source, host)
        (folder / "request").write_bytes(request.content)
        run = functools.partial(self._run, request)
        compare = functools.partial(self._compare, request, picture)
        kind = request.kind if is_odd else f"{request.kind}: {picture.kind}"
        return Input(kind, run, compare, picture.is_sound and not is_odd)

    def _run(self, request: requests.Request) -> None:
        received = self._sent(request.content, patient=bool(request.path))
        self._answer = None
        if not received and not request.path:
            self._check_alive()
            raise RefusedError("error: the connection was closed, since this is no request")
        expect(received, "the connection was closed without an answer")
        answer = http.client.HTTPResponse(_Received(received))
        with contextlib.suppress(http.client.HTTPException):
            answer.begin()
            self._answer, self._body = answer, answer.read()
        if self._answer is None:
            self._check_alive()
            raise RefusedError(f"error: what came is no HTTP: {received[:80]!r}")
        status = answer.status
        assert status < 500, f"the server answers {status}: {self._body[:300]!r}"
        if status >= 400:
            self._check_alive()
            raise RefusedError(f"error {status}: {_reason(self._body)}")

    def _sent(self, content: bytes, patient: bool = True) -> bytes:
        """All that the server answers; it may close the connection before it has read everything.

        To end the sending side makes the server drop the request, so that is done only to one who waits for more.
        """
        received = bytearray()
        with socket.create_connection((HOST, self._port)) as connection:
            connection.settimeout(None if patient else PATIENCE_S)
            with contextlib.suppress(OSError):
                connection.sendall(content)
            with contextlib.suppress(OSError):
                while len(received) < ANSWER_BYTES:
                    try:
                        part = connection.recv(2**16)
                    except TimeoutError:
                        connection.settimeout(None)
                        connection.shutdown(socket.SHUT_WR)
                        continue
                    if not part:
                        break
                    received += part
        return bytes(received)

    def _check_alive(self) -> None:
        answer = self._sent(requests.message("GET", "/facts", f"{HOST}:{self._port}"))
        expect(answer.startswith(b"HTTP/1.1 200"), f"the server no longer answers: {answer[:100]!r}")

    def _compare(self, request: requests.Request, picture: pictures.Picture) -> None:
        if not request.path:
            return
        assert self._answer is not None
        theirs = pictures.independent(picture.data)
        expect(theirs is not None, "Pillow does not read it, and there is a map")
        assert theirs is not None
        size = theirs.shape[:2]
        if request.path == "/map":
            width, height = map(int, self._answer.headers["image-size"].split("x"))
            expect((height, width) == size, f"the picture is {size}, the answer says {(height, width)}")
            shown = tuple(map(int, reversed(self._answer.headers["map-size"].split("x"))))
            if shown == size:
                off = np.abs(np.frombuffer(self._body, "<f4").reshape(size) - self._model.map(theirs)).max()
                expect(off <= model.TOLERANCE, f"the map differs by {off:.3g} from that of Pillow's pixels")
        else:
            answered = pictures.independent(self._body)
            expect(answered is not None and answered.shape[:2] == size, f"the answer is no picture of {size}")


class _Received:
    """Bytes as the socket that `http.client` reads an answer from."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._content)


def _reason(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace")
