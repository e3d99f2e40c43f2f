"""What is checked and written before a run starts."""

import json
import os
import pathlib
import stat

import pytest

from lifecycle.runs.parameters import DATA
from pipeline.__main__ import main
from pipeline.local.run_folder import Run, prepare_run
from tests.refusals import refused
from trainer.errors import MismatchError, NotFoundError, PlaceError, SettingError, UserError
from trainer.evaluation.run_folders import RUN_FILE
from trainer.io import files
from trainer.io.files import BESIDE
from trainer.models.model_names import DEFAULT
from trainer.network import model_folder


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"base_epochs": "many"}, (RUN_FILE, "base_epochs", "many", "integer")),
        ({"base_epochs": 1.5}, (RUN_FILE, "base_epochs", 1.5, "integer")),
        ({"base_epohcs": 1}, (RUN_FILE, "base_epohcs", "base_epochs")),
    ],
)
def test_run_with_other_parameters_is_refused(tmp_path, parameters, named):
    (tmp_path / RUN_FILE).write_text(json.dumps({"environment": "sample", "parameters": parameters}))
    with refused(MismatchError, *named):
        prepare_run("", "", str(tmp_path), {})


@pytest.mark.parametrize("place", ["/proc/none", "file", "file/below", "x" * 300])
def test_run_in_a_folder_that_cannot_be_written_is_refused_before_it_starts(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with refused(PlaceError, place):
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


def test_environment_is_the_sample_without_a_source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert prepare_run("", "", "", {}).environment == "sample"
    assert prepare_run("", "", "", {"base_source": "gs://bucket/salicon"}).environment == "local"
    assert prepare_run("", "", "", {"base_source": "", "finetune_source": "sample"}).environment == "local"
    assert prepare_run("", "", "", {"finetune_source": "sample"}).environment == "sample"
    named = {"base_model_uri": "pretrained", "finetune_dataset": "osie"}
    assert prepare_run("", "", "", named).environment == "local"
    assert prepare_run("", "", "", {"base_source": "sample", "base_dataset": "osie"}).environment == "sample"
    explicit = prepare_run("sample", "", "", {"base_source": "gs://bucket/salicon", "base_epochs": 1})
    assert explicit.parameters["base_source"] == "gs://bucket/salicon"
    assert explicit.parameters["finetune_source"] == "sample"


def test_new_attempt_removes_what_killed_tasks_left_in_the_earlier_ones(tmp_path):
    task = tmp_path / "msinet-20260102030405" / "fetch-dataset"
    (task / "dataset").mkdir(parents=True)
    (task / f"{BESIDE}killed").mkdir()
    assert Run(tmp_path, "sample", {}).start_attempt().earlier == ("msinet-20260102030405",)
    assert list(task.iterdir()) == [task / "dataset"]


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"base_model_uri": "lost.pb"}, (UserError, "base_model_uri", "lost.pb")),
        ({"base_model_uri": "file"}, (UserError, "base_model_uri", "file")),
        ({"base_source": "nowhere"}, (UserError, "base_source", "nowhere")),
        ({"finetune_accelerator": "l4"}, (SettingError, "fine-tuning", "accelerator", "l4")),
        ({"registry": "file"}, (PlaceError, "file/msinet")),
        ({"registry": "file/models"}, (PlaceError, "file/models/msinet")),
        ({"registry": "gs://nowhere-at-all/models"}, (NotFoundError, "nowhere-at-all")),
        ({"model_name": "mine"}, (NotFoundError, "mine", 3)),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(parameters, named, bucket, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("file").touch()
    files.write_json(pathlib.Path("models/mine/aliases.json"), {DEFAULT: 3})
    pathlib.Path("models/mine/7").mkdir()
    with refused(*named):
        prepare_run("sample", "", "", parameters)
    assert {path.name for path in tmp_path.iterdir()} == {"file", "models"}


def test_missing_pretrained_model_is_refused_before_anything_starts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(model_folder, "PRETRAINED_FOLDER", tmp_path / "missing")
    for name in ("base_model_uri", "initial_weights"):
        with refused(UserError, name, "pretrained"):
            prepare_run("", "", "", {name: "pretrained"})


def test_dry_run_says_what_would_run_and_leaves_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    source = "https://example.org/data.zip?sig=TOPSECRET"
    words = [
        f"finetune_source={source}",
        "private_sources=true",
        "base_source=",
        "test_dataset=osie",
        "patience=7",
    ]
    assert main(["run", "--dry-run", "--run-dir", "mine", "base_epochs=4", *words]) == 0
    text = capsys.readouterr().out
    for named in (*DATA.values(), "example.org", "epochs 4", "base_epochs=4 ", "patience=7", tmp_path / "mine"):
        assert str(named) in text
    assert "SECRET" not in text
    assert "gate=" not in text  # it has its default
    with refused(SettingError, "gate_on", "test"):
        main(["run", "--dry-run", "gate_on=test"])
    assert not list(tmp_path.iterdir())
    Run(tmp_path / "done", "sample", {}, finished=True).save()
    assert main(["run", "--dry-run", "--resume", "done"]) == 0
    assert "finished" in capsys.readouterr().out
    assert [path.name for path in (tmp_path / "done").iterdir()] == [RUN_FILE]
