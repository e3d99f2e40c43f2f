import pytest

from pipeline.__main__ import main
from pipeline.graph.environment import Environment, load_environment
from pipeline.graph.values import layered, sample_settings
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


@pytest.mark.parametrize("environment", ["", "local"])
def test_local_run_of_the_sample_is_the_default_run(environment, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    default, named = prepare_run("", "run", "", {}), prepare_run(environment, "run", "", BOTH)
    assert named.parameters == default.parameters
    assert named.environment == (environment or "sample")


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
