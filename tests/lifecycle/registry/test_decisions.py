"""The numbers of decisions over years; test_contract.py has what each registry does with them."""

import datetime
import pathlib

import pytest

from lifecycle.registry import decisions
from lifecycle.registry.decisions import YEAR
from lifecycle.registry.versions import Look, Version

START = datetime.datetime(2026, 1, 4, 3, tzinfo=datetime.UTC)
WEEK = datetime.timedelta(weeks=1)


def look(run, compared_with=0, made_of="", folder="/runs"):
    return Look(f"msinet-{run}", pathlib.Path(f"{folder}/{run}/msinet-{run}/train/model"), compared_with, made_of)


def version(number, created, compared_with=0, decided=True, **lineage):
    facts = {"run": f"msinet-{number}", "folder": f"/runs/{number}", **lineage}
    record = {"created": created.isoformat(), "compared_with": compared_with, "decided": decided, "lineage": facts}
    return Version(number, pathlib.Path(), "", record)


def taken(looks):
    """The numbers of looks, given as (look, time), one after the other."""
    ledger, numbers = [], []
    for each, now in looks:
        ledger, number = decisions.take(ledger, [], each, now)
        numbers.append(number)
    return numbers


def test_no_two_decisions_of_any_year_share_a_number_and_none_is_lost():
    moments = [START + week * WEEK for week in range(3 * 52)]
    numbers = taken([(look(week), moment) for week, moment in enumerate(moments)])
    assert numbers[:53] == list(range(1, 54))
    for at, moment in enumerate(moments):
        year = [number for number, other in zip(numbers, moments, strict=True) if moment <= other < moment + YEAR]
        assert len(year) == len(set(year))
        assert max(year) <= 53, at


def test_same_look_keeps_its_number():
    others = [look(2), look(3)]
    for again in (
        look(1),  # the same task again
        Look("msinet-9", pathlib.Path("/runs/1/msinet-9/train/model"), 0),  # a resumed run
        look(9, made_of="digest"),  # the same inputs
    ):
        first = look(1, made_of="digest")
        looks = [first, *others, again, look(10)]
        assert taken([(each, START) for each in looks]) == [1, 2, 3, 1, 4]
    another_default = look(1, compared_with=2)
    assert taken([(look(1), START), (another_default, START)]) == [1, 2]
    assert taken([(look(1, made_of="a"), START), (look(2, made_of="b"), START)]) == [1, 2]
    assert taken([(look(1), START), (look(2), START), (look(1), START + YEAR)]) == [1, 2, 1]
    assert taken([(look(1), START), (look(2), START + WEEK), (look(3), START + YEAR)]) == [1, 2, 1]


def test_look_that_decided_nothing_leaves_its_number_to_the_next():
    ledger, first = decisions.take([], [], look(1), START)
    ledger, second = decisions.take(ledger, [], look(2), START)
    ledger = decisions.give_back(ledger, look(1))
    ledger, third = decisions.take(ledger, [], look(3), START)
    assert (first, second, third) == (1, 2, 1)


@pytest.mark.parametrize(
    ("versions", "number"),
    [
        ([version(1, START), version(2, START), version(3, START)], 4),
        ([version(1, START), version(2, START, decided=False)], 2),
        ([version(1, START), version(2, START, inputs="a"), version(3, START, inputs="a")], 3),
        ([version(1, START, inputs="a"), version(2, START, compared_with=1, inputs="a")], 3),
        ([version(1, START, inputs="unknown"), version(2, START, inputs="unknown")], 3),
        ([version(1, START - YEAR), version(2, START)], 2),
        ([Version(1, pathlib.Path(), "", {"created": START.isoformat()})], 1),  # of another program
        ([Version(1, pathlib.Path(), "", {"compared_with": 0})], 1),  # of an unknown time
    ],
)
def test_versions_before_the_ledger_count(versions, number):
    now = START + WEEK
    assert decisions.free_number([], versions, now) == number
    assert decisions.take([], versions, look(9), now)[1] == number


def test_version_of_a_look_in_the_ledger_counts_once():
    ledger, _ = decisions.take([], [], look(1), START)
    assert decisions.free_number(ledger, [version(1, START), version(2, START)], START + WEEK) == 3
