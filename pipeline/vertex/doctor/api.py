"""Requests to Google's REST APIs, by one identity; none of them changes anything."""

import urllib.parse
from typing import Any

from pipeline import cloud
from pipeline.graph.environment import Environment

TIMEOUT_S = 15.0
"""Time limit for the connection, and for each pause of a reply."""
LONGEST_S = 30.0
"""Time limit of a whole request."""
REDUCED = 300
"""Longer replies are cut to so many letters."""


class UnansweredError(Exception):
    """A request without the answer that it asked for; the message says why, and what to do."""

    def __init__(self, status: int, reason: str, disabled: str = "") -> None:
        super().__init__(reason)
        self.status = status
        """HTTP status of the reply; 0 if there was none."""
        self.disabled = disabled
        """The API that is off, if that is the reason."""


class Api:
    """The APIs, as this machine's identity, or as the one of `token`."""

    def __init__(self, environment: Environment, token: str = "") -> None:
        self.environment = environment
        self._session = cloud.session(environment, token)

    @property
    def credentials(self) -> Any:
        """Of google-auth."""
        return self._session.credentials

    def get(self, service: str, path: str, location: str = "", **query: Any) -> dict[str, Any]:
        """The reply to a GET of `path`, such as `v1/projects/my-project`."""
        return self._send("GET", service, path, location, params=query)

    def find(self, service: str, path: str, location: str = "", **query: Any) -> dict[str, Any] | None:
        """The reply to a GET as `get` gives it; None if nothing exists there."""
        try:
            return self.get(service, path, location, **query)
        except UnansweredError as error:
            if error.status == 404:
                return None
            raise

    def post(self, service: str, path: str, body: Any) -> dict[str, Any]:
        """The reply to a POST of `body` as JSON."""
        return self._send("POST", service, path, "", json=body)

    def _send(self, method: str, service: str, path: str, location: str, **content: Any) -> dict[str, Any]:
        import requests  # type: ignore[import-untyped]
        from google.auth.exceptions import GoogleAuthError

        url = f"{cloud.address(self.environment, service, location)}/{path}"
        try:
            reply = self._session.request(method, url, timeout=TIMEOUT_S, max_allowed_time=LONGEST_S, **content)
            if reply.status_code >= 400:
                raise _refusal(reply)
            answer = reply.json()
        except requests.JSONDecodeError:
            raise UnansweredError(200, f"{url} answers something other than JSON; check the network") from None
        except (requests.RequestException, GoogleAuthError) as error:
            raise UnansweredError(0, cloud.explain(error)) from None
        if not isinstance(answer, dict):
            raise UnansweredError(200, f"{url} answers something other than a JSON object; check the network")
        return answer


def _refusal(reply: Any) -> UnansweredError:
    message = _message(reply)
    if api := cloud.disabled_api(message):
        return UnansweredError(reply.status_code, f"the API {api} is off, or was turned on only minutes ago", api)
    return UnansweredError(reply.status_code, cloud.explain_status(reply.status_code, message))


def _message(reply: Any) -> str:
    """The message of an error reply; the beginning of its text if it is not the API's."""
    try:
        text = str(reply.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        text = str(reply.reason or reply.text)
    return text if len(text) <= REDUCED else f"{text[:REDUCED]}..."


def quoted(name: str) -> str:
    """A name as one segment of a path."""
    return urllib.parse.quote(name, safe="")
