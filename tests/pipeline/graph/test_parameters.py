import dataclasses

import pytest

from pipeline.graph.parameters import (
    DATA,
    DEFAULTS,
    KEYWORDS,
    PARAMETERS,
    PER_STEP,
    STEPS,
    PipelineConfig,
    convert,
    data_settings,
    fetched_steps,
    require_sources,
    validate,
)
from pipeline.plan.settings import AcceleratorConfig, JobConfig
from trainer.config import EvaluateConfig, FetchConfig, HeldOutConfig, TrainConfig
from trainer.errors import UserError

CONFIGS = (FetchConfig, HeldOutConfig, TrainConfig, EvaluateConfig, PipelineConfig, AcceleratorConfig, JobConfig)


@pytest.mark.parametrize("config", CONFIGS)
def test_every_setting_is_a_parameter_with_its_default_type_and_description(config):
    for field in dataclasses.fields(config):
        own_name = field.name.removeprefix("step_")
        names = [f"{step}_{own_name}" for step in STEPS] if field.name in PER_STEP else [field.name]
        for name in names:
            parameter = PARAMETERS[name]
            assert parameter.kind is field.type
            assert field.metadata["help"] in parameter.help
            if name != "finetune_dataset":
                assert parameter.default == field.default


def test_there_is_no_parameter_without_a_setting():
    fields = {field.name for config in CONFIGS for field in dataclasses.fields(config)}
    assert {parameter.field for parameter in PARAMETERS.values()} == fields


@pytest.mark.parametrize("name", ["base_dataset", "finetune_dataset", "test_dataset"])
def test_recordings_of_ones_own_may_be_any_dataset_of_a_run(name):
    validate({name: "custom", "blur_px": 3.0})


def test_defaults_are_valid():
    validate({})
    validate({name: parameter.default for name, parameter in PARAMETERS.items()})


def test_keywords_are_the_defaults_of_parameters():
    for name, words in KEYWORDS.items():
        assert PARAMETERS[name].default in words
    validate({"checkpoint_dir": "gs://bucket/state"})


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("base_epochs", "3", 3),
        ("base_epochs", 3, 3),
        ("base_learning_rate", "1e-4", 1e-4),
        ("gate_margin", 1, 1.0),
        ("evaluate_base", "True", True),
        ("evaluate_base", False, False),
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
        ("base_epochs", "3.5", "int"),
        ("base_epochs", 3.0, "int"),
        ("base_epochs", True, "int"),
        ("gate_margin", "much", "float"),
        ("gate_margin", True, "float"),
        ("evaluate_base", "maybe", "bool"),
        ("evaluate_base", 1, "bool"),
        ("gate", 3, "str"),
    ],
)
def test_value_of_another_type_is_refused_with_the_expected_one(name, value, kind):
    with pytest.raises(UserError, match=rf"{name} is {value!r}; it must be .*\({kind}\)"):
        convert(name, value)


def test_unknown_parameter_is_refused_with_the_nearest_one():
    with pytest.raises(UserError, match=r"unknown parameter 'base_epoch'; did you mean 'base_epochs'\?"):
        convert("base_epoch", 3)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"base_dataset": "salicn"}, "base training: unknown dataset 'salicn'; did you mean 'salicon'"),
        ({"finetune_image_size": "100x100"}, "fine-tuning: image_size is 100x100.*divisible by 8.*96x96"),
        ({"base_batch_size": -1}, "base training: batch_size is -1; it must be at least 0"),
        ({"finetune_learning_rate": -1.0}, "fine-tuning: learning_rate is -1; it must be above 0"),
        ({"gate": "klt"}, "gate is 'klt'.*did you mean 'kld'"),
        ({"gate_on": "test"}, "gate_on is test, but test_dataset is empty; set test_dataset, or set gate_on to"),
        (
            {"test_source": "gs://b/osie"},
            "test_source is 'gs://b/osie', but test_dataset is empty; name the dataset",
        ),
        ({"test_dataset": "osei"}, "test set: unknown dataset 'osei'; did you mean 'osie'"),
        (
            {"test_dataset": "fixationadd1000"},
            "test_dataset and test_source are those of fine-tuning, so nothing would be only tested on; set test",
        ),
        (
            {"test_dataset": "salicon", "test_source": "gs://b/salicon/", "base_source": "gs://b/salicon"},
            "test_dataset and test_source are those of base training",
        ),
        ({"training_labels": "team=Vision Lab"}, "training_labels has 'team=Vision Lab'"),
        ({"columns": "x=a"}, "^columns is 'x=a'; name both x and y"),
        ({"recipe": "smal"}, "^recipe is 'smal'.*did you mean 'small'"),
        ({"blur_px": 3.0}, "blur_px describes recordings of your own .* but the dataset is salicon; leave it out"),
        ({"model_name": "../mine"}, "model_name is '../mine'"),
        (
            {"registry": "s3://bucket/models"},
            "registry is 's3://bucket/models'; give a folder, gs://BUCKET/FOLDER, or",
        ),
        (
            {"registry": "gs:///models"},
            "registry is 'gs:///models'; write it as gs://BUCKET or gs://BUCKET/FOLDER",
        ),
        ({"checkpoint_dir": "s3://b/c"}, "checkpoint_dir is 's3://b/c'; give a folder or a gs:// address"),
    ],
)
def test_value_out_of_range_is_refused(values, message):
    with pytest.raises(UserError, match=message):
        validate(values)


def test_variable_of_make_says_what_to_write_instead():
    with pytest.raises(UserError, match=r"ENV belongs to `make`.* here, write --env NAME"):
        convert("ENV", "prod")


def test_test_set_has_the_settings_of_the_fine_tuning_data_but_for_its_place():
    values = {name: entry.default for name, entry in PARAMETERS.items()}
    values |= {
        "test_dataset": "osie",
        "test_source": "s",
        "finetune_image_size": "32x40",
        "base_image_size": "8x8",
    }
    values |= {"allow_partial_data": True, "max_examples": 3, "finetune_source": "f"}
    expected = FetchConfig("osie", "s", "32x40", allow_partial_data=True, max_examples=3)
    assert FetchConfig(**data_settings("test", values)) == expected


def test_a_share_of_the_data_that_is_trained_on_is_a_test_set_and_left_out_everywhere():
    values = DEFAULTS | {"test_dataset": "fixationadd1000", "test_share": 0.5}
    validate(values)
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
        with pytest.raises(UserError, match=r"are those of fine-tuning, .* or split=folders or split=column if"):
            validate({**values, "split": split})


def test_test_set_is_needed_if_it_has_a_name():
    sources = {"base_source": "b", "finetune_source": "f"}
    assert list(fetched_steps(sources)) == ["base", "finetune"]
    named = {**sources, "test_dataset": "osie", "test_source": "t"}
    assert fetched_steps(named)["test"] == "Test set"
    require_sources(named)
    # The base model was trained elsewhere, so its data may be tested on.
    published = {"base_model_uri": "m", "base_source": "b", "test_dataset": "salicon", "test_source": "b"}
    validate({**published, "gate_on": "test"})
    with pytest.raises(UserError, match="http is fetched only with private_sources"):
        require_sources({**named, "test_source": "http://localhost/a.zip"})
