"""The table of metrics: every row has its function, and a new row reaches every result."""

import ast
import inspect
import pathlib

import pytest

from tests.refusals import refused
from trainer.errors import SettingError
from trainer.evaluation.settings import EvaluateConfig
from trainer.metrics import metrics
from trainer.metrics.metric_table import DECIDING, DENSITY, FIXATIONS, METRICS


@pytest.mark.parametrize("name", METRICS)
def test_row_names_the_arguments_of_its_function(name):
    row = METRICS[name]
    assert tuple(inspect.signature(metrics.FUNCTIONS[name]).parameters) == ("prediction", *row.needs)
    assert (FIXATIONS in row.needs) != (DENSITY in row.needs)
    assert row.label
    assert row.meaning


def test_a_metric_of_another_map_than_that_of_users_decides_nothing():
    (other,) = METRICS.keys() - DECIDING
    assert METRICS[other].label == "sAUC/CB"
    with refused(SettingError, other):
        EvaluateConfig(gate=other)
    for name in DECIDING:
        EvaluateConfig(gate=name)


def test_metrics_are_named_in_their_table_alone():
    """A list of them elsewhere, or a default, would stay behind when the table changes."""
    root = pathlib.Path(metrics.__file__).parents[2]
    modules = [
        path
        for package in ("trainer", "lifecycle", "components", "pipeline", "studio")
        for path in (root / package).rglob("*.py")
    ]
    named = {
        (path.name, node.value)
        for path in modules
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in METRICS
    }
    assert len(modules) > 100
    assert {module for module, _ in named} == {"metric_table.py", "metrics.py"}, named
