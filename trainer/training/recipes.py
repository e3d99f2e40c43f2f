"""Recipes: names for sets of training settings."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from trainer.settings import settings_text

PAPER, BEST, SMALL = "paper", "best", "small"


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Settings of `TrainConfig` by name, such as `{"epochs": 3}`. All others keep their values."""

    summary: str
    base: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Settings of a training that starts from an encoder, or from nothing."""
    finetune: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Settings of a training that starts from a model."""

    def settings(self, fine_tuning: bool) -> Mapping[str, Any]:
        """The settings of a fine-tuning or of a base training."""
        return self.finetune if fine_tuning else self.base


_BEST_BASE = {
    "epochs": 6,
    "learning_rate": 2e-5,
    "learning_rate_scaling": "sqrt",
    "warmup_epochs": 0.5,
    "schedule": "cosine",
    "flip": True,
}
RECIPES = {
    PAPER: Recipe("the defaults, those of Kroner et al. 2020"),
    BEST: Recipe(
        "mirrored images and a falling learning rate, for hundreds of images",
        base=_BEST_BASE,
        finetune={
            "epochs": 3,
            "learning_rate": 6e-5,
            "learning_rate_scaling": "sqrt",
            "warmup_epochs": 0.3,
            "schedule": "cosine",
            "flip": True,
        },
    ),
    SMALL: Recipe(
        "for fine-tuning on a few hundred images of your own",
        base=_BEST_BASE,
        finetune={
            "epochs": 5,
            "learning_rate": 3e-5,
            "learning_rate_scaling": "sqrt",
            "warmup_epochs": 0.3,
            "schedule": "cosine",
            "patience": 2,
            "flip": True,
        },
    ),
}


def described_recipes() -> str:
    """Describe all recipes and their settings for a help text."""
    return ". ".join(f"{name}: {recipe.summary}{_steps(recipe)}" for name, recipe in RECIPES.items())


def _steps(recipe: Recipe) -> str:
    steps = {"base training": recipe.base, "fine-tuning": recipe.finetune}
    parts = [f"{step} with {settings_text(settings)}" for step, settings in steps.items() if settings]
    return f" ({', '.join(parts)})" if parts else ""
