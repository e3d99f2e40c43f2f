"""Recordings drawn by a grammar are read as they are, or asked about, and an answer leads to the truth."""

import pytest

from tests.trainer.data.recordings import grammar

N_CASES = 60


@pytest.mark.parametrize("seed", range(N_CASES))
def test_a_case_is_read_right_or_asked_about(seed):
    judgement = grammar.run(seed)
    assert judgement.verdict != grammar.WRONG, f"{judgement.detail}: {judgement.case.text}"
