"""A sample of `make fuzz`: none of its first inputs fails."""

from tests.fuzz import runner
from tests.fuzz.targets import NAMES
from tests.fuzz.verdicts import ACCEPTED, REFUSED

SEED = 1
NUMBERS = range(8)
LIMIT_S = 120


def test_no_input_of_a_sample_fails():
    inputs = [(target, number) for target in NAMES for number in NUMBERS]
    results = runner.run([inputs], SEED, LIMIT_S)
    assert [(result.target, result.number) for result in results] == inputs
    failed = [result for result in results if result.verdict not in (ACCEPTED, REFUSED)]
    assert not failed
    for target in NAMES:  # a generator whose inputs are all refused at once would find nothing
        assert {result.verdict for result in results if result.target == target} == {ACCEPTED, REFUSED}
