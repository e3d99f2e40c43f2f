"""The server on loopback, with a narrow network, and requests to it."""

import base64
import contextlib
import io
import json
import threading
import time
import urllib.error
import urllib.request

import numpy as np
from PIL import Image

from serving.app import build_app, build_server
from serving.maps import Maps
from serving.model import ServedModel
from serving.settings import PREDICT, Contract, ServerConfig


@contextlib.contextmanager
def serving(model, contract=None, lines=None, **limits):
    """Serve a `ServedModel`, with two maps at a time; yields the address and the `Maps`."""
    config = ServerConfig(host="127.0.0.1", port=0, parallel=2, **limits)
    maps = Maps(2, config)
    app = build_app(model, maps, config, contract or Contract(), (lines if lines is not None else []).append)
    server = build_server(app, config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", maps
    finally:
        server.should_exit = True
        thread.join(60)
        maps.close()
    assert not thread.is_alive()


def loaded(folder):
    """The model of a folder, loaded."""
    model = ServedModel(str(folder), 2)
    model.load()
    return model


def instance(content):
    """An instance with an encoded image."""
    return {"b64": base64.b64encode(content).decode()}


def encoded(pixels, format="PNG", **options):
    """Pixels as the bytes of a file."""
    Image.fromarray(pixels).save(buffer := io.BytesIO(), format, **options)
    return buffer.getvalue()


def ask(address, body=None, path=PREDICT):
    """Status, content and headers of a response: to a POST of `body`, JSON or bytes, or to a GET without one."""
    content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(f"{address}{path}", content, timeout=120) as answer:
            return answer.status, json.load(answer), answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error), error.headers


def levels(prediction):
    """The grey levels of a prediction's map."""
    with Image.open(io.BytesIO(base64.b64decode(prediction["b64"]))) as image:
        assert (image.format, image.mode) == ("PNG", "L")
        return np.asarray(image)
