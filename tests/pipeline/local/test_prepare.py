"""A stored run is resumed with parameters that this version has, of their kinds."""

import json

import pytest

from pipeline.local.prepare import RUN_FILE, prepare_run
from trainer.errors import UserError


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"base_epochs": "many"}, r"base_epochs is 'many'; it must be an integer"),
        ({"base_epochs": 1.5}, r"base_epochs is 1\.5; it must be an integer"),
        ({"base_epohcs": 1}, r"unknown parameter 'base_epohcs'"),
    ],
)
def test_run_with_other_parameters_is_refused(tmp_path, parameters, reason):
    (tmp_path / RUN_FILE).write_text(json.dumps({"environment": "sample", "parameters": parameters}))
    with pytest.raises(
        UserError, match=rf"run\.json is damaged or of another version \({reason}.*; start a new run$"
    ):
        prepare_run("", "", str(tmp_path), {})
