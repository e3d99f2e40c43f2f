"""Fifty rounds of two processes that register a model each at once, also while one is killed or stopped.

Minutes on two cores: `make test-kills` runs it; the file's name keeps it out of the other runs.
"""

import random

import pytest

from tests.registering import register_at_once

ROUNDS = 50


@pytest.mark.slow
@pytest.mark.parametrize("disturbing", [None, random.Random(0)], ids=["undisturbed", "disturbed"])
def test_every_run_gets_one_whole_version(bucket, tmp_path, disturbing):
    events = register_at_once(f"gs://{bucket.name}/models", tmp_path, ROUNDS, disturbing)
    print(events)
    assert not disturbing or min(events["killed"], events["stop"]) > 0
