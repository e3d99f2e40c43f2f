"""The parameters of a run. They are made from the settings, so that no default and no help text is repeated.

A setting that differs between the two training steps becomes two parameters. Example: `epochs` becomes
`base_epochs` and `finetune_epochs`. Any other setting becomes one parameter of the same name: `gate` is `gate`.

A field `step_X` of a settings class belongs to the shared field `X`. It becomes `base_X` and `finetune_X`. They
win over `X` if they are not empty. Example: `base_accelerator=l4 accelerator=h100` trains the base model on an L4.
"""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, Self, TypeVar

from lifecycle.machines import AcceleratorConfig, JobConfig
from lifecycle.registry import DataGateConfig, PipelineConfig
from trainer.data import SAMPLE, FetchConfig, HeldOutConfig
from trainer.errors import Checks, SettingError, UnknownNameError, check
from trainer.evaluation import EvaluateConfig
from trainer.models import NO_FILE, PRETRAINED, is_author_weights
from trainer.settings import Value, as_type, brief_value, group_of
from trainer.texts import nearest
from trainer.training import TrainConfig

Config = TypeVar("Config")
FINETUNE = "finetune"
STEPS = {"base": "Base training", FINETUNE: "Fine-tuning"}
TEST = "test"
DATA = {**STEPS, TEST: "Test set"}
"""The prepared datasets of a run -> their titles."""
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
"""Parameters with a field of their own in the compiled pipeline. They are few: a console's form stays short."""
SETTINGS = "settings"
"""The field of the compiled pipeline for all other parameters, as an object."""
RENAMED = {"schedule": "learning_rate_schedule"}
"""Setting -> its name as a parameter, where the setting's own name means something else.

A parameter `schedule` would be taken for the schedule of runs.
"""
KEYWORDS = {
    **{f"{name}_source": ("", SAMPLE) for name in DATA},
    "base_model_uri": ("", PRETRAINED),
    "initial_weights": (*NO_FILE, PRETRAINED),
}
"""Parameters that name an input -> their values that are neither a path nor an address.

Example: `base_source=sample` is no folder.
"""


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
    """`base` or `finetune`. Empty if both steps share it."""
    group: str
    """Title under which helps show it."""

    def convert(self, value: object) -> Value:
        """Convert `value`, a string or a value from TOML or JSON, to the type of this parameter.

        Raises `UserError` for a value of another type.
        Example: `base_epochs` converts "3" and 3.0 to 3, and refuses 3.5.
        """
        return as_type(self.name, value, self.kind)

    def name_for(self, step: str) -> str:
        """The name of the same setting in another step. Example: of `base_epochs`, `finetune_epochs`."""
        return parameter_name(self.field, step)


def parameter_name(field: str, step: str) -> str:
    """The name of the parameter that sets a field in a training step.

    >>> parameter_name("step_accelerator", "base"), parameter_name("gate", "base")
    ('base_accelerator', 'gate')
    """
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


class Values(dict[str, Value]):
    """Parameters of a run by name, with their values. A parameter that is missing has its default.

    Example: `Values({"base_model_uri": "pretrained"}).steps` has the fine-tuning alone.
    """

    @classmethod
    def converted(cls, values: Mapping[str, object]) -> Self:
        """Parameters, each converted to its type.

        Raises `UserError` with all mistakes: an unknown name, with the nearest known one, or a value of the wrong
        type.
        """
        checks, result = Checks(), cls()
        for name, value in values.items():
            with checks.collect():
                result[name] = _definition(name, value).convert(value)
        checks.raise_errors()
        return result

    @classmethod
    def of_form(cls, arguments: Mapping[str, Any]) -> Self:
        """The parameters in the arguments of the compiled pipeline, as `form` makes them.

        Raises `UserError` if SETTINGS is no object, or if one of its keys

        - is unknown,
        - has a value of the wrong type,
        - is a field of the form.
        """
        values = cls.converted(cls.flattened(arguments))
        for name in arguments.get(SETTINGS) or ():
            check(
                name not in CONSOLE_FIELDS,
                f"{SETTINGS} has {name}, which is a field of its own. Fill in that",
                SettingError,
            )
        return values

    @staticmethod
    def flattened(arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a pipeline, with the keys of SETTINGS beside the fields. What is no object stays.

        Example: `{"gate": "cc", "settings": {"finetune_epochs": 5}}` becomes
        `{"gate": "cc", "finetune_epochs": 5}`.
        """
        fields = {name: value for name, value in arguments.items() if name != SETTINGS}
        settings = arguments.get(SETTINGS) or {}
        return {**fields, **(settings if isinstance(settings, Mapping) else {SETTINGS: settings})}

    @property
    def form(self) -> dict[str, Any]:
        """The arguments of the compiled pipeline: the fields of its form, and SETTINGS if necessary.

        Example: `gate` is a field, but `finetune_epochs` is not, so `{"gate": "cc", "finetune_epochs": 5}` becomes
        `{"gate": "cc", "settings": {"finetune_epochs": 5}}`.
        """
        fields: dict[str, Any] = {name: value for name, value in self.items() if name in CONSOLE_FIELDS}
        others = {name: value for name, value in self.items() if name not in CONSOLE_FIELDS}
        return fields | ({SETTINGS: others} if others else {})

    @property
    def complete(self) -> Self:
        """All parameters: these, and the defaults of the others."""
        return type(self)({**DEFAULTS, **self})

    @property
    def steps(self) -> dict[str, str]:
        """The training steps of the run -> their titles. A base model that is named is not trained."""
        return {step: title for step, title in STEPS.items() if step != "base" or not self.get("base_model_uri")}

    @property
    def datasets(self) -> dict[str, str]:
        """The datasets that the run needs -> their titles.

        Keys are `base`, `finetune` and `test`. `evaluate_base` needs the base data even without base training.
        """
        steps = STEPS if self.complete["evaluate_base"] else self.steps
        return {**steps, **({TEST: DATA[TEST]} if self.get("test_dataset") else {})}

    @property
    def without_effect(self) -> set[str]:
        """The parameters that have no effect, because `base_model_uri` replaces base training.

        Two kinds of `base` parameters have an effect all the same:

        - With `evaluate_base`, the base data are used.
        - Weights of others do not say for which size of images they are. So `base_image_size` says it. Unless they
          are `author:NAME`, they do not say for which dataset they are either, and `base_dataset` does.
        """
        uri = str(self.get("base_model_uri", ""))
        if not uri:
            return set()
        base = {name for name, parameter in PARAMETERS.items() if parameter.step == "base"}
        if self.get("evaluate_base"):
            base -= {name for name in base if PARAMETERS[name].config is FetchConfig}
        if uri != PRETRAINED and "@" not in uri:
            base -= {"base_image_size"} if is_author_weights(uri) else {"base_image_size", "base_dataset"}
        return {*base, "initial_weights"}

    @property
    def effective(self) -> Self:
        """The parameters that have an effect: all but `without_effect`."""
        lost = self.without_effect
        return type(self)({name: value for name, value in self.items() if name not in lost})

    def refuse_without_effect(self, typed: Collection[str]) -> None:
        """Raise `UserError` if a parameter in `typed`, the names that a person gave, has no effect."""
        lost = sorted(self.without_effect.intersection(typed))
        check(
            not lost,
            f"{' and '.join(lost)} would have no effect: base_model_uri={self.get('base_model_uri')} replaces "
            "base training. Empty base_model_uri to train a base model, or leave "
            f"{'it as it was' if len(lost) == 1 else 'them as they were'}",
            SettingError,
        )

    def fields(self, config: type, step: str) -> dict[str, Any]:
        """The fields of `config` for a training step that these parameters set.

        Example: of `base_epochs=3`, `fields(TrainConfig, "base")` makes `{"epochs": 3}`.
        """
        return {
            parameter.field: self[parameter.name]
            for parameter in PARAMETERS.values()
            if parameter.config is config and parameter.step in ("", step) and parameter.name in self
        }

    def config(self, config: type[Config], step: str) -> Config:
        """The settings `config` of a training step. A setting without a value here has its default."""
        return config(**self.complete.fields(config, step))

    def data(self, name: str) -> FetchConfig:
        """The settings of a dataset: of a training step, or of the test set (`test`).

        The test set has its own dataset and source. It has the other settings of the fine-tuning data, such
        as the image size.
        """
        if name != TEST:
            return self.config(FetchConfig, name)
        tested = self.config(HeldOutConfig, "")
        tuned = self.complete.fields(FetchConfig, FINETUNE)
        return FetchConfig(**tuned | {"dataset": tested.test_dataset, "source": tested.test_source})


def _definition(name: str, value: object) -> Parameter:
    """The parameter `name`. Raises `UserError` for an unknown one, with the nearest known one."""
    check(
        name != SETTINGS,
        f'{SETTINGS} is {brief_value(value)}. Write an object of parameters, such as {{"finetune_epochs": 5}}, '
        "or on a command line finetune_epochs=5",
        SettingError,
    )
    if name not in PARAMETERS:
        suggestion = nearest(str(name), PARAMETERS)
        raise UnknownNameError(
            f"unknown parameter {name!r}{suggestion} (`python -m pipeline run --help-all` lists them)"
        )
    return PARAMETERS[name]
