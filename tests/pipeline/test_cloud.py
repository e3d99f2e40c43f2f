"""When a request is repeated, and when it must not be."""

import pytest
from google.api_core.exceptions import Conflict, ServiceUnavailable, TooManyRequests

from pipeline import cloud
from trainer.errors import UserError


class Service:
    """A service whose calls and looks end as listed; the last outcome stays. `log` has them in order."""

    def __init__(self, calls, looks=(None,)):
        self.log = []
        self.outcomes = {"call": list(calls), "look": list(looks)}

    def do(self, what):
        self.log.append(what)
        outcomes = self.outcomes[what]
        outcome = outcomes.pop(0) if len(outcomes) > 1 else outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def once(self, **options):
        return cloud.once(lambda: self.do("call"), lambda: self.do("look"), **options)


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    """The pauses that are made, in seconds."""
    made = []
    monkeypatch.setattr("time.sleep", made.append)
    return made


DOWN, FULL, TAKEN = ServiceUnavailable("down"), TooManyRequests("full"), Conflict("taken")


def test_success_needs_no_look():
    service = Service(["made"])
    assert service.once() == "made"
    assert service.log == ["call"]


def test_result_of_a_request_whose_response_was_lost_is_returned():
    service = Service([DOWN], [None, "made"])
    assert service.once() == "made"
    assert service.log == ["call", "look", "call", "look"]


def test_request_is_not_repeated_before_a_look_has_succeeded():
    service = Service([DOWN, "made"], [DOWN, DOWN, None])
    assert service.once() == "made"
    assert service.log == ["call", "look", "look", "look", "call"]


def test_request_that_takes_time_to_show_is_repeated_after_15_seconds(pauses):
    service = Service([DOWN, "made"])
    assert service.once(repeat_after=cloud.SETTLED) == "made"
    assert service.log == ["call", *["look"] * 4, "call"]
    assert sum(pauses) == 15


def test_request_that_must_not_arrive_twice_is_sent_once():
    service = Service([DOWN])
    with pytest.raises(UserError, match=r"the service failed: down \(503\).*. It may still appear"):
        service.once(repeat_after=None, unknown="It may still appear")
    assert service.log.count("call") == 1
    assert service.log.count("look") == len(cloud.PAUSES_S) + 1


@pytest.mark.parametrize(("outcomes", "calls"), [([FULL, FULL, "made"], 3), ([FULL, DOWN, "made"], 2)])
def test_request_that_must_not_arrive_twice_is_repeated_only_if_it_did_nothing(outcomes, calls):
    service = Service(outcomes)
    try:
        assert service.once(repeat_after=None) == "made"
    except ServiceUnavailable:
        assert calls == 2
    assert service.log.count("call") == calls


@pytest.mark.parametrize(("looks", "is_known"), [([None], True), ([None, DOWN], False)])
def test_failure_says_so_if_the_outcome_is_unknown(looks, is_known):
    service = Service([DOWN], looks)
    with pytest.raises(ServiceUnavailable if is_known else UserError):
        service.once(unknown="Look yourself")


def test_id_that_is_taken_at_first_is_an_error():
    service = Service([TAKEN], ["other"])
    with pytest.raises(Conflict):
        service.once()
    assert service.log == ["call"]


@pytest.mark.parametrize("look", ["ours", None])
def test_id_that_is_taken_after_a_failure_is_ours_or_an_error(look):
    service = Service([DOWN, TAKEN], [None, look])
    if look:
        assert service.once() == "ours"
    else:
        with pytest.raises(Conflict):
            service.once()
    assert service.log == ["call", "look", "call", "look"]


def test_error_that_stays_is_raised_after_all_pauses(pauses):
    service = Service([DOWN])
    with pytest.raises(ServiceUnavailable):
        service.once()
    assert pauses == list(cloud.PAUSES_S)
    assert service.log.count("call") == len(cloud.PAUSES_S) + 1
