"""Pages on loopback, for a browser: of a text, a picture, or a status alone."""

import contextlib
import functools
import http.server
import os
import threading
from collections.abc import Iterator, Mapping

from studio.browser_settings import PageConfig
from tests.browser import driver, find_or_skip

CONFIG = PageConfig(viewport_width=400, viewport_height=300, timeout_s=120, sandbox=os.geteuid() != 0)
"""Chromium refuses to run with its sandbox as root; all pages of the tests are their own."""


@functools.cache
def needs_driver() -> None:
    """Skip the test if playwright does not start."""
    with driver():
        pass


@functools.cache
def needs_browser() -> None:
    """Skip the test if no Chromium is installed, or if playwright does not start."""
    with driver() as playwright:
        find_or_skip(playwright)


@contextlib.contextmanager
def serving(pages: Mapping[str, str | bytes | int]) -> Iterator[str]:
    """Serve path -> HTML, a PNG or a status; yields the address, without a slash at its end."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path, 404)
            self.send_response(page if isinstance(page, int) else 200)
            self.send_header(
                "Content-Type", "image/png" if isinstance(page, bytes) else "text/html; charset=utf-8"
            )
            self.end_headers()
            self.wfile.write(page if isinstance(page, bytes) else f"<!doctype html>{page}".encode())

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
