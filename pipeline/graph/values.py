"""Values of a run's parameters: those of its environment, then those that a user passes.

The source `sample` brings the settings of configs/sample.toml: those of real data are for thousands of images. A
recipe replaces the settings that came before it.
"""

from collections.abc import Mapping

from pipeline.graph.environment import CONFIGS, load_environment
from pipeline.graph.parameters import FINETUNE, PARAMETERS, STEPS, Value
from trainer.config import SAMPLE, TrainConfig
from trainer.errors import look_up
from trainer.recipes import PAPER, RECIPES

SAMPLE_FILE = str(CONFIGS / f"{SAMPLE}.toml")
BASE = {name for name, parameter in PARAMETERS.items() if parameter.step == "base"}
"""Parameters of base training."""


def layered(*layers: Mapping[str, Value]) -> dict[str, Value]:
    """The values of all layers; a later layer overrides those before it.

    A layer that chooses the sample dataset as the source of a step also sets the sample's other settings of this
    step, except those that the layer or a recipe sets. A layer that chooses a recipe takes this recipe's settings
    out of earlier layers. Settings of the same layer or a later one stay, and `parameters.validate` refuses those
    that contradict the recipe.

    A layer with parameters of base training asks for one: the `base_model_uri` of earlier layers, with which they
    would have no effect, does not hold.
    """
    values: dict[str, Value] = {}
    for layer in layers:
        of_recipe = _recipe_settings(str({**values, **layer}.get("recipe", PAPER)))
        if "recipe" in layer:
            values = {name: value for name, value in values.items() if name not in of_recipe}
        for step in STEPS:
            source = f"{step}_source"
            if layer.get(source) == SAMPLE != values.get(source):
                values |= {name: value for name, value in sample_settings(step).items() if name not in of_recipe}
        if values.get("base_model_uri") and not BASE.isdisjoint(layer):
            values["base_model_uri"] = ""
        values |= layer
    return values


def _recipe_settings(recipe: str) -> set[str]:
    """Names of the parameters that a recipe sets, of any training step; raises `UserError` if it is unknown."""
    row = look_up("recipe", recipe, RECIPES)
    return {
        name
        for step in STEPS
        for name, parameter in PARAMETERS.items()
        if parameter.config is TrainConfig
        and parameter.step in ("", step)
        and parameter.field in row.settings(fine_tuning=step == FINETUNE)
    }


def sample_settings(step: str) -> dict[str, Value]:
    """The parameters with which `step` trains on the sample dataset; base training has those of both steps too."""
    values = load_environment(SAMPLE_FILE).parameters
    return {name: value for name, value in values.items() if (PARAMETERS[name].step or "base") == step}
