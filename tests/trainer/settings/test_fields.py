"""Every setting is held to the range beside its default."""

import dataclasses
import math

import pytest

from lifecycle.machines.settings import AcceleratorConfig, JobConfig
from lifecycle.registry.settings import PipelineConfig
from studio.browser_settings import PageConfig
from tests.refusals import refused
from trainer.data.settings import FetchConfig
from trainer.errors import SettingError
from trainer.evaluation.settings import EvaluateConfig
from trainer.prediction.settings import PredictConfig
from trainer.training.recipes import RECIPES, Recipe
from trainer.training.settings import TrainConfig

CONFIGS = (
    *(FetchConfig, TrainConfig, EvaluateConfig, PredictConfig, PageConfig),
    *(AcceleratorConfig, JobConfig, PipelineConfig),
)


def outside(field):
    """Values out of the range of a field, at its bounds."""
    limits, kind = field.metadata["range"], field.type
    near = {"gt": 0, "ge": -1, "lt": 0, "le": 1}
    yield from (kind(limits[name] + step) for name, step in near.items() if name in limits)
    if near.keys() & limits.keys() and kind is float:
        yield from (math.nan, math.inf)
    if limits.keys() & {"choices", "pattern"}:
        yield "\n"


LIMITED = [
    (config, field.name) for config in CONFIGS for field in dataclasses.fields(config) if any(outside(field))
]


@pytest.mark.parametrize(("config", "name"), LIMITED)
def test_value_out_of_its_range_is_refused_with_name_value_and_range(config, name):
    (field,) = (field for field in dataclasses.fields(config) if field.name == name)
    for value in outside(field):
        shown = f"{value:g}" if isinstance(value, float) else ascii(value)
        with refused(SettingError, f"{name} is {shown}"):
            config(**{name: value})


# === Recipes ===

STEPS = {False: "base", True: "finetune"}


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("fine_tuning", STEPS)
def test_settings_of_a_recipe_are_taken_once(name, fine_tuning):
    given = RECIPES[name].settings(fine_tuning)
    config = TrainConfig(recipe=name).with_recipe(fine_tuning)
    assert config == TrainConfig(recipe=name, **given)
    assert config.with_recipe(fine_tuning) == config


def test_setting_that_a_recipe_sets_too_is_refused_with_both_values():
    with refused(SettingError, "epochs=99 patience=2", "epochs=3"):
        dataclasses.replace(TrainConfig(recipe="few"), epochs=99, patience=2).with_recipe(False)


def test_default_value_that_was_given_is_refused_as_any_other():
    config = TrainConfig(recipe="few", epochs=TrainConfig.epochs)
    assert config.with_recipe(False).epochs == 3
    with refused(SettingError, "epochs", "recipe=few"):
        config.with_recipe(False, given=["recipe", "epochs"])
    assert dataclasses.replace(config, epochs=3).with_recipe(False, given=["epochs"]).epochs == 3


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setitem(RECIPES, "few", Recipe("few", {"epochs": 3, "patience": 1}))


@pytest.mark.parametrize(
    ("config", "name", "value"),
    [
        (TrainConfig, "seed", 2**32),
        (TrainConfig, "profile_steps", f"1-{'9' * 5000}"),
        (FetchConfig, "screen_size", f"{'9' * 5000}x1"),
        (FetchConfig, "image_on_screen", f"0,{'9' * 5000}"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_number_that_is_too_large_for_what_reads_it_is_out_of_range(config, name, value):
    with refused(SettingError, name):
        config(**{name: value})
