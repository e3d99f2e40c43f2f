"""The settings of a run, made once of its parameters: recipes, accelerators and precisions are settled here.

`submit`, a local run and the first task of any run call `settle`. It finds all mistakes at once, needs no network
and takes no time. The first task hands its result on, and nobody applies a recipe afterwards.

Two things are settled later:

- `lifecycle.machines.training_job.fit_to_data` settles what only the data can tell, such as the batch.
- `trainer.training.train.Job.resolve` settles what only the devices can tell.
"""

import dataclasses
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from lifecycle.machines import (
    AcceleratorConfig,
    DataSize,
    JobConfig,
    TrainingPlan,
    TrainingSettings,
    check_outside_pod,
    make_plan,
)
from lifecycle.registry import REGISTERED_NAME, Address, DataGateConfig, PipelineConfig
from lifecycle.runs.parameters import (
    FINETUNE,
    KEYWORDS,
    PER_STEP,
    STEPS,
    TEST,
    Values,
    parameter_name,
)
from trainer.data import FetchConfig, HeldOutConfig
from trainer.datasets import Dataset, Origin
from trainer.errors import Checks, SettingError, UserError, check
from trainer.evaluation import EvaluateConfig
from trainer.models import AUTHOR_WEIGHTS, CHALLENGER, DEFAULT
from trainer.places import source_places, stored_at
from trainer.settings import Value
from trainer.texts import nearest
from trainer.training import TrainConfig


@dataclasses.dataclass(frozen=True)
class RunSettings:
    """The settings of each part of a run."""

    data: Mapping[str, FetchConfig]
    """The datasets that the run needs, by `base`, `finetune` and `test`."""
    trainings: Mapping[str, TrainingSettings]
    """The training steps, by `base` and `finetune`. There is no base training if a model takes its place."""
    data_gate: DataGateConfig
    evaluation: EvaluateConfig
    pipeline: PipelineConfig
    plans: Mapping[str, TrainingPlan] = dataclasses.field(default_factory=dict)
    """The plan of each training step, for its dataset in the table of datasets. A local run has none."""

    @property
    def shared_data(self) -> dict[str, Any]:
        """The settings that all datasets share, by their names in `FetchConfig`. Example: `max_examples`."""
        (any_data, *_) = self.data.values()
        return {name: value for name, value in vars(any_data).items() if name not in PER_STEP}


def settle(
    values: Mapping[str, Value],
    platform: str,
    location: str = "",
    given: Mapping[str, Value] | None = None,
    typed: Collection[str] = (),
) -> RunSettings:
    """Return the settings of a run on `platform` with these parameters.

    Args:
        values: All parameters, by name. One that is missing has its default.
        platform: vertex, kubeflow or local.
        location: Region of Vertex AI that must offer the accelerators. Any region if empty.
        given: Parameters that people gave, if they did not give all of `values`. None may contradict the recipe,
            not even with its default value.
        typed: Names of the parameters that a person gave for this run. Each must have an effect.

    Raises:
        UserError: The run could not have these parameters. `MistakesError` has a line for each mistake:

            - A parameter is wrong.
            - A dataset has no source. Example: `custom` without `finetune_source`.
            - Machines cannot reach an address. Example: a folder of yours, on Vertex AI.
            - A training does not fit its machines, or exceeds `timeout_hours`.
    """
    checks = Checks()
    with checks.collect():
        settings = validate_values(values, platform, given, typed)
    with checks.collect():
        require_sources(Values(values))
    with checks.collect():
        _check_addresses(platform, Values(values).complete)
    if checks.passed and platform != "local":
        with checks.collect():
            settings = _on_machines(settings, platform, location)
    checks.raise_errors()
    return settings


def validate_values(
    values: Mapping[str, Value],
    platform: str = "",
    given: Mapping[str, Value] | None = None,
    typed: Collection[str] = (),
) -> RunSettings:
    """Return the settings as far as they depend on no place and no machine. Arguments are as for `settle`.

    Raises `UserError` for wrong values, and for values that `platform` does not support. An empty `platform`
    supports all.
    """
    given = values if given is None else given
    values = Values(values).complete
    checks = Checks()
    with checks.collect():
        values.refuse_without_effect(typed)
    trained = values.steps
    machines: dict[str, AcceleratorConfig] = {}
    trainings: dict[str, TrainConfig] = {}
    for step, title in STEPS.items():
        with checks.collect(title.lower()):
            Dataset.named(values.data(step).dataset)
        with checks.collect(title.lower()):
            machines[step] = values.config(AcceleratorConfig, step)
        with checks.collect(title.lower()):
            trainings[step] = values.config(TrainConfig, step)
        if step not in trained or step not in machines or step not in trainings:
            continue
        with checks.collect(title.lower()):
            trainings[step] = trainings[step].with_recipe(
                fine_tuning=step == FINETUNE,
                named=partial(parameter_name, step=step),
                given=Values(given).fields(TrainConfig, step),
            )
            if platform:
                machines[step].check_platform(platform, trainings[step])
    shared: dict[type, Any] = {}
    for config in (EvaluateConfig, DataGateConfig, PipelineConfig, JobConfig):
        with checks.collect():
            shared[config] = values.config(config, "")
    with checks.collect():
        _validate_test_set(values)
    if checks.passed:
        steps = [*STEPS, *([TEST] if values["test_dataset"] else [])]
        with checks.collect():
            FetchConfig.check_recordings([values.data(step) for step in steps])
    registry = str(values["registry"])
    if platform:
        with checks.collect():
            if address := Address.found(registry):
                address.check_serving()
    checks.raise_errors()
    return RunSettings(
        data={name: values.data(name) for name in values.datasets},
        trainings={step: TrainingSettings(trainings[step], machines[step], shared[JobConfig]) for step in trained},
        data_gate=shared[DataGateConfig],
        evaluation=shared[EvaluateConfig],
        pipeline=shared[PipelineConfig],
    )


def _validate_test_set(values: Values) -> None:
    """Raise `UserError` if the gate needs a test set that is missing, or if the test set is data of a training."""
    held_out = values.config(HeldOutConfig, "")
    if not held_out.test_dataset:
        check(
            values["gate_on"] != TEST,
            "gate_on is test, but test_dataset is empty. Set test_dataset, or set gate_on to finetune",
            SettingError,
        )
        return
    try:
        Dataset.named(held_out.test_dataset)
        values.data(TEST)
    except UserError as error:
        raise error.within("test set") from None
    # Images of your own recordings may be labelled test, in the same source.
    is_labelled = held_out.is_own and values["split"] in ("folders", "column")
    if values["test_share"] or is_labelled:
        return
    tested_on = held_out.test_dataset, held_out.test_source.rstrip("/")
    for step, title in values.steps.items():
        check(
            tested_on != (values[f"{step}_dataset"], str(values[f"{step}_source"]).rstrip("/")),
            f"the test set is the data of {title.lower()}. Set test_share, such as 0.5, to hold out a part of its "
            "validation images (or, if your own recordings label images test, split=folders or split=column), "
            "choose other data, or leave test_dataset and test_source empty",
            SettingError,
        )


def require_sources(values: Values) -> None:
    """Raise `UserError` unless every dataset that the run needs has a source that may be fetched."""
    for name in values.datasets:
        config = values.data(name)
        check(
            bool(config.source or Dataset.named(config.dataset).archives),
            f"{config.dataset} is not public. Set {name}_source to a folder, an archive or an address",
            SettingError,
        )
        Origin.check(config.places, config.private_sources)


def _check_addresses(platform: str, values: Values) -> None:
    """Raise `UserError` for an address that the machines of the run cannot read from or write to."""
    checks = Checks()
    registry, checkpoint_dir = str(values["registry"]), str(values["checkpoint_dir"])
    if platform == "kubeflow":
        for name, address in (("registry", registry), ("checkpoint_dir", checkpoint_dir)):
            with checks.collect():
                check_outside_pod(name, address)
    if platform == "vertex":
        unused = values.without_effect
        named = {name: words for name, words in KEYWORDS.items() if name not in unused}
        for name, words in {**named, "checkpoint_dir": ("",)}.items():
            value = str(values[name])
            is_named = name == "base_model_uri" and REGISTERED_NAME.fullmatch(value) is not None
            if is_named or value in words or stored_at(value).is_shared:
                continue
            known = [word for word in words if word]
            if name in ("base_model_uri", "initial_weights"):
                known += AUTHOR_WEIGHTS
            if name == "base_model_uri":
                known += [f"{values['model_name']}@{alias}" for alias in (DEFAULT, CHALLENGER)]
            with checks.collect():
                check(
                    value in known or (name.endswith("_source") and source_places(value)[0].is_shared),
                    f"{name} is {value!r}, which machines on Vertex AI cannot access. Use a gs:// "
                    f"address{nearest(value, known)}",
                    SettingError,
                )
        with checks.collect():
            check(
                Address.found(registry) is not None or stored_at(registry).is_shared,
                f"registry is {registry!r}, a folder that machines on Vertex AI do not share. Use "
                f"{Address.SYNTAX}",
                SettingError,
            )
    checks.raise_errors()


def _on_machines(settings: RunSettings, platform: str, location: str) -> RunSettings:
    """The settings with the accelerator and the precision of each training, and its plan.

    Raises `UserError` if a training does not fit its machines or exceeds `timeout_hours`. With
    `allow_partial_data` or `max_examples`, the plan is for the complete dataset, and its time is not checked.
    """
    trainings, plans = {}, {}
    checks = Checks()
    for step, each in settings.trainings.items():
        data = settings.data[step]
        with checks.collect(STEPS[step].lower()):
            plan = make_plan(each.machines, each.training, DataSize.of(data), location=location, platform=platform)
            if platform == "vertex" and not (data.max_examples or data.allow_partial_data):
                plan.timeout(each.job.timeout_hours)
            # The batch depends on the number of images, which nobody has counted yet.
            training = dataclasses.replace(each.training, precision=plan.training.precision)
            trainings[step], plans[step] = TrainingSettings(training, plan.machines, each.job), plan
    checks.raise_errors()
    return dataclasses.replace(settings, trainings=trainings, plans=plans)
