"""The pipeline's parameters, made from the settings so that no default and no description is repeated.

A setting that differs between the two training steps becomes two parameters, `base_NAME` and `finetune_NAME`;
`step_NAME` too, which overrides the setting `NAME` of both.
Any other setting becomes one parameter of the same name.
"""

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any, ClassVar

from pipeline.plan import AcceleratorConfig, check_platform
from pipeline.registry.address import FORM, VERTEX, Address, check_registry
from pipeline.training_job import JobConfig
from trainer import datasets
from trainer.artifacts import MODEL_NAME, REGISTRY
from trainer.cli import boolean
from trainer.config import (
    CUSTOM,
    NO_FILE,
    PRETRAINED,
    SAMPLE,
    DataGateConfig,
    EvaluateConfig,
    FetchConfig,
    HeldOutConfig,
    TrainConfig,
    check_ranges,
    check_recordings_used,
    group_of,
    setting,
    with_recipe,
)
from trainer.errors import UserError, check, nearest

Value = bool | int | float | str

FINETUNE = "finetune"
STEPS = {"base": "Base training", FINETUNE: "Fine-tuning"}
TEST = "test"
DATA = {**STEPS, TEST: "Test set"}
"""The prepared datasets of a run: those of the training steps and the test set -> their titles."""
PER_STEP = (
    *("dataset", "source", "image_size", "epochs", "batch_size", "learning_rate"),
    *("step_accelerator", "workers"),
)
"""Settings that differ between the two training steps."""
FINETUNE_DATASET = "fixationadd1000"
KEYWORDS = {
    **{f"{name}_source": ("", SAMPLE) for name in DATA},
    "base_model_uri": ("", PRETRAINED),
    "initial_weights": (*NO_FILE, PRETRAINED),
}
"""Parameters that name an input -> their values that are neither a path nor an address."""
TYPE_NAMES = {bool: "true or false", int: "an integer", float: "a number", str: "a string"}


@dataclasses.dataclass(frozen=True)
class PipelineConfig:
    """Settings of the pipeline as a whole."""

    TITLE: ClassVar[str] = "model, registry and checkpoints"
    model_name: str = setting(
        MODEL_NAME,
        "Name of the model in the registry.",
        pattern="[A-Za-z0-9_-]*[A-Za-z0-9][A-Za-z0-9_-]*",
        form="a name of letters, digits, - and _, since it names a folder",
    )
    registry: str = setting(
        "",
        "Model registry: a folder, gs://BUCKET/FOLDER, or vertex://PROJECT/LOCATION?serving=IMAGE; empty for "
        "`models` in the working directory.",
    )
    endpoint: str = setting(
        "",
        "Name or ID of an endpoint of Vertex AI, in the project and location of a vertex:// registry, to which a "
        "version that becomes the default is deployed once it answers as in its evaluation; empty for none.",
    )
    traffic: int = setting(
        10,
        "Percent of the requests to the endpoint that a new default answers until `python -m pipeline registry "
        "promote` gives it all; it gets all at once if nothing else answers there.",
        ge=1,
        le=100,
    )
    checkpoint_dir: str = setting(
        "",
        "Folder or gs:// address for the checkpoints of the training steps; empty for a folder next to the output "
        "of each step, except on Kubeflow, whose pods keep nothing.",
    )

    skip_unchanged: bool = setting(
        False,
        "End at once, without training, if the default or the challenger already is the model that this run would "
        "make: of the same data, settings, code and start.",
    )
    evaluate_base: bool = setting(False, "Also evaluate on the validation split of the base dataset.")
    base_model_uri: str = setting(
        "",
        "Model to fine-tune instead of training a base model: pretrained (the trained model that comes with this "
        "package, and with its images), author:salicon (that of MSI-Net's author), the path or gs:// address of "
        "a model, or of weights that `python -m trainer import-weights` accepts. msinet@default is the default "
        "version of the registry, msinet@3 its version 3. The base data is then needed only for evaluate_base. "
        "Empty trains a base model.",
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        check_registry(self.registry)
        check(
            not self.endpoint or self.registry.startswith(VERTEX),
            f"endpoint is {self.endpoint!r}, but registry is {self.registry or REGISTRY!r}, which has none; set "
            f"registry to {FORM}, or leave out endpoint",
        )
        check(
            "://" not in self.checkpoint_dir or self.checkpoint_dir.startswith("gs://"),
            f"checkpoint_dir is {self.checkpoint_dir!r}; give a folder or a gs:// address",
        )


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


def _parameter_name(field: str, step: str) -> str:
    """The name of the parameter that sets a field of the settings of a training step."""
    return f"{step}_{field.removeprefix('step_')}" if field in PER_STEP else field


def _from_config(config: type, step: str = "") -> list[Parameter]:
    parameters = []
    for field in dataclasses.fields(config):
        if (field.name in PER_STEP) != bool(step):
            continue
        name = _parameter_name(field.name, step)
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


def settings_of(config: type, step: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `config` for `step` whose parameters are in `values`, which has parameter names as keys."""
    return {
        parameter.field: values[parameter.name]
        for parameter in PARAMETERS.values()
        if parameter.config is config and parameter.step in ("", step) and parameter.name in values
    }


def data_settings(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `FetchConfig` for the data of a training step, or for the test set.

    The settings of the test set are those of the fine-tuning data, such as the image size, but for its place.
    """
    if name != TEST:
        return settings_of(FetchConfig, name, values)
    place = settings_of(HeldOutConfig, "", values)
    renamed = {field.removeprefix(f"{TEST}_"): value for field, value in place.items()}
    return {**settings_of(FetchConfig, "finetune", values), **renamed}


def convert(name: str, value: object) -> Value:
    """Convert `value`, a string or a value from a TOML file, to the type of parameter `name`.

    Raises `UserError` for an unknown name, with the nearest known one, and for a value of the wrong type.
    """
    if name not in PARAMETERS:
        suggestion = nearest(name, PARAMETERS)
        raise UserError(f"unknown parameter {name!r}{suggestion} (`python -m pipeline run --help` lists them)")
    kind = PARAMETERS[name].kind
    try:
        return _as_type(value, kind)
    except ValueError:
        raise UserError(f"{name} is {value!r}; it must be {TYPE_NAMES[kind]} ({kind.__name__})") from None


def _as_type(value: object, kind: type) -> Value:
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        assert isinstance(value, Value)
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str):
        raise ValueError
    if kind is bool:
        return boolean(value)
    return float(value) if kind is float else int(value)


def refuse_replaced(given: Mapping[str, Value]) -> None:
    """Raise `UserError` for a setting of base training that a person gives beside the model that replaces it.

    Settings of the base data stay: `evaluate_base` and the import of the model use them.
    """
    uri = given.get("base_model_uri")
    lost = [
        name for name in given if PARAMETERS[name].step == "base" and PARAMETERS[name].config is not FetchConfig
    ]
    check(
        not uri or not lost,
        f"{' and '.join(lost)} would have no effect: base_model_uri={uri} replaces base training; leave out one",
    )


def validate(values: Mapping[str, Value], platform: str = "", given: Mapping[str, Value] | None = None) -> None:
    """Raise `UserError` unless `values`, with parameter names as keys, are valid settings.

    If `platform` (vertex, kubeflow or local) is not empty, it must support them. `given` are those that people
    gave, if they are not all: none of them may contradict the recipe, not even with its default value.
    """
    for step, title in STEPS.items():
        try:
            datasets.get(FetchConfig(**_with_defaults(FetchConfig, step, values)).dataset)
            training = with_recipe(
                TrainConfig(**_with_defaults(TrainConfig, step, values)),
                fine_tuning=step == FINETUNE,
                named=lambda field, step=step: _parameter_name(field, step),  # type: ignore[misc]
                given=settings_of(TrainConfig, step, values if given is None else given),
            )
            machines = AcceleratorConfig(**_with_defaults(AcceleratorConfig, step, values))
            if platform:
                check_platform(platform, machines, training)
        except UserError as error:
            raise UserError(f"{title.lower()}: {error}") from None
    for config in (EvaluateConfig, DataGateConfig, PipelineConfig, JobConfig):
        config(**_with_defaults(config, "", values))
    _validate_test_set({**DEFAULTS, **values})
    steps = [*STEPS, *([TEST] if values.get("test_dataset") else [])]
    check_recordings_used([FetchConfig(**data_settings(step, {**DEFAULTS, **values})) for step in steps])
    registry = str(values.get("registry", ""))
    if platform and registry.startswith(VERTEX):
        Address.at(registry).check_serving()


def _validate_test_set(values: Mapping[str, Value]) -> None:
    """Raise `UserError` unless there is a test set if the gate needs one, and it is not what is trained on."""
    held_out = HeldOutConfig(**settings_of(HeldOutConfig, "", values))
    if not held_out.test_dataset:
        check(
            values["gate_on"] != TEST,
            "gate_on is test, but test_dataset is empty; set test_dataset, or set gate_on to finetune",
        )
        return
    try:
        datasets.get(held_out.test_dataset)
        FetchConfig(**data_settings(TEST, values))
    except UserError as error:
        raise UserError(f"test set: {error}") from None
    # Images of your own recordings may be labelled test, in the same source.
    is_labelled = held_out.test_dataset == CUSTOM and values["split"] in ("folders", "column")
    if values["test_share"] or is_labelled:
        return
    place = held_out.test_dataset, held_out.test_source.rstrip("/")
    for step, title in steps_of(values).items():
        check(
            place != (values[f"{step}_dataset"], str(values[f"{step}_source"]).rstrip("/")),
            f"test_dataset and test_source are those of {title.lower()}, so nothing would be only tested on; set "
            "test_share, such as 0.5, to keep a part of its validation images apart (images that recordings of "
            "your own label test need split=folders or split=column), or name other data, or none",
        )


def steps_of(values: Mapping[str, Value]) -> dict[str, str]:
    """The training steps of a run with these parameters -> their titles."""
    return {step: title for step, title in STEPS.items() if step != "base" or not values.get("base_model_uri")}


def fetched_steps(values: Mapping[str, Value]) -> dict[str, str]:
    """The datasets that a run with these parameters needs, of DATA -> their titles."""
    steps = STEPS if _with_defaults(PipelineConfig, "", values)["evaluate_base"] else steps_of(values)
    return {**steps, **({TEST: DATA[TEST]} if values.get("test_dataset") else {})}


def require_sources(values: Mapping[str, Value]) -> None:
    """Raise `UserError` unless every dataset that the run needs has a source, which may be fetched."""
    # Here, so that settings can be read without any package.
    from trainer.downloads.servers import checked_addresses

    for step in fetched_steps(values):
        config = FetchConfig(**data_settings(step, {**DEFAULTS, **values}))
        check(
            bool(config.source or datasets.get(config.dataset).archives),
            f"{config.dataset} has no public place; set {step}_source to a folder, an archive or an address",
        )
        checked_addresses(config.source, config.private_sources)


def _with_defaults(config: type, step: str, values: Mapping[str, Value]) -> dict[str, Any]:
    return settings_of(config, step, {**DEFAULTS, **values})


def signature(defaults: Mapping[str, Value]) -> inspect.Signature:
    """The signature of the pipeline function; `defaults`, by parameter name, override those of the settings."""
    by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature(
        [
            inspect.Parameter(name, by_name, default=defaults.get(name, entry.default), annotation=entry.kind)
            for name, entry in PARAMETERS.items()
        ]
    )


def docstring(summary: str) -> str:
    """The docstring of the pipeline function, from which KFP reads the description of each parameter."""
    lines = [f"    {name}: {entry.help}" for name, entry in PARAMETERS.items()]
    return "\n".join([summary, "", "Args:", *lines])
