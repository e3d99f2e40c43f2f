"""The table of metrics: every row has its function, and a new row reaches every result."""

import inspect

import pytest

from trainer import metrics
from trainer.metric_table import DENSITY, FIXATIONS, METRICS


@pytest.mark.parametrize("name", METRICS)
def test_row_names_the_arguments_of_its_function(name):
    row = METRICS[name]
    assert tuple(inspect.signature(metrics.FUNCTIONS[name]).parameters) == ("prediction", *row.needs)
    assert (FIXATIONS in row.needs) != (DENSITY in row.needs)
    assert row.label
    assert row.meaning
