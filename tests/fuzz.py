"""Damage files at random, give them to what reads other people's files, and count what comes of them: `make fuzz`.

The same seed makes the same files for any code. A reader runs in a process of its own, with a limit of its memory.
The exit status is 1 if there was a traceback, a hang or a signal.
"""

import argparse
import collections
import json
import pathlib
import random
import resource
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator

from tests import damage

VERDICTS = ("read", "refused", "traceback", "hang", "signal")
GOOD = VERDICTS[:2]
SETUP_S = 600
"""Until a reader is ready: TensorFlow is loaded, and a network is made."""
MEMORY_BYTES = 3 * 2**30
"""Address space that a file may take beyond what is loaded."""
NAMES = ("predict", "fetch", "import-weights", "serve-bytes", "demo", "our-files")


def main() -> None:
    parsed = _parser().parse_args()
    if parsed.child:
        return _read_all(*parsed.child)
    only = parsed.only is not None
    numbers = range(parsed.only, parsed.only + 1) if only else range(parsed.inputs)
    failures = 0
    print(f"{'reader':<16}" + "".join(f"{verdict:>11}" for verdict in VERDICTS))
    for name in parsed.readers or NAMES:
        counts = collections.Counter[str]()
        for number, verdict, detail in _results(name, parsed.seed, numbers, parsed.limit_s):
            counts[verdict] += 1
            if verdict not in GOOD or only:
                print(f"{verdict}: make fuzz ARGS='{name} --seed {parsed.seed} --only {number}'\n{detail}")
        failures += sum(counts[verdict] for verdict in VERDICTS if verdict not in GOOD)
        print(f"{name:<16}" + "".join(f"{counts[verdict]:>11}" for verdict in VERDICTS), flush=True)
    sys.exit(failures > 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    add = parser.add_argument
    add("readers", nargs="*", metavar="READER", help=f"of {', '.join(NAMES)} (default: all)")
    add("--seed", type=int, default=1, help="of all inputs (default: %(default)s)")
    add("--inputs", type=int, default=1000, help="for each reader (default: %(default)s)")
    add("--limit-s", type=float, default=60, help="seconds after which an input hangs (default: %(default)s)")
    add("--only", type=int, metavar="NUMBER", help="try this input alone, and say what came of it")
    add("--child", nargs=4, help=argparse.SUPPRESS)
    return parser


def damaged(sound: dict[str, bytes], name: str, seed: int, number: int) -> tuple[str, bytes]:
    """(name, content) of an input of a reader: one of its sound files after one to four damages."""
    source = random.Random(f"{seed}/{name}/{number}")
    file = source.choice(list(sound))
    content = sound[file]
    for _ in range(source.randint(1, 4)):
        content = source.choice(damage.ALL if source.random() < 0.1 else damage.DAMAGES)(content, source)
    return file, content


# === Outside of the process ===


def _results(name: str, seed: int, numbers: range, limit_s: float) -> Iterator[tuple[int, str, str]]:
    """(number, verdict, detail) of each input; a process that hangs or ends is followed by another."""
    left = numbers
    while left:
        with tempfile.TemporaryDirectory(prefix="fuzz-", ignore_cleanup_errors=True) as folder:
            child = _started(name, seed, left, pathlib.Path(folder))
            try:
                if _line(child, SETUP_S) is None:
                    sys.exit(f"error: {name} cannot be made ready\n{_said(folder)}")
                for number in left:
                    left = left[1:]
                    line = _line(child, limit_s)
                    if line is None:
                        yield number, _lost(child), _said(folder)
                        break
                    yield number, *json.loads(line)
            finally:
                child.kill()
                child.communicate()


def _started(name: str, seed: int, numbers: range, folder: pathlib.Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.fuzz", "--child", name, str(seed), f"{numbers[0]}-{numbers[-1]}"]
    with (folder / "said").open("wb") as said:
        return subprocess.Popen([*command, str(folder)], stdout=subprocess.PIPE, stderr=said, bufsize=0)


def _line(child: subprocess.Popen[bytes], limit_s: float) -> bytes | None:
    """The next line that the process writes; None if it ends, or writes nothing within the limit."""
    assert child.stdout is not None
    if not select.select([child.stdout], [], [], limit_s)[0]:
        return None
    return child.stdout.readline() or None


def _lost(child: subprocess.Popen[bytes]) -> str:
    """The verdict on the input that a process gave no answer about."""
    try:
        child.wait(1)
    except subprocess.TimeoutExpired:
        return "hang"
    return "signal"


def _said(folder: str) -> str:
    return (pathlib.Path(folder) / "said").read_text(errors="replace")[-1500:]


# === Inside ===


def _read_all(name: str, seed: str, numbers: str, folder: str) -> None:
    """Read each input, and write a line of JSON about it to stdout; a first line when the reader is ready."""
    from tests.readers import RefusedError, opened

    first, last = map(int, numbers.split("-"))
    answers = sys.stdout
    sys.stdout = sys.stderr
    with opened(name, pathlib.Path(folder)) as reader:
        for file, content in reader.sound.items():
            reader.read(file, content)
        pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(
            resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY_BYTES, resource.RLIM_INFINITY)
        )
        print("ready", file=answers, flush=True)
        for number in range(first, last + 1):
            file, content = damaged(reader.sound, name, int(seed), number)
            try:
                reader.read(file, content)
                verdict, detail = "read", file
            except RefusedError as error:
                verdict, detail = "refused", f"{file}: {error}"
            except BaseException:  # whatever it is, a user would have seen it
                verdict, detail = "traceback", f"{file}\n{traceback.format_exc()}"
            print(json.dumps([verdict, detail]), file=answers, flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main()
