"""A sample of `make fuzz`: none of its first inputs fails."""

from tests.fuzz import runner
from tests.fuzz.verdicts import ACCEPTED, REFUSED

SEED = 1
NUMBERS = range(8)
LIMIT_S = 120
TOGETHER = (("predict", "serve-bytes", "demo"), ("fetch",))
"""Targets that share a process; `our-files` takes longer to make ready than all of these."""


def test_no_input_of_a_sample_fails():
    batches = [[(target, number) for target in targets for number in NUMBERS] for targets in TOGETHER]
    results = runner.run(batches, SEED, LIMIT_S, jobs=2)
    assert [(result.target, result.number) for result in results] == [each for batch in batches for each in batch]
    failed = [result for result in results if result.verdict not in (ACCEPTED, REFUSED)]
    assert not failed
    for target in {result.target for result in results}:  # inputs that are all refused at once would find nothing
        assert {result.verdict for result in results if result.target == target} == {ACCEPTED, REFUSED}
