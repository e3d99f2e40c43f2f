"""Talks to Vertex AI: its clients, what their errors mean, and links to the console."""

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from trainer.errors import UserError
from trainer.storage import LOGIN

CONSOLE = "https://console.cloud.google.com/vertex-ai"
ROLES = {
    "iam.serviceaccounts.actas": "roles/iam.serviceAccountUser on the service account that runs the pipeline",
    "act as": "roles/iam.serviceAccountUser on the service account that runs the pipeline",
    "storage.buckets": "roles/storage.bucketViewer on the bucket",
    "storage.": "roles/storage.objectAdmin on the bucket",
    "artifactregistry.repositories.downloadartifacts": "roles/artifactregistry.reader on the repository",
    "artifactregistry.": "roles/artifactregistry.writer on the repository",
    "aiplatform.": "roles/aiplatform.user on the project",
}
"""What a refusal names, in lower case -> the role with the least rights that would do; the first that fits."""

PAUSES_S = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Pauses between attempts at a request."""
SETTLED = 4
"""After so many pauses, 15 s in all, a model or an evaluation whose response was lost has become visible."""
TIMEOUT_S = 60.0
"""Time limit of one request."""

Result = TypeVar("Result")


class Place(Protocol):
    """A project in a location."""

    @property
    def project(self) -> str:
        """Its id."""

    @property
    def location(self) -> str:
        """The region."""

    @property
    def endpoint(self) -> str:
        """Address of the API, if it is not the location's public one; else empty."""


def connect(place: Place) -> None:
    """Let google-cloud-aiplatform work in a project and location."""
    from google.cloud import aiplatform

    aiplatform.init(
        project=place.project,
        location=place.location,
        credentials=_credentials(place),
        api_endpoint=place.endpoint or None,
        api_transport="rest",
    )


def client(kind: Any, place: Place) -> Any:
    """A client of one of the API's services, such as `aiplatform_v1.PipelineServiceClient`."""
    from google.api_core.client_options import ClientOptions

    address = place.endpoint or f"{place.location}-aiplatform.googleapis.com"
    options = ClientOptions(api_endpoint=address)
    # REST and not gRPC, everywhere: what the tests see on the wire is what Vertex gets.
    with reported_errors():
        return kind(credentials=_credentials(place), transport="rest", client_options=options)


def _credentials(place: Place) -> Any:
    """None for the machine's own ones; those that send nothing to an http:// endpoint, where tokens never go."""
    from google.auth.credentials import AnonymousCredentials

    anonymous: Any = AnonymousCredentials
    return anonymous() if place.endpoint.startswith("http://") else None


def parent_of(place: Place) -> str:
    """What the names of all resources there begin with."""
    return f"projects/{place.project}/locations/{place.location}"


def run_link(place: Place, run: str) -> str:
    """Where the console shows a run."""
    where = f"{CONSOLE}/pipelines/locations/{place.location}/runs/{run}"
    return f"{where}?project={place.project}"


def schedule_link(place: Place, schedule: str) -> str:
    """Where the console shows a schedule."""
    where = f"{CONSOLE}/locations/{place.location}/pipelines/schedules/{schedule}"
    return f"{where}?project={place.project}"


def transient() -> tuple[type[Exception], ...]:
    """Errors after which the same request may well succeed; it may have been carried out all the same."""
    import requests  # type: ignore[import-untyped]
    from google.api_core import exceptions
    from google.auth.exceptions import TransportError

    http = (requests.ConnectionError, requests.Timeout)
    return (exceptions.ServerError, exceptions.TooManyRequests, exceptions.RetryError, TransportError, *http)


def once(
    call: Callable[[], Result],
    find: Callable[[], Result | None] = lambda: None,
    *,
    repeat_after: int | None = 1,
    unknown: str = "",
    pauses_s: Sequence[float] = (),
) -> Result:
    """Make something happen exactly once: try, look whether it is there, try again.

    Args:
        call: Sends the request.
        find: Returns the result of an attempt that succeeded although its response was lost; None if none did.
        repeat_after: How many pauses to make before `call` is repeated. None for a request that must never arrive
            twice: it is repeated only if each attempt was refused as one too many.
        unknown: What to tell a user if the request may have succeeded, but `find` cannot tell.
        pauses_s: Pauses between attempts; `PAUSES_S` if empty.

    Raises the error of the last attempt, or `UserError` with `unknown`.
    """
    from google.api_core.exceptions import Conflict, TooManyRequests

    expected: tuple[type[Exception], ...] = (Conflict, *transient())
    failure: Exception | None = None
    is_missing = is_refused = True
    for number, pause_s in enumerate((*(pauses_s or PAUSES_S), 0.0)):
        may_repeat = is_refused if repeat_after is None else number >= repeat_after
        if failure is None or (is_missing and may_repeat):
            try:
                return call()
            except expected as error:
                # The id is taken: by an earlier attempt that succeeded after the last look, or by something else.
                if failure is None and isinstance(error, Conflict):
                    raise
                failure = error
                is_refused = is_refused and isinstance(error, TooManyRequests)
        _pause(pause_s, failure)
        try:
            if (result := find()) is not None:
                return result
        except transient():
            is_missing = False
            continue
        is_missing = True
        if isinstance(failure, Conflict):
            raise failure
    assert failure is not None
    if unknown and not (is_refused if repeat_after is None else is_missing):
        raise UserError(f"{explain(failure)}. {unknown}")
    raise failure


def _pause(pause_s: float, failure: Exception) -> None:
    if pause_s:
        print(f"{brief(failure)}; trying again in {pause_s:g} s", file=sys.stderr, flush=True)
        time.sleep(pause_s)


@contextmanager
def reported_errors(what: str = "") -> Iterator[None]:
    """Turn what a service, or the way to it, answers into a `UserError`; `what`, if given, was asked for."""
    import requests
    from google.api_core import exceptions
    from google.auth.exceptions import GoogleAuthError

    try:
        yield
    except (exceptions.GoogleAPIError, GoogleAuthError, requests.RequestException) as error:
        raise UserError(f"{what}: {explain(error)}" if what else explain(error)) from None


def explain(error: BaseException) -> str:
    """What an error of a service, or on the way to it, says, and what to do."""
    import requests
    from google.api_core import exceptions
    from google.auth.exceptions import GoogleAuthError, TransportError

    if isinstance(error, exceptions.RetryError) and error.cause is not None:
        return explain(error.cause)
    if isinstance(error, exceptions.GoogleAPICallError):
        return _explain_status(int(error.code or 500), error.message or str(error))
    if isinstance(error, requests.HTTPError):
        return _explain_status(error.response.status_code, error.response.text)
    if isinstance(error, GoogleAuthError) and not isinstance(error, TransportError):
        said = _one_line(str(error))
        return f"there are no credentials, or they have expired ({said}): {LOGIN}"
    return f"cannot reach the service ({brief(error)}); check the network, then try again"


def brief(error: BaseException) -> str:
    """One line of what went wrong."""
    return f"{type(error).__name__}: {_one_line(str(error))}"


def _one_line(message: str) -> str:
    """A message without the address that the client puts before it, which is long and helps nobody."""
    return " ".join(re.sub(r"\b(GET|POST|PATCH|DELETE) https?://\S+: ", "", message).split())


def _explain_status(status: int, message: str) -> str:
    said = f"{_one_line(message)} ({status})"
    if status == 401:
        return f"the credentials are not accepted: {said}; {LOGIN}"
    if status == 403:
        return f"no permission: {said}; {_remedy(message)}"
    if status == 404:
        return f"there is no such thing: {said}; check project, location and name"
    if status == 429:
        return f"too much is asked for: {said}; wait, or raise the quota (console: IAM & Admin, Quotas)"
    if status >= 500:
        return f"the service fails: {said}; try again in a few minutes"
    return f"the request is refused: {said}"


def _remedy(message: str) -> str:
    if re.search(r"SERVICE_DISABLED|has not been used in project|it is disabled", message):
        found = re.search(r"[a-z]+\.googleapis\.com", message)
        name = found[0] if found else "aiplatform.googleapis.com"
        return f"switch the API on with `gcloud services enable {name}`"
    role = next((role for named, role in ROLES.items() if named in message.lower()), ROLES["aiplatform."])
    return f"have its owner give your account {role}"
