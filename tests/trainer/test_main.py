"""The trainer's command line."""

import contextlib
import dataclasses
import importlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.narrow import quick_trainings
from tests.prepared import write_prepared
from tests.refusals import refused
from trainer.__main__ import _parser, main
from trainer.commands.train import chosen_settings
from trainer.errors import PlaceError, SettingError, UserError
from trainer.network.model_folder import ASSETS_EXTRA, EVALUATION, MODEL_CONFIG
from trainer.training.recipes import RECIPES
from trainer.training.settings import TrainConfig
from trainer.training.start import check_training

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        (["--epochs=10"], ["--epochs=10", "--recipe=small", "--epochs=5"]),
        (["--no-flip"], ["--flip=false", "--recipe=small", "--flip=true"]),
        ([], ["data/manifest.json"]),
    ],
)
def test_setting_typed_beside_a_recipe_is_refused_even_with_its_default(typed, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ["train", "--dataset-dir=data", "--output-dir=model", "--recipe=small", "--base-model=pretrained"]
    with refused(UserError, *named):
        main([*command, *typed])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("typed", "now"),
    [
        (["demo", "--port=0"], "studio demo"),
        (["check", "a.png", "--region=a:0,0,9,9", "--require=a>=8%"], "studio check"),
        (["predict", "--compare", "a.png", "b.png"], "studio compare A B"),
        (["predict", "photo.jpg", "https://example.com", "--full-page"], "studio predict"),
    ],
)
def test_command_that_moved_to_the_studio_says_so(typed, now, capsys):
    with pytest.raises(SystemExit) as stop:
        main(typed)
    assert stop.value.code == 2
    assert capsys.readouterr().err.endswith(f"is now `python -m {now}`\n")


def trained_with(*flags):
    """The settings that `train` trains with."""
    return chosen_settings(_parser().parse_args(["train", "--dataset-dir=data", "--output-dir=model", *flags]))


@pytest.mark.parametrize("base", [(), ("--base-model=pretrained",)], ids=["base", "finetune"])
def test_settings_of_a_job_are_those_that_its_plan_has_settled(base):
    typed = trained_with("--recipe=small", "--seed=7", *base)
    assert typed == TrainConfig(recipe="small", seed=7, **RECIPES["small"].settings(bool(base)))
    assert trained_with(f"--settings={json.dumps(dataclasses.asdict(typed))}", *base) == typed


def settings_flag(**changed):
    """`--settings` with all settings of a training, of which some are changed."""
    return f"--settings={json.dumps(dataclasses.asdict(TrainConfig()) | changed)}"


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ([settings_flag(), "--epochs=10", "--no-flip"], ["--epochs", "--flip"]),
        (["--settings=[1]"], ["[1]"]),
        (["--settings={"], ["--settings", "{"]),
        (["--settings={}"], ["recipe, epochs, batch_size"]),
        (['--settings={"recipe": "best"}'], ["--settings", "epochs"]),
        ([settings_flag(epoch=3)], ["'epoch'", "'epochs'"]),
        ([settings_flag(epochs="x")], ["epochs", "'x'"]),
        ([settings_flag(epochs=2.7)], ["epochs", 2.7]),
        ([settings_flag(flip=1)], ["flip", 1]),
        ([settings_flag(seed=None)], ["seed", None]),
        ([settings_flag(epochs=0)], ["epochs", 0]),
    ],
)
def test_settings_of_a_job_that_are_wrong_are_refused(flags, named):
    with refused(UserError, *named):
        trained_with(*flags)


def test_numbers_and_words_of_json_become_what_their_settings_have():
    read = trained_with(settings_flag(epochs=3.0, checkpoint_minutes=2, flip="false"))
    assert read == TrainConfig(epochs=3, checkpoint_minutes=2.0, flip=False)
    assert [type(value) for value in (read.epochs, read.checkpoint_minutes)] == [int, float]


def test_settings_without_the_values_of_their_recipe_are_not_trained_with():
    with refused(SettingError, "recipe=best", "epochs=6", "epochs=10"):
        check_training(TrainConfig(recipe="best"), "data", "model")


COMMANDS = (
    (["fetch", "--dataset=salicon", "--source=sample", "--output-dir=b"], "--preview"),
    (["train", "--dataset-dir=a"], "--output-dir"),
    (["train", "--dataset-dir=a", "--output-dir=b"], "--checkpoint-dir"),
    (["evaluate", "--model=m", "--dataset-dir=a"], "--output-dir"),
    (["compare", "m", "n"], "--html"),
    (["predict", "photo.jpg"], "--output-dir"),
    (["export"], "--output"),
)


@pytest.mark.parametrize(("command", "flag"), COMMANDS)
def test_place_that_nothing_can_be_written_to_is_named_before_any_work(command, flag, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with refused(PlaceError, "file/below.png"):
        main([*command, flag, "file/below.png"])
    other = tmp_path if flag not in ("--output-dir", "--checkpoint-dir", "--logs-dir") else tmp_path / "file"
    if flag != "--output":
        with refused(PlaceError, other):
            main([*command, flag, str(other)])
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("number", "command", "said"),
    [
        (signal.SIGINT, "train", "the same command resumes a training from its last checkpoint"),
        (signal.SIGINT, "fetch", "nothing was written"),
        (signal.SIGTERM, "fetch", "nothing was written"),
    ],
)
def test_interrupted_command_says_how_to_go_on_without_a_traceback(number, command, said, capsys, monkeypatch):
    module = importlib.import_module(f"trainer.commands.{command}")
    monkeypatch.setattr(module, "execute", lambda parsed: signal.raise_signal(number))
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as stop:
        main([command, "--output-dir=b", *(["--dataset-dir=a"] if command == "train" else ["--dataset=osie"])])
    assert stop.value.code == 128 + number
    assert capsys.readouterr().err == f"interrupted: {said}\n"
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("program", ["trainer", "pipeline", "studio"])
def test_outside_of_the_environment_one_sentence_says_how_to_enter_it(program):
    # With -S Python does not look into site-packages, as one that is not the environment's.
    command = [sys.executable, "-S", "-m", program, "--help"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=pathlib.Path(__file__).parents[2])
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"error: {sys.executable} has no package ")
    assert ended.stderr.count("\n") == 1


def test_terminated_fetch_leaves_nothing(tmp_path):
    command = [sys.executable, "-m", "trainer", "fetch", "--dataset=osie", "--source=sample"]
    process = subprocess.Popen(
        [*command, "--image-size=1200x1600", "--output-dir=data"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while not list(tmp_path.glob(".partial-*/data/*")) and process.poll() is None:
            time.sleep(0.02)
        assert sorted(path.name.split("-")[0] for path in tmp_path.iterdir()) == [".fetch", ".partial"]
        process.terminate()
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGTERM, errors
    assert errors.endswith("interrupted: nothing was written\n")
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def quick():
    with quick_trainings():
        yield


def test_train_then_evaluate_write_model_curve_and_report(quick, tmp_path):
    data = write_prepared(tmp_path / "data")
    settings = ["--epochs=1", "--batch-size=2", "--initial-weights=none", "--precision=float32"]
    places = ["--output-dir", str(tmp_path / "model"), "--curve", str(tmp_path / "curve.html")]
    main(["train", "--dataset-dir", str(data), *places, *settings])
    assert json.loads((tmp_path / "model" / MODEL_CONFIG).read_text())["best_epoch"] == 1
    assert (tmp_path / "model.checkpoints").is_dir()
    assert "<svg" in (tmp_path / "curve.html").read_text()
    registered, default = tmp_path / "models" / "msinet", f"{tmp_path}/models/msinet@1"
    shutil.copytree(tmp_path / "model", registered / "1" / ASSETS_EXTRA)
    places = ["--output-dir", str(tmp_path / "tuned"), "--base-model", default]
    main(["train", "--dataset-dir", str(data), *places, *settings])
    assert json.loads((tmp_path / "tuned" / MODEL_CONFIG).read_text())["base_model"]["best_epoch"] == 1
    places = ["--output-dir", str(tmp_path / "evaluation"), "--report", str(tmp_path / "report.html")]
    places += ["--model", str(tmp_path / "tuned"), "--champion", default]
    with contextlib.suppress(SystemExit):  # two epochs on six images may stay below the centre bias
        main(["evaluate", "--dataset-dir", str(data), *places])
    evaluation = json.loads((tmp_path / "evaluation" / EVALUATION).read_text())
    assert set(evaluation["datasets"]["osie"]["models"]) == {"candidate", "champion", "centre_bias", "uniform"}
    assert (tmp_path / "report.html").stat().st_size > 10_000
