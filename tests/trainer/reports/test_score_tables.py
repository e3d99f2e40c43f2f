"""Scores in the cells of tables."""

import pytest

from trainer import wording
from trainer.reports import score_tables


@pytest.mark.parametrize(
    ("metric", "ends", "expected"),
    [
        ("kld", [-0.014, 0.794], "0.000 to 0.794"),
        ("auc_judd", [0.8075, 1.0374], "0.807 to 1.000"),
        ("cc", [0.756, 1.062], "0.756 to 1.000"),
        ("information_gain", [-2.0, 0.5], f"{wording.MINUS}2.000 to 0.500"),
        ("sim", [0.64, 0.64], ""),
        ("sim", None, ""),
    ],
)
def test_interval_ends_where_the_scores_do(metric, ends, expected):
    assert score_tables.interval_text(metric, ends) == expected
