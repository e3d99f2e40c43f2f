"""The site on loopback, for tests in headless Chromium. Arrays go to the page and back as bytes."""

import base64
import contextlib
import functools
import http.server
import shutil
import threading

import numpy as np
import pytest

from studio.site.build import fetch_runtime
from tests.browser import Watched
from trainer.api import UserError

FIRST, SECOND = "#images > :nth-child(1)", "#images > :nth-child(2)"
ISOLATED = {"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp"}
"""Headers with which browsers allow threads to share memory."""
BASE64 = """
globalThis.decoded = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
globalThis.encoded = (values) => new Promise((resolve) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result.split(",")[1]);
  reader.readAsDataURL(new Blob([values]));
});
"""


@pytest.fixture(scope="module")
def runtime():
    """The archive of the runtime for browsers; skips the test where npm is missing or cannot fetch it."""
    if not shutil.which("npm"):
        pytest.skip("npm is not installed")
    try:
        return fetch_runtime()
    except UserError as error:
        pytest.skip(str(error))


@contextlib.contextmanager
def serving(folder, headers):
    """Serve a folder on loopback, each file with these headers; yields the address."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def end_headers(self):
            for name, value in headers.items():
                self.send_header(name, value)
            super().end_headers()

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def opening(browser, folder, headers=None, refused=()):
    """Open the site in a folder; fails on troubles that the test has not removed.

    Args:
        browser: a Chromium.
        folder: of the site.
        headers: of each file.
        refused: names of files to which there is no connection.
    """
    with serving(folder, headers or {}) as address, browser.new_context() as context:
        context.add_init_script(BASE64)
        for name in refused:
            context.route(f"**/{name}", lambda route: route.abort())
        watched = Watched(context, address)
        watched.page.locator(f"{FIRST} .choose").wait_for()
        yield watched
        assert watched.troubles == []


def sent(array):
    return base64.b64encode(np.ascontiguousarray(array)).decode()


def received(text):
    return np.frombuffer(base64.b64decode(text), "<f4")
