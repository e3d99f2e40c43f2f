import dataclasses

import pytest

from lifecycle.machines.settings import AcceleratorConfig, JobConfig
from lifecycle.registry.settings import PipelineConfig
from lifecycle.runs.parameters import DEFAULTS, PARAMETERS, STEPS, Values, parameter_name
from tests.refusals import refused
from trainer.data.settings import FetchConfig, HeldOutConfig
from trainer.errors import SettingError
from trainer.evaluation.settings import EvaluateConfig
from trainer.training.settings import TrainConfig

CONFIGS = (FetchConfig, HeldOutConfig, TrainConfig, EvaluateConfig, PipelineConfig, AcceleratorConfig, JobConfig)


@pytest.mark.parametrize("config", CONFIGS)
def test_every_setting_is_a_parameter_with_its_default_type_and_description(config):
    for field in dataclasses.fields(config):
        for name in {parameter_name(field.name, step) for step in STEPS}:
            parameter = PARAMETERS[name]
            assert parameter.kind is field.type
            assert field.metadata["help"] in parameter.help
            if name != "finetune_dataset":
                assert parameter.default == field.default


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("base_epochs", "3", 3),
        ("base_epochs", 3.0, 3),
        ("base_learning_rate", "1e-4", 1e-4),
        ("gate_margin", 1, 1.0),
        ("evaluate_base", "True", True),
        ("gate", "cc", "cc"),
    ],
)
def test_value_is_converted_to_the_parameters_type(name, value, expected):
    converted = Values.converted({name: value})
    assert converted == {name: expected}
    assert type(converted[name]) is type(expected)


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("base_epochs", 3.5, "an integer"),
        ("base_epochs", True, "an integer"),
        ("gate_margin", "much", "a number"),
        ("evaluate_base", "maybe", "true or false"),
        ("evaluate_base", 1, "true or false"),
        ("gate", 3, "a string"),
    ],
)
def test_value_of_another_type_is_refused_with_the_expected_one(name, value, kind):
    with refused(SettingError, name, repr(value), kind):
        Values.converted({name: value})


def test_values_know_their_steps_datasets_and_the_settings_of_each():
    values = Values({"base_model_uri": "pretrained", "finetune_epochs": 3, "gate": "cc"})
    assert list(values.steps) == ["finetune"] == list(values.datasets)
    assert values.fields(TrainConfig, "finetune") == {"epochs": 3}
    assert values.config(TrainConfig, "finetune") == TrainConfig(epochs=3)
    assert values.form == {"base_model_uri": "pretrained", "gate": "cc", "settings": {"finetune_epochs": 3}}
    assert Values.of_form(values.form) == values
    assert values.effective == values != Values({**values, "base_epochs": 3})
    assert Values({**values, "base_epochs": 3}).effective == values
    assert values.complete == {**DEFAULTS, **values}


@pytest.mark.parametrize(
    ("name", "step", "other"),
    [
        ("base_epochs", "finetune", "finetune_epochs"),
        ("finetune_accelerator", "base", "base_accelerator"),
        ("gate", "base", "gate"),
    ],
)
def test_parameter_has_a_name_for_each_step(name, step, other):
    assert PARAMETERS[name].name_for(step) == other
