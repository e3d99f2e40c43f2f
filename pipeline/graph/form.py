"""The form of the compiled pipeline: its fields, as the consoles of Vertex AI and Kubeflow show them.

A console shows fields in alphabetical order, so their prefixes group them: `base_dataset` is beside `base_source`.
It has neither the commands nor the files of this project, so the texts are for a person who has only the form.
"""

import inspect
from collections.abc import Mapping

from lifecycle.machines import DataSize, TrainingPlan
from lifecycle.runs import CONSOLE_FIELDS, PARAMETERS, SETTINGS, Values
from pipeline.graph.accelerator_table import compare_accelerators
from trainer.datasets import DATASETS
from trainer.metrics import DECIDING, DENSITY, metrics_that_need
from trainer.settings import Value
from trainer.texts import format_duration
from trainer.training import ACCELERATORS, PROVISIONING, RECIPES, TrainConfig

USUAL = ("t4", "l4", "a100", "h100", "v5e-1", "v5e-4", "cpu")
"""The most usual accelerators."""
SIZE = "Input size of the network as height x width in pixels, such as 240x320. Empty for the size of the dataset."
BATCH = "Images in one training step. 0 for the default of the accelerator."
REPLACED = "Leave it as it is unless base_model_uri is empty: otherwise it has no effect, and is refused."
SOURCE = (
    "an archive or folder at gs://, an archive at https://, or the word sample for generated pictures. Empty for "
    "the authors' own download"
)


def descriptions(location: str = "") -> dict[str, str]:
    """The text of each field. An empty `location` means any region.

    The time and cost of accelerators are for this region.
    """
    known = ", ".join(DATASETS)
    return {
        "accelerator": f"Machine of both trainings. {_accelerators(location)}",
        "provisioning": f"{', '.join(PROVISIONING)}: how machines are bought. spot is cheaper, but may be taken "
        "away, and the training then resumes from its last checkpoint. With flex-start, a job waits for capacity.",
        "base_dataset": f"Data of base training, one of {known}. {REPLACED}",
        "base_source": f"Where the data of base training are: {SOURCE}. {REPLACED}",
        "base_image_size": f"Base training. {SIZE} {REPLACED}",
        "base_batch_size": f"Base training. {BATCH} {REPLACED}",
        "base_model_uri": "Model to fine-tune, so that no base model is trained: pretrained (shipped with the "
        "pipeline), author:salicon (of the authors of MSI-Net), msinet@default (the default version of the "
        "registry), or a gs:// address. Empty: a base model is trained first, from the other fields of base.",
        "finetune_dataset": f"Data of the fine-tuning, one of {known}. With custom, recordings of your own.",
        "finetune_source": f"Where the data of the fine-tuning are: {SOURCE}.",
        "finetune_image_size": f"Fine-tuning and test set. {SIZE}",
        "finetune_batch_size": f"Fine-tuning. {BATCH}",
        "test_dataset": f"Data that are only tested on, one of {known}. Empty for none.",
        "test_source": f"Where the data of the test set are: {SOURCE}. Only with test_dataset.",
        "test_share": "Share of the validation images that is kept apart for tests, at least 0, below 1.",
        "gate": f"Metric in which the model must beat the current default to replace it: {', '.join(DECIDING)}. "
        f"All but {', '.join(metrics_that_need(DENSITY))} need fixations. always promotes any model, never none.",
        "gate_on": "Images that decide: finetune (validation images of the fine-tuning) or test (the test set).",
        "model_name": "Name of the model in the registry.",
        "recipe": "Settings of both trainings: "
        f"{'. '.join(f'{name}: {recipe.summary}' for name, recipe in RECIPES.items())}.",
        "seed": "Start of the random numbers. Another one gives another model of the same data.",
        SETTINGS: 'All other parameters as a JSON object, such as {"finetune_epochs": 5}. The documentation lists '
        "them. Usually empty.",
    }


def _accelerators(location: str) -> str:
    """The usual accelerators, cheapest first, with the longest time and the highest price of a fine-tuning.

    It is on 1,000 images. Example: `l4 (8 min, 0.13 USD), t4 (10 min, 0.14 USD)`.
    """
    data = DataSize.of(Values().data("finetune"))
    compared = compare_accelerators({}, TrainConfig(batch_size=0), data, location=location)
    plans = {name: plan for name, plan in compared.items() if isinstance(plan, TrainingPlan)}
    usual = sorted((plans[name] for name in USUAL if name in plans), key=lambda plan: plan.most_cost_usd or 0)
    shown = [
        f"{plan.accelerator.name} ({format_duration(3600 * plan.most_hours)}, {plan.most_cost_usd:.2f} USD)"
        for plan in usual
    ]
    return f"Estimates for 1,000 images, at most: {', '.join(shown)}. All: {', '.join(ACCELERATORS)}."


def signature(defaults: Mapping[str, Value]) -> inspect.Signature:
    """The signature of the pipeline function. `defaults`, by parameter name, override the defaults of settings."""
    by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD
    fields = [
        inspect.Parameter(
            name, by_name, default=defaults.get(name, PARAMETERS[name].default), annotation=PARAMETERS[name].kind
        )
        for name in CONSOLE_FIELDS
    ]
    return inspect.Signature([*fields, inspect.Parameter(SETTINGS, by_name, default={}, annotation=dict)])


def docstring(summary: str, location: str = "") -> str:
    """The docstring of the pipeline function. KFP reads the description of each field from it."""
    lines = [f"    {name}: {text}" for name, text in descriptions(location).items()]
    return "\n".join([summary, "", "Args:", *lines])
