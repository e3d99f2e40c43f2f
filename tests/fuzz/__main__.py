"""Try malformed inputs, and print what came of them: `make fuzz`, or `python -m tests.fuzz TARGET ...`.

The code that is tried is that of PYTHONPATH, or else of this folder, to compare figures of before and after a
change. The exit status is 1 if there was any failure.
"""

import argparse
import collections
import itertools
import json
import pathlib
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence

from tests.fuzz import runner
from tests.fuzz.runner import Result
from tests.fuzz.targets import NAMES
from tests.fuzz.verdicts import ACCEPTED, FAILURES, REFUSED

COLUMNS = (ACCEPTED, REFUSED, *FAILURES)
EVERY_S = 20.0
"""Seconds between lines about the progress."""


def main() -> None:
    parsed = _parser().parse_args()
    targets = parsed.targets or NAMES
    if parsed.only is not None:
        raise SystemExit(_try_one(targets[0], parsed))
    numbers = range(parsed.first, parsed.first + parsed.inputs)
    batches = [[(target, number) for number in part] for target in targets for part in _parts(numbers)]
    start = time.monotonic()
    progress = _Progress(len(targets) * len(numbers), targets)
    results = runner.run(batches, parsed.seed, parsed.limit_s, parsed.jobs, progress.add)
    print(table(results, targets))
    print(f"seed {parsed.seed}, inputs {numbers[0]} to {numbers[-1]}, {time.monotonic() - start:.0f} s")
    print(failures(results, parsed.seed))
    if parsed.json:
        pathlib.Path(parsed.json).write_text(json.dumps([vars(result) for result in results], indent=1))
    sys.exit(any(result.verdict not in (ACCEPTED, REFUSED) for result in results))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    add = parser.add_argument
    add("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(NAMES)} (default: all)")
    add("--seed", type=int, default=1, help="of all inputs (default: %(default)s)")
    add("--inputs", type=int, default=1000, help="for each target (default: %(default)s)")
    add("--first", type=int, default=0, help="number of the first input (default: %(default)s)")
    add("--jobs", type=int, default=2, help="processes at a time (default: %(default)s)")
    add("--limit-s", type=float, default=60, help="seconds after which an input hangs (default: %(default)s)")
    add("--only", type=int, metavar="NUMBER", help="try this input of one target alone, and keep its files")
    add("--keep", metavar="DIR", help="new folder for the files of --only (default: a temporary one)")
    add("--json", metavar="FILE", help="write all results")
    return parser


def _parts(numbers: Sequence[int]) -> list[Sequence[int]]:
    return [numbers[start : start + runner.PER_CHILD] for start in range(0, len(numbers), runner.PER_CHILD)]


def _try_one(target: str, parsed: argparse.Namespace) -> int:
    kept = pathlib.Path(parsed.keep or tempfile.mkdtemp(prefix="fuzz-kept-")).absolute()
    kept.mkdir(parents=True, exist_ok=True)
    (result,) = runner.run(
        [[(target, parsed.only)]], parsed.seed, parsed.limit_s, variables={"FUZZ_KEEP": str(kept)}
    )
    print(
        f"{result.kind}: {result.verdict} in {result.seconds:.1f} s\n{result.detail}\nit printed:\n{result.said}"
    )
    print(f"its files are in {kept}")
    return int(result.verdict not in (ACCEPTED, REFUSED))


class _Progress:
    """Prints a line now and then."""

    def __init__(self, total: int, targets: Iterable[str]) -> None:
        self._total, self._done, self._failed, self._shown = total, 0, 0, time.monotonic()

    def add(self, result: Result) -> None:
        self._done += 1
        self._failed += result.verdict not in (ACCEPTED, REFUSED)
        if time.monotonic() - self._shown > EVERY_S:
            self._shown = time.monotonic()
            print(f"{self._done}/{self._total} inputs, {self._failed} failures", flush=True)


def table(results: Sequence[Result], targets: Sequence[str]) -> str:
    """How many inputs of each target came to which end."""
    counts = collections.Counter((result.target, result.verdict) for result in results)
    others = sorted({result.verdict for result in results} - set(COLUMNS))
    columns = (*COLUMNS, *others)
    width = max(map(len, (*targets, "target")))
    lines = [f"{'target':<{width}}  {'inputs':>7}" + "".join(f"{column:>11}" for column in columns)]
    for target in targets:
        row = [counts[target, column] for column in columns]
        lines.append(f"{target:<{width}}  {sum(row):>7}" + "".join(f"{count:>11}" for count in row))
    return "\n".join(lines)


def failures(results: Sequence[Result], seed: int) -> str:
    """Each kind of failure once: how often it was, what it says, and how to see the first one alone."""
    failed = [result for result in results if result.verdict not in (ACCEPTED, REFUSED)]
    ordered = sorted(failed, key=lambda result: (*_alike(result), result.number))
    blocks = []
    for _, group in itertools.groupby(ordered, _alike):
        same = list(group)
        first = same[0]
        numbers = ", ".join(str(result.number) for result in same[:8]) + (" ..." if len(same) > 8 else "")
        blocks.append(
            f"\n{first.target}: {first.verdict}, {len(same)} ({numbers}), such as {first.kind}\n"
            f"  {first.detail.strip()[:500]}\n"
            f"  make fuzz ARGS='{first.target} --seed {seed} --only {first.number}'"
        )
    return "\n".join(blocks) or "no failure"


def _alike(result: Result) -> tuple[str, str, str]:
    """The same for failures that have the same cause, as far as their texts tell."""
    return result.target, result.verdict, re.sub(r"\d+|'[^']*'|/\S+", "#", result.detail)[:80]


if __name__ == "__main__":
    main()
