"""Opens a page in the Chromium or Chrome of this machine, by playwright, and takes its picture.

`may_load` says which addresses the page may load meanwhile. Import this module where a page is opened, and nowhere
else: the other commands do without playwright.
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
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

from playwright.async_api import (
    Browser,
    CDPSession,
    Error,
    Page,
    TimeoutError as QuietTimeoutError,
    async_playwright,
)

from studio.browser_settings import PageConfig
from trainer.api import MismatchError, NotFoundError, SettingError, UnreachableError
from trainer.tools import check, shown

WEB = ("http", "https")
INLINE = ("about", "blob", "data")
"""Schemes of addresses with content of the page itself."""
LOCAL_NAMES = ("localhost", "local", "internal", "intranet", "lan", "home.arpa", "localdomain")
"""Last parts of names that only a machine's own network knows, such as metadata.google.internal."""
METADATA = ("168.63.129.16", "192.0.0.192")
"""Addresses that count as global, and are the metadata servers of Azure and Oracle Cloud."""
VARIABLE = "CHROME_PATH"
"""Environment variable with the path of the browser. Lighthouse has the same."""
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
"""Programs to look for on the PATH."""
MAC_CHROME = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
INSTALL = f"install one (chromium, or `playwright install chromium`), or set {VARIABLE} to its path"
KINDS = ("text/html", "application/xhtml+xml")
PICTURE = "image/"
QUIET_MS = 5000
"""Longest time, in milliseconds, that a loaded page may go on fetching before its picture is taken."""
MAX_HEIGHT_PX = 16_384
"""Largest height of a picture. Chromium repeats the page below it."""
SCRIPT = (pathlib.Path(__file__).parent / "browser.js").read_text().rstrip().rstrip(";")


class Shown(NamedTuple):
    """What a browser shows at an address."""

    content: bytes
    """A PNG of a page. Where the address is a picture, that picture in its own format."""
    found: Sequence["Found"]
    """The elements of each selector."""
    offers: Sequence["Offer"] = ()
    """The page's own elements, if they were asked for."""


@dataclasses.dataclass(frozen=True)
class Found:
    """The elements that a selector matches."""

    count: int
    boxes: Sequence[Sequence[float]]
    """(left, top, right, bottom) of each element that can be seen, in pixels of the picture."""


class Offer(NamedTuple):
    """A button, heading, image or field of a page."""

    kind: str
    """Is `button`, `heading`, `image` or `field`."""
    name: str
    """What the page calls it. Empty if nothing names it."""
    selector: str
    """Of CSS, which finds it alone."""
    found: Found


def find_browser(own: str) -> str:
    """Find the browser: VARIABLE, or the first of NAMES on the PATH, MAC_CHROME, or playwright's own.

    Args:
        own: where playwright has its own browser if somebody has downloaded it.

    Raises:
        UserError: there is none.
    """
    given = os.environ.get(VARIABLE)
    names = [given] if given else [*NAMES, MAC_CHROME, own]
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        named = f" at {given!r}, the value of {VARIABLE}" if given else ""
        raise NotFoundError(f"no Chromium was found{named} to show a page with: {INSTALL}")
    return found


def photograph(
    address: str,
    selectors: Sequence[str],
    label: str,
    config: PageConfig,
    max_pixels: int,
    refused: list[str],
    with_offers: bool,
) -> Shown:
    """Take a page's picture when it has come to rest, in a browser that has never seen another page.

    Args:
        address: what the browser opens, http(s):// or file://.
        selectors: CSS selectors of the elements to find.
        label: the page's name in messages.
        config: size of the window, and limits.
        max_pixels: a larger picture is refused.
        refused: receives the addresses that the page asked for and may not load, also if this raises.
        with_offers: whether the page's own elements are looked for.

    Raises:
        UserError: there is no browser, it does not start, or the page cannot be shown in `config.timeout_s`.
    """

    async def limited() -> Shown:
        async with asyncio.timeout(config.timeout_s), _running(config.sandbox) as browser:
            await _guard(await browser.new_browser_cdp_session(), refused)
            page = await browser.new_page(
                viewport={"width": config.viewport_width, "height": config.viewport_height},
                device_scale_factor=1,
                reduced_motion="reduce",
            )
            page.set_default_timeout(0)  # the time of all steps together is limited
            response = await page.goto(address)
            if response is not None and response.status >= 400:
                raise UnreachableError(
                    f"{label} was answered with HTTP status {response.status}: check the address"
                )
            if response is not None and response.headers.get("content-type", "").startswith(PICTURE):
                return Shown(await response.body(), [Found(0, ())] * len(selectors))
            await _rest(page)
            return await _photograph(page, selectors, label, config, max_pixels, with_offers)

    try:
        return asyncio.run(limited())
    except Error as error:
        raise UnreachableError(
            f"{label} cannot be shown ({_reason(error)}): check that a browser shows it, or give a picture of it"
        ) from None
    except TimeoutError:
        raise UnreachableError(
            f"{label} was not there after {config.timeout_s:g} s: check that it loads, or allow more time"
        ) from None


@asynccontextmanager
async def _running(sandbox: bool) -> AsyncIterator[Browser]:
    """Run a headless browser with an empty profile, which ends with the context."""
    try:
        playwright = await async_playwright().start()
    except Exception as error:  # playwright raises nothing more specific
        await asyncio.sleep(0.5)  # playwright does not wait for the end of its driver, and asyncio warns of that
        raise NotFoundError(
            f"playwright, which shows pages, does not start ({shown(str(error))}). On Linux it needs the library "
            "libatomic.so.1, which is in the package libatomic1 or libatomic"
        ) from None
    try:
        program = find_browser(playwright.chromium.executable_path)
        try:
            browser = await playwright.chromium.launch(
                executable_path=program, chromium_sandbox=sandbox, timeout=0
            )
        except Error as error:
            said = re.findall(r"\[err\] (.*)", str(error)) or ["it said nothing"]
            raise NotFoundError(
                f"{program} does not start ({shown(said[-1])}): try it by itself, or {INSTALL}. Its sandbox "
                f"does not work for root and in many containers: run this as another user, or without its "
                "sandbox (no-sandbox) for a page that you trust"
            ) from None
        yield browser
    finally:
        await playwright.stop()


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
                refused.append(address)
                await session.send("Fetch.failRequest", {**parameters, "errorReason": "AccessDenied"})

    session.on("Fetch.requestPaused", answer)
    await session.send("Fetch.enable")


async def _rest(page: Page) -> None:
    """Wait until the page has loaded, and then at most QUIET_MS until it has stopped fetching."""
    with suppress(QuietTimeoutError):
        await page.wait_for_load_state("networkidle", timeout=QUIET_MS)
    await page.wait_for_load_state("load")  # a script may have gone to another page


async def _photograph(
    page: Page, selectors: Sequence[str], label: str, config: PageConfig, max_pixels: int, with_offers: bool
) -> Shown:
    whole, width, height = config.full_page, config.viewport_width, config.viewport_height
    facts = await page.evaluate(f"{SCRIPT}.settle", whole)
    check(
        facts["kind"] in KINDS,
        f"{label} is {shown(facts['kind'])}, not a web page: save it, and give the file",
        MismatchError,
    )
    if whole:
        await _rest(page)
        height = max(height, facts["height"])
        most = min(MAX_HEIGHT_PX, max_pixels // width)
        check(
            height <= most,
            f"{label} is {height:,} pixels high, more than {most:,}: take what a window shows alone",
            SettingError,
        )
    found = []
    for selector in selectors:
        try:
            found.append(await _find(page, selector, whole))
        except Error as error:
            raise SettingError(f"selector {selector!r} cannot be looked for ({_reason(error)})") from None
    own = await page.evaluate(f"{SCRIPT}.offers", whole) if with_offers else []
    offers = [Offer(**each, found=await _find(page, each["selector"], whole)) for each in own]
    clip: Any = {"x": 0, "y": 0, "width": width, "height": height}
    return Shown(await page.screenshot(full_page=whole, clip=clip, animations="disabled"), found, offers)


async def _find(page: Page, selector: str, whole: bool) -> Found:
    return Found(**await page.locator(f"css={selector}").evaluate_all(f"{SCRIPT}.boxes", whole))


def _reason(error: Error) -> str:
    """Return playwright's message without its function, the address (which may have a password) and its log."""
    first = str(error).splitlines()[0]
    return shown(re.sub(r"^[\w.]+: | at \S+$", "", first))


# === What a page may load ===


@functools.cache
def peers_of(host: str) -> tuple[str, ...]:
    """Return the IP addresses of a host name. There are none if it does not resolve here, as behind a proxy."""
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
        if any(character.isspace() or not character.isprintable() or character == "\\" for character in address):
            return False  # programs read such an address differently
        if asked.scheme not in WEB:
            return own.scheme == asked.scheme == "file" and not asked.netloc and _is_beside(own.path, asked.path)
        if own.scheme in WEB and own.hostname == asked.hostname:
            return True
        host = asked.hostname or ""
        return _is_public(host) and all(map(_is_public, resolve(host)))
    except ValueError:
        return False


def _is_public(host: str) -> bool:
    """Whether a machine of the public internet can have this name, or IP address in any spelling.

    For example, `127.1` and `0x7f000001` are this machine's own addresses, and not public.
    """
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
