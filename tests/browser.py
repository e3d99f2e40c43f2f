"""Chromium for the tests of pages, and what a page must never do."""

import os
import pathlib
import shutil

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
)
WAIT_MS = 20_000
REMEDY = "no Chromium here: install one (`playwright install chromium`, or a package), or name one in CHROMIUM"


def executable(playwright: Playwright) -> str | None:
    """Path of a Chromium: that of the variable CHROMIUM, one on PATH, or Playwright's own; None without any."""
    named = [os.environ.get("CHROMIUM"), *map(shutil.which, NAMES), playwright.chromium.executable_path]
    return next((path for path in named if path and pathlib.Path(path).exists()), None)


def launch(playwright: Playwright) -> Browser:
    """A headless Chromium with a profile of its own and a fake camera; skips the test where there is none."""
    path = executable(playwright)
    if path is None:
        pytest.skip(REMEDY)
    return playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))


class Watched:
    """A page of which everything is kept that went wrong.

    Args:
        context: of the browser.
        address: of the server, the only one that may be asked for anything.
    """

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.page = context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.troubles: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        self.page.on("requestfailed", lambda request: self.troubles.append(f"failed: {request.url}"))
        self.page.on("request", lambda request: self._asked(request.url, address))
        self.page.goto(address)

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.troubles.append(f"console: {message.text}")

    def _asked(self, url: str, address: str) -> None:
        if not url.startswith((address, f"blob:{address}")):
            self.troubles.append(f"asked elsewhere: {url}")
