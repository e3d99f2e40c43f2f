"""Vertex AI on this machine for tests: a server on loopback that responds like the API and keeps what it was sent.

It records each request. `fail` makes the next requests fail, as the API or the network would. The routes are in
tests/vertex_*.py.
"""

import dataclasses
import http.server
import json
import math
import re
import socket
import threading
import traceback
import urllib.parse
from typing import Any

import pytest

PROJECT, LOCATION = "proj", "us-central1"
PROJECT_NUMBER = "123456789"
ELSEWHERE = "europe-west4"
"""Another region, which has runs and their metadata alone."""
PARENT = f"projects/{PROJECT}/locations/{LOCATION}"
SHARED = f"projects/shared/locations/{LOCATION}"
"""The parent of repositories in another project; they answer like those of this one."""
NAMES = f"projects/{PROJECT_NUMBER}/locations/{LOCATION}"
"""The parent in responses, where the API writes the project's number; it accepts both in requests."""
SERVICE_ACCOUNT = f"runner@{PROJECT}.iam.gserviceaccount.com"
IMAGES = f"{LOCATION}-docker.pkg.dev/{PROJECT}/msinet"
SERVING = f"{IMAGES}/msinet-serving:v1"
CODES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
NOW = "2026-03-02T10:00:00Z"
"""The time at which everything here happens."""
DROP = 0
"""Status of a failure that ends the connection without a response."""
ALWAYS = math.inf
"""Times of a failure that meets every request, however many are sent."""
ROUTES: list[tuple[str, re.Pattern[str], Any]] = []


@dataclasses.dataclass(frozen=True)
class Request:
    """One request as it arrived: `path` is without the query; `body` is its JSON, or {}."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    raw: bytes = b""
    headers: dict[str, str] = dataclasses.field(default_factory=dict)


class ApiError(Exception):
    """Ends a route with an error of the API."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclasses.dataclass
class Failure:
    """How the next `times` requests of `method` to a path with `path` in it fail; they take effect if `after`."""

    status: int
    times: float
    method: str
    path: str
    message: str
    after: bool


def route(method, path):
    """Register a route: `path` is a regular expression for the whole path after `/v1/` and the location."""

    def register(function):
        ROUTES.append((method, re.compile(path), function))
        return function

    return register


class FakeVertex:
    """The server and its state; a route is called as `function(server, request, *groups of its path)`."""

    def __init__(self):
        self.requests: list[Request] = []
        self.failures: list[Failure] = []
        self.faults: list[str] = []
        """Tracebacks of the routes themselves; a test with one fails."""
        self.state: dict[str, Any] = {}
        """Kind -> the resources that the routes keep."""
        self.environment: Any = None
        self._lock = threading.Lock()

    def fail(self, status, times=1, method="", path="", message="no reason", after=False):
        """Let requests fail with `status` or `DROP`; with `after`, only once they have taken effect."""
        self.failures.append(Failure(status, times, method, path, message, after))

    def kept(self, kind):
        """The resources of a kind, by name."""
        return self.state.setdefault(kind, {})

    def sent(self, method, path=""):
        """The requests of `method` whose path contains `path`."""
        return [request for request in self.requests if request.method == method and path in request.path]

    def answer(self, request):
        """-> (status, content); the status is DROP for no response."""
        with self._lock:
            self.requests.append(request)
            failure = self._failure(request)
            if failure is not None and not failure.after:
                return failure.status, error(failure.status, failure.message)
            try:
                content = self._route(request)
            except ApiError as raised:
                return raised.status, error(raised.status, str(raised))
            except Exception:
                self.faults.append(traceback.format_exc())
                return 500, error(500, "the server of the tests is at fault")
            return (200, content) if failure is None else (failure.status, error(failure.status, failure.message))

    def _failure(self, request):
        for failure in self.failures:
            if failure.times and failure.method in ("", request.method) and failure.path in request.path:
                failure.times -= 1
                return failure
        return None

    def _route(self, request):
        path = request.path.removeprefix(f"/v1/{PARENT}/").removeprefix(f"/v1/{NAMES}/")
        path = path.removeprefix(f"/v1/{SHARED}/")
        path = path.removeprefix(f"/ui/{NAMES}/")  # where Google's client asks for operations
        elsewhere = rf"/v1/projects/({PROJECT}|{PROJECT_NUMBER})/locations/{ELSEWHERE}/"
        path = re.sub(rf"^{elsewhere}(?=pipelineJobs|metadataStores)", "", path)
        for method, pattern, function in ROUTES:
            matched = pattern.fullmatch(path)
            if method == request.method and matched:
                return function(self, request, *matched.groups())
        raise ApiError(404, f"this server has no {request.method} {request.path}")


def error(status, message):
    return {"error": {"code": status, "message": message, "status": CODES.get(status, "UNKNOWN")}}


def operation(server, kind, response):
    """A finished long-running operation, shown as pending for the first `server.state["pending"]` requests."""
    number = len(server.kept("operations")) + 1
    full = kind if "." in kind else f"google.cloud.aiplatform.v1.{kind}"
    done = {
        "name": f"{NAMES}/operations/{number}",
        "done": True,
        "response": {"@type": f"type.googleapis.com/{full}", **response},
    }
    server.kept("operations")[str(number)] = {"left": server.state.get("pending", 0), "done": done}
    return _operation(server, str(number))


def _operation(server, number):
    kept = server.kept("operations")[number]
    if kept["left"]:
        kept["left"] -= 1
        return {"name": kept["done"]["name"]}
    return kept["done"]


@route("GET", r"operations/(\d+)")
def get_operation(server, request, number):
    return _operation(server, number)


def check_labels(labels):
    """Google's requirements for labels: https://cloud.google.com/resource-manager/docs/labels-overview"""
    if len(labels) > 64:
        raise ApiError(400, f"a resource has at most 64 labels, not {len(labels)}")
    for key, value in labels.items():
        if not re.fullmatch(r"[a-z][a-z0-9_-]{0,62}", key) or not re.fullmatch(r"[a-z0-9_-]{0,63}", value):
            raise ApiError(400, f"label {key}={value} must be of lowercase letters, digits, - and _")


def matches(text, resource):
    """Whether a resource matches a filter such as `display_name="x"`; terms are joined by AND."""
    for term in filter(None, text.split(" AND ")):
        name, _, expected = term.partition("=")
        name = re.sub("_(.)", lambda letter: letter[1].upper(), name.strip())
        value = resource
        for part in name.split("."):
            value = value.get(part, {})
        if value != expected.strip().strip('"'):
            return False
    return True


def page(name, resources, query):
    """The page of a list that `query` requests."""
    selected = [resource for resource in resources if matches(query.get("filter", ""), resource)]
    first = int(query.get("pageToken") or 0)
    last = first + int(query.get("pageSize") or 100)
    following = {"nextPageToken": str(last)} if last < len(selected) else {}
    return {name: selected[first:last], **following}


class Server(http.server.ThreadingHTTPServer):
    vertex: FakeVertex
    request_queue_size = 64  # `doctor` asks many questions at the same time


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def handle_any(self):
        parts = urllib.parse.urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        is_json = raw and self.headers.get("Content-Type", "").startswith("application/json")
        query = {key: ",".join(values) for key, values in urllib.parse.parse_qs(parts.query).items()}
        query.pop("$alt", None)
        path = urllib.parse.unquote(parts.path)
        body = json.loads(raw) if is_json else {}
        status, content = self.server.vertex.answer(
            Request(self.command, path, query, body, raw, dict(self.headers))
        )
        if status == DROP:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        encoded = content.encode() if isinstance(content, str) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if isinstance(content, str) else "application/json")
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    do_GET = do_POST = do_DELETE = do_PATCH = handle_any  # noqa: N815

    def log_message(self, *args):
        pass


@pytest.fixture
def vertex(bucket, monkeypatch):
    """A FakeVertex, whose clients do not pause; its environment `prod` leads there and to an empty bucket.

    Its project has all that runs need (tests/vertex_project.py).
    """
    from lifecycle.vertex import api as vertex_api
    from pipeline.vertex import runs
    from tests import vertex_endpoints, vertex_models, vertex_pipelines, vertex_project  # noqa: F401

    for module, values in (
        (vertex_api, {"FIRST_PAUSE_S": 0.001, "LONGEST_PAUSE_S": 0.002, "RETRY_S": 1.5}),
        (runs, {"POLL_S": 0.0, "OUTAGE_S": 0.5}),
    ):
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)
    with Server(("127.0.0.1", 0), Handler) as server:
        server.vertex = vertex = FakeVertex()
        vertex.environment = environment(f"http://127.0.0.1:{server.server_port}", bucket.name)
        vertex_project.furnish(vertex)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield vertex
        finally:
            server.shutdown()
            thread.join()
    assert not vertex.faults, vertex.faults[0]


def environment(url, bucket):
    from pipeline.graph.environment import Environment

    return Environment(
        name="prod",
        target="vertex",
        project=PROJECT,
        location=LOCATION,
        bucket=f"gs://{bucket}/msinet",
        service_account=SERVICE_ACCOUNT,
        image_repository=IMAGES,
        image_tag="v1",
        template_repository=f"{url}/templates",
        endpoint=url,
        labels={"team": "vision"},
        parameters={"base_source": f"gs://{bucket}/salicon"},
    )


@pytest.fixture
def expired_credentials(vertex, tmp_path, monkeypatch):
    """Let google-auth find an expired login."""
    user = {"type": "authorized_user", "client_id": "id", "client_secret": "secret", "refresh_token": "old"}
    path = tmp_path / "login.json"
    path.write_text(json.dumps(user))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    monkeypatch.setattr(
        "google.oauth2.credentials._GOOGLE_OAUTH2_TOKEN_ENDPOINT", f"{vertex.environment.endpoint}/token"
    )


@route("POST", "/token")
def refuse_token(server, request):
    raise ApiError(400, "invalid_grant: Token has been expired or revoked.")


def write_config(environment, folder):
    """The environment as a TOML file in `folder`, for command lines; its path."""
    fields = {
        name: value for name, value in vars(environment).items() if value and name not in ("name", "parameters")
    }
    labels = fields.pop("labels", {})
    lines = [f"{name} = {json.dumps(value)}" for name, value in fields.items()]
    for table, values in (("labels", labels), ("parameters", environment.parameters)):
        lines += [f"[{table}]", *(f"{name} = {json.dumps(value)}" for name, value in values.items())]
    path = folder / f"{environment.name}.toml"
    path.write_text("\n".join(lines))
    return str(path)


@pytest.fixture
def address(vertex, bucket):
    """The address of the registry on the server of the tests."""
    options = f"endpoint={vertex.environment.endpoint}&staging=gs://{bucket.name}/models&serving={SERVING}"
    return f"vertex://{PROJECT}/{LOCATION}?{options}"
