"""Starts Chromium for the tests of pages, and records what goes wrong on a page."""

import contextlib
import os
import pathlib
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Playwright, sync_playwright

from trainer.attention.browser import NAMES, VARIABLE

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WAIT_MS = 20_000
REMEDY = f"no Chromium found: install it (`playwright install chromium`, or a package), or set {VARIABLE}"


def executable(playwright: Playwright) -> str | None:
    """Path of a Chromium: of the variable, on PATH, or Playwright's own; None if none is installed."""
    candidates = [os.environ.get(VARIABLE), *map(shutil.which, NAMES), playwright.chromium.executable_path]
    return next((path for path in candidates if path and pathlib.Path(path).exists()), None)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium with its own profile; skips the test if it cannot be started."""
    with contextlib.ExitStack() as stack:
        try:
            playwright = stack.enter_context(sync_playwright())
        except Exception as error:  # Playwright raises nothing more specific
            pytest.skip(f"the driver of Playwright does not start ({error}): it needs the package libatomic1")
        path = executable(playwright)
        if path is None:
            pytest.skip(REMEDY)
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        stack.callback(browser.close)
        yield browser


class Watched:
    """A page whose errors, warnings and failed requests are recorded in `troubles`.

    Args:
        context: of the browser.
        address: of the server; a request to any other is a trouble, too.
    """

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.page = context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.troubles: list[str] = []
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        self.page.on("requestfailed", lambda request: self.troubles.append(f"failed: {request.url}"))
        self.page.on("request", lambda request: self._on_request(request.url, address))
        self.page.goto(address)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.troubles.append(f"console: {message.text}")

    def _on_request(self, url: str, address: str) -> None:
        if not url.startswith((address, f"blob:{address}")):
            self.troubles.append(f"request to another server: {url}")
