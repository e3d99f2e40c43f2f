"""Access to Vertex AI: where credentials may go, clients, the retry rule, what errors mean, and console links."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from trainer.errors import SettingError, UnreachableError, check
from trainer.places import LOGIN

TRUSTED = (
    r"(?:https://)?(?:[a-z0-9-]+\.)+googleapis\.com(?::443)?/?"
    r"|(?:https?://)?(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?/?"
)
"""Addresses that a token may be sent to."""
CONSOLE = "https://console.cloud.google.com/vertex-ai"
RETRY_S = 150.0
"""How long a request is repeated while the service fails or cannot be reached: twice, if it does not answer."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 32.0
"""Longest pause before the second attempt, and before any. The pauses double, and are drawn at random."""
TIMEOUT_S = 60.0
"""Time limit of one request."""

ANSWER_S = 15.0
"""Time limit of a question: for the connection and each pause of the reply. All of it may take twice as long."""
REPOSITORY = r"(?:https://)?([a-z0-9-]+)-(?:docker|kfp)\.pkg\.dev/([^/]+)/([^/]+)(?:/(.+))?"
"""Location, project and name of a repository of Artifact Registry, and what follows them in an address."""
SCOPE = "https://www.googleapis.com/auth/cloud-platform"

Result = TypeVar("Result")


class VertexRegion(Protocol):
    """A project in a region, and the address of its API."""

    @property
    def project(self) -> str:
        """The project's id."""

    @property
    def location(self) -> str:
        """The region."""

    @property
    def endpoint(self) -> str:
        """Address of the API. If empty, the public one of the location."""


def check_api_address(endpoint: str) -> None:
    """Raise `UserError` unless the address of an API is empty, Google's, or one of this machine.

    Whoever sets the parameters of a run could else have its account's token sent to a server of their own.
    """
    check(
        not endpoint or re.fullmatch(TRUSTED, endpoint) is not None,
        f"endpoint is {endpoint!r}. Credentials are sent only to https://NAME.googleapis.com and to this machine "
        "(localhost, 127.0.0.1, [::1])",
        SettingError,
    )


def service_address(region: VertexRegion, service: str) -> str:
    """Address of a Google API without regions, such as `artifactregistry`.

    An endpoint with http:// stands for all of them.
    """
    check_api_address(region.endpoint)
    if region.endpoint.startswith("http://"):  # a server of this machine, as in tests
        return region.endpoint.rstrip("/")
    return f"https://{service}.googleapis.com"


def api_session(region: VertexRegion) -> Any:
    """A session of the library requests that sends this machine's credentials with each request.

    The project of `region` pays for requests of people who have not chosen another.
    """
    import google.auth
    from google.auth.transport.requests import AuthorizedSession, Request
    from google.oauth2.credentials import Credentials

    with reported_errors():
        found = _credentials(region) or google.auth.default(scopes=[SCOPE])[0]
        if isinstance(found, Credentials) and not found.quota_project_id:
            found = found.with_quota_project(region.project)
        if not region.endpoint.startswith("http://"):
            found.refresh(Request())
    return AuthorizedSession(found)  # type: ignore[no-untyped-call]


def service_client(kind: Any, region: VertexRegion) -> Any:
    """A client of one of the API's services, such as `aiplatform_v1.PipelineServiceClient`."""
    from google.api_core.client_options import ClientOptions

    check_api_address(region.endpoint)
    address = region.endpoint or f"{region.location}-aiplatform.googleapis.com"
    options = ClientOptions(api_endpoint=address)
    # REST everywhere, not gRPC: the tests then check the requests that Vertex AI gets.
    with reported_errors():
        return kind(credentials=_credentials(region), transport="rest", client_options=options)


def _credentials(region: VertexRegion) -> Any:
    """Anonymous for http:// endpoints, so that no token travels unencrypted. None (this machine's) otherwise."""
    from google.auth.credentials import AnonymousCredentials

    anonymous: Any = AnonymousCredentials
    return anonymous() if region.endpoint.startswith("http://") else None


def parent_of(region: VertexRegion) -> str:
    """The prefix of the names of all resources there, such as `projects/mine/locations/us-central1`."""
    return f"projects/{region.project}/locations/{region.location}"


def run_link(region: VertexRegion, run: str) -> str:
    """The console's page of a run."""
    return f"{CONSOLE}/pipelines/locations/{region.location}/runs/{run}?project={region.project}"


def transient() -> tuple[type[Exception], ...]:
    """Errors after which the same request may succeed, such as 503. It may have been carried out already."""
    import requests  # type: ignore[import-untyped]
    from google.api_core import exceptions
    from google.auth.exceptions import TransportError

    return (
        exceptions.ServerError,
        exceptions.RetryError,
        exceptions.TooManyRequests,
        TransportError,
        requests.ConnectionError,
        requests.Timeout,
        TimeoutError,  # of an operation that has not ended
    )


def retried(call: Callable[[], Result], *, retry_s: float | None = None) -> Result:
    """The result of `call`. It is repeated with growing pauses after `transient` errors.

    Args:
        call: Sends a request that may arrive twice without harm.
        retry_s: How long to repeat it, in seconds. `RETRY_S` if None.

    Raises the last error when the time is over, and any other error at once.
    """
    from google.api_core.exceptions import RetryError
    from google.api_core.retry import Retry, if_exception_type

    rule = Retry(
        if_exception_type(*transient()),
        initial=FIRST_PAUSE_S,
        maximum=LONGEST_PAUSE_S,
        timeout=RETRY_S if retry_s is None else retry_s,
        on_error=lambda error: print(f"{brief_error(error)}. Trying again", file=sys.stderr, flush=True),
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
        raise UnreachableError(f"{subject}: {explain(error)}" if subject else explain(error)) from None


def explain(error: BaseException) -> str:
    """Explain an error of a service or the network, and what to do about it."""
    import requests
    from google.api_core import exceptions
    from google.auth.exceptions import GoogleAuthError, TransportError

    if isinstance(error, exceptions.GoogleAPICallError):
        return explain_status(int(error.code or 500), error.message or str(error))
    if isinstance(error, requests.HTTPError):
        return explain_status(error.response.status_code, error.response.text)
    if isinstance(error, GoogleAuthError) and not isinstance(error, TransportError):
        return f"there are no credentials, or they have expired ({_one_line(str(error))}): {LOGIN}"
    return f"cannot reach the service ({brief_error(error)}). Check the network, then try again"


def brief_error(error: BaseException) -> str:
    """The type and the message of an error in one line, such as `TimeoutError: no reply`."""
    return f"{type(error).__name__}: {_one_line(str(error))}"


def _one_line(message: str) -> str:
    """A message in one line, without the long address that the client puts before it."""
    return " ".join(re.sub(r"\b(GET|POST|PATCH|DELETE) https?://\S+: ", "", message).split())


def explain_status(status: int, message: str) -> str:
    """Explain an error reply of a Google API, such as `bad spec (400)`. For 401, also how to log in."""
    reply = f"{_one_line(message)} ({status})"
    return f"{reply}: {LOGIN}" if status == 401 else reply


# === Questions ===


class UnansweredError(Exception):
    """A request without the answer that it asked for. The message says why.

    Attributes:
        status: HTTP status of the reply, such as 403. 0 if there was none.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Api:
    """Google's APIs, asked with this machine's credentials. The methods raise `UnansweredError`."""

    def __init__(self, region: VertexRegion) -> None:
        self.region = region
        self.session = api_session(region)

    def get(self, service: str, path: str, **query: Any) -> dict[str, Any]:
        """The reply to a GET of `path`, such as `v1/projects/my-project`."""
        return self.send("GET", service, path, params=query)

    def find(self, service: str, path: str, **query: Any) -> dict[str, Any] | None:
        """The reply to a GET of `path`. None if nothing exists there."""
        try:
            return self.get(service, path, **query)
        except UnansweredError as error:
            if error.status == 404:
                return None
            raise

    def send(self, method: str, service: str, path: str, **content: Any) -> dict[str, Any]:
        """The reply to a request of `path`. `content` is `params` or `json`, as the library requests has them.

        Example: `send("GET", "iam", "v1/roles/viewer")`.
        """
        import requests
        from google.auth.exceptions import GoogleAuthError

        url = f"{service_address(self.region, service)}/{path}"
        try:
            reply = self.session.request(method, url, timeout=ANSWER_S, max_allowed_time=2 * ANSWER_S, **content)
            answer = dict(reply.json())
        except (requests.RequestException, GoogleAuthError, TypeError, ValueError) as error:  # also a proxy's page
            raise UnansweredError(0, explain(error)) from None
        if reply.ok:
            return answer
        message = str(answer.get("error", {}).get("message", reply.reason))
        raise UnansweredError(reply.status_code, explain_status(reply.status_code, message))
