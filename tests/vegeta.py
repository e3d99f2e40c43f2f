"""vegeta, a program that loads a server of HTTP."""

import base64
import collections
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
from typing import NamedTuple

import numpy as np

TOOLS = pathlib.Path(__file__).parent.parent / ".tools" / "bin"
"""Where `make check-serving-load` installs it."""
TIMEOUT_S = 180
"""Of a request. Generous: the machine may be busy."""


class Answer(NamedTuple):
    """What one request came to."""

    status: int
    """0 if there was no whole answer."""
    seconds: float
    """From the connection to the last byte."""
    error: str
    headers: dict[str, str]


class Load:
    """Requests to a server while this process does something else. What has begun at the end is waited for."""

    def __init__(self, url, body=None, *, clients=1, seconds, rate="0", keep_alive=True):
        """Begin.

        Args:
            url: asked for, or with a `body` posted to.
            body: of each request, as JSON.
            clients: that each send their next request after an answer.
            seconds: in which requests begin.
            rate: of all requests, such as `5/1s`, at most. `0` for none.
            keep_alive: whether a client sends its next request by the same connection.
        """
        target = {"method": "GET" if body is None else "POST", "url": url}
        if body is not None:
            target["body"] = base64.b64encode(json.dumps(body).encode()).decode()
        # A body that is not kept is read nevertheless, and one that is cut short is an error.
        flags = ("-format", "json", "-max-body", "0", "-timeout", f"{TIMEOUT_S}s")
        clients = ("-rate", rate, "-workers", str(clients), "-max-workers", str(clients))
        times = ("-duration", f"{seconds}s", f"-keepalive={str(keep_alive).lower()}")
        self._folder = tempfile.TemporaryDirectory()
        self._results = pathlib.Path(self._folder.name, "results")
        command = [program(), "attack", *flags, *clients, *times, "-output", self._results]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE)
        self._process.stdin.write(json.dumps(target).encode() + b"\n")
        self._process.stdin.close()

    def answers(self):
        """Wait for the end, and return each `Answer`."""
        assert self._process.wait() == 0
        encode = [program(), "encode", "-to", "json", self._results]
        encoded = subprocess.run(encode, capture_output=True, text=True, check=True).stdout
        self._folder.cleanup()
        return [_answer(json.loads(line)) for line in encoded.splitlines()]


def program():
    """The program vegeta."""
    found = shutil.which("vegeta", path=f"{TOOLS}{os.pathsep}{os.environ['PATH']}")
    assert found, "vegeta is missing: `make check-serving-load` installs it"
    return found


def _answer(result):
    whole = result["code"] if not result["error"] or result["code"] >= 400 else 0
    headers = {name.lower(): values[0] for name, values in (result["headers"] or {}).items()}
    return Answer(whole, result["latency"] / 1e9, result["error"], headers)


def statuses(answers):
    """Status -> how many answers have it."""
    return dict(collections.Counter(answer.status for answer in answers))


def quantile(answers, hundredth):
    """The seconds in which this many hundredths of the answers came."""
    return float(np.percentile([answer.seconds for answer in answers], hundredth))
