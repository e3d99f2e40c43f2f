import dataclasses
import pathlib
import types

import pytest

from pipeline import parameters
from pipeline.parameters import (
    CONSOLE_FIELDS,
    DATA,
    DEFAULTS,
    PARAMETERS,
    PER_STEP,
    STEPS,
    PipelineConfig,
    convert,
    data_settings,
    needed_datasets,
    parameter_name,
    require_sources,
    validate,
)
from pipeline.plan import AcceleratorConfig
from pipeline.training_job import JobConfig
from trainer.config import EvaluateConfig, FetchConfig, HeldOutConfig, TrainConfig
from trainer.errors import UserError

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


SHARED = {field.name for field in dataclasses.fields(TrainConfig)} - {
    *PER_STEP,
    *CONSOLE_FIELDS,
    "initial_weights",
}
"""Settings of both trainings alike, for which a change of PER_STEP is enough."""


@pytest.mark.parametrize("setting", sorted(SHARED))
def test_setting_can_differ_between_both_trainings_by_a_change_of_one_line(setting):
    source = pathlib.Path(parameters.__file__).read_text()
    assert source.count("PER_STEP = (") == 1
    changed = types.ModuleType(parameters.__name__)
    exec(compile(source.replace("PER_STEP = (", f"PER_STEP = ({setting!r},"), "changed", "exec"), vars(changed))
    shared = parameter_name(setting, "base")
    assert DEFAULTS.keys() - changed.DEFAULTS.keys() == {shared}
    assert changed.DEFAULTS.keys() - DEFAULTS.keys() == {f"base_{shared}", f"finetune_{shared}"}
    changed.validate(changed.DEFAULTS)
    other = object()
    assert changed.settings_of(TrainConfig, "base", {f"base_{shared}": other}) == {setting: other}
    assert changed.settings_of(TrainConfig, "finetune", {f"base_{shared}": other}) == {}


@pytest.mark.parametrize(
    "values",
    [
        {},
        DEFAULTS,
        {"checkpoint_dir": "gs://bucket/state"},
        *({name: "custom", "blur_px": 3.0} for name in ("base_dataset", "finetune_dataset", "test_dataset")),
        {"test_dataset": "fixationadd1000", "test_share": 0.5},
        # The base model was trained elsewhere, so its data may be tested on.
        {
            "base_model_uri": "m",
            "base_source": "b",
            "test_dataset": "salicon",
            "test_source": "b",
            "gate_on": "test",
        },
    ],
)
def test_values_are_valid(values):
    validate(values)


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
    converted = convert(name, value)
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
        convert(name, value)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"base_dataset": "salicn"}, "base training: .*'salicn'; did you mean 'salicon'"),
        ({"finetune_image_size": "100x100"}, "fine-tuning: image_size is 100x100"),
        ({"gate_on": "test"}, "gate_on is test, but test_dataset is empty"),
        ({"test_source": "gs://b/osie"}, "test_source is 'gs://b/osie', but test_dataset is empty"),
        ({"test_dataset": "osei"}, "test set: .*'osei'"),
        ({"test_dataset": "fixationadd1000"}, "the test set is the data of fine-tuning"),
        (
            {"test_dataset": "salicon", "test_source": "gs://b/salicon/", "base_source": "gs://b/salicon"},
            "the test set is the data of base training",
        ),
        ({"training_labels": "team=Vision Lab"}, "training_labels has 'team=Vision Lab'"),
        ({"columns": "x=a"}, "columns is 'x=a'"),
        ({"recipe": "smal"}, "recipe is 'smal'"),
        ({"blur_px": 3.0}, "blur_px describes recordings of your own"),
        ({"model_name": "../mine"}, "model_name is '../mine'"),
        ({"registry": "s3://bucket/models"}, "registry is 's3://bucket/models'"),
        ({"registry": "a\0b"}, "registry is 'a"),
        ({"registry": "gs:///models"}, "registry is 'gs:///models'"),
        ({"registry": "gs:/bucket/models"}, "registry is 'gs:/bucket/models'"),
        ({"checkpoint_dir": "s3://b/c"}, "checkpoint_dir is 's3://b/c'"),
    ],
)
def test_value_out_of_range_is_refused(values, named):
    with pytest.raises(UserError, match=named):
        validate(values)


def test_test_set_has_the_settings_of_the_fine_tuning_data_but_for_its_place():
    values = DEFAULTS | {
        "test_dataset": "osie",
        "test_source": "s",
        "finetune_image_size": "32x40",
        "base_image_size": "8x8",
        "allow_partial_data": True,
        "max_examples": 3,
        "test_share": 0.5,
        "finetune_source": "f",
    }
    expected = FetchConfig("osie", "s", "32x40", allow_partial_data=True, max_examples=3, test_share=0.5)
    assert FetchConfig(**data_settings("test", values)) == expected
    assert {FetchConfig(**data_settings(name, values)).test_share for name in DATA} == {0.5}


def test_images_labelled_test_of_ones_own_recordings_are_a_test_set_of_the_same_source():
    values = {
        "finetune_dataset": "custom",
        "finetune_source": "lab",
        "test_dataset": "custom",
        "test_source": "lab/",
    }
    for split in ("folders", "column"):
        validate({**values, "split": split})
    for split in ("auto", "shuffle"):
        with pytest.raises(UserError, match=r"the data of fine-tuning; .* split=column"):
            validate({**values, "split": split})


def test_test_set_is_needed_if_it_has_a_name():
    sources = {"base_source": "b", "finetune_source": "f"}
    assert list(needed_datasets(sources)) == ["base", "finetune"]
    named = {**sources, "test_dataset": "osie", "test_source": "t"}
    assert needed_datasets(named)["test"] == "Test set"
    require_sources(named)
    with pytest.raises(UserError, match="http is fetched only with private_sources"):
        require_sources({**named, "test_source": "http://localhost/a.zip"})
    with pytest.raises(UserError, match="custom is not public; set finetune_source"):
        require_sources({"finetune_dataset": "custom"})
