"""Takes a picture of a web page, and finds where its elements are: in a browser of this machine."""

import base64
import dataclasses
import json
import pathlib
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from trainer.attention.allowed import may_load
from trainer.attention.browser import Browser, CommandError, running
from trainer.config import PageConfig
from trainer.downloads.addresses import check_characters, place_of
from trainer.errors import UserError, check, some
from trainer.files import local_path
from trainer.picture import MAX_PIXELS, Pixels, read_picture
from trainer.prediction.regions import Region
from trainer.text import printable, shown

SCHEMES = ("http://", "https://")
SUFFIXES = (".html", ".htm", ".xhtml")
EXAMPLE = "https://example.com"
KINDS = ("text/html", "application/xhtml+xml")
QUIET_S = 5.0
"""How long a page that has loaded may go on fetching, until its picture is taken."""
MAX_HEIGHT_PX = 16_384
"""Of a picture; Chromium repeats the page below it."""
SCRIPT = (pathlib.Path(__file__).parent / "page.js").read_text()
LEFT = ("execution context", "find context", "navigated", "No frame", "Not attached")
"""Parts of the messages about a page that is no longer there."""


@dataclasses.dataclass(frozen=True)
class Element:
    """An element of a page, found by a CSS selector, as a region."""

    name: str
    selector: str


@dataclasses.dataclass(frozen=True)
class Shot:
    """The picture of a page."""

    png: bytes
    pixels: Pixels
    """(h, w, 3) RGB; a pixel of CSS is a pixel."""
    regions: tuple[Region, ...]
    """One for each element, in its order: the part of it that is in the picture, in whole pixels."""


def is_page(name: str) -> bool:
    """Whether a design is a page: an address, or a file of HTML with or without a #fragment."""
    lower = name.lower()
    return lower.startswith(SCHEMES) or lower.endswith(SUFFIXES) or lower.partition("#")[0].endswith(SUFFIXES)


def parse_element(text: str) -> Element:
    """Parse `NAME=SELECTOR` or `SELECTOR`; `#buy` is named `buy`, any other selector by itself.

    Raises:
        UserError: there is no selector.
    """
    match = re.fullmatch(r"([\w .-]*\w) *=(.*)", text, re.DOTALL)
    name, selector = (match[1], match[2].strip()) if match else ("", text.strip())
    check(
        bool(selector), f"selector {text!r} is empty; give one of CSS, such as '#buy', or with a name: buy='#buy'"
    )
    own = selector[1:] if re.fullmatch(r"#[\w-]+", selector) else selector
    return Element(name.strip() or own, selector)


def take(name: str, elements: Sequence[Element], config: PageConfig, max_pixels: int = MAX_PIXELS) -> Shot:
    """Open a page in a browser that has never seen another one, and take its picture when it has come to rest.

    Args:
        name: address or HTML file.
        elements: what to find on it.
        config: size of the window, and limits.
        max_pixels: a larger picture is refused.

    Raises:
        UserError: there is no browser, the page does not load in time, or an element is not to be seen.
    """
    address, label = _address(name), page_label(name)
    try:
        with running(config.timeout_s, config.sandbox) as browser:
            shown_page = _Page(browser, label, config)
            try:
                png, found, size = shown_page.take(address, [each.selector for each in elements], max_pixels)
            finally:
                shown_page.note_refused()
    except TimeoutError:
        raise UserError(
            f"{label} was not there after {config.timeout_s:g} s; check that it loads, or raise --timeout-s"
        ) from None
    except CommandError as error:
        left = any(part.lower() in str(error).lower() for part in LEFT)
        reason = "it went to another address while it was looked at" if left else shown(str(error))
        raise UserError(f"{label} cannot be shown ({reason}); give the address that it ends at") from None
    regions = tuple(_region(each, answer, label, size) for each, answer in zip(elements, found, strict=True))
    return Shot(png, read_picture(png, label, max_pixels), regions)


def page_label(name: str) -> str:
    """A page's name for people, without a password."""
    scheme, separator, rest = name.partition("://")
    host, slash, path = rest.partition("/")
    return printable(f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}")


def _address(name: str) -> str:
    """The address that the browser opens; raises `UserError` if there is none."""
    if name.lower().startswith(SCHEMES):
        check_characters(name, page_label(name))
        try:
            host = urlsplit(name).hostname
        except ValueError as error:
            raise UserError(f"{page_label(name)} is no address ({error}); give one such as {EXAMPLE}") from None
        check(bool(host), f"{page_label(name)} names no host; give an address such as {EXAMPLE}")
        return name
    file, fragment = (name, "") if name.lower().endswith(SUFFIXES) else name.split("#", 1)
    path = local_path(file).absolute()
    try:
        check(path.is_file(), f"{printable(file)} is no file; give an HTML file, an address or a picture")
        with path.open("rb"):
            return path.as_uri() + (f"#{quote(fragment)}" if fragment else "")
    except OSError as error:
        raise UserError(f"cannot read {printable(name)}: {error.strerror}") from None


class _Page:
    """The page of a browser."""

    def __init__(self, browser: Browser, label: str, config: PageConfig) -> None:
        self._browser, self._label, self._config = browser, label, config
        self._frame = ""
        self._loads: dict[str, set[str]] = {}
        """What has happened to each document of the frame, by its loader; the last one is shown."""
        self._status = 200
        self._crashed = False
        self._own = ""
        """The page's address as the browser writes it: that of the first request."""
        self._refused: dict[str, None] = {}
        """The addresses that the page asked for and may not load, in the order of the requests."""
        browser.on_event = self._note

    def take(self, address: str, selectors: Sequence[str], max_pixels: int) -> tuple[bytes, Any, tuple[int, int]]:
        """The picture as PNG, what `boxes` of page.js answers, and the picture's (height, width)."""
        width, height = self._config.viewport_width, self._config.viewport_height
        whole = self._config.full_page
        self._open(address)
        self._evaluate("settle", whole)
        self._rest(QUIET_S if whole else 0.0)
        facts = self._evaluate("facts")
        if facts["kind"] not in KINDS:
            remedy = "save it, and give the file" if facts["kind"].startswith("image/") else "give one of HTML"
            raise UserError(f"{self._label} is {shown(facts['kind'])}, not a web page; {remedy}")
        if whole:
            height = max(height, facts["height"])
            most = min(MAX_HEIGHT_PX, max_pixels // width)
            remedy = "leave out --full-page, or use a larger --viewport-height"
            check(
                height <= most,
                f"{self._label} is {height:,} pixels high, and at most {most:,} are possible; {remedy}",
            )
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        found = self._evaluate("boxes", selectors, whole)
        extra: Mapping[str, Any] = {"captureBeyondViewport": True, "clip": clip} if whole else {}
        shot = self._browser.call("Page.captureScreenshot", format="png", **extra)
        self._check_alive()
        return base64.b64decode(shot["data"]), found, (height, width)

    def _open(self, address: str) -> None:
        call = self._browser.call
        call("Page.enable")
        call("Network.enable")
        call("Fetch.enable")  # each request then waits for `_answer`, and so does each redirection
        size = {"width": self._config.viewport_width, "height": self._config.viewport_height}
        call("Emulation.setDeviceMetricsOverride", **size, deviceScaleFactor=1, mobile=False)
        call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
        self._frame = call("Page.getFrameTree")["frameTree"]["frame"]["id"]
        call("Page.setLifecycleEventsEnabled", enabled=True)
        self._loads.clear()
        answer = call("Page.navigate", url=address)
        if reason := answer.get("errorText"):
            raise UserError(f"{self._label} does not load ({shown(reason)}); check that a browser shows it")
        self._loads.setdefault(answer["loaderId"], set())
        self._rest(QUIET_S)
        status = self._status
        check(status < 400, f"{self._label} was answered with HTTP status {status}; check the address")

    def _rest(self, most_s: float) -> None:
        """Wait until the page has loaded, and then for as long until it has stopped fetching."""
        self._wait("load")
        self._browser.wait(lambda: self._has("networkIdle"), most_s)
        self._wait("load")  # a script may have gone to another page

    def _wait(self, name: str) -> None:
        self._browser.wait(lambda: self._has(name))
        self._check_alive()

    def _has(self, name: str) -> bool:
        return self._crashed or name in next(reversed(self._loads.values()))

    def _check_alive(self) -> None:
        check(
            not self._crashed,
            f"{self._label} crashed the browser's page; try it in a browser, or give a picture of it",
        )

    def _note(self, name: str, values: dict[str, Any]) -> None:
        if name == "Page.lifecycleEvent" and values["frameId"] == self._frame:
            if values["name"] == "init":
                self._loads[values["loaderId"]] = set()
            elif values["loaderId"] in self._loads:
                self._loads[values["loaderId"]].add(values["name"])
        elif name == "Network.responseReceived" and values["type"] == "Document":
            if values.get("frameId") == self._frame:
                self._status = values["response"]["status"]
        elif name == "Page.javascriptDialogOpening":
            self._browser.send("Page.handleJavaScriptDialog", accept=False)  # nobody is there to answer
        elif name == "Fetch.requestPaused":
            self._answer(values["requestId"], values["request"]["url"])
        elif name == "Inspector.targetCrashed":
            self._crashed = True

    def _answer(self, request: str, address: str) -> None:
        """Let the browser load what the page may load, and refuse the rest."""
        self._own = self._own or address
        if may_load(self._own, address):
            self._browser.send("Fetch.continueRequest", requestId=request)
        else:
            self._refused[place_of(address)] = None
            self._browser.send("Fetch.failRequest", requestId=request, errorReason="AccessDenied")

    def note_refused(self) -> None:
        """Say what the page did not get, which may change where attention falls."""
        if self._refused:
            print(
                f"note: {self._label} did not get {some(list(self._refused))}: a page may load what is below its "
                "own folder or on its own host, and public addresses",
                file=sys.stderr,
                flush=True,
            )

    def _evaluate(self, function: str, *arguments: Any) -> Any:
        """What a function of page.js answers."""
        self._check_alive()
        world = self._browser.call("Page.createIsolatedWorld", frameId=self._frame, worldName="check")
        text = ", ".join(map(json.dumps, arguments))
        answer = self._browser.call(
            "Runtime.evaluate",
            expression=f"{SCRIPT.rstrip().rstrip(';')}.{function}({text})",
            contextId=world["executionContextId"],
            awaitPromise=True,
            returnByValue=True,
        )
        if details := answer.get("exceptionDetails"):
            raise CommandError(str(details.get("exception", {}).get("description") or details.get("text")))
        return answer["result"].get("value")


def _region(element: Element, answer: dict[str, Any], label: str, size: tuple[int, int]) -> Region:
    """The region of an element: the one that can be seen of those that its selector matches."""
    what, boxes, count = f"selector {element.selector!r}", answer["boxes"], answer["count"]
    check(
        not answer["wrong"],
        f"{what} is not one of CSS; write it as in a style sheet, such as '#buy' or '.hero h1'",
    )
    check(count > 0, f"{what} matches nothing on {label}; check it in the browser's developer tools")
    several = "it is hidden" if count == 1 else f"all {count} elements that it matches are hidden"
    check(
        bool(boxes), f"{what} has no size on {label}: {several}, or 0 pixels wide or high; name what can be seen"
    )
    check(len(boxes) == 1, f"{what} matches {len(boxes)} elements on {label}; write it so that it matches one")
    sides = [round(side) for side in boxes[0]]
    height, width = size
    left, top, right, bottom = (
        min(max(side, 0), most) for side, most in zip(sides, (width, height, width, height), strict=True)
    )
    check(
        left < right and top < bottom,
        f"{what} is outside of the picture of {label}, which is {width} pixels wide and {height} high: it begins "
        f"{sides[0]} from the left and {sides[1]} from the top; use --full-page or a larger --viewport-height",
    )
    if [left, top, right, bottom] != sides:
        part = (right - left) * (bottom - top) / ((sides[2] - sides[0]) * (sides[3] - sides[1]))
        print(
            f"note: {part:.0%} of {element.selector!r} is in the picture of {label}", file=sys.stderr, flush=True
        )
    return Region(element.name, left, top, right - left, bottom - top)
