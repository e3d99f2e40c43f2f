"""Archives on web servers, Google Drive and Cloud Storage: what is offered, and its bytes."""

import contextlib
import dataclasses
import email.message
import logging
import posixpath
import re
import urllib.parse
from collections.abc import Iterator, Mapping

import requests  # type: ignore[import-untyped]
import urllib3

from trainer.errors import SettingError, UnreachableError, UserError
from trainer.places import (
    ARCHIVES,
    BucketPlace,
    DrivePlace,
    MissingError,
    Place,
    Queries,
    SourceObject,
    checksum_of,
    in_short,
    without_queries,
    without_query,
)
from trainer.texts import shown

TIMEOUT_S = (15.0, 60.0)
"""Longest wait for a connection, and for its next bytes, of a server that has answered before."""
FIRST_TIMEOUT_S, FIRST_ATTEMPTS = (5.0, 15.0), 2
"""Longest waits for the first answer of a server. Without a network there is none."""
ATTEMPTS = 3
PAUSE_S = 1.0
"""Pause before the second attempt. Each further one is twice as long."""
BUSY = (408, 425, 429, 500, 502, 503, 504)
"""Statuses of servers that may answer the next attempt."""
CHUNK_BYTES = 2**18
DRIVE_PAGE = "https://drive.google.com/uc?export=download&id="
AGENT = "Mozilla/5.0 (compatible; msinet-pipelines)"
"""Name by which servers know this program. Google Drive has other pages for unknown ones."""


# === Offers ===


class NoAnswerError(UserError):
    """A server cannot be reached, or does not say or send what it is asked for."""


class ChangedFileError(NoAnswerError):
    """A file is no longer as its server offered it."""


class CutError(Exception):
    """A transfer ended early. The message is the cause."""


@dataclasses.dataclass(frozen=True)
class Offer:
    """What a server says about a file."""

    name: str
    """A plain file name with the suffix of an archive."""
    size_bytes: int | None
    """None if the server does not say."""
    crc32c: str = ""
    """Checksum of the content, 8 hex digits. Only Google's servers say it."""
    etag: str = ""
    """The server's label of this state of the file, or its generation on Cloud Storage."""
    last_modified: str = ""

    @property
    def validator(self) -> str:
        """Value of the header If-Range for this very content, such as an ETag. Empty if there is none."""
        return self.last_modified if self.etag.startswith("W/") else self.etag or self.last_modified

    @property
    def object(self) -> SourceObject:
        """The file for a fingerprint. What tells its states apart takes the place of an unknown checksum."""
        size = -1 if self.size_bytes is None else self.size_bytes
        return SourceObject(self.name, size, self.crc32c or self.etag or self.last_modified)


def read_offer(headers: Mapping[str, str], name: str) -> Offer:
    """The offer in the headers of an answer with the whole file as its body."""
    length = headers.get("Content-Length", "")
    crc32c = re.search(r"crc32c=([\w+/]+=*)", headers.get("x-goog-hash", ""))
    return Offer(
        name,
        int(length) if length.isdecimal() else None,
        checksum_of(crc32c[1]) if crc32c else "",
        shown(headers.get("ETag", "")),
        shown(headers.get("Last-Modified", "")),
    )


def archive_name(headers: Mapping[str, str], address: str, *urls: str) -> str:
    """The archive's name: what its server calls it, else the last part of a URL.

    Example: `set.zip` for `Content-Disposition: attachment; filename="set.zip"`. Errors name the `address`.

    Raises:
        UserError: it is not a plain name of an archive.
    """
    message = email.message.Message()
    message["Content-Disposition"] = headers.get("Content-Disposition", "")
    names = [posixpath.basename(urllib.parse.unquote(urllib.parse.urlsplit(url).path)) for url in urls]
    name = message.get_filename("") or next((each for each in names if each.lower().endswith(ARCHIVES)), names[0])
    if (
        not name.lower().endswith(ARCHIVES)
        or not name.isprintable()
        or name.startswith(".")
        or set(name) & set("/\\:")
    ):
        raise SettingError(
            f"{address}: its file name {shown(name.partition('?')[0])!r} is not the plain name of an archive "
            f"({', '.join(ARCHIVES)}). Give the address of an archive, or download it and pass its path"
        )
    return name


# === Servers ===


class Web:
    """A web server with an archive."""

    def __init__(self, place: Place, name: str = "", allow_http: bool = False) -> None:
        """Set `name` of the archive, empty for the server's, and whether redirects may lead to http."""
        self.address = place.text
        self.shown = place.shown
        self._name = name
        self._allow_http = allow_http
        self._session = requests.Session()
        # The bytes of the file, not packed on the way.
        self._session.headers.update({"User-Agent": AGENT, "Accept-Encoding": "identity"})
        self._be_patient(FIRST_TIMEOUT_S, FIRST_ATTEMPTS)

    def _be_patient(self, timeout_s: tuple[float, float], attempts: int) -> None:
        """Set the longest waits, and how often a silent server is asked. A busy one is asked ATTEMPTS times."""
        self._timeout_s = timeout_s
        retries = urllib3.Retry(
            ATTEMPTS - 1,
            connect=attempts - 1,
            read=attempts - 1,
            backoff_factor=PAUSE_S,
            status_forcelist=BUSY,
            raise_on_status=False,
            retry_after_max=60,
        )
        for adapter in self._session.adapters.values():
            adapter.max_retries = retries

    def offer(self) -> Offer:
        """What the headers of the server's answer say. The file itself is not read."""
        print(f"ask {self.shown}", flush=True)
        with self._answer({}) as response:
            name = self._name or archive_name(response.headers, self.shown, self.address, response.url)
            return read_offer(response.headers, name)

    @contextlib.contextmanager
    def receive(self, offer: Offer, start: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        """Open a transfer of the offered file from byte `start` on.

        Yields:
            The position of the first byte, 0 if the server cannot begin elsewhere, and the chunks.

        Raises:
            ChangedFileError: the server has another state of the file by now.
            CutError: the transfer ended early. Raised while the chunks are read.
            NoAnswerError: the server cannot be reached, or offers no archive.
        """
        headers = {}
        if start and offer.validator:
            headers = {"Range": f"bytes={start}-", "If-Range": offer.validator}
        with self._answer(headers) as response:
            yield start if response.status_code == 206 else 0, _chunks(response)

    @contextlib.contextmanager
    def _answer(self, headers: Mapping[str, str]) -> Iterator[requests.Response]:
        """The server's answer with a file as its body. The body is not read yet."""
        try:
            with _queries_not_logged():
                response = self._ask(headers)
        except (requests.RequestException, urllib3.exceptions.HTTPError, ValueError) as error:
            asked = getattr(getattr(error, "request", None), "url", None)  # it may be a redirect's
            cause = Queries([self.address, asked]).hide(in_short(error))
            raise NoAnswerError(f"{self.shown} does not answer: {without_queries(cause)}") from None
        self._be_patient(TIMEOUT_S, ATTEMPTS)
        with response:
            host = shown(urllib.parse.urlsplit(response.url).hostname or "")
            if response.status_code == 416:
                raise ChangedFileError(f"{self.shown} has another file than before. Try again")
            if response.status_code not in (200, 206):
                raise NoAnswerError(f"{self.shown}: {host} answers {response.status_code}")
            if self.address.startswith("https://") and not (self._allow_http or _is_https(response)):
                raise NoAnswerError(f"{self.shown} leads to an address without https, so it is not followed")
            if _is_page(response):
                raise self._page_error()
            yield response

    def _ask(self, headers: Mapping[str, str]) -> requests.Response:
        return self._get(self.address, headers)

    def _get(self, url: str, headers: Mapping[str, str]) -> requests.Response:
        return self._session.get(url, headers=dict(headers), stream=True, timeout=self._timeout_s)

    def _page_error(self) -> NoAnswerError:
        return NoAnswerError(
            f"{self.shown} answers with a web page instead of an archive: it wants a login, the network does, or "
            "this is the address of a page. Open it in a browser"
        )


class Drive(Web):
    """Google Drive with an archive, such as `drive:ID`."""

    def __init__(self, place: DrivePlace, name: str = "") -> None:
        super().__init__(place, name)
        self.address = DRIVE_PAGE + place.drive_id
        self._page = place.page

    def _ask(self, headers: Mapping[str, str]) -> requests.Response:
        """The answer with the file. A large one is behind a page of confirmation, which gdown reads."""
        from gdown.download import get_url_from_gdrive_confirmation
        from gdown.exceptions import FileURLRetrievalError

        response = self._get(self.address, {})
        if response.status_code != 200 or not _is_page(response):
            return response
        with response:
            try:
                url = get_url_from_gdrive_confirmation(" ".join(response.text.splitlines()))
            except FileURLRetrievalError:  # `_page_error` says why
                return response
        return self._get(url, headers)

    def _page_error(self) -> NoAnswerError:
        return NoAnswerError(
            f"{self.shown} on Google Drive is not shared with everybody, does not exist, or was downloaded too "
            f"often today. Download it in a browser, logged in: {self._page}"
        )


class Bucket:
    """Cloud Storage with an archive at a `gs://` address."""

    def __init__(self, place: BucketPlace) -> None:
        self._place = place
        self.address = self.shown = place.text

    def offer(self) -> Offer:
        """Ask Cloud Storage about the object.

        Raises:
            NoAnswerError: Cloud Storage does not answer.
            UserError: the object does not exist or may not be read.
        """
        try:
            found, generation = self._place.find_archive()
        except UnreachableError as error:
            raise NoAnswerError(str(error)) from None
        return Offer(found.name, found.size_bytes, found.crc32c, etag=generation)

    @contextlib.contextmanager
    def receive(self, offer: Offer, start: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        """Open a transfer of the offered generation from byte `start` on. Yields `start` and the chunks.

        Raises:
            ChangedFileError: the object was replaced or deleted. Raised while the chunks are read.
        """
        yield start, self._chunks(offer, start)

    def _chunks(self, offer: Offer, start: int) -> Iterator[bytes]:
        generation = int(offer.etag or 0) or None
        try:
            yield from self._place.parts(offer.size_bytes or 0, start, generation)
        except MissingError:
            raise ChangedFileError(f"{self.address} has changed. Try again") from None


Server = Web | Bucket
"""A server with an archive. The cache keeps it under the server's address, and messages have `shown`."""


def server_of(place: Place, name: str = "", allow_http: bool = False) -> Server:
    """The server of the archive at a place. Arguments are as in `Web`."""
    match place:
        case BucketPlace():
            return Bucket(place)
        case DrivePlace():
            return Drive(place, name)
        case _:
            return Web(place, name, allow_http)


@contextlib.contextmanager
def _queries_not_logged() -> Iterator[None]:
    """Leaves the queries out of what urllib3 logs of its attempts: the paths of addresses, of redirects too."""

    def cut(record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(without_query(each) if isinstance(each, str) else each for each in record.args)
        return True

    loggers = [logging.getLogger(f"urllib3.{name}") for name in ("connectionpool", "util.retry")]
    for each in loggers:
        each.addFilter(cut)
    try:
        yield
    finally:
        for each in loggers:
            each.removeFilter(cut)


def _chunks(response: requests.Response) -> Iterator[bytes]:
    try:
        yield from response.raw.stream(CHUNK_BYTES, decode_content=False)
    except urllib3.exceptions.HTTPError as error:
        raise CutError(in_short(error)) from None


def _is_https(response: requests.Response) -> bool:
    return all(each.url.startswith("https://") for each in (*response.history, response))


def _is_page(response: requests.Response) -> bool:
    is_html = response.headers.get("Content-Type", "").lower().startswith("text/html")
    return is_html and "Content-Disposition" not in response.headers
