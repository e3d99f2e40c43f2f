import dataclasses

import pytest

from lifecycle.machines.settings import AcceleratorConfig, JobConfig
from lifecycle.registry.settings import PipelineConfig
from lifecycle.runs.parameters import PARAMETERS, STEPS, convert_value, parameter_name
from trainer.data.settings import FetchConfig, HeldOutConfig
from trainer.errors import UserError
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
    converted = convert_value(name, value)
    assert converted == expected
    assert type(converted) is type(expected)


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
    with pytest.raises(UserError, match=rf"{name} is {value!r}; it must be {kind}$"):
        convert_value(name, value)
