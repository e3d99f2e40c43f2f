"""The pipeline's parameters, made from the settings so that no default and no description is repeated.

A setting that differs between the two training steps, such as `epochs`, becomes two parameters: `base_epochs` and
`finetune_epochs`. Any other setting becomes one parameter of the same name.

A field `step_X` of a settings class is the per-step form of the shared field `X`: it becomes `base_X` and
`finetune_X`, and wins over `X` if it is not empty.
"""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from lifecycle.machines.settings import AcceleratorConfig, JobConfig
from lifecycle.registry.settings import DataGateConfig, PipelineConfig
from trainer.data.settings import SAMPLE, FetchConfig, HeldOutConfig
from trainer.errors import Checks, UserError, check, nearest
from trainer.evaluation.settings import EvaluateConfig
from trainer.models import author
from trainer.models.model_names import NO_FILE, PRETRAINED
from trainer.settings.fields import Value, as_type, brief_value, group_of
from trainer.training.settings import TrainConfig

FINETUNE = "finetune"
STEPS = {"base": "Base training", FINETUNE: "Fine-tuning"}
TEST = "test"
DATA = {**STEPS, TEST: "Test set"}
"""The prepared datasets of a run: those of the training steps and the test set -> their titles."""
PER_STEP = (
    "dataset",
    "source",
    "image_size",
    "epochs",
    "batch_size",
    "learning_rate",
    "step_accelerator",
    "workers",
)
"""Settings that differ between the two training steps."""
FINETUNE_DATASET = "fixationadd1000"
CONSOLE_FIELDS = (
    "accelerator",
    "provisioning",
    "base_dataset",
    "base_source",
    "base_image_size",
    "base_batch_size",
    "base_model_uri",
    "finetune_dataset",
    "finetune_source",
    "finetune_image_size",
    "finetune_batch_size",
    "test_dataset",
    "test_source",
    "test_share",
    "gate",
    "gate_on",
    "model_name",
    "recipe",
    "seed",
)
"""Parameters with a field of their own in the compiled pipeline, so that a console's form stays short."""
SETTINGS = "settings"
"""The field of the compiled pipeline for all other parameters, as an object."""
RENAMED = {"schedule": "learning_rate_schedule"}
"""Setting -> its name as a parameter, where the setting's own means something else: here the schedule of runs."""
KEYWORDS = {
    **{f"{name}_source": ("", SAMPLE) for name in DATA},
    "base_model_uri": ("", PRETRAINED),
    "initial_weights": (*NO_FILE, PRETRAINED),
}
"""Parameters that name an input -> their values that are neither a path nor an address."""


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One parameter of the pipeline and the setting that it sets."""

    name: str
    kind: type
    default: Value
    help: str
    config: type
    field: str
    step: str
    """`base` or `finetune`; empty if both steps share it."""
    group: str
    """Title under which helps show it."""


def parameter_name(field: str, step: str) -> str:
    """The name of the parameter that sets a field of the settings of a training step."""
    name = RENAMED.get(field, field)
    return f"{step}_{name.removeprefix('step_')}" if field in PER_STEP else name


def _from_config(config: type, step: str = "") -> list[Parameter]:
    parameters = []
    for field in dataclasses.fields(config):
        if (field.name in PER_STEP) != bool(step):
            continue
        name = parameter_name(field.name, step)
        default: Any = FINETUNE_DATASET if name == "finetune_dataset" else field.default
        description = f"{STEPS[step]}: {field.metadata['help']}" if step else field.metadata["help"]
        group = f"pipeline parameters: {STEPS[step].lower() if step else group_of(config, field)}"
        assert isinstance(field.type, type)
        parameters.append(Parameter(name, field.type, default, description, config, field.name, step, group))
    return parameters


STEP_CONFIGS = (FetchConfig, TrainConfig, AcceleratorConfig)
SHARED_CONFIGS = (
    HeldOutConfig,
    TrainConfig,
    EvaluateConfig,
    DataGateConfig,
    PipelineConfig,
    FetchConfig,
    AcceleratorConfig,
    JobConfig,
)

PARAMETERS: dict[str, Parameter] = {
    parameter.name: parameter
    for parameters in (
        *(_from_config(config, step) for step in STEPS for config in STEP_CONFIGS),
        *(_from_config(config) for config in SHARED_CONFIGS),
    )
    for parameter in parameters
}
DEFAULTS = {name: parameter.default for name, parameter in PARAMETERS.items()}


def convert_value(name: str, value: object) -> Value:
    """Convert `value`, a string or a value from TOML or JSON, to the type of parameter `name`.

    Raises `UserError` for an unknown name, with the nearest known one, and for a value of the wrong type.
    """
    check(
        name != SETTINGS,
        f'{SETTINGS} is {brief_value(value)}; write an object of parameters, such as {{"finetune_epochs": 5}}, '
        "or on a command line finetune_epochs=5",
    )
    if name not in PARAMETERS:
        suggestion = nearest(str(name), PARAMETERS)
        raise UserError(f"unknown parameter {name!r}{suggestion} (`python -m pipeline run --help` lists them)")
    return as_type(name, value, PARAMETERS[name].kind)


def converted(values: Mapping[str, object]) -> dict[str, Value]:
    """Parameters, each converted to its type; raises `UserError` with all mistakes."""
    checks, result = Checks(), {}
    for name, value in values.items():
        with checks.collect():
            result[name] = convert_value(name, value)
    checks.raise_errors()
    return result


def form_of(values: Mapping[str, Value]) -> dict[str, Any]:
    """The arguments of the compiled pipeline for parameters: the fields of its form, and SETTINGS if necessary."""
    fields: dict[str, Any] = {name: value for name, value in values.items() if name in CONSOLE_FIELDS}
    others = {name: value for name, value in values.items() if name not in CONSOLE_FIELDS}
    return fields | ({SETTINGS: others} if others else {})


def without_settings(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a pipeline with the keys of SETTINGS beside its fields; one that is no object stays."""
    fields = {name: value for name, value in arguments.items() if name != SETTINGS}
    settings = arguments.get(SETTINGS) or {}
    return {**fields, **(settings if isinstance(settings, Mapping) else {SETTINGS: settings})}


def values_of(arguments: Mapping[str, Any]) -> dict[str, Value]:
    """The parameters of the arguments that `form_of` returns.

    Raises `UserError` for a setting that is unknown, of the wrong type, or a field of the form, and for settings
    that are no object.
    """
    values = converted(without_settings(arguments))
    for name in arguments.get(SETTINGS) or ():
        check(name not in CONSOLE_FIELDS, f"{SETTINGS} has {name}, which is a field of its own; fill in that")
    return values


def without_effect(values: Mapping[str, Value]) -> set[str]:
    """The parameters that have no effect in a run with these, because `base_model_uri` replaces base training.

    The base data are used all the same with `evaluate_base`. Weights of others do not say for which size of images
    they are, nor, unless they are `author:NAME`, for which dataset: `base_image_size` and `base_dataset` do.
    """
    uri = str(values.get("base_model_uri", ""))
    if not uri:
        return set()
    base = {name for name, parameter in PARAMETERS.items() if parameter.step == "base"}
    if values.get("evaluate_base"):
        base -= {name for name in base if PARAMETERS[name].config is FetchConfig}
    if uri != PRETRAINED and "@" not in uri:
        base -= {"base_image_size"} if author.is_named(uri) else {"base_image_size", "base_dataset"}
    return {*base, "initial_weights"}


def effective(values: Mapping[str, Value]) -> dict[str, Value]:
    """The parameters that have an effect: all but those of `without_effect`."""
    lost = without_effect(values)
    return {name: value for name, value in values.items() if name not in lost}


def refuse_without_effect(typed: Collection[str], values: Mapping[str, Value]) -> None:
    """Raise `UserError` if a parameter that a person gave, named in `typed`, has no effect beside `values`."""
    lost = sorted(without_effect(values).intersection(typed))
    check(
        not lost,
        f"{' and '.join(lost)} would have no effect: base_model_uri={values.get('base_model_uri')} replaces base "
        "training; empty base_model_uri to train a base model, or leave "
        f"{'it as it was' if len(lost) == 1 else 'them as they were'}",
    )


def steps_of(values: Mapping[str, Value]) -> dict[str, str]:
    """The training steps of a run with these parameters -> their titles."""
    return {step: title for step, title in STEPS.items() if step != "base" or not values.get("base_model_uri")}


def needed_datasets(values: Mapping[str, Value]) -> dict[str, str]:
    """The datasets that a run with these parameters needs, of DATA -> their titles."""
    steps = STEPS if {**DEFAULTS, **values}["evaluate_base"] else steps_of(values)
    return {**steps, **({TEST: DATA[TEST]} if values.get("test_dataset") else {})}
