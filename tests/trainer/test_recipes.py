"""Recipes are sets of valid settings; a setting of one cannot be given as well."""

import dataclasses

import pytest

from trainer import recipes
from trainer.config import TrainConfig, with_recipe
from trainer.errors import UserError

STEPS = {False: "base", True: "finetune"}


def test_paper_is_the_defaults():
    assert TrainConfig().recipe == recipes.PAPER
    for fine_tuning in STEPS:
        assert with_recipe(TrainConfig(), fine_tuning) == TrainConfig()


@pytest.mark.parametrize("name", recipes.RECIPES)
@pytest.mark.parametrize("fine_tuning", STEPS)
def test_settings_of_a_recipe_are_taken_once(name, fine_tuning):
    given = recipes.RECIPES[name].settings(fine_tuning)
    config = with_recipe(TrainConfig(recipe=name), fine_tuning)
    assert config == TrainConfig(recipe=name, **given)
    assert with_recipe(config, fine_tuning) == config


@pytest.mark.parametrize("name", recipes.RECIPES)
def test_recipe_sets_nothing_to_what_it_is_without_it(name):
    defaults = dataclasses.asdict(TrainConfig())
    for fine_tuning in STEPS:
        for setting, value in recipes.RECIPES[name].settings(fine_tuning).items():
            assert value != defaults[setting]


def test_setting_that_a_recipe_sets_too_is_refused_with_both_values():
    for name in (recipes.BEST, recipes.SMALL):
        epochs = recipes.RECIPES[name].finetune["epochs"]
        message = rf"^epochs is given twice: epochs=99, and recipe={name} sets epochs={epochs}; leave out one, or"
        with pytest.raises(UserError, match=message) as raised:
            with_recipe(TrainConfig(recipe=name, epochs=99), True)
        for setting in recipes.RECIPES[name].finetune:
            assert f"{setting}=" in str(raised.value)
    with pytest.raises(UserError, match=r"^epochs and patience are given twice"):
        with_recipe(dataclasses.replace(TrainConfig(recipe="few"), epochs=99, patience=2), False)


def test_default_value_that_was_given_is_refused_as_any_other():
    config = TrainConfig(recipe="few", epochs=TrainConfig.epochs)
    assert with_recipe(config, False).epochs == 3
    with pytest.raises(
        UserError, match=rf"^epochs is given twice: epochs={TrainConfig.epochs}, and recipe=few sets"
    ):
        with_recipe(config, False, given=["recipe", "epochs"])
    assert with_recipe(dataclasses.replace(config, epochs=3), False, given=["epochs"]).epochs == 3


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setitem(recipes.RECIPES, "few", recipes.Recipe("few", {"epochs": 3, "patience": 1}))


def test_help_lists_every_setting_of_every_recipe():
    text = recipes.described()
    for name in (recipes.PAPER, recipes.BEST, recipes.SMALL):
        recipe = recipes.RECIPES[name]
        assert f"{name}: {recipe.summary}" in text
        for settings in (recipe.base, recipe.finetune):
            assert recipes.listed(settings) in text
    assert recipes.listed({"a": True, "b": 1e-5, "c": 3, "d": "x"}) == "a=true b=1e-05 c=3 d=x"
