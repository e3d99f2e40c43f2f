"""A web server on loopback that answers as told, and a stand-in for the public internet in front of it."""

import contextlib
import dataclasses
import http.server
import re
import threading
import urllib.parse

from tests.https import answered_by


@dataclasses.dataclass
class File:
    """A file that a site serves."""

    content: bytes
    etag: str = '"1"'
    modified: str = ""
    has_ranges: bool = True
    cuts: list[int] = dataclasses.field(default_factory=list)
    """Number of bytes after which each of the next answers to GET is cut."""
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    """More of them; an empty value leaves a header out."""


class Site:
    """Files and answers by path, and what was asked for; an answer is a function of the request's handler."""

    def __init__(self):
        self.paths = {}
        self.requests = []
        self.url = ""

    def serve(self, path, content, **settings):
        """Serve a file; its address."""
        self.paths[path] = File(content, **settings)
        return self.url + path

    def answer(self, path, status, body=b"", **headers):
        """Always answer so; its address."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.paths[path] = lambda handler: handler.say(status, body, named)
        return self.url + path

    def asked(self, method="GET"):
        """Headers of the requests by a method, in their order."""
        return [headers for asked, _, headers in self.requests if asked == method]


class Server(http.server.ThreadingHTTPServer):
    site: Site

    def handle_error(self, *_):
        """Say nothing: who asks may go at any time."""


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        site = self.server.site
        path = urllib.parse.unquote(self.path)
        site.requests.append((self.command, path, dict(self.headers)))
        found = site.paths.get(f"{self.headers['Host']}{path}", site.paths.get(path))
        if found is None:
            self.say(404, b"<html>nothing</html>", {"Content-Type": "text/html"})
        elif isinstance(found, File):
            self.send_file(found)
        else:
            found(self)

    do_HEAD = do_GET  # noqa: N815

    def say(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **dict(headers)}.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            with contextlib.suppress(OSError):
                self.wfile.write(body)

    def send_file(self, file):
        headers = {
            "ETag": file.etag,
            "Last-Modified": file.modified,
            "Content-Type": "application/zip",
        } | file.headers
        status, body = 200, file.content
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        is_same = self.headers.get("If-Range", file.etag) in (file.etag, file.modified)
        if asked and file.has_ranges and is_same:
            start = int(asked[1])
            status, body = 206, file.content[start:]
            headers["Content-Range"] = f"bytes {start}-{len(file.content) - 1}/{len(file.content)}"
        if self.command == "GET" and file.cuts:
            headers["Content-Length"] = headers.get("Content-Length", str(len(body)))
            body = body[: file.cuts.pop(0)]
            self.close_connection = True
        self.say(status, body, {"Content-Length": str(len(body))} | headers)

    def log_message(self, *_):
        """Say nothing."""


@contextlib.contextmanager
def running():
    """A site that runs."""
    site = Site()
    with Server(("127.0.0.1", 0), Handler) as server:
        server.site, site.url = site, f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield site
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def internet(site, hosts, folder):
    """The hosts lead to the site, by https and http; gives the environment variables for that."""
    with answered_by(dict.fromkeys(hosts, site.url), folder) as (proxy, trusted):
        yield {"HTTPS_PROXY": proxy, "HTTP_PROXY": proxy, "REQUESTS_CA_BUNDLE": trusted, "NO_PROXY": ""}
