"""Starts Chromium for the tests of pages, and records what goes wrong on a page."""

import contextlib
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Playwright, sync_playwright

from studio.browser import find_browser
from trainer.errors import UserError

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


def find_or_skip(playwright: Playwright) -> str:
    """Path of a Chromium; skips the test if none is installed."""
    try:
        return find_browser(playwright.chromium.executable_path)
    except UserError as error:
        pytest.skip(str(error))


@contextlib.contextmanager
def driver() -> Iterator[Playwright]:
    """Playwright; skips the test where it does not start."""
    with contextlib.ExitStack() as stack:
        try:
            playwright = stack.enter_context(sync_playwright())
        except Exception as error:  # Playwright raises nothing more specific
            pytest.skip(f"the driver of Playwright does not start ({error}): it needs the package libatomic1")
        yield playwright


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium with its own profile; skips the test if it cannot be started."""
    with driver() as playwright:
        path = find_or_skip(playwright)
        with playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS)) as browser:
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
