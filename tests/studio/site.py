"""The site on loopback, for tests in headless Chromium. Arrays go to the page and back as bytes."""

import base64
import contextlib
import functools
import http.server
import shutil
import threading

import numpy as np
import pytest

from studio.browser import find_browser
from studio.site.build import fetch_runtime
from tests.browser import ARGUMENTS, WAIT_MS, Watched
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


@contextlib.contextmanager
def extended(browser, folder, profile):
    """A Chromium like `browser` with the extension in `folder`; yields its context and the extension's id."""
    context = browser.browser_type.launch_persistent_context(
        profile,
        executable_path=find_browser(browser.browser_type.executable_path),
        ignore_default_args=["--disable-extensions"],
        args=[
            *ARGUMENTS,
            f"--load-extension={folder}",
            f"--disable-extensions-except={folder}",
            "--enable-unsafe-extension-debugging",
        ],
        viewport={"width": 640, "height": 400},
    )
    context.set_default_timeout(WAIT_MS)
    try:
        workers = context.service_workers or [context.wait_for_event("serviceworker")]
        yield context, workers[0].url.split("/")[2]
    finally:
        context.close()


def click_extension(context, extension, address):
    """Click the extension's button on the tab of an address; returns the page that opens."""
    browser = context.browser.new_browser_cdp_session()
    tabs = browser.send("Target.getTargets", {"filter": [{"type": "tab"}]})["targetInfos"]
    (tab,) = [each["targetId"] for each in tabs if each["url"] == address]
    with context.expect_page() as opened:
        browser.send("Extensions.triggerAction", {"id": extension, "targetId": tab})
    return opened.value
