"""`python -m serving` under load, by vegeta: `make check-serving-load` runs it.

Times depend on the machine, so none decides. What decides are statuses, whole answers, memory that stays, and the
ratio of two times of one run.
"""

import contextlib
import os
import pathlib
import signal
import threading
import time

import numpy as np
import pytest
from PIL import Image

from serving.settings import HEALTH, PREDICT
from tests.serving.server import ask, encoded, instance
from tests.serving.test_command import free_port, start
from tests.vegeta import Load, quantile, statuses

SECONDS = int(os.environ.get("DURATION", "300"))
"""Of the long load."""
CLIENTS = 8
PARALLEL = 2
"""Networks of the server that compute at once."""
GROWTH = 1.1
"""The server's memory at the end, divided by the memory half way. Fragments of what is freed may add some."""


def photo(height, width):
    """Pixels (h, w, 3) uint8 with the spectrum of a photograph: coarse shapes that are strong, fine ones weak."""
    random = np.random.default_rng(0)
    summed = np.zeros((height, width, 3), np.float32)
    for n in (4, 16, 64, 256):
        coarse = Image.fromarray(random.integers(0, 256, (n * height // width, n, 3), np.uint8))
        summed += np.asarray(coarse.resize((width, height)), np.float32) / n**0.5
    return np.uint8(255 * (summed - summed.min()) / np.ptp(summed))


SMALL = {"instances": [instance(encoded(photo(480, 640), "JPEG", quality=90))]}
LARGE = {"instances": [instance(encoded(photo(3000, 4000), "JPEG", quality=90))]}
"""12 megapixels."""


class Server:
    """The server as a process, once its model is loaded."""

    def __init__(self, process, port):
        self.process, self.address = process, f"http://127.0.0.1:{port}"
        self.url = f"{self.address}{PREDICT}"
        self.lines = []
        self._reading = threading.Thread(target=lambda: self.lines.extend(process.stdout))
        assert process.stdout.readline().startswith("pretrained")
        self._reading.start()

    def megabytes(self):
        """Memory that it has now."""
        pages = int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def cpu_s(self):
        """Seconds of processors that it has taken, in its own code and the kernel's."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        """Wait for its end, and return its exit status."""
        self._reading.join()
        return self.process.wait()


@contextlib.contextmanager
def serving(*flags):
    port = free_port()
    flags = ("--model", "pretrained", "--port", str(port), "--parallel", str(PARALLEL), *flags)
    with start(*flags) as process:
        server = Server(process, port)
        try:
            yield server
        finally:
            process.send_signal(signal.SIGTERM)
            server.end()


def row(name, answers, seconds):
    times = [quantile(answers, each) for each in (50, 95, 99)] + [max(answer.seconds for answer in answers)]
    shown = " ".join(f"{1000 * each:6.0f}" for each in times)
    print(f"{name:24} {len(answers) / seconds:7.2f} {shown}  {statuses(answers)}")


def heading():
    print(f"\n{'':24} {'1/s':>7} {'p50':>6} {'p95':>6} {'p99':>6} {'most':>6}  ms, answers of each status")


def test_eight_clients_are_all_answered_and_memory_stays():
    with serving() as server:
        began = server.cpu_s()
        loads = [
            Load(server.url, SMALL, clients=CLIENTS - 1, seconds=SECONDS),
            Load(server.url, LARGE, seconds=SECONDS),
        ]
        megabytes = []
        for _ in range(SECONDS):
            time.sleep(1)
            megabytes.append(server.megabytes())
        small, large = (load.answers() for load in loads)
        cpu_s = (server.cpu_s() - began) / len(small + large)
    heading()
    row("7 clients, 0.3 megapixels", small, SECONDS)
    row("1 client, 12 megapixels", large, SECONDS)
    first, second = (max(part) for part in (megabytes[: SECONDS // 2], megabytes[SECONDS // 2 :]))
    print(f"{cpu_s:.2f} s of processors for each answer, load of the machine {os.getloadavg()[1]:.1f}")
    print(f"memory at its highest, MB: {first:.0f} in the first half, {second:.0f} in the second")
    assert statuses(small + large).keys() == {200}
    assert second <= GROWTH * first


@pytest.mark.parametrize(
    ("flags", "body"),
    [
        (("--most-waiting", "4"), SMALL),
        (("--most-waiting-megabytes", "40"), {"instances": LARGE["instances"] * 8}),
    ],
    ids=["images", "megabytes"],
)
def test_overload_is_refused_and_then_the_server_answers_as_before(flags, body):
    with serving(*flags) as server:
        answers = Load(server.url, body, clients=2 * CLIENTS, seconds=20).answers()
        heading()
        row("16 clients, overload", answers, 20)
        print(f"memory, MB: {server.megabytes():.0f}")
        assert statuses(answers).keys() == {200, 429}
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers if answer.status == 429)
        assert [ask(server.address, SMALL)[0] for _ in range(5)] == [200] * 5


@pytest.mark.parametrize("images", [1, 16])
def test_requests_of_12_megapixels_do_not_hold_small_ones_up(images):
    """A small image waits until one of each client has begun, not for all that wait.

    An image of 12 megapixels is as much work as two small ones. Before a small one begins, at most those in the
    threads and one of each client are computed. Twice the ratio that follows is for a busy machine.
    """
    clients = 2
    most = 2 * 2 * (PARALLEL + 1 + clients)
    with serving() as server:
        alone = Load(server.url, SMALL, seconds=20).answers()
        large = Load(server.url, {"instances": LARGE["instances"] * images}, clients=clients, seconds=40)
        time.sleep(5)
        beside = Load(server.url, SMALL, seconds=30)
        health = Load(f"{server.address}{HEALTH}", seconds=30, rate="5/1s")
        beside, health, large = beside.answers(), health.answers(), large.answers()
        alone += Load(server.url, SMALL, seconds=20).answers()
    heading()
    row("small, alone", alone, 40)
    row("small, beside", beside, 30)
    row("health, beside", health, 30)
    row(f"12 megapixels, {images} each", large, 40)
    ratio = quantile(beside, 95) / quantile(alone, 95)
    print(f"ratio of p95: {ratio:.1f}, at most {most}")
    assert statuses(alone + beside + health + large).keys() == {200}
    assert ratio <= most


def test_what_has_begun_is_answered_after_sigterm():
    """The server says a line of each request that it read: as many clients have a whole answer."""
    with serving() as server:
        body = {"instances": SMALL["instances"] * 4}
        load = Load(server.url, body, clients=CLIENTS, seconds=20, keep_alive=False)
        time.sleep(10)
        server.process.send_signal(signal.SIGTERM)
        began = time.perf_counter()
        status = server.end()
        print(f"\nended {time.perf_counter() - began:.1f} s after SIGTERM with {status}")
    answers = load.answers()
    said = [line.split()[1] for line in server.lines]
    print(f"{said.count('200')} requests, answers of each status: {statuses(answers)}")
    assert set(said) == {"200"}
    assert statuses(answers)[200] == len(said)
    assert status == 0
