"""Access to Vertex AI: where credentials may go, clients, the retry rule, what errors mean, and console links."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from pipeline import grants
from trainer.errors import UserError, check
from trainer.storage import LOGIN

TRUSTED = (
    r"(?:https://)?(?:[a-z0-9-]+\.)+googleapis\.com(?::443)?/?"
    r"|(?:https?://)?(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?/?"
)
"""Addresses that a token may be sent to."""
CONSOLE = "https://console.cloud.google.com/vertex-ai"
RETRY_S = 150.0
"""How long a request is repeated while the service fails or cannot be reached: twice, if it does not answer."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 32.0
"""Longest pause before the second attempt, and before any; the pauses double, and are drawn at random."""
TIMEOUT_S = 60.0
"""Time limit of one request."""

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
SETTING_UP = "being provisioned"
"""In the refusals of a project that uses Vertex AI for the first time: "Service agents are being provisioned"."""

Result = TypeVar("Result")


class RefusedError(UserError):
    """A request that lacks a permission or quota, or that names something that does not exist."""


class Place(Protocol):
    """A project in a location."""

    @property
    def project(self) -> str:
        """The project's id."""

    @property
    def location(self) -> str:
        """The region."""

    @property
    def endpoint(self) -> str:
        """Address of the API; the location's public one if empty."""


def check_endpoint(endpoint: str) -> None:
    """Raise `UserError` unless the address of an API is empty, Google's, or one of this machine.

    Whoever sets the parameters of a run could else have its account's token sent to a server of their own.
    """
    check(
        not endpoint or re.fullmatch(TRUSTED, endpoint) is not None,
        f"endpoint is {endpoint!r}; credentials are sent only to https://NAME.googleapis.com and to this machine "
        "(localhost, 127.0.0.1, [::1])",
    )


def address(place: Place, service: str) -> str:
    """Address of a Google API without regions, such as `artifactregistry`; an http:// endpoint stands for all.

    Raises `UserError` for an endpoint that is neither Google's nor of this machine.
    """
    check_endpoint(place.endpoint)
    if _is_plain(place):
        return place.endpoint.rstrip("/")
    return f"https://{service}.googleapis.com"


def session(place: Place) -> Any:
    """A session of the library requests that sends this machine's credentials with each request.

    The project of `place` pays for requests of people who have not chosen another. Raises `UserError` at once if
    there are no credentials, or if they have expired.
    """
    import google.auth
    from google.auth.transport.requests import AuthorizedSession, Request
    from google.oauth2.credentials import Credentials

    with reported_errors():
        found = _credentials(place) or google.auth.default(scopes=[SCOPE])[0]
        if isinstance(found, Credentials) and not found.quota_project_id:
            found = found.with_quota_project(place.project)
        if not _is_plain(place):
            found.refresh(Request())
    return AuthorizedSession(found)  # type: ignore[no-untyped-call]


def client(kind: Any, place: Place) -> Any:
    """A client of one of the API's services, such as `aiplatform_v1.PipelineServiceClient`.

    Raises `UserError` for an endpoint that is neither Google's nor of this machine.
    """
    from google.api_core.client_options import ClientOptions

    check_endpoint(place.endpoint)
    address = place.endpoint or f"{place.location}-aiplatform.googleapis.com"
    options = ClientOptions(api_endpoint=address)
    # REST everywhere, not gRPC: the tests then check the requests that Vertex AI gets.
    with reported_errors():
        return kind(credentials=_credentials(place), transport="rest", client_options=options)


def _credentials(place: Place) -> Any:
    """Anonymous for http:// endpoints, so that no token travels unencrypted; None (this machine's) otherwise."""
    from google.auth.credentials import AnonymousCredentials

    anonymous: Any = AnonymousCredentials
    return anonymous() if _is_plain(place) else None


def _is_plain(place: Place) -> bool:
    """Whether requests go unencrypted to a server of this machine, as in tests."""
    return place.endpoint.startswith("http://")


def parent_of(place: Place) -> str:
    """The prefix of the names of all resources there."""
    return f"projects/{place.project}/locations/{place.location}"


def run_link(place: Place, run: str) -> str:
    """The console's page of a run."""
    return f"{CONSOLE}/pipelines/locations/{place.location}/runs/{run}?project={place.project}"


def schedule_link(place: Place, schedule: str) -> str:
    """The console's page of a schedule."""
    return f"{CONSOLE}/locations/{place.location}/pipelines/schedules/{schedule}?project={place.project}"


def uncertain() -> tuple[type[Exception], ...]:
    """Errors after which it is unknown whether Vertex AI has carried out the request."""
    import requests  # type: ignore[import-untyped]
    from google.api_core import exceptions
    from google.auth.exceptions import TransportError

    return (
        exceptions.ServerError,
        exceptions.RetryError,
        TransportError,
        requests.ConnectionError,
        requests.Timeout,
        TimeoutError,  # of an operation that has not ended
    )


def transient() -> tuple[type[Exception], ...]:
    """Errors after which the same request may succeed: the `uncertain` ones, and "too many requests"."""
    from google.api_core.exceptions import TooManyRequests

    return (*uncertain(), TooManyRequests)


def retried(
    call: Callable[[], Result], *, retry_s: float | None = None, errors: tuple[type[Exception], ...] = ()
) -> Result:
    """The result of `call`, which is repeated with growing pauses while it fails.

    Args:
        call: Sends a request that may arrive twice without harm.
        retry_s: How long to repeat it, in seconds; `RETRY_S` if None.
        errors: Errors after which to repeat it; the `transient` ones if empty.

    Raises the last error when the time is over, and any other error at once.
    """
    from google.api_core.exceptions import RetryError
    from google.api_core.retry import Retry, if_exception_type

    rule = Retry(
        if_exception_type(*(errors or transient())),
        initial=FIRST_PAUSE_S,
        maximum=LONGEST_PAUSE_S,
        timeout=RETRY_S if retry_s is None else retry_s,
        on_error=lambda error: print(f"{brief(error)}; trying again", file=sys.stderr, flush=True),
    )
    try:
        return rule(call)()
    except RetryError as error:
        raise error.cause or error from None


@contextmanager
def reported_errors(subject: str = "") -> Iterator[None]:
    """Turn errors of a service or the network into a `UserError`, which begins with `subject` if not empty."""
    import requests
    from google.api_core import exceptions
    from google.auth.exceptions import GoogleAuthError

    try:
        yield
    except (exceptions.GoogleAPIError, GoogleAuthError, requests.RequestException, TimeoutError) as error:
        is_refused = isinstance(error, (exceptions.Forbidden, exceptions.NotFound, exceptions.TooManyRequests))
        kind = RefusedError if is_refused else UserError
        raise kind(f"{subject}: {explain(error)}" if subject else explain(error)) from None


@contextmanager
def advised(advice: str) -> Iterator[None]:
    """End the message of a `RefusedError` with `advice`."""
    try:
        yield
    except RefusedError as error:
        raise UserError(f"{error}; {advice}") from None


def explain(error: BaseException) -> str:
    """What an error of a service or the network means, and what to do."""
    import requests
    from google.api_core import exceptions
    from google.auth.exceptions import GoogleAuthError, TransportError

    if isinstance(error, exceptions.RetryError) and error.cause is not None:
        return explain(error.cause)
    if isinstance(error, exceptions.GoogleAPICallError):
        return explain_status(int(error.code or 500), error.message or str(error))
    if isinstance(error, requests.HTTPError):
        return explain_status(error.response.status_code, error.response.text)
    if isinstance(error, GoogleAuthError) and not isinstance(error, TransportError):
        return f"there are no credentials, or they have expired ({_one_line(str(error))}): {LOGIN}"
    return f"cannot reach the service ({brief(error)}); check the network, then try again"


def brief(error: BaseException) -> str:
    """The type and the message of an error, in one line."""
    return f"{type(error).__name__}: {_one_line(str(error))}"


def _one_line(message: str) -> str:
    """A message in one line, without the long address that the client puts before it."""
    return " ".join(re.sub(r"\b(GET|POST|PATCH|DELETE) https?://\S+: ", "", message).split())


def explain_status(status: int, message: str) -> str:
    """What an error reply of a Google API means, and what to do."""
    reply = f"{_one_line(message)} ({status})"
    if status == 401:
        return f"the credentials are not accepted: {reply}; {LOGIN}"
    if status == 403:
        return f"no permission: {reply}; {_remedy(message)}"
    if status == 404:
        return f"not found: {reply}; check project, location and name"
    if status == 429:
        return f"too many requests, or no quota: {reply}; wait, or raise the quota (console: IAM & Admin, Quotas)"
    if SETTING_UP in message:
        return f"Vertex AI is still setting up this project: {reply}; try again in a few minutes"
    if status >= 500:
        return f"the service failed: {reply}; try again in a few minutes"
    return f"the request is refused: {reply}"


def disabled_api(message: str) -> str:
    """The API that must be enabled first, such as `storage.googleapis.com`, if a refusal says so; else empty."""
    if not re.search(r"SERVICE_DISABLED|has not been used in project|it is disabled", message):
        return ""
    named = re.search(r"[a-z]+\.googleapis\.com", message)
    return named[0] if named else "aiplatform.googleapis.com"


def _remedy(message: str) -> str:
    if api := disabled_api(message):
        return f"enable the API with `gcloud services enable {api}`"
    return f"ask its owner to grant your account {grants.missing_in(message)}"
