"""Try inputs in child processes, and tell from outside which of them hang or crash."""

import collections
import dataclasses
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

from tests.fuzz.verdicts import HANG, SIGNAL

ROOT = pathlib.Path(__file__).parents[2]
SETUP_S = 600
"""Until a target is ready: TensorFlow is loaded, and a network is made."""
PER_CHILD = 200
"""Inputs of one process: what they leave in it does not add up."""
KEPT = ("PATH", "LD_LIBRARY_PATH", "LANG", "SSL_CERT_FILE")
"""Variables of this process that a child gets; it has nothing to do with a cloud."""


@dataclasses.dataclass(frozen=True)
class Result:
    """The verdict on one input."""

    target: str
    number: int
    kind: str
    verdict: str
    detail: str = ""
    seconds: float = 0.0
    said: str = ""
    """All that was printed, of inputs that are kept."""


Inputs = Sequence[tuple[str, int]]
"""Target and number of each."""


class EndedError(Exception):
    """A child ended without an answer; the message says how."""


class _Child:
    """A process of `tests.fuzz.child`, and its files."""

    def __init__(self, folder: pathlib.Path, variables: dict[str, str]) -> None:
        self._folder = folder
        with (folder / "start").open("w") as start:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fuzz.child", str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=start,
                env=_environment(folder, variables),
                cwd=folder,
                start_new_session=True,
            )
        self._received = b""

    def ask(self, line: str) -> None:
        """Send a request, whose answers `answer` returns; raises `EndedError`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise EndedError(self._how()) from None

    def answer(self, limit_s: float) -> dict[str, Any]:
        """The next answer; raises `TimeoutError` or `EndedError`."""
        assert self._process.stdout is not None
        end = time.monotonic() + limit_s
        while b"\n" not in self._received:
            if not select.select([self._process.stdout], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError(f"no answer after {limit_s:g} s")
            part = os.read(self._process.stdout.fileno(), 2**16)
            if not part:
                raise EndedError(self._how())
            self._received += part
        line, _, self._received = self._received.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _how(self) -> str:
        status = self._process.wait()
        how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        said = [
            path for path in (self._folder / "start", self._folder / f"said-{self._process.pid}") if path.exists()
        ]
        lines = "".join(path.read_text(errors="replace") for path in said).strip().splitlines()
        where = [line.strip() for line in lines if "/trainer/" in line or "/pipeline/" in line]
        last = [line.strip() for line in lines if not line.startswith("Extension modules")]
        return f"{how} {' | '.join(where[:1] or last[-3:])}"[:600]

    def end(self) -> None:
        """End it with all that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()


def _environment(folder: pathlib.Path, variables: dict[str, str]) -> dict[str, str]:
    """Variables with which a child finds these tests here, and the rest where PYTHONPATH says."""
    links, home, scratch = (folder / name for name in ("links", "home", "tmp"))
    for each in (links, home, scratch):
        each.mkdir(exist_ok=True)
    if not (links / "tests").exists():
        (links / "tests").symlink_to(ROOT / "tests")
    given = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    paths = [links, ROOT / "tests" / "narrow_tasks", *given, ROOT]
    return {
        **{name: os.environ[name] for name in KEPT if name in os.environ},
        "PYTHONPATH": os.pathsep.join(str(pathlib.Path(path).absolute()) for path in paths),
        "HOME": str(home),
        "TMPDIR": str(scratch),
        "LC_ALL": "C.UTF-8",
        "KERAS_HOME": str(home),
        "MPLCONFIGDIR": str(home),
        "MPLBACKEND": "agg",
        "MSINET_CACHE": "",
        "NO_GCE_CHECK": "true",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TF_NUM_INTEROP_THREADS": "1",
        "TF_NUM_INTRAOP_THREADS": "1",
        "MALLOC_CHECK_": "3",
        **variables,
    }


def _tried(inputs: Inputs, seed: int, limit_s: float, variables: dict[str, str]) -> Iterator[Result]:
    """The results of inputs that one process takes after the other, or several if it ends early."""
    left = collections.deque(inputs)
    while left:
        with _folder() as folder:
            child = _Child(folder, variables)
            try:
                ready = set[str]()
                while left:
                    target, number = left[0]
                    if target not in ready:
                        child.ask(f"{target} {seed} -")
                        child.answer(SETUP_S)
                        ready.add(target)
                    left.popleft()
                    result = _one(child, target, number, seed, limit_s)
                    yield result
                    if result.verdict in (HANG, SIGNAL):
                        break
            finally:
                child.end()


def _one(child: _Child, target: str, number: int, seed: int, limit_s: float) -> Result:
    kind = "?"
    try:
        child.ask(f"{target} {seed} {number}")
        kind = child.answer(limit_s)["kind"]
        return Result(target, number, **child.answer(limit_s))
    except TimeoutError as error:
        return Result(target, number, kind, HANG, str(error), limit_s)
    except EndedError as error:
        return Result(target, number, kind, SIGNAL, str(error))


@contextmanager
def _folder() -> Iterator[pathlib.Path]:
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(
    batches: Iterable[Inputs],
    seed: int,
    limit_s: float,
    jobs: int = 1,
    done: Callable[[Result], None] = lambda result: None,
    variables: dict[str, str] | None = None,
) -> list[Result]:
    """Try inputs.

    Args:
        batches: each is tried in a process of its own.
        seed: of all of them.
        limit_s: seconds after which an input hangs.
        jobs: processes at a time.
        done: called with each result, in any thread.
        variables: of the processes, beside those that they have.

    Raises:
        EndedError, TimeoutError: a target cannot be made ready.
    """
    stopped = threading.Event()

    def tried(inputs: Inputs) -> list[Result]:
        results = []
        for result in _tried(inputs, seed, limit_s, variables or {}):
            done(result)
            results.append(result)
            if stopped.is_set():
                break
        return results

    with ThreadPoolExecutor(jobs) as pool:
        try:
            return [result for results in pool.map(tried, batches) for result in results]
        except BaseException:  # Ctrl-C too: the others end after their input
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
