"""A webhook on loopback, which takes messages, refuses them, or never answers."""

import http.server
import json
import threading

import pytest

SECRET = "T0-B1-x9"


class Hook(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.statuses = []
        """The status of each answer; after the last, no answer."""
        self.received = []
        self.ended = threading.Event()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}/services/{SECRET}\n"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self):
        content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.received.append((self.path, content))
        if len(self.server.received) > len(self.server.statuses):
            self.server.ended.wait()
            return
        self.send_response(self.server.statuses[len(self.server.received) - 1])
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


@pytest.fixture
def hook(monkeypatch):
    from lifecycle.runs import webhook

    monkeypatch.setattr(webhook, "PAUSE_S", 0.0)
    with Hook() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.ended.set()
            server.shutdown()
            thread.join()
