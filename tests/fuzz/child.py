"""One process in which inputs are tried, one after the other: `python -m tests.fuzz.child FOLDER`.

It reads a request a line, `TARGET SEED NUMBER`, and answers with two lines of JSON: the kind of the input when it
is made, and its verdict. For the number `-` it makes the target ready, and answers with one line. What is printed
goes to a file, also what libraries print past Python.
"""

import dataclasses
import faulthandler
import json
import os
import pathlib
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator
from typing import IO, Any

MEMORY_BYTES = 3 * 2**30
"""Address space that inputs may take beyond what is loaded; a picture of the largest size takes half of it."""
FILE_BYTES = 2**30
SAID_BYTES = 100_000


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    answers, said = _redirected(folder)
    faulthandler.enable()
    from tests.fuzz.targets import TARGETS

    targets = {}
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    for line in sys.stdin:
        target, seed, number = line.split()
        if target not in targets:
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            targets[target] = TARGETS[target](folder)
        if number == "-":  # the targets are ready before the clock runs
            _limit_memory()
            made: Iterable[dict[str, object]] = [{"ready": target}]
        else:
            made = _try(targets[target], f"{seed}/{target}/{number}", folder, said)
        for answer in made:
            print(json.dumps(answer), file=answers, flush=True)
    sys.stdout.flush()
    os._exit(0)  # nothing that an input left in this process may hold it up


def _redirected(folder: pathlib.Path) -> tuple[IO[str], IO[bytes]]:
    """A file for the answers, where stdout was, and the file that stdout and stderr are from now on."""
    answers = os.fdopen(os.dup(1), "w")
    said = (folder / f"said-{os.getpid()}").open("w+b", buffering=0)
    for number in (1, 2):
        os.dup2(said.fileno(), number)
    return answers, said


def _limit_memory() -> None:
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY_BYTES, resource.RLIM_INFINITY))


def _try(target: Any, seed: str, folder: pathlib.Path, said: IO[bytes]) -> Iterator[dict[str, object]]:
    from tests.fuzz.verdicts import BROKEN, judge

    kept = os.environ.get("FUZZ_KEEP")
    place = pathlib.Path(kept) if kept else pathlib.Path(tempfile.mkdtemp(dir=folder))

    def so_far() -> str:
        sys.stdout.flush()
        sys.stderr.flush()
        return os.pread(said.fileno(), SAID_BYTES, 0).decode(errors="replace")

    try:
        made = target.make(random.Random(seed), place)
    except Exception as error:
        traceback.print_exc()
        yield {"kind": "?"}
        yield {"kind": "?", "verdict": BROKEN, "detail": f"{error!r} while it was made: {so_far()[-1500:]}"}
        return
    yield {"kind": made.kind}
    os.chdir(place)
    so_far()
    os.truncate(said.fileno(), 0)
    said.seek(0)
    start = time.monotonic()
    verdict = judge(made, so_far)
    os.chdir(folder)
    answer = {**dataclasses.asdict(verdict), "seconds": time.monotonic() - start}
    if kept:
        answer["said"] = so_far()
    yield answer
    if not kept:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
