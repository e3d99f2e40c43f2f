"""The settings of a run: which parameters are refused, and what the others settle before any data is seen."""

import dataclasses
import pathlib
import sys
import types

import pytest
import yaml

from lifecycle.runs import parameters, settled
from lifecycle.runs.parameters import (
    CONSOLE_FIELDS,
    DATA,
    DEFAULTS,
    PARAMETERS,
    PER_STEP,
    STEPS,
    Values,
    parameter_name,
)
from lifecycle.runs.settled import require_sources, settle, validate_values
from pipeline.commands.compile import FILES
from pipeline.graph.compiled import Template
from tests.refusals import assert_named, refused
from trainer.data.settings import FetchConfig
from trainer.errors import MistakesError, SettingError, UnknownNameError, UserError
from trainer.training.recipes import RECIPES
from trainer.training.settings import TrainConfig

ROOT = pathlib.Path(__file__).parents[3]
KUBEFLOW = {"registry": "gs://bucket/models", "checkpoint_dir": "gs://bucket/state"}
VERTEX = {
    "registry": "gs://bucket/models",
    **{f"{name}_source": f"gs://bucket/{name}" for name in STEPS},
}


# === What is settled ===


@pytest.mark.parametrize("recipe", RECIPES)
def test_trainings_have_the_values_of_their_recipe(recipe):
    for step, each in settle({"recipe": recipe}, "local").trainings.items():
        values = RECIPES[recipe].settings(fine_tuning=step == "finetune")
        assert each.training == TrainConfig(recipe=recipe, **values)
    assert validate_values({"recipe": recipe}).trainings == settle({"recipe": recipe}, "local").trainings


@pytest.mark.parametrize(
    ("accelerator", "location", "name", "precision"),
    [
        ("v5e-1, l4", "us-central1", "v5e-1", "bfloat16"),
        ("v5e-1, l4", "us-east4", "l4", "bfloat16"),
        ("t4", "us-central1", "t4", "float16"),
        ("cpu", "us-central1", "cpu", "auto"),  # only the machine tells whether it multiplies bfloat16
    ],
)
def test_trainings_have_one_accelerator_and_its_precision(accelerator, location, name, precision):
    values = {**VERTEX, "accelerator": "l4", "base_accelerator": accelerator, "base_batch_size": 0}
    settled = settle(values, "vertex", location)
    base = settled.trainings["base"]
    assert (base.machines.accelerator, base.machines.step_accelerator) == (name, "")
    assert (base.training.precision, base.training.batch_size) == (precision, 0)
    assert settled.plans["base"].accelerator.name == name
    assert settled.trainings["finetune"].machines.accelerator == "l4"
    given = settle({**values, "precision": "float32"}, "vertex", location)
    assert {each.training.precision for each in given.trainings.values()} == {"float32"}


def test_settings_are_those_of_what_the_run_needs():
    tuned = settle({"base_model_uri": "pretrained", "test_dataset": "osie", "max_examples": 5}, "local")
    assert list(tuned.trainings) == ["finetune"]
    assert {name: each.dataset for name, each in tuned.data.items()} == {
        "finetune": "fixationadd1000",
        "test": "osie",
    }
    shared = {parameter.field for parameter in PARAMETERS.values() if parameter.config is FetchConfig}
    assert tuned.shared_data == {name: getattr(FetchConfig(max_examples=5), name) for name in shared - {*PER_STEP}}
    assert list(settle({}, "local").trainings) == list(STEPS)
    assert list(settle({"evaluate_base": True, "base_model_uri": "pretrained"}, "local").data) == list(STEPS)


def test_test_set_has_the_settings_of_the_fine_tuning_data_but_for_its_place():
    values = Values(
        {
            "test_dataset": "osie",
            "test_source": "s",
            "finetune_image_size": "32x40",
            "base_image_size": "8x8",
            "allow_partial_data": True,
            "max_examples": 3,
            "test_share": 0.5,
            "finetune_source": "f",
        }
    )
    expected = FetchConfig("osie", "s", "32x40", allow_partial_data=True, max_examples=3, test_share=0.5)
    assert values.data("test") == expected
    assert {values.data(name).test_share for name in DATA} == {0.5}


FIELDS = {field.name: field for field in dataclasses.fields(TrainConfig)}
SHARED = FIELDS.keys() - {
    *PER_STEP,
    *CONSOLE_FIELDS,
    "initial_weights",
}
"""Settings of both trainings alike, for which a change of PER_STEP is enough."""


def other_value(field):
    """A value of a setting other than its default."""
    if field.type is bool:
        return not field.default
    if field.type in (int, float):
        return field.default + 1
    return next((name for name in field.metadata["range"].get("choices", ()) if name != field.default), "3-5")


@pytest.mark.parametrize("setting", sorted(SHARED))
def test_setting_can_differ_between_both_trainings_by_a_change_of_one_line(setting, monkeypatch):
    source = pathlib.Path(parameters.__file__).read_text()
    assert source.count("PER_STEP = (") == 1
    changed = types.ModuleType(parameters.__name__)
    exec(compile(source.replace("PER_STEP = (", f"PER_STEP = ({setting!r},"), "changed", "exec"), vars(changed))
    shared = parameter_name(setting, "base")
    assert DEFAULTS.keys() - changed.DEFAULTS.keys() == {shared}
    assert changed.DEFAULTS.keys() - DEFAULTS.keys() == {f"base_{shared}", f"finetune_{shared}"}
    monkeypatch.setitem(sys.modules, parameters.__name__, changed)
    again = types.ModuleType(settled.__name__)
    monkeypatch.setitem(sys.modules, settled.__name__, again)
    exec(compile(pathlib.Path(settled.__file__).read_text(), "again", "exec"), vars(again))
    other = other_value(FIELDS[setting])
    trainings = again.validate_values({f"base_{shared}": other}).trainings
    assert trainings["base"].training == TrainConfig(**{setting: other})
    assert trainings["finetune"].training == TrainConfig()


# === What is refused ===


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
    validate_values(values)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"base_dataset": "salicn"}, (UnknownNameError, "base training", "salicn", "salicon")),
        ({"finetune_image_size": "100x100"}, (UserError, "fine-tuning", "image_size", "100x100")),
        ({"gate_on": "test"}, (SettingError, "gate_on", "test", "test_dataset")),
        ({"test_source": "gs://b/osie"}, (UserError, "test_source", "gs://b/osie", "test_dataset")),
        ({"test_dataset": "osei"}, (UnknownNameError, "test set", "osei")),
        ({"test_dataset": "fixationadd1000"}, (SettingError, "test set", "fine-tuning", "test_share")),
        (
            {"test_dataset": "salicon", "test_source": "gs://b/salicon/", "base_source": "gs://b/salicon"},
            (SettingError, "test set", "base training", "test_share"),
        ),
        ({"training_labels": "team=Vision Lab"}, (SettingError, "training_labels", "team=Vision Lab")),
        ({"columns": "x=a"}, (UserError, "columns", "x=a")),
        ({"recipe": "smal"}, (SettingError, "recipe", "smal")),
        ({"blur_px": 3.0}, (UserError, "blur_px", "custom")),
        ({"model_name": "../mine"}, (SettingError, "model_name", "../mine")),
        ({"registry": "s3://bucket/models"}, (SettingError, "registry", "s3://bucket/models")),
        ({"registry": "a\0b"}, (SettingError, "registry", repr("a\0b"))),
        ({"registry": "gs:///models"}, (SettingError, "registry", "gs:///models")),
        ({"registry": "gs:/bucket/models"}, (SettingError, "registry", "gs:/bucket/models")),
        ({"checkpoint_dir": "s3://b/c"}, (SettingError, "checkpoint_dir", "s3://b/c")),
    ],
)
def test_value_out_of_range_is_refused(values, named):
    with refused(*named):
        validate_values(values)


def test_images_labelled_test_of_ones_own_recordings_are_a_test_set_of_the_same_source():
    values = {
        "finetune_dataset": "custom",
        "finetune_source": "lab",
        "test_dataset": "custom",
        "test_source": "lab/",
    }
    for split in ("folders", "column"):
        validate_values({**values, "split": split})
    for split in ("auto", "shuffle"):
        with refused(SettingError, "test set", "fine-tuning", "split=column"):
            validate_values({**values, "split": split})


def test_test_set_is_needed_if_it_has_a_name():
    sources = {"base_source": "b", "finetune_source": "f"}
    assert list(Values(sources).datasets) == ["base", "finetune"]
    named = {**sources, "test_dataset": "osie", "test_source": "t"}
    assert Values(named).datasets["test"] == "Test set"
    require_sources(Values(named))
    with refused(UserError, "http", "private_sources"):
        require_sources(Values({**named, "test_source": "http://localhost/a.zip"}))
    with refused(SettingError, "custom", "finetune_source"):
        require_sources(Values({"finetune_dataset": "custom"}))


@pytest.mark.parametrize("target", ["vertex", "kubeflow"])
def test_run_with_the_defaults_of_a_compiled_pipeline_trains_for_minutes(target):
    (spec, *_) = yaml.safe_load_all((ROOT / FILES[target]).read_text())
    values = Values.converted(Template(spec).values()).complete
    (plan,) = settle(values, target).plans.values()
    assert plan.most_hours < 1
    assert len(settle({**values, "base_model_uri": ""}, target).plans) == 2


KUBEFLOW = {"registry": "gs://bucket/models", "checkpoint_dir": "gs://bucket/state"}


@pytest.mark.parametrize("name", ["registry", "checkpoint_dir"])
@pytest.mark.parametrize("address", ["", "models", "./models", "/gcs/bucket/models", "/minio"])
def test_folder_in_the_pod_is_refused(name, address):
    settle(KUBEFLOW, "kubeflow")
    with refused(SettingError, name, "gs://NAME/FOLDER"):
        settle(KUBEFLOW | {name: address}, "kubeflow")


@pytest.mark.parametrize(
    ("platform", "values", "named"),
    [
        ("local", {"accelerator": "l4"}, ("accelerator", "l4")),
        ("local", {"finetune_accelerator": "cpu,l4"}, ("fine-tuning", "accelerator", "cpu,l4")),
        ("local", {"profile_steps": "10-20"}, ("profile_steps", "10-20", "--logs-dir")),
        ("kubeflow", {"profile_steps": "10-20"}, ("profile_steps", "10-20", "--logs-dir")),
        ("kubeflow", {"accelerator": "l4", "base_workers": 2}, ("base training", "workers", 2, "Kubeflow")),
    ],
)
def test_what_a_platform_does_not_have_is_refused(platform, values, named):
    with refused(SettingError, *named):
        settle({**KUBEFLOW, **values}, platform)


def test_trainings_that_do_not_fit_their_machines_are_named_at_once():
    batches = {"base_accelerator": "v5e-4", "base_batch_size": 10, "finetune_batch_size": 10_000}
    with refused(MistakesError) as caught:
        settle({**VERTEX, "accelerator": "l4", **batches}, "vertex")
    base, tuned = caught.value.lines
    assert_named(base, "base training", "batch_size", 10, 4, "v5e-4")
    assert_named(tuned, "fine-tuning", "batch_size", 10000)
