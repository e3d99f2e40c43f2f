"""What is checked and written before a run starts."""

import json
import os
import stat

import pytest

from pipeline.local.prepare import Run, prepare_run
from trainer.artifacts import RUN_FILE
from trainer.errors import PlaceError, UserError


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


@pytest.mark.parametrize("place", ["/proc/none", "file", "file/below", "x" * 300])
def test_run_in_a_folder_that_cannot_be_written_is_refused_before_it_starts(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(PlaceError, match=f"cannot write .*{place}"):
        prepare_run("", place, "", {})
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(("query", "mode"), [("", 0o640), ("?sig=key", 0o600)])
def test_signed_address_is_kept_for_the_next_attempt_and_for_nobody_else_to_read(tmp_path, query, mode):
    source = f"https://example.org/data.zip{query}"
    before = os.umask(0o027)
    try:
        Run(tmp_path, "local", {"finetune_source": source}).save()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / RUN_FILE).stat().st_mode) == mode
    assert Run.load(tmp_path).parameters == {"finetune_source": source}
