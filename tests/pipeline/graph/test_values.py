import pytest

from pipeline.__main__ import main
from pipeline.graph.environment import Environment, layered, load_environment, sample_settings
from pipeline.graph.parameters import STEPS, steps_of, validate
from pipeline.local.prepare import prepare_run
from pipeline.vertex.template import load
from tests.vertex import LOCATION, PROJECT
from trainer.errors import UserError

SAMPLE = load_environment("sample").parameters
BOTH = {"base_source": "sample", "finetune_source": "sample"}


def test_later_layer_overrides_earlier_ones():
    assert layered() == {}
    assert layered({"seed": 1, "gate": "cc"}, {"seed": 2}) == {"seed": 2, "gate": "cc"}


def test_settings_of_both_steps_are_those_of_the_file():
    assert sample_settings("base") | sample_settings("finetune") == SAMPLE
    assert not set(sample_settings("base")) & set(sample_settings("finetune"))
    assert {"initial_weights", "evaluate_base"} <= set(sample_settings("base"))


@pytest.mark.parametrize("below", [{}, {"base_source": "gs://b/s", "base_epochs": 9, "base_batch_size": 0}])
def test_source_sample_brings_its_settings_where_it_is_chosen(below):
    assert layered(below, BOTH) == SAMPLE
    own = layered(below, BOTH | {"base_epochs": 5})
    assert own == SAMPLE | {"base_epochs": 5}


def test_only_the_step_with_the_sample_gets_its_settings():
    assert layered({"finetune_source": "sample"}) == sample_settings("finetune")
    assert layered({"base_source": "gs://b/s", "base_epochs": 9}, {"finetune_source": "sample"}) == {
        "base_source": "gs://b/s",
        "base_epochs": 9,
        **sample_settings("finetune"),
    }


def test_sample_that_was_chosen_before_keeps_what_was_set_with_it():
    below = layered(BOTH | {"base_epochs": 5})
    assert layered(below, BOTH) == below
    assert layered(below, {"base_source": "gs://b/s"})["base_epochs"] == 5


@pytest.mark.parametrize("passed", [{"base_dataset": "osie"}, {"base_source": ""}, {"base_epochs": 5}])
def test_parameters_of_base_training_are_not_lost_to_the_model_of_an_environment(passed):
    below = {"base_model_uri": "pretrained", "base_batch_size": 0}
    assert layered(below, {"finetune_epochs": 5})["base_model_uri"] == "pretrained"
    assert steps_of(layered(below, passed)) == STEPS
    both = {**passed, "base_model_uri": "pretrained", "evaluate_base": True}
    assert layered(below, both) == below | both


@pytest.mark.parametrize("environment", ["", "local"])
def test_local_run_of_the_sample_is_the_default_run(environment, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    default, named = prepare_run("", "run", "", {}), prepare_run(environment, "run", "", BOTH)
    assert named.parameters == default.parameters
    assert named.environment == (environment or "sample")


def test_recipe_replaces_its_settings_of_earlier_layers_and_of_the_sample():
    below = {"base_epochs": 9, "finetune_learning_rate": 1.0, "base_batch_size": 2, "patience": 1}
    assert layered(below, {"recipe": "small"}) == {"base_batch_size": 2, "recipe": "small"}
    assert layered(below, {"recipe": "best"}) == {"base_batch_size": 2, "patience": 1, "recipe": "best"}
    rest = {name: value for name, value in SAMPLE.items() if not name.endswith(("_epochs", "_learning_rate"))}
    for layers in ((SAMPLE, {"recipe": "best"}), (BOTH | {"recipe": "best"},), ({"recipe": "best"}, BOTH)):
        assert layered(*layers) == rest | {"recipe": "best"}


@pytest.mark.parametrize("layers", [({"recipe": "small"}, {"finetune_epochs": 10}),
                                    ({"recipe": "small", "finetune_epochs": 10},)])  # fmt: skip
def test_setting_in_or_after_the_layer_of_a_recipe_is_refused_even_with_its_default(layers):
    with pytest.raises(UserError, match=r"^fine-tuning: epochs is given twice: epochs=10, and recipe=small sets"):
        validate(layered(*layers))


def test_local_run_of_the_sample_takes_a_recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    values = prepare_run("", "run", "", {"recipe": "best"}).parameters
    assert not {"base_epochs", "finetune_epochs"} & set(values)
    with pytest.raises(UserError, match="fine-tuning: epochs is given twice: epochs=10, and recipe=best sets epo"):
        main(["run", "recipe=best", "finetune_epochs=10"])
    assert not list(tmp_path.iterdir())


def test_template_of_an_environment_with_the_sample_has_its_settings_as_defaults():
    environment = Environment(
        "mine",
        "vertex",
        PROJECT,
        LOCATION,
        "gs://b",
        image_repository="h/p",
        parameters={**BOTH, "base_epochs": 5},
    )
    assert (SAMPLE | {"base_epochs": 5}).items() <= load(environment).defaults().items()


def test_parameters_of_the_command_are_defaults_of_the_compiled_file(tmp_path):
    output = tmp_path / "mine.yaml"
    assignments = [f"{name}={value}" for name, value in BOTH.items()]
    assert main(["compile", "--env", "vertex", "--output", str(output), *assignments, "--base-epochs", "5"]) == 0
    defaults = load(load_environment("vertex"), str(output)).defaults()
    assert (SAMPLE | {"base_epochs": 5}).items() <= defaults.items()
    with pytest.raises(UserError, match="parameters are for a file of your own; name it with --output"):
        main(["compile", *assignments])
