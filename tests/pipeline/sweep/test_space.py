"""The TOML file of a sweep: what it says, and what is refused before anything starts."""

import pathlib

import pytest

from pipeline.__main__ import main
from pipeline.graph.environment import load_environment
from pipeline.sweep.space import RECORD, Categorical, Numerical, keep, read_sweep
from tests.guide import ROOT
from tests.refusals import refused
from trainer.errors import AmbiguousError, SettingError, UnknownNameError, UserError
from trainer.models.registry_layout import ALIASES, model_in
from trainer.network.model_folder import MODEL_WEIGHTS

FIXED = 'base_dataset = "osie"\nbase_epochs = 4'


def read(folder, search, fixed=FIXED, environment="local"):
    path = folder / "mine.toml"
    path.write_text(f"[parameters]\n{fixed}\n[search]\n{search}\n")
    return read_sweep(path, load_environment(environment))


def test_ranges_and_values_have_the_types_of_their_parameters(tmp_path):
    sweep = read(
        tmp_path,
        "base_learning_rate = { min = 1e-6, max = 1e-4, log = true }\nwarmup_epochs = { min = 0, max = 2 }\n"
        "patience = { min = 1, max = 8 }\nflip = [true, false]\n"
        "learning_rate_schedule = ['constant', 'cosine']",
    )
    assert sweep.search == {
        "base_learning_rate": Numerical(1e-6, 1e-4, log=True),
        "warmup_epochs": Numerical(0.0, 2.0),
        "patience": Numerical(1, 8),
        "flip": Categorical((True, False)),
        "learning_rate_schedule": Categorical(("constant", "cosine")),
    }
    assert (sweep.name, sweep.step) == ("mine", "base")
    trial = {"base_learning_rate": 3e-05, "flip": True, "learning_rate_schedule": "cosine"}
    assert set(sweep.training_flags(trial)) == {
        *("--epochs=4", "--learning-rate=3e-05", "--flip=true", "--schedule=cosine")
    }
    assert sweep.next_run(trial) == (
        "make run-pipeline ENV=local base_dataset=osie base_epochs=4 base_learning_rate=3e-05 flip=true "
        "learning_rate_schedule=cosine"
    )


def test_a_model_in_place_of_base_training_makes_it_a_sweep_of_fine_tunings(tmp_path):
    fixed = 'base_model_uri = "pretrained"\nfinetune_dataset = "osie"'
    sweep = read(tmp_path, "finetune_epochs = [1, 3]", fixed)
    assert sweep.step == "finetune"
    assert sweep.data_flags("finetune") == ["--dataset=osie"]
    with refused(SettingError, "base_epochs", "fine-tuning", "finetune_epochs"):
        read(tmp_path, "base_epochs = [1, 3]", fixed)


def test_test_set_has_the_image_size_of_the_training(tmp_path):
    fixed = 'base_dataset = "osie"\nbase_image_size = "72x96"\ntest_dataset = "salicon"\ntest_source = "sample"'
    sweep = read(tmp_path, "flip = [true, false]", fixed)
    assert "--image-size=72x96" in sweep.data_flags("test")


def test_all_trials_start_from_the_model_that_was_the_default_at_first(tmp_path):
    registry = tmp_path / "models" / "msinet"
    for number in (1, 2):
        model = model_in(registry / str(number))
        model.mkdir(parents=True)
        (model / MODEL_WEIGHTS).touch()
    (registry / ALIASES).write_text('{"default": 1}')
    sweep = read(tmp_path, "finetune_epochs = [1, 3]", f'base_model_uri = "{registry}"\nfinetune_dataset = "osie"')
    assert keep(sweep, tmp_path) == str(model_in(registry / "1"))
    (registry / ALIASES).write_text('{"default": 2}')
    assert keep(sweep, tmp_path) == str(model_in(registry / "1"))


def test_weights_that_are_no_model_are_refused_before_anything_is_written(tmp_path):
    weights = tmp_path / "mine.weights.h5"
    weights.touch()
    sweep = read(tmp_path, "finetune_epochs = [1, 3]", f'base_model_uri = "{weights}"\nfinetune_dataset = "osie"')
    with refused(SettingError, "base_model_uri", weights):
        keep(sweep, tmp_path)
    assert not (tmp_path / RECORD).exists()


def test_settings_without_the_sweep_are_known_if_they_lie_in_it(tmp_path):
    search = "base_learning_rate = {{ min = {}, max = 1e-3 }}\nflip = [true, false]"
    assert read(tmp_path, search.format("1e-6")).present() == {"base_learning_rate": 1e-5, "flip": False}
    assert read(tmp_path, search.format("1e-4")).present() == {}


@pytest.mark.parametrize(
    ("search", "named"),
    [
        (
            "base_lerning_rate = [1e-5, 1e-4]",
            (UnknownNameError, "parameter", "base_lerning_rate", "base_learning_rate"),
        ),
        ("base_learning_rate = { min = 1e-5, max = 2 }", (SettingError, "learning_rate", 2, 0, 1)),
        (
            "base_learning_rate = { min = 1e-4, max = 1e-5 }",
            (SettingError, "base_learning_rate", "0.0001", "1e-05", "min", "max"),
        ),
        ("base_learning_rate = { min = 1e-5 }", (SettingError, "base_learning_rate", "{'min': 1e-05}")),
        (
            "base_learning_rate = { min = 1e-5, max = 1e-4, step = 1 }",
            (SettingError, "base_learning_rate", "step"),
        ),
        ("base_learning_rate = { min = 0, max = 1, log = true }", (SettingError, "base_learning_rate", 0, "log")),
        ("base_learning_rate = 1e-5", (SettingError, "base_learning_rate", "1e-05")),
        ("patience = { min = 1, max = 2.5 }", (SettingError, "patience", 2.5, "integer")),
        ("base_batch_size = { min = 1, max = 8 }", (SettingError, "base_batch_size", "{'min': 1, 'max': 8}")),
        ("accumulation = { min = 1, max = 2 }", (SettingError, "accumulation", "{'min': 1, 'max': 2}")),
        ("base_batch_size = [2, 'four']", (SettingError, "base_batch_size", "four", "integer")),
        ("base_batch_size = [2]", (SettingError, "base_batch_size", "[2]")),
        ("flip = { min = 0, max = 1 }", (SettingError, "flip", "{'min': 0, 'max': 1}", "number")),
        ("warmup_epochs = { min = 0, max = 5 }", (UserError, "warmup_epochs", 5, "epochs", 4)),
        (
            "learning_rate_schedule = ['constant', 'cosin']",
            (SettingError, "schedule", "cosin", "constant", "'cosine'"),
        ),
        ("finetune_epochs = [1, 2]", (SettingError, "finetune_epochs", "base training", "base_epochs")),
        ("base_image_size = ['72x96', '96x128']", (SettingError, "base_image_size", "[parameters]")),
        ("flip_prediction = [true, false]", (SettingError, "flip_prediction", "[search]")),
        ("base_epochs = [3, 4]", (AmbiguousError, "base_epochs", "[parameters]", "[search]")),
        ("", (SettingError, "[search]")),
        ("flip = [true, false]\n[serch]", (UnknownNameError, "table", "serch", "'search'")),
    ],
)
def test_mistake_is_refused(tmp_path, search, named):
    with refused(*named):
        read(tmp_path, search)


def test_settings_that_contradict_each_other_only_together_are_refused(tmp_path):
    search = "warmup_epochs = { min = 0, max = 3.5 }\nbase_epochs = { min = 3, max = 6 }"
    with refused(UserError, "warmup_epochs", 3.5, "epochs", 3):
        read(tmp_path, search, 'base_dataset = "osie"')


def test_all_mistakes_are_named_at_once(tmp_path):
    with refused(UserError, "base_lerning_rate", "flip", "[True]"):
        read(tmp_path, "base_lerning_rate = [1e-5, 1e-4]\nflip = [true]")


def test_kubeflow_is_refused_with_what_to_do(tmp_path):
    with refused(SettingError, "kubeflow", "--env local"):
        read(tmp_path, "flip = [true, false]", environment="kubeflow")


@pytest.mark.parametrize("path", sorted((ROOT / "configs" / "sweeps").glob("*.toml")), ids=lambda path: path.stem)
def test_examples_are_shown_by_a_dry_run_that_writes_nothing(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", str(path), "--dry-run"]) == 0
    assert "Trials:   20 on this machine" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_trials_are_no_more_than_there_are(tmp_path, capsys):
    read(tmp_path, "flip = [true, false]\npatience = { min = 1, max = 3 }")
    assert main(["sweep", str(tmp_path / "mine.toml"), "--dry-run"]) == 0
    assert "Trials:   6 (all there are) on this machine" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flag", "named"),
    [
        ("--trials=0", ("trials", 0)),
        ("--hours=-1", ("hours", "-1")),
        ("--hours=inf", ("hours", "inf")),
        ("--parallel=2", ("--parallel",)),
    ],
)
def test_numbers_of_the_command_are_checked(flag, named):
    with refused(SettingError, *named):
        main(["sweep", str(pathlib.Path(ROOT, "configs", "sweeps", "finetune.toml")), flag])
