"""Recipes are sets of valid settings; a setting of one cannot be given as well."""

import dataclasses

import pytest

from trainer import recipes
from trainer.config import TrainConfig, with_recipe
from trainer.errors import UserError

STEPS = {False: "base", True: "finetune"}


@pytest.mark.parametrize("name", recipes.RECIPES)
@pytest.mark.parametrize("fine_tuning", STEPS)
def test_settings_of_a_recipe_are_taken_once(name, fine_tuning):
    given = recipes.RECIPES[name].settings(fine_tuning)
    config = with_recipe(TrainConfig(recipe=name), fine_tuning)
    assert config == TrainConfig(recipe=name, **given)
    assert with_recipe(config, fine_tuning) == config


def test_setting_that_a_recipe_sets_too_is_refused_with_both_values():
    with pytest.raises(UserError, match=r"epochs and patience are given twice: epochs=99 patience=2.*epochs=3"):
        with_recipe(dataclasses.replace(TrainConfig(recipe="few"), epochs=99, patience=2), False)


def test_default_value_that_was_given_is_refused_as_any_other():
    config = TrainConfig(recipe="few", epochs=TrainConfig.epochs)
    assert with_recipe(config, False).epochs == 3
    with pytest.raises(UserError, match="epochs is given twice"):
        with_recipe(config, False, given=["recipe", "epochs"])
    assert with_recipe(dataclasses.replace(config, epochs=3), False, given=["epochs"]).epochs == 3


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setitem(recipes.RECIPES, "few", recipes.Recipe("few", {"epochs": 3, "patience": 1}))
