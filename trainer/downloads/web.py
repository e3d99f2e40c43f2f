"""A file at an https address: asked for with every redirect checked, and received in as many parts as it takes."""

import contextlib
import pathlib
import re
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import requests  # type: ignore[import-untyped]
import urllib3

from trainer.downloads.addresses import RefusedError, Rule, host_of, place_of
from trainer.downloads.connections import open_session
from trainer.downloads.offers import ChangedError, CutError, NoAnswerError, Offer, name_of, read_offer
from trainer.downloads.receiving import Partial, page_instead, receive
from trainer.progress import Tracker
from trainer.storage import MEGABYTE
from trainer.text import shown

CONNECT_S, READ_S = 15.0, 60.0
MOST_REDIRECTS = 10
PAUSES_S = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Pauses before an attempt is repeated; a transfer that gets on begins with the first one again."""
LEAST_BYTES = 100_000
"""What a transfer gets on by; a server that sends less each time would take forever."""
FIRST_ATTEMPTS = 3
"""Attempts at a server that has sent nothing."""
LONGEST_PAUSE_S = 60.0
Result = TypeVar("Result")
REDIRECTS = (301, 302, 303, 307, 308)
BUSY = (408, 425, 429, 500, 502, 503, 504)
SAID = {
    401: "wants a login",
    403: "refuses access: it wants a login, or does not serve this network",
    404: "has nothing there",
    410: "has nothing there any more",
    429: "has had too many requests",
}
"""HTTP status -> what it means."""


class BusyError(CutError):
    """A server that may answer later; `pause_s` is how long it asks to wait."""

    def __init__(self, message: str, pause_s: float = 0.0) -> None:
        super().__init__(message)
        self.pause_s = pause_s


class Web:
    """A file at an https address."""

    def __init__(self, address: str, rule: Rule, name: str = "") -> None:
        """`name` of the archive; empty for the server's."""
        self.address = address
        self.name = name
        self.rule = rule
        rule.check(address)
        self.session = open_session(rule)
        self._is_head_wrong = False

    @property
    def shown(self) -> str:
        """The address for messages."""
        return place_of(self.address)

    def offer(self) -> Offer:
        """What the server says of the file.

        Raises:
            NoAnswerError: it cannot be reached, or does not offer an archive.
            RefusedError: it leads to an address that may not be fetched.
        """
        return patiently(self._offer, f"{self.shown} does not answer")

    def _offer(self) -> Offer:
        if not self._is_head_wrong:
            with self.asked("HEAD", {}) as response:
                if response.status_code == 200:
                    return self._read(response)
        # Some servers refuse HEAD, or answer it otherwise.
        with self.asked("GET", {}) as response:
            self.check_status(response)
            return self._read(response)

    def _read(self, response: requests.Response) -> Offer:
        if response.headers.get("Content-Type", "").lower().startswith("text/html"):
            raise page_instead(self.name, self.shown)
        name = self.name or name_of(response.headers, self.shown, self.address, response.url)
        return read_offer(response.headers, name)

    def transfer(self, path: pathlib.Path, offer: Offer) -> None:
        """Receive the rest of the offered file behind what `path` has of it.

        Raises:
            ChangedError: it is no longer what was offered.
            NoAnswerError, RefusedError: as `offer`; or it was cut too often. What has arrived stays.
            UserError: there is no room for it.
        """
        total_mb = None if offer.size_bytes is None else round(offer.size_bytes / MEGABYTE)
        done_mb = path.stat().st_size // MEGABYTE if path.exists() else 0
        with Tracker(f"download {offer.name}", total_mb, "MB", done_mb) as tracker:
            partial = Partial(path, self.shown, offer, tracker, done_mb)
            # Zero bytes are whole only if the server says so.
            if partial.is_whole and partial.size_bytes:
                return
            failed = f"{self.shown} was not received"
            try:
                patiently(lambda: self._receive(partial), failed, lambda: partial.size_bytes)
            except ChangedError:
                self._is_head_wrong = True  # perhaps HEAD says something else than GET
                raise

    def _receive(self, partial: Partial) -> None:
        start, headers = partial.size_bytes, {}
        if start and (partial.offer.validator or partial.offer.crc32c):
            headers["Range"] = f"bytes={start}-"
            if partial.offer.validator:
                headers["If-Range"] = partial.offer.validator
        with self.asked("GET", headers) as response:
            if headers and response.status_code == 416:
                raise ChangedError
            self.check_status(response, (200, 206) if headers else (200,))
            if response.headers.get("Content-Type", "").lower().startswith("text/html"):
                raise page_instead(partial.offer.name, self.shown)
            receive(partial, response)

    @contextlib.contextmanager
    def asked(self, method: str, headers: Mapping[str, str]) -> Iterator[requests.Response]:
        """The answer to a request, behind all redirects; its body is read by the caller, or not at all."""
        response = self.follow(method, self.address, headers)
        try:
            yield response
        finally:
            response.close()

    def follow(self, method: str, url: str, headers: Mapping[str, str]) -> requests.Response:
        """The answer at the end of the redirects that `url` leads to."""
        before = ""
        for _ in range(MOST_REDIRECTS + 1):
            self.rule.check(url, before)
            response = self._request(method, url, headers)
            if response.status_code not in REDIRECTS or not response.headers.get("Location"):
                return response
            response.close()
            before, url = url, self._target(url, response)
            if urllib.parse.urlsplit(before).scheme == "https" and not url.startswith("https://"):
                raise RefusedError(
                    f"{place_of(before)} leads to {place_of(url)}, which is not https; it is not followed"
                )
        raise NoAnswerError(
            f"{self.shown} leads through more than {MOST_REDIRECTS} redirects, the last to {place_of(url)}; open "
            "it in a browser, and give the address of the file"
        )

    def _target(self, url: str, response: requests.Response) -> str:
        """The address to which the answer of `url` leads."""
        try:
            return str(urllib.parse.urljoin(url, self.session.get_redirect_target(response) or ""))
        except ValueError as error:
            raise NoAnswerError(
                f"{place_of(url)} leads to what is no address ({reason(error)}); open it in a browser"
            ) from None

    def _request(self, method: str, url: str, headers: Mapping[str, str]) -> requests.Response:
        try:
            return self.session.request(
                method,
                url,
                headers=dict(headers),
                stream=True,
                allow_redirects=False,
                timeout=(CONNECT_S, READ_S),
            )
        except requests.exceptions.SSLError as error:
            raise NoAnswerError(
                f"{host_of(url)} has no certificate that this machine trusts ({reason(error)}); check the clock "
                "and the network, and set REQUESTS_CA_BUNDLE if it is your own server"
            ) from None
        except requests.exceptions.ProxyError as error:
            raise NoAnswerError(f"the proxy does not reach {host_of(url)} ({reason(error)})") from None
        except (
            requests.exceptions.InvalidURL,
            requests.exceptions.InvalidSchema,
            urllib3.exceptions.LocationParseError,
            ValueError,
        ) as error:
            raise NoAnswerError(f"{place_of(url)} is no address ({reason(error)}); check it") from None
        except requests.exceptions.RequestException as error:
            raise BusyError(f"{host_of(url)}: {reason(error)}") from None

    def check_status(self, response: requests.Response, accepted: tuple[int, ...] = (200,)) -> None:
        """Raise `BusyError` or `NoAnswerError` unless the answer has an accepted status."""
        status = response.status_code
        if status in accepted:
            return
        said = SAID.get(status, "has an error" if status >= 500 else "does not send it")
        message = f"{host_of(response.url)} {said} (HTTP {status})"
        if status in BUSY:
            wait = response.headers.get("Retry-After", "")
            raise BusyError(message, float(wait) if wait.isascii() and wait.isdigit() else 0.0)
        raise NoAnswerError(f"{self.shown}: {message}")


def patiently(attempt: Callable[[], Result], failed: str, progress: Callable[[], int] = lambda: 0) -> Result:
    """What `attempt` returns, repeated after pauses while it is cut; `progress` says how many bytes have come."""
    failures, furthest = 0, 0
    while True:
        try:
            return attempt()
        except CutError as error:
            came, furthest = progress() - furthest, max(progress(), furthest)
            failures = 0 if came >= LEAST_BYTES else failures + 1
            if failures > (len(PAUSES_S) if furthest else FIRST_ATTEMPTS - 1):
                kept = (
                    "; what has arrived is kept, and the same command goes on" if furthest else "; try again later"
                )
                raise NoAnswerError(f"{failed}: {error}{kept}") from None
            time.sleep(min(max(PAUSES_S[max(failures - 1, 0)], getattr(error, "pause_s", 0.0)), LONGEST_PAUSE_S))


def reason(error: Exception) -> str:
    """The innermost cause of a network error in a few words; the libraries wrap it with addresses."""
    inner: BaseException = error
    while isinstance(cause := _cause(inner), BaseException):
        inner = cause
    if isinstance(inner, urllib3.exceptions.NameResolutionError):
        return "its name does not resolve"
    text = re.sub(r" \(_ssl\.c:\d+\)", "", str(inner)).rpartition(": ")[2]
    return shown(text)[:100] or type(inner).__name__


def _cause(error: BaseException) -> object:
    return getattr(error, "reason", None) or getattr(error, "original_error", None) or next(iter(error.args), None)
