"""The table of metrics: every row has its function, and a new row reaches every result."""

import dataclasses
import inspect
import json

import numpy as np
import pytest

from trainer import artifacts, metrics
from trainer.config import EvaluateConfig
from trainer.evaluation.ceiling import PROTOCOLS
from trainer.evaluation.evaluate import evaluate
from trainer.metric_table import DENSITY, FIXATIONS, METRICS, Metric, metrics_that_need
from trainer.reports.report import write_report


@pytest.mark.parametrize("name", METRICS)
def test_row_names_the_arguments_of_its_function(name):
    row = METRICS[name]
    assert tuple(inspect.signature(metrics.FUNCTIONS[name]).parameters) == ("prediction", *row.needs)
    assert (FIXATIONS in row.needs) != (DENSITY in row.needs)
    assert row.label
    assert row.meaning


@pytest.mark.usefixtures("narrow")
def test_new_metric_is_one_row_and_one_function(models, datasets, tmp_path, monkeypatch):
    def mae(prediction, density):
        return float(np.abs(prediction - density / 255).mean())

    assert PROTOCOLS  # their metrics are the rows at their import, which must not be that of the new row
    monkeypatch.setitem(metrics.FUNCTIONS, "mae", mae)
    monkeypatch.setitem(METRICS, "mae", Metric("MAE", "mean absolute error", False, (DENSITY,)))
    (gate,) = [field for field in dataclasses.fields(EvaluateConfig) if field.name == "gate"]
    monkeypatch.setitem(gate.metadata["range"], "choices", METRICS)
    output = tmp_path / "evaluation"
    prepared = {"it": datasets["fixationadd1000"]}
    evaluate(EvaluateConfig(gate="mae"), models["good"], prepared, output, models["bad"])
    evaluation = json.loads((output / artifacts.EVALUATION).read_text())
    scores = evaluation["datasets"]["it"]
    assert list(scores["models"]["candidate"]) == metrics_that_need(DENSITY)
    # The ground truth is the candidate's prediction, except for rounding to grey levels.
    assert scores["models"]["candidate"]["mae"] < 0.5 / 255 < scores["models"]["champion"]["mae"]
    assert "candidate's MAE is 0.00" in evaluation["reason"]
    assert evaluation["promote"]
    write_report(output, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "MAE&nbsp;" in page
    assert "mean absolute error" in page
    assert '<option value="mae">MAE</option>' in page
