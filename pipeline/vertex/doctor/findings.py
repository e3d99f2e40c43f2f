"""What a check found, and how it is printed."""

import dataclasses
import sys
from collections.abc import Iterable, Iterator

OK, MISSING, UNKNOWN = "✓", "✗", "?"
PLAIN = {OK: "+", MISSING: "x", UNKNOWN: "?"}
"""The same signs for terminals and logs that show ASCII only."""

REPAIR = (
    "run the commands above from top to bottom, or let Terraform make what it can (docs/vertex.md), then run this "
    "command again"
)


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that a run needs."""

    state: str
    """OK, MISSING or UNKNOWN."""
    text: str
    remedy: str = ""
    """A command or a link that provides what is missing, or that shows what is unknown."""
    reason: str = ""
    """Why it is unknown, if that is not in the text."""


def ok(text: str) -> Finding:
    """It is there."""
    return Finding(OK, text)


def missing(text: str, remedy: str) -> Finding:
    """It is missing; `remedy` provides it."""
    return Finding(MISSING, text, remedy)


def unknown(text: str, remedy: str = "", reason: str = "") -> Finding:
    """It could not be asked; `reason` or the text says why."""
    return Finding(UNKNOWN, text, remedy, reason)


def lines(findings: Iterable[Finding]) -> Iterator[str]:
    """A line for each finding, with its sign first, and a line for its remedy.

    Findings with the same reason share a line, and those with the same remedy the line of the remedy.
    """
    groups: dict[str, list[Finding]] = {}
    for number, finding in enumerate(findings):
        groups.setdefault(finding.reason or finding.remedy or str(number), []).append(finding)
    for group in groups.values():
        sign = _sign(group[0].state)
        if reason := group[0].reason:
            yield f"  {sign} {', '.join(finding.text for finding in group)}: {reason}"
        else:
            yield from (f"  {sign} {finding.text}" for finding in group)
        yield from (f"      {remedy}" for remedy in dict.fromkeys(each.remedy for each in group) if remedy)


def _sign(state: str) -> str:
    try:
        state.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return PLAIN[state]
    return state


def summary(findings: Iterable[Finding], next_step: str) -> str:
    """The counts, and what to do next: `next_step` if nothing is missing."""
    states = [finding.state for finding in findings]
    good, bad, open_ = (states.count(state) for state in (OK, MISSING, UNKNOWN))
    counts = f"{good} found, {bad} missing, {open_} unknown"
    if bad:
        return f"{counts}: {REPAIR}"
    return f"{counts}: {next_step}"
