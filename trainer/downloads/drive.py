"""A file on Google Drive: behind a page of confirmation if it is large, which gdown knows to read."""

import contextlib
from collections.abc import Iterator, Mapping

import requests  # type: ignore[import-untyped]

from trainer.datasets import DRIVE
from trainer.downloads.addresses import Rule
from trainer.downloads.offers import NoAnswerError
from trainer.downloads.web import Web

PAGE = "https://drive.google.com/uc?export=download&id="
LOGIN_HOST = "accounts.google.com"
MOST_PAGE_BYTES = 2**20
QUOTA = ("too many users", "quota")
"""Words of the page that Google Drive answers when a file was downloaded too often."""


def link(address: str) -> str:
    """The page of a file on Google Drive, from which a person downloads it; `address` is `drive:ID`."""
    return f"https://drive.google.com/file/d/{address.removeprefix(DRIVE)}/view"


class Drive(Web):
    """A file on Google Drive: `drive:` and its id, which its link has after /d/ or id=."""

    def __init__(self, address: str, rule: Rule, name: str = "") -> None:
        super().__init__(PAGE + address.removeprefix(DRIVE), rule, name)
        self._shown = address

    @property
    def shown(self) -> str:
        """The address for messages."""
        return self._shown

    @contextlib.contextmanager
    def asked(self, method: str, headers: Mapping[str, str]) -> Iterator[requests.Response]:
        """As `Web.asked`, behind the page of confirmation, which only GET leads to."""
        with super().asked("GET", {}) as first:
            if not self._is_page(first):
                yield first
                return
            url = self._confirmed(first)
        response = self.follow("GET", url, headers)
        try:
            if self._is_page(response):
                raise self._explained(response)
            yield response
        finally:
            response.close()

    def _is_page(self, response: requests.Response) -> bool:
        kind = response.headers.get("Content-Type", "").lower()
        is_page = kind.startswith("text/html") and "Content-Disposition" not in response.headers
        if is_page and response.status_code in (403, 429):
            raise self._explained(response)
        self.check_status(response, (200, 206, 416))
        return is_page

    def _confirmed(self, response: requests.Response) -> str:
        """The address of the file itself, from the page."""
        from gdown.download import get_url_from_gdrive_confirmation
        from gdown.exceptions import FileURLRetrievalError

        if LOGIN_HOST in response.url:
            raise self._explained(response)
        text = _text(response)
        try:
            return get_url_from_gdrive_confirmation(" ".join(text.splitlines()))  # it reads single lines
        except FileURLRetrievalError:
            raise self._explained(response, text) from None

    def _explained(self, response: requests.Response, text: str = "") -> NoAnswerError:
        """The error of a page that leads to no file."""
        text = text or ("" if LOGIN_HOST in response.url else _text(response))
        if any(word in text.lower() for word in QUOTA):
            said = "was downloaded too often today, and is over its quota; try again tomorrow, or download it"
        else:
            said = "is not shared with everybody, or does not exist; look at it"
        return NoAnswerError(f"{self.shown} on Google Drive {said} in a browser, logged in: {link(self._shown)}")


def _text(response: requests.Response) -> str:
    content: bytes = response.raw.read(MOST_PAGE_BYTES, decode_content=True)
    return content.decode(errors="replace")
