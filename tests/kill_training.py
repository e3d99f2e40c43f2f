"""Twenty trainings killed and stopped at random moments, checkpoints truncated or corrupted in between.

Minutes on two cores: `make test-kills` runs it; the file's name keeps it out of the other runs.
"""

import pytest

from tests.killing import harass
from tests.prepared import write_prepared

SIGNALS = 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_every_run_ends_with_the_weights_of_an_undisturbed_run(tmp_path, seed):
    tally = harass(write_prepared(tmp_path / "data"), tmp_path / "runs", SIGNALS, seed)
    print(tally)
    assert tally.signals >= SIGNALS
    assert min(tally.killed, tally.stopped, tally.damaged, tally.skipped) > 0
