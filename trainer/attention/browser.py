"""Opens a page in the Chromium or Chrome of this machine, by playwright, and takes its picture.

`may_load` says which addresses the page may load meanwhile. Playwright is of the extra `check`: import this
module where a page is opened, and nowhere else.
"""

import asyncio
import dataclasses
import functools
import ipaddress
import os
import pathlib
import re
import shutil
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from playwright.async_api import Browser, CDPSession, Error, Page, Response, async_playwright
from playwright.async_api import TimeoutError as QuietTimeoutError

from trainer.config import PageConfig
from trainer.downloads.servers import check_characters, without_query
from trainer.errors import UserError, check, shown

WEB = ("http", "https")
INLINE = ("about", "blob", "data")
"""Schemes of addresses whose content comes from the page itself."""
LOCAL_NAMES = ("localhost", "local", "internal", "intranet", "lan", "home.arpa", "localdomain")
"""Last parts of names that only a machine's own network knows, such as metadata.google.internal."""
METADATA = ("168.63.129.16", "192.0.0.192")
"""Addresses that count as global, and are the metadata servers of Azure and Oracle Cloud."""
VARIABLE = "CHROME_PATH"
"""Environment variable with the path of the browser; Lighthouse has the same."""
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
"""Programs to look for on the PATH."""
APPLICATIONS = ("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",)
"""Paths of the browser on macOS."""
INSTALL = f"install one (chromium, or `playwright install chromium`), or set {VARIABLE} to its path"
NO_SANDBOX = "--no-sandbox"
"""Flag of `check` for a page that is shown without the browser's sandbox."""
KINDS = ("text/html", "application/xhtml+xml")
QUIET_MS = 5000
"""Longest time, in milliseconds, that a loaded page may go on fetching before its picture is taken."""
MAX_HEIGHT_PX = 16_384
"""Largest height of a picture; Chromium repeats the page below it."""
SCRIPT = (pathlib.Path(__file__).parent / "page.js").read_text().rstrip().rstrip(";")


@dataclasses.dataclass(frozen=True)
class Found:
    """The elements that a selector matches."""

    count: int
    boxes: Sequence[Sequence[float]]
    """(left, top, right, bottom) of each element that can be seen, in pixels of the picture."""


@dataclasses.dataclass(frozen=True)
class Photograph:
    """The picture of a page, and where its elements are."""

    png: bytes
    size: tuple[int, int]
    """(height, width) in pixels."""
    found: Sequence[Found]
    """The elements of each selector, in the order of the selectors."""


def find_browser(own: str = "") -> str:
    """Find the browser: VARIABLE, the first of NAMES on the PATH, one of APPLICATIONS, or playwright's own.

    Args:
        own: where playwright has its own browser if somebody has downloaded it.

    Raises:
        UserError: there is none, or VARIABLE names none.
    """
    if given := os.environ.get(VARIABLE):
        found = shutil.which(given)
        if found is None:
            raise UserError(
                f"{VARIABLE} is {given!r}, which is no program; set it to the path of a Chromium or Chrome"
            )
        return found
    found = next(filter(None, map(shutil.which, (*NAMES, *APPLICATIONS, own))), None)
    if found is None:
        raise UserError(f"no Chromium was found to show a page with: {INSTALL}; or give a picture of the page")
    return found


def photograph(
    address: str, selectors: Sequence[str], label: str, config: PageConfig, max_pixels: int, refused: list[str]
) -> Photograph:
    """Take a page's picture when it has come to rest, in a browser that has never seen another page.

    Args:
        address: what the browser opens, http(s):// or file://.
        selectors: CSS selectors of the elements to find.
        label: the page's name in messages.
        config: size of the window, and limits.
        max_pixels: a larger picture is refused.
        refused: receives the addresses that the page asked for and may not load, also if this raises.

    Raises:
        UserError: there is no browser, it does not start, or the page cannot be shown.
        TimeoutError: the page was not there after `config.timeout_s`.
    """

    async def limited() -> Photograph:
        async with asyncio.timeout(config.timeout_s), _running(config.sandbox) as browser:
            await _guard(await browser.new_browser_cdp_session(), refused)
            page = await browser.new_page(
                viewport={"width": config.viewport_width, "height": config.viewport_height},
                device_scale_factor=1,
                reduced_motion="reduce",
            )
            page.set_default_timeout(0)  # the time of all steps together is limited
            await _open(page, address, label)
            return await _photograph(page, selectors, label, config, max_pixels)

    try:
        return asyncio.run(limited())
    except Error as error:
        left = "context was destroyed" in str(error)
        reason = "it went to another address while it was looked at" if left else _reason(error)
        raise UserError(
            f"{label} cannot be shown ({reason}); try it in a browser, or give a picture of it"
        ) from None


@asynccontextmanager
async def _running(sandbox: bool) -> AsyncIterator[Browser]:
    """Run a headless browser with an empty profile, which ends with the context."""
    try:
        playwright = await async_playwright().start()
    except Exception as error:  # playwright raises nothing more specific
        await asyncio.sleep(0.5)  # playwright does not wait for the end of its driver, and asyncio warns of that
        raise UserError(
            f"playwright, which shows pages, does not start ({shown(str(error))}); on Linux it needs the library "
            "libatomic.so.1, which is in the package libatomic1 or libatomic"
        ) from None
    try:
        program = find_browser(playwright.chromium.executable_path)
        try:
            browser = await playwright.chromium.launch(
                executable_path=program, chromium_sandbox=sandbox, timeout=0
            )
        except Error as error:
            raise _unstarted(program, str(error), sandbox) from None
        yield browser
    finally:
        await playwright.stop()


def _unstarted(program: str, log: str, sandbox: bool) -> UserError:
    """Return the error about a browser that did not start; `log` is playwright's message."""
    if sandbox and "sandbox" in log.lower():
        return UserError(
            f"{program} does not start with its sandbox, as for root and in many containers; run this "
            f"as another user, or, for a page that you trust, with {NO_SANDBOX}"
        )
    said = re.findall(r"\[err\] (.*)", log) or ["it said nothing"]
    return UserError(f"{program} does not start ({shown(said[-1])}); try it by itself, or {INSTALL}")


async def _guard(session: CDPSession, refused: list[str]) -> None:
    """Let the browser load what the page may load, and nothing else.

    The session is the browser's, so that the requests of frames and workers wait here too, and each redirection.
    `route` of playwright does not see redirections.
    """
    own = ""

    async def answer(event: dict[str, Any]) -> None:
        nonlocal own
        address = event["request"]["url"]
        own = own or address  # the first request is for the page
        parameters = {"requestId": event["requestId"]}
        with suppress(Error):  # the page has gone meanwhile
            if may_load(own, address):
                await session.send("Fetch.continueRequest", parameters)
            else:
                refused.append(without_query(address))
                await session.send("Fetch.failRequest", {**parameters, "errorReason": "AccessDenied"})

    session.on("Fetch.requestPaused", answer)
    await session.send("Fetch.enable")


async def _open(page: Page, address: str, label: str) -> None:
    """Load a page; raises `UserError` if there is none, or if its server answers with an error."""
    statuses = []

    def note(response: Response) -> None:
        if response.request.is_navigation_request() and response.frame == page.main_frame:
            statuses.append(response.status)

    page.on("response", note)
    try:
        await page.goto(address)
    except Error as error:
        raise UserError(f"{label} does not load ({_reason(error)}); check that a browser shows it") from None
    await _rest(page)
    status = statuses[-1] if statuses else 200
    check(status < 400, f"{label} was answered with HTTP status {status}; check the address")


async def _rest(page: Page) -> None:
    """Wait until the page has loaded, and then at most QUIET_MS until it has stopped fetching."""
    with suppress(QuietTimeoutError):
        await page.wait_for_load_state("networkidle", timeout=QUIET_MS)
    await page.wait_for_load_state("load")  # a script may have gone to another page


async def _photograph(
    page: Page, selectors: Sequence[str], label: str, config: PageConfig, max_pixels: int
) -> Photograph:
    whole, width, height = config.full_page, config.viewport_width, config.viewport_height
    facts = await page.evaluate(f"{SCRIPT}.settle", whole)
    if facts["kind"] not in KINDS:
        remedy = "save it, and give the file" if facts["kind"].startswith("image/") else "give one of HTML"
        raise UserError(f"{label} is {shown(facts['kind'])}, not a web page; {remedy}")
    if whole:
        await _rest(page)
        height = max(height, facts["height"])
        most = min(MAX_HEIGHT_PX, max_pixels // width)
        remedy = "leave out --full-page, or use a larger --viewport-height"
        check(height <= most, f"{label} is {height:,} pixels high, and at most {most:,} are possible; {remedy}")
    found = [await _find(page, selector, whole) for selector in selectors]
    clip: Any = {"x": 0, "y": 0, "width": width, "height": height}
    png = await page.screenshot(full_page=whole, clip=clip, animations="disabled")
    return Photograph(png, (height, width), found)


async def _find(page: Page, selector: str, whole: bool) -> Found:
    try:
        answer = await page.locator(f"css={selector}").evaluate_all(f"{SCRIPT}.boxes", whole)
    except Error as error:
        if "selector" not in str(error):
            raise
        raise UserError(
            f"selector {selector!r} is not one of CSS; write it as in a style sheet, such as '#buy' or '.hero h1'"
        ) from None
    return Found(answer["count"], answer["boxes"])


def _reason(error: Error) -> str:
    """Return playwright's message without its function, the address (which may have a password) and its log."""
    first = str(error).splitlines()[0]
    return shown(re.sub(r"^[\w.]+: | at \S+$", "", first))


@functools.cache
def peers_of(host: str) -> tuple[str, ...]:
    """Return the IP addresses of a host name; none if it does not resolve here, as behind a proxy."""
    try:
        return tuple({str(found[4][0]) for found in socket.getaddrinfo(host, None)})
    except (OSError, UnicodeError):
        return ()


def may_load(page: str, address: str, resolve: Callable[[str], Iterable[str]] = peers_of) -> bool:
    """Return whether a page may load an address: itself, its own folder or host, and public addresses.

    Args:
        page: the address of the page, file:// or http(s)://.
        address: what the page, a frame of it or one of its scripts asks for, or is redirected to.
        resolve: returns the IP addresses that a host's name leads to.
    """
    try:
        own, asked = urlsplit(page), urlsplit(address)
        if asked.scheme in INLINE:
            return True
        check_characters(address, address)
        if asked.scheme not in WEB:
            return own.scheme == asked.scheme == "file" and not asked.netloc and _is_beside(own.path, asked.path)
        if own.scheme in WEB and own.hostname == asked.hostname:
            return True
        host = asked.hostname or ""
        return _is_public(host) and all(map(_is_public, resolve(host)))
    except (UserError, ValueError):
        return False


def _is_public(host: str) -> bool:
    """Whether a name, or an IP address in any spelling, can be that of a machine of the public internet."""
    name = host.rstrip(".").lower()
    try:
        address = ipaddress.ip_address(socket.inet_ntoa(socket.inet_aton(name)))  # also 127.1 and 0x7f000001
    except (OSError, UnicodeError):
        try:
            address = ipaddress.ip_address(name.partition("%")[0])
        except ValueError:
            return "." in name and not name.endswith(tuple(f".{last}" for last in LOCAL_NAMES))
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        return address.is_global and (inner is None or _is_public(str(inner)))
    return address.is_global and not address.is_multicast and str(address) not in METADATA


def _is_beside(page: str, file: str) -> bool:
    """Return whether the path of a file:// address is the page's own, or leads below the page's folder."""
    try:
        folder = pathlib.Path(url2pathname(page)).parent.resolve()
        return file == page or pathlib.Path(url2pathname(file)).resolve().is_relative_to(folder)
    except (OSError, RuntimeError):  # a loop of links
        return False
