"""Questions to Google's REST APIs, many at the same time, and what they find. None of them changes anything."""

import dataclasses
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pipeline import cloud
from pipeline.graph.environment import Environment

OK, MISSING, UNKNOWN = "✓", "✗", "?"
TIMEOUT_S = 15.0
"""Time limit for the connection, and for each pause of a reply."""
LONGEST_S = 30.0
"""Time limit of a whole request."""
THREADS = 8
"""Number of questions at the same time."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that a run needs."""

    state: str
    """OK, MISSING, or UNKNOWN if it could not be asked."""
    text: str
    remedy: str = ""
    """A command or a link that provides what is missing, or that shows what is unknown."""


Question = tuple[str, Callable[[], Finding]]
"""What is asked for, and the function that asks."""


class UnansweredError(Exception):
    """A request without the answer that it asked for; the message says why, and what to do."""

    def __init__(self, status: int, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.status = status
        """HTTP status of the reply; 0 if there was none."""
        self.remedy = remedy
        """The command that turns the API on, if it is off."""


class Api:
    """Google's APIs, asked with this machine's credentials. The methods raise `UnansweredError`."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self._session = cloud.session(environment)

    @property
    def credentials(self) -> Any:
        """The credentials, as google-auth has them."""
        return self._session.credentials

    def get(self, service: str, path: str, **query: Any) -> dict[str, Any]:
        """The reply to a GET of `path`, such as `v1/projects/my-project`."""
        return self._send("GET", service, path, params=query)

    def find(self, service: str, path: str, **query: Any) -> dict[str, Any] | None:
        """The reply to a GET of `path`; None if nothing exists there."""
        try:
            return self.get(service, path, **query)
        except UnansweredError as error:
            if error.status == 404:
                return None
            raise

    def post(self, service: str, path: str, body: Any) -> dict[str, Any]:
        """The reply to a POST of `body` as JSON."""
        return self._send("POST", service, path, json=body)

    def _send(self, method: str, service: str, path: str, **content: Any) -> dict[str, Any]:
        import requests  # type: ignore[import-untyped]
        from google.auth.exceptions import GoogleAuthError

        url = f"{cloud.address(self.environment, service)}/{path}"
        try:
            reply = self._session.request(method, url, timeout=TIMEOUT_S, max_allowed_time=LONGEST_S, **content)
            answer = reply.json()
        except requests.JSONDecodeError:
            answer = None
        except (requests.RequestException, GoogleAuthError) as error:
            raise UnansweredError(0, cloud.explain(error)) from None
        if not isinstance(answer, dict):
            raise UnansweredError(reply.status_code, f"{url} answers something other than JSON; check the network")
        if reply.ok:
            return answer
        message = str(answer.get("error", {}).get("message", reply.reason))
        reason, remedy = cloud.explain_status(reply.status_code, message), ""
        if api := cloud.disabled_api(message):
            reason = f"the API {api} is off, or was turned on only minutes ago"
            remedy = f"gcloud services enable {api} --project={self.environment.project}"
        raise UnansweredError(reply.status_code, reason, remedy)


def ask(questions: Iterable[Question]) -> list[Finding]:
    """The findings of all questions in their order; a subject whose question has no answer is unknown."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(_answer, questions))


def _answer(question: Question) -> Finding:
    subject, asked = question
    try:
        return asked()
    except UnansweredError as error:
        return Finding(UNKNOWN, f"{subject}: {error}", error.remedy)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return Finding(UNKNOWN, f"{subject}: the reply is not as Google documents it ({cloud.brief(error)})")


def lines(findings: Iterable[Finding]) -> Iterator[str]:
    """A line for each finding; a remedy comes after the first finding that it is for."""
    said = {""}
    for finding in findings:
        yield f"  {finding.state} {finding.text}"
        if finding.remedy not in said:
            yield f"      {finding.remedy}"
            said.add(finding.remedy)


def quoted(name: str) -> str:
    """A name as one segment of a path."""
    return urllib.parse.quote(name, safe="")
