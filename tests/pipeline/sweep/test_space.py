"""The TOML file of a sweep: what it says, and what is refused before anything starts."""

import pathlib

import pytest

from pipeline.__main__ import main
from pipeline.graph.environment import load_environment
from pipeline.sweep.space import RECORD, Categorical, Numerical, keep, read_sweep
from tests.guide import ROOT
from trainer.errors import UserError
from trainer.models.registry_layout import ALIASES, model_in
from trainer.network.model_folder import WEIGHTS

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
    with pytest.raises(UserError, match=r"base_epochs is not of fine-tuning.*; write finetune_epochs"):
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
        (model / WEIGHTS).touch()
    (registry / ALIASES).write_text('{"default": 1}')
    sweep = read(tmp_path, "finetune_epochs = [1, 3]", f'base_model_uri = "{registry}"\nfinetune_dataset = "osie"')
    assert keep(sweep, tmp_path) == str(model_in(registry / "1"))
    (registry / ALIASES).write_text('{"default": 2}')
    assert keep(sweep, tmp_path) == str(model_in(registry / "1"))


def test_weights_that_are_no_model_are_refused_before_anything_is_written(tmp_path):
    weights = tmp_path / "mine.weights.h5"
    weights.touch()
    sweep = read(tmp_path, "finetune_epochs = [1, 3]", f'base_model_uri = "{weights}"\nfinetune_dataset = "osie"')
    with pytest.raises(UserError, match=r"mine\.weights\.h5.*import-weights"):
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
            "unknown parameter 'base_lerning_rate'; did you mean 'base_learning_rate'",
        ),
        ("base_learning_rate = { min = 1e-5, max = 2 }", "learning_rate is 2; it must be above 0 and at most 1"),
        ("base_learning_rate = { min = 1e-4, max = 1e-5 }", "from 0.0001 to 1e-05; min must be below max"),
        ("base_learning_rate = { min = 1e-5 }", "base_learning_rate is {'min': 1e-05}; write a list"),
        ("base_learning_rate = { min = 1e-5, max = 1e-4, step = 1 }", "has the key 'step'"),
        ("base_learning_rate = { min = 0, max = 1, log = true }", "from 0, which has no logarithm"),
        ("base_learning_rate = 1e-5", "base_learning_rate is 1e-05; write a list"),
        ("patience = { min = 1, max = 2.5 }", "patience is 2.5; it must be an integer"),
        ("base_batch_size = { min = 1, max = 8 }", "base_batch_size is .*; write a list"),
        ("accumulation = { min = 1, max = 2 }", "accumulation is .*; write a list"),
        ("base_batch_size = [2, 'four']", "base_batch_size is 'four'; it must be an integer"),
        ("base_batch_size = [2]", r"base_batch_size has the values \[2\]; write two"),
        ("flip = { min = 0, max = 1 }", "flip is .*, but it is no number"),
        ("warmup_epochs = { min = 0, max = 5 }", "warmup_epochs is 5; it must be below epochs, which is 4"),
        (
            "learning_rate_schedule = ['constant', 'cosin']",
            "'cosin'; choose one of constant, cosine; did you mean",
        ),
        ("finetune_epochs = [1, 2]", "finetune_epochs is not of base training.*; write base_epochs"),
        ("base_image_size = ['72x96', '96x128']", "base_image_size is no setting of a training"),
        ("flip_prediction = [true, false]", "flip_prediction does not change the validation loss"),
        ("base_epochs = [3, 4]", r"base_epochs is in \[parameters\] and in \[search\]"),
        ("", r"the table \[search\] is empty"),
        ("flip = [true, false]\n[serch]", "unknown table 'serch'; did you mean 'search'"),
    ],
)
def test_mistake_is_refused(tmp_path, search, named):
    with pytest.raises(UserError, match=named):
        read(tmp_path, search)


def test_settings_that_contradict_each_other_only_together_are_refused(tmp_path):
    search = "warmup_epochs = { min = 0, max = 3.5 }\nbase_epochs = { min = 3, max = 6 }"
    with pytest.raises(UserError, match=r"warmup_epochs is 3\.5; it must be below epochs, which is 3"):
        read(tmp_path, search, 'base_dataset = "osie"')


def test_all_mistakes_are_named_at_once(tmp_path):
    with pytest.raises(UserError, match=r"(?s)base_lerning_rate.*flip has the values"):
        read(tmp_path, "base_lerning_rate = [1e-5, 1e-4]\nflip = [true]")


def test_kubeflow_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(UserError, match="kubeflow, which has no sweeps; search on this machine"):
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
        ("--trials=0", "trials is 0"),
        ("--hours=-1", "hours is -1"),
        ("--hours=inf", "hours is inf"),
        ("--parallel=2", "--parallel is for Vertex AI"),
    ],
)
def test_numbers_of_the_command_are_checked(flag, named):
    with pytest.raises(UserError, match=named):
        main(["sweep", str(pathlib.Path(ROOT, "configs", "sweeps", "finetune.toml")), flag])
