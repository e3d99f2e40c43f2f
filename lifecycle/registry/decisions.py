"""The decisions about the default of a model: which number each of them has in a year.

A decision is a look at whether a candidate is better than the default. The more there are, the more certain must
the next be (`trainer.evaluation.confidence.decision_level`). So each takes a number before its evaluation starts,
in a ledger that the registry keeps beside the versions: two that run at once have two numbers, and one that was
killed before its model was registered has one.

A number is free again after 365 days. No two decisions of any 365 days share one, so the errors that their levels
allow add up to no more than for the numbers 1, 2, 3 and so on.
"""

import datetime
import itertools
from collections.abc import Iterable

from lifecycle.registry.state_files import LedgerEntry
from lifecycle.registry.versions import Look, Version
from trainer.evaluation import Lineage

YEAR = datetime.timedelta(days=365)


def folder_of(run: str, model: str) -> str:
    """The folder of a run, by its model's folder. A resumed run has another name, but the same folder.

    Example: `/runs/first` for `/runs/first/msinet-2026/model` of the run `msinet-2026`.
    """
    return model.partition(f"/{run}/")[0]


def _entry(look: Look, number: int = 0, since: str = "") -> LedgerEntry:
    """A look in a ledger, such as number 12 of run msinet-20260302."""
    folder = folder_of(look.run, str(look.model))
    return LedgerEntry(number, since, look.run, folder, look.made_of, look.compared_with)


def take(
    ledger: list[LedgerEntry], versions: Iterable[Version], look: Look, now: datetime.datetime
) -> tuple[list[LedgerEntry], int]:
    """Give a look a number. Returns the ledger with it, without what is over a year old, and the number.

    A look that is in the ledger keeps its number: of the same run, or of the same inputs, compared with the same
    version.
    """
    kept = [each for each in ledger if _is_within_a_year(each, now)]
    number = free_number(kept, versions, now)
    entry = _entry(look, number, now.isoformat(timespec="seconds"))
    for each in kept:
        if _is_same(each, entry):
            return ledger, each.number
    return [*kept, entry], number


def give_back(ledger: list[LedgerEntry], look: Look) -> list[LedgerEntry]:
    """The ledger without a look that has decided nothing."""
    return [each for each in ledger if not _is_same(each, _entry(look))]


def free_number(ledger: Iterable[LedgerEntry], versions: Iterable[Version], now: datetime.datetime) -> int:
    """The least number, from 1, that no decision of the last 365 days has, in the ledger or by the versions.

    A version that is not in the ledger, since it was registered before there was one, was a decision unless
    nothing could be decided. A model that was made again and compared with the same version is no other.
    Example: 2, if decisions have the numbers 1 and 3.
    """
    entries = list(ledger)
    for version in sorted(versions, key=lambda version: version.created):
        facts, lineage = version.facts, version.facts.lineage
        if facts.compared_with is None or not facts.decided:
            continue
        before = [each for each in entries if _since(each) <= version.created]
        is_known = lineage.inputs != Lineage.UNKNOWN
        entry = LedgerEntry(
            number=facts.decision or _least(before, version.created),
            since=version.created.isoformat(),
            run=lineage.run,
            folder=lineage.folder,
            made_of=f"{lineage.inputs} {lineage.base_version}" if is_known else "",
            compared_with=facts.compared_with,
        )
        if not any(_is_same(each, entry) for each in entries):
            entries.append(entry)
    return _least(entries, now)


def _is_same(one: LedgerEntry, other: LedgerEntry) -> bool:
    """Whether two entries are of the same run, or of the same inputs, and compared with the same version."""
    same = ((one.run, other.run), (one.folder, other.folder), (one.made_of, other.made_of))
    return one.compared_with == other.compared_with and any(each and each == its for each, its in same)


def _least(entries: Iterable[LedgerEntry], now: datetime.datetime) -> int:
    taken = {each.number for each in entries if _is_within_a_year(each, now)}
    return next(number for number in itertools.count(1) if number not in taken)


def _is_within_a_year(entry: LedgerEntry, now: datetime.datetime) -> bool:
    return _since(entry) + YEAR > now


def _since(entry: LedgerEntry) -> datetime.datetime:
    return datetime.datetime.fromisoformat(entry.since)
