"""The first task of a run. It settles the settings, and asks for all that the run reads and writes.

It finds all mistakes at once, before anything is fetched or trained.
"""

import contextlib
import dataclasses
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from lifecycle.machines import AcceleratorConfig, Target, TrainingPlan
from lifecycle.registry import (
    Address,
    PipelineConfig,
    check_shared,
    digest_of_inputs,
    open_registry,
    resolve_base_model,
    version_made_of,
)
from lifecycle.runs.needs import Image, PlannedRun, State, ask_all
from lifecycle.runs.parameters import CONSOLE_FIELDS, DATA, DEFAULTS, FINETUNE, PARAMETERS, Values
from lifecycle.runs.settled import settle
from lifecycle.vertex import TIMEOUT_S, Api, parent_of, reported_errors, service_client
from trainer.data import FetchConfig, HeldOutConfig
from trainer.errors import Checks, NotFoundError, PlaceError, UserError, check
from trainer.evaluation import EvaluateConfig
from trainer.machine import has_own_users
from trainer.places import stored_at
from trainer.settings import Value
from trainer.training import TrainConfig

MODEL_CONFIGS = (FetchConfig, HeldOutConfig, TrainConfig, EvaluateConfig, AcceleratorConfig)
"""Settings that a model depends on."""
SOURCE_FIELDS = ("source", "test_source")
"""Fields of MODEL_CONFIGS that say where data is. A model depends on the content of data, not on its address."""


class CheckedRun(NamedTuple):
    """The outputs of the first task, `components/check_run.py`, for the other tasks.

    kfp takes strings, numbers and dicts. The settings of a training are one dict, because a task has no input for
    each of them.
    """

    Output: str
    """`digest_of_run`. Empty if the registry already has the model of this run.

    kfp.local resolves an output in a condition (`dsl.If`) only if it has this name.
    """
    registry: str
    checkpoint_dir: str
    data: dict[str, Any]
    """`RunSettings.shared_data`."""
    data_gate: dict[str, Any]
    base_training: dict[str, Any]
    """`TrainingSettings.by_name` of base training. Empty if there is none."""
    finetune_training: dict[str, Any]
    evaluation: dict[str, Any]
    """Settings of the evaluation, by their names in `EvaluateConfig`."""
    evaluate_base: bool
    base_model: str
    """Path or address of the model to fine-tune. Empty if the run trains one."""
    base_model_digest: str
    base_version: str
    """Version of the base model, such as `msinet@3`. Empty if `base_model_uri` names no version or alias."""
    weights_digest: str
    """Digest of the initial weights of base training. Empty if they are not a file."""
    base_digest: str
    """Digest of the source of the base data. Empty if the run does not need them."""
    finetune_digest: str
    test_digest: str
    endpoint: str
    traffic: int


def check_run(
    arguments: Mapping[str, Any], compiled: Mapping[str, Any], target: Target, run: str = ""
) -> CheckedRun:
    """Check everything that can be checked before data is fetched, and return what the other tasks need.

    Args:
        arguments: The arguments of the compiled pipeline, as `Values.form` makes them.
        compiled: Parameters that the pipeline was compiled with, from the environment.
        target: The platform of the run.
        run: Id of the run.

    Raises:
        UserError: `MistakesError` has a line for each mistake:

            - Parameters are wrong.
            - The registry or the folder of checkpoints cannot be written.
            - A source, the base model, the initial weights, an image or the endpoint is not there.
    """
    template, passed = Values.converted(compiled), Values.of_form(arguments)
    defaults = {**DEFAULTS, **template}
    values = Values({**defaults, **passed})
    # People fill in some fields. A console sends all fields of its form, and submit sends the fields that differ.
    typed = [name for name in passed if name not in CONSOLE_FIELDS or passed[name] != defaults[name]]
    # A recipe sets what submit sets back from the template's value to the default.
    reset = {name for name in passed if passed[name] == DEFAULTS[name] != defaults[name]}
    given = {name: value for name, value in {**template, **passed}.items() if name not in reset}
    checks = Checks()
    with checks.collect():
        settings = settle(values, target.platform, target.location, given, typed)
    with checks.collect():
        check_writable(str(values["checkpoint_dir"]))
    if target.platform != "local":
        with checks.collect():
            check_shared(str(values["registry"]), str(values["model_name"]), str(values["endpoint"]))
    data_digests = _find_data(values, checks)
    start = _Start()
    with checks.collect():
        start = _find_start(values)
    if checks.passed and target.platform == "kubeflow":
        _say_who_is_root(settings.plans)
    if checks.passed and target.platform == "vertex":
        _check_images(PlannedRun(target.image_pattern, settings.plans, values), checks)
    checks.raise_errors()
    pipeline, trainings = settings.pipeline, settings.trainings
    if pipeline.experiment and target.platform == "vertex":
        # The context of the run is in its own region, which need not be the registry's.
        region = dataclasses.replace(Address.at(pipeline.registry), location=target.location)
        _join_experiment(region, pipeline.experiment, run)
    for name, title in DATA.items():
        print(f"{title}: {'found' if data_digests[name] else 'not needed'}")
    # An alias may name another version later. `version_made_of` compares the versions.
    named = pipeline.base_model_uri if start.base_version else start.base_model_digest
    digest = digest_of_run(values, *data_digests.values(), named, start.weights_digest)
    return CheckedRun(
        Output="" if pipeline.skip_unchanged and _is_unchanged(digest, start.base_version, pipeline) else digest,
        registry=pipeline.registry,
        checkpoint_dir=pipeline.checkpoint_dir,
        data=settings.shared_data,
        data_gate=dataclasses.asdict(settings.data_gate),
        base_training=trainings["base"].by_name() if "base" in trainings else {},
        finetune_training=trainings[FINETUNE].by_name(),
        evaluation=dataclasses.asdict(settings.evaluation),
        evaluate_base=pipeline.evaluate_base,
        **start._asdict(),
        **{f"{name}_digest": digest for name, digest in data_digests.items()},
        endpoint=pipeline.endpoint,
        traffic=pipeline.traffic,
    )


def check_writable(checkpoint_dir: str) -> None:
    """Raise `UserError` if checkpoints could not be saved.

    An empty `checkpoint_dir` means a folder beside the output of a training.
    """
    if not checkpoint_dir:
        return
    try:
        stored_at(checkpoint_dir).check_writable()
    except UserError as error:
        raise PlaceError(f"checkpoint_dir is {checkpoint_dir!r}, where nothing can be written: {error}") from None


def _find_data(values: Values, checks: Checks) -> dict[str, str]:
    """The digest of the source of each dataset of DATA. Empty for a dataset that the run does not need."""
    from trainer.data import fingerprint_data  # loads NumPy

    digests = dict.fromkeys(DATA, "")
    for name, title in values.datasets.items():
        with checks.collect(title.lower()):
            config = values.data(name)
            digests[name] = fingerprint_data(config.dataset, config.source, config.private_sources)
    return digests


class _Start(NamedTuple):
    """What the first training starts from. The fields are as in `CheckedRun`."""

    base_model: str = ""
    base_model_digest: str = ""
    base_version: str = ""
    weights_digest: str = ""


def _find_start(values: Mapping[str, Value]) -> _Start:
    """The base model, or the digest of the initial weights. Raises `UserError` if they are not there."""
    from trainer.models import WeightSource  # loads NumPy

    if uri := str(values["base_model_uri"]):
        base_model, version = resolve_base_model(uri, str(values["registry"]))
        return _Start(base_model, WeightSource(base_model).fingerprint(), version)
    return _Start(weights_digest=WeightSource(str(values["initial_weights"])).fingerprint())


def _say_who_is_root(plans: Mapping[str, TrainingPlan]) -> None:
    """Print a note if root in this pod is nobody to its node and a training is on a TPU.

    The cluster gives all pods of tasks the same setting, and a policy may give the pods with TPUs another one.
    This pod cannot ask for the policy, so this is no error.
    """
    names = sorted({plan.accelerator.name for plan in plans.values() if plan.accelerator.image == "tpu"})
    if names and has_own_users():
        print(
            f"note: root in this pod is nobody to its node (hostUsers is false). Trainings on {', '.join(names)} "
            "start only if you have applied docs/kubernetes/tpu-locked-memory.yaml, which sets hostUsers to true "
            "for pods with TPUs"
        )


def _check_images(run: PlannedRun, checks: Checks) -> None:
    """Collect an error for each image that Artifact Registry does not have. Any other answer is printed."""
    registry = str(run.values["registry"])
    address = Address.found(registry)
    if address is None:
        return
    try:
        api = Api(address)
    except UserError as error:
        print(f"images: {error}")
        return
    for finding in ask_all([need for need in run.needs if isinstance(need, Image)], api):
        if finding.state == State.UNKNOWN:
            print(finding.text)
        with checks.collect():
            remedy = "Build it with `make images`, or choose another accelerator, or another ?serving= of registry"
            check(finding.state != State.MISSING, f"{finding.text}. {remedy}", NotFoundError)


def _join_experiment(region: Address, experiment: str, run: str) -> None:
    """Make a run of Vertex AI part of an experiment. It is created if there is none of this name.

    Run and experiment are contexts of Vertex ML Metadata, as
    `aiplatform.PipelineJob.submit(experiment=...)` makes them.
    """
    from google.api_core.exceptions import Conflict
    from google.cloud.aiplatform_v1 import MetadataServiceClient

    store = f"{parent_of(region)}/metadataStores/default"
    context = {
        "display_name": experiment,
        "schema_title": "system.Experiment",
        "schema_version": "0.0.1",
        "metadata": {"experiment_deleted": False},
    }
    with reported_errors(f"experiment {experiment!r}"):
        service = service_client(MetadataServiceClient, region)
        request = {"parent": store, "context_id": experiment, "context": context}
        with contextlib.suppress(Conflict):
            service.create_context(request, timeout=TIMEOUT_S)
        children = [f"{store}/contexts/{run}"]
        service.add_context_children(
            context=f"{store}/contexts/{experiment}", child_contexts=children, timeout=TIMEOUT_S
        )


def digest_of_run(values: Mapping[str, Value], *digests: str) -> str:
    """The digest of all that a model is made of: its settings, and the digests of its data and of its start.

    Example: another `seed` makes another digest, another address of the same data does not.
    """
    made_of = {
        name: values[name]
        for name, parameter in PARAMETERS.items()
        if parameter.config in MODEL_CONFIGS and parameter.field not in SOURCE_FIELDS
    }
    return digest_of_inputs(json.dumps(made_of, sort_keys=True), *digests)


def _is_unchanged(digest: str, base_version: str, pipeline: PipelineConfig) -> bool:
    """Whether the registry has the model of a run with this digest and start, and knows the decision about it."""
    version = version_made_of(digest, base_version, open_registry(pipeline.registry), pipeline.model_name)
    if version:
        print(f"unchanged: version {version.number} of {pipeline.model_name} already is this model")
    return version is not None
