"""The pipeline's parameters: made from the trainer's settings, so that no default and no description is repeated.

A setting that differs between the two training steps becomes two parameters, `base_NAME` and `finetune_NAME`;
any other becomes one of the same name.
"""

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

from pipeline.plan.fit import check_platform
from pipeline.plan.settings import AcceleratorConfig, JobConfig
from pipeline.registry.address import VERTEX, Address
from trainer import datasets
from trainer.artifacts import MODEL_NAME
from trainer.config import NO_FILE, SAMPLE, EvaluateConfig, FetchConfig, TrainConfig, setting
from trainer.errors import UserError, check, nearest
from trainer.settings_cli import boolean

Value = bool | int | float | str

STEPS = {"base": "Base training", "finetune": "Fine-tuning"}
PER_STEP = (
    *("dataset", "source", "image_size", "epochs", "batch_size", "learning_rate"),
    *("accelerator", "workers"),
)
FINETUNE_DATASET = "fixationadd1000"
WORDS = {
    **{f"{step}_source": ("", SAMPLE) for step in STEPS},
    "base_model_uri": ("",),
    "initial_weights": NO_FILE,
}
"""The parameters that name what is read, and their values that are no path and no address."""
TYPE_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


@dataclasses.dataclass(frozen=True)
class PipelineConfig:
    """What concerns the pipeline as a whole."""

    model_name: str = setting(MODEL_NAME, "Name of the model in the registry.")
    registry: str = setting(
        "",
        "Folder of the model registry, or vertex://PROJECT/LOCATION; empty for `models` in the working directory.",
    )
    checkpoint_dir: str = setting(
        "",
        "Folder, or gs:// address, where the training steps keep their state; empty for a place beside the output "
        "of each step.",
    )

    evaluate_base: bool = setting(False, "Evaluate on the base data set's validation split as well.")
    base_model_uri: str = setting(
        "",
        "Model to fine-tune in place of a base training: a path or gs:// address of published weights, as `python "
        "-m trainer import-weights` takes them, or of a model. A registered name such as msinet@default is looked "
        "up in `models`, whatever `registry` is; one of another registry is named as FOLDER/msinet@default. The "
        "base data is not needed then, unless it is evaluated on. Base training if empty.",
    )

    def __post_init__(self) -> None:
        plain = self.model_name.replace("-", "").replace("_", "")
        check(
            plain.isascii() and plain.isalnum(),
            f"model_name is {self.model_name!r}; use letters, digits, - and _, since it names a folder",
        )
        if self.registry.startswith(VERTEX):
            Address.at(self.registry)  # refuses what is none
        check(
            "://" not in self.registry or self.registry.startswith(VERTEX),
            f"registry is {self.registry!r}; give a folder (a bucket is one below /gcs/ where it is mounted)",
        )
        check(
            "://" not in self.checkpoint_dir or self.checkpoint_dir.startswith("gs://"),
            f"checkpoint_dir is {self.checkpoint_dir!r}; give a folder or a gs:// address",
        )


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One parameter of the pipeline and the setting it fills."""

    name: str
    kind: type
    default: Value
    help: str
    config: type
    field: str
    step: str
    """`base` or `finetune`; empty where both steps share it."""


def _from_config(config: type, step: str = "") -> list[Parameter]:
    parameters = []
    for field in dataclasses.fields(config):
        if (field.name in PER_STEP) != bool(step):
            continue
        name = f"{step}_{field.name}" if step else field.name
        default: Any = FINETUNE_DATASET if name == "finetune_dataset" else field.default
        about = f"{STEPS[step]}: {field.metadata['help']}" if step else field.metadata["help"]
        assert isinstance(field.type, type)
        parameters.append(Parameter(name, field.type, default, about, config, field.name, step))
    return parameters


OF_STEPS = (FetchConfig, TrainConfig, AcceleratorConfig)
SHARED = (TrainConfig, EvaluateConfig, PipelineConfig, FetchConfig, AcceleratorConfig, JobConfig)

PARAMETERS: dict[str, Parameter] = {
    parameter.name: parameter
    for parameters in (
        *(_from_config(config, step) for step in STEPS for config in OF_STEPS),
        *(_from_config(config) for config in SHARED),
    )
    for parameter in parameters
}


def settings_of(config: type, step: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `config` for `step`, taken from `values` by parameter name; those it lacks are left out."""
    return {
        parameter.field: values[parameter.name]
        for parameter in PARAMETERS.values()
        if parameter.config is config and parameter.step in ("", step) and parameter.name in values
    }


def convert(name: str, value: object) -> Value:
    """`value`, a text or what a TOML file holds, as the type of parameter `name`.

    Raises `UserError` for an unknown name, with the nearest known one, and for a value of another type.
    """
    if name not in PARAMETERS:
        known = "`python -m pipeline run --help` lists the parameters"
        raise UserError(f"unknown parameter {name!r}{nearest(name, PARAMETERS)} ({known})")
    wanted = PARAMETERS[name].kind
    try:
        return _as_type(value, wanted)
    except ValueError:
        raise UserError(f"{name} is {value!r}; it must be {TYPE_NAMES[wanted]} ({wanted.__name__})") from None


def _as_type(value: object, wanted: type) -> Value:
    if isinstance(value, wanted) and not (wanted is int and isinstance(value, bool)):
        assert isinstance(value, Value)
        return value
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str):
        raise ValueError
    if wanted is bool:
        return boolean(value)
    return float(value) if wanted is float else int(value)


def validate(values: Mapping[str, Value], platform: str = "") -> None:
    """Raise `UserError` unless the trainer would accept `values`, given by parameter name.

    `platform` (vertex, kubeflow or local), where it is given, must have what they ask for.
    """
    for step, title in STEPS.items():
        try:
            datasets.get(FetchConfig(**_complete(FetchConfig, step, values)).dataset)
            training = TrainConfig(**_complete(TrainConfig, step, values))
            machines = AcceleratorConfig(**_complete(AcceleratorConfig, step, values))
            if platform:
                check_platform(platform, machines, training)
        except UserError as error:
            raise UserError(f"{title.lower()}: {error}") from None
    for config in (EvaluateConfig, PipelineConfig, JobConfig):
        config(**_complete(config, "", values))


def steps_of(values: Mapping[str, Value]) -> dict[str, str]:
    """The training steps that there are with these parameters, with their titles."""
    return {step: title for step, title in STEPS.items() if step != "base" or not values.get("base_model_uri")}


def fetched_steps(values: Mapping[str, Value]) -> dict[str, str]:
    """The steps whose data is needed with these parameters, with their titles."""
    return STEPS if _complete(PipelineConfig, "", values)["evaluate_base"] else steps_of(values)


def require_sources(values: Mapping[str, Value]) -> None:
    """Raise `UserError` unless it is known where all data sets that are needed are."""
    for step in fetched_steps(values):
        wanted = FetchConfig(**_complete(FetchConfig, step, values))
        check(
            bool(wanted.source or datasets.get(wanted.dataset).source),
            f"{wanted.dataset} has no source of its own: give {step}_source: a folder, an archive, a gs:// "
            "address, or `sample` for a set that is drawn on the spot",
        )


def _complete(config: type, step: str, values: Mapping[str, Value]) -> dict[str, Any]:
    defaults = {name: parameter.default for name, parameter in PARAMETERS.items()}
    return settings_of(config, step, {**defaults, **values})


def signature(defaults: Mapping[str, Value]) -> inspect.Signature:
    """The signature of the pipeline function; `defaults`, by parameter name, go before the settings' own."""
    by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature(
        [
            inspect.Parameter(
                each.name, by_name, default=defaults.get(each.name, each.default), annotation=each.kind
            )
            for each in PARAMETERS.values()
        ]
    )


def docstring(summary: str) -> str:
    """The docstring of the pipeline function, from which the consoles take each parameter's description."""
    lines = [f"    {each.name}: {each.help}" for each in PARAMETERS.values()]
    return "\n".join([summary, "", "Args:", *lines])
