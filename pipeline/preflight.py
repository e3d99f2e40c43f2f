"""What is checked before anything is fetched or trained: by `submit`, a local run, and the first task of any run.

`check_parameters` needs no network and takes no time; `prepare`, in the first task, also asks for all that a run
reads and writes. Both find all mistakes at once.
"""

import contextlib
import json
import secrets
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from pipeline import cloud, parameters
from pipeline.parameters import CONSOLE_FIELDS, DATA, DEFAULTS, FINETUNE, KEYWORDS, Value
from pipeline.plan import AcceleratorConfig, TrainingPlan, check_outside_pod, data_size, make_plan, timeout_of
from pipeline.registry.address import ADDRESS_SYNTAX, VERTEX, Address
from pipeline.registry.register import (
    REGISTERED_NAME,
    check_shared,
    connect,
    digest_of_inputs,
    resolve_base_model,
    version_made_of,
)
from pipeline.training_job import JobConfig, Target
from trainer import storage
from trainer.artifacts import CHALLENGER, DEFAULT
from trainer.config import DataGateConfig, EvaluateConfig, FetchConfig, HeldOutConfig, TrainConfig, with_recipe
from trainer.downloads.servers import addresses_in
from trainer.errors import Checks, UserError, check, nearest
from trainer.models import author
from trainer.storage import PROBE, Folder

MOUNTED = f"{storage.MOUNT}/"
"""Vertex AI mounts buckets below this path."""
REACHABLE = ("gs://", MOUNTED)
"""Prefixes of the locations that machines on Vertex AI can access."""
MODEL_CONFIGS = (FetchConfig, HeldOutConfig, TrainConfig, EvaluateConfig, AcceleratorConfig)
"""Settings that a model depends on."""
SOURCE_FIELDS = ("source", "test_source")
"""Fields of theirs that say where data is: a model depends on the content of data, not on its address."""


def check_parameters(
    values: Mapping[str, Value],
    platform: str,
    location: str = "",
    given: Mapping[str, Value] | None = None,
    typed: Collection[str] = (),
) -> None:
    """Raise `UserError` unless a run on `platform` could have these parameters.

    Args:
        values: All parameters, by name; those that are missing have their defaults.
        platform: vertex, kubeflow or local.
        location: Region of Vertex AI that must offer the accelerators; any if empty.
        given: Parameters that people gave, if they are not all; none of them may contradict the recipe.
        typed: Names of those that a person gave for this run; each must have an effect.
    """
    given = values if given is None else given
    values = {**DEFAULTS, **values}
    checks = Checks()
    with checks.collect():
        parameters.validate(values, platform, given, typed)
    with checks.collect():
        parameters.require_sources(values)
    with checks.collect():
        _check_addresses(platform, values)
    if checks.passed and platform != "local":
        with checks.collect():
            plans(values, platform, location)
    checks.raise_errors()


def plans(values: Mapping[str, Value], platform: str = "vertex", location: str = "") -> dict[str, TrainingPlan]:
    """The plan of each training step, from all parameters and the size of its dataset in the table of datasets.

    Raises `UserError` if a step does not fit its machines or exceeds `timeout_hours`. With `allow_partial_data` or
    `max_examples` a dataset is planned as a complete one, and its time is not checked.
    """
    made = {}
    checks = Checks()
    for step, title in parameters.steps_of(values).items():
        with checks.collect(title.lower()):
            made[step] = _plan(step, values, platform, location)
    checks.raise_errors()
    return made


def _plan(step: str, values: Mapping[str, Value], platform: str, location: str) -> TrainingPlan:
    data = parameters.config_for(FetchConfig, step, values)
    training = with_recipe(parameters.config_for(TrainConfig, step, values), step == FINETUNE)
    machines = parameters.config_for(AcceleratorConfig, step, values)
    made = make_plan(machines, training, data_size(data), location=location, platform=platform)
    if platform == "vertex" and not (data.max_examples or data.allow_partial_data):
        timeout_of(made, parameters.config_for(JobConfig, step, values).timeout_hours)
    return made


def _check_addresses(platform: str, values: Mapping[str, Value]) -> None:
    """Raise `UserError` for an address that the machines of the run cannot read from or write to."""
    checks = Checks()
    registry, checkpoint_dir = str(values["registry"]), str(values["checkpoint_dir"])
    if platform == "kubeflow":
        for name, address in (("registry", registry), ("checkpoint_dir", checkpoint_dir)):
            with checks.collect():
                check_outside_pod(name, address)
    if platform == "vertex":
        unused = parameters.without_effect(values)
        named = {name: words for name, words in KEYWORDS.items() if name not in unused}
        for name, words in {**named, "checkpoint_dir": ("",)}.items():
            value = str(values[name])
            is_named = name == "base_model_uri" and REGISTERED_NAME.fullmatch(value) is not None
            if is_named or value in words or value.startswith(REACHABLE):
                continue
            known = [word for word in words if word]
            if name in ("base_model_uri", "initial_weights"):
                known += author.WEIGHTS
            if name == "base_model_uri":
                known += [f"{values['model_name']}@{alias}" for alias in (DEFAULT, CHALLENGER)]
            with checks.collect():
                check(
                    value in known or (name.endswith("_source") and bool(addresses_in(value))),
                    f"{name} is {value!r}, which machines on Vertex AI cannot access; use a gs:// "
                    f"address{nearest(value, known)}",
                )
        with checks.collect():
            check(
                registry.startswith((VERTEX, *REACHABLE)),
                f"registry is {registry!r}, a folder that machines on Vertex AI do not share; use "
                f"{ADDRESS_SYNTAX}",
            )
    checks.raise_errors()


# === The first task of a run ===


class Prepared(NamedTuple):
    """The outputs of the first task, `components/check_run.py`, for the others.

    kfp takes strings, numbers and dicts. Settings that a task has no input of its own for are one dict.
    """

    Output: str
    """`digest_of_run`; empty if the registry already has the model of this run. kfp.local resolves an output in a
    condition (`dsl.If`) only if it has this name."""
    registry: str
    checkpoint_dir: str
    data: dict[str, Any]
    """Settings of all data, those of `FetchConfig`."""
    data_gate: dict[str, Any]
    base_training: dict[str, Any]
    """Settings of base training, its machines and its job; empty if there is none."""
    finetune_training: dict[str, Any]
    evaluation: dict[str, Any]
    """Settings of the evaluation, by their names in `EvaluateConfig`."""
    evaluate_base: bool
    base_model: str
    """Path or address of the model to fine-tune; empty if the run trains one."""
    base_model_digest: str
    base_version: str
    """NAME@NUMBER of the base model if it is named by its version or alias in the registry; otherwise empty."""
    weights_digest: str
    """Digest of the initial weights of base training; empty if they are not a file."""
    base_digest: str
    """Digest of the source of the base data; empty if the run does not need them."""
    finetune_digest: str
    test_digest: str
    endpoint: str
    traffic: int


def prepare(arguments: Mapping[str, Any], compiled: Mapping[str, Any], target: Target, run: str = "") -> Prepared:
    """Check everything that can be checked before data is fetched, and return what the other tasks need.

    Args:
        arguments: The arguments of the compiled pipeline, as of `parameters.form_of`.
        compiled: Parameters that the pipeline was compiled with, those of the environment.
        target: The platform of the run.
        run: Id of the run.

    Raises:
        UserError: parameters are wrong; the registry or the folder of checkpoints cannot be written; or a source,
            the base model, the initial weights, an image or the endpoint is not there. `MistakesError` has a line
            for each.
    """
    template, passed = parameters.converted(compiled), parameters.values_of(arguments)
    defaults = {**DEFAULTS, **template}
    values = {**defaults, **passed}
    # A console sends all fields of its form, and submit those that differ; people fill in some of them.
    typed = [name for name in passed if name not in CONSOLE_FIELDS or passed[name] != defaults[name]]
    # Those that submit sets back from the template's value to the default are for a recipe to set.
    reset = {name for name in passed if passed[name] == DEFAULTS[name] != defaults[name]}
    given = {name: value for name, value in {**template, **passed}.items() if name not in reset}
    checks = Checks()
    with checks.collect():
        check_parameters(values, target.platform, target.location, given, typed)
    with checks.collect():
        check_writable(str(values["checkpoint_dir"]))
    if target.platform != "local":
        with checks.collect():
            check_shared(str(values["registry"]), str(values["model_name"]), str(values["endpoint"]))
    data_digests = _find_data(values, checks)
    start = _Start()
    with checks.collect():
        start = _find_start(values)
    if checks.passed and target.platform == "vertex":
        _check_images(values, target, checks)
    checks.raise_errors()
    if values["experiment"] and target.platform == "vertex":
        _join_experiment(Address.at(str(values["registry"])), str(values["experiment"]), run)
    for name, title in DATA.items():
        print(f"{title}: {'found' if data_digests[name] else 'not needed'}")
    # What an alias names may move; `version_made_of` compares the versions.
    named = str(values["base_model_uri"]) if start.base_version else start.base_model_digest
    digest = digest_of_run(values, *data_digests.values(), named, start.weights_digest)
    return Prepared(
        Output="" if values["skip_unchanged"] and _is_unchanged(digest, start.base_version, values) else digest,
        registry=str(values["registry"]),
        checkpoint_dir=str(values["checkpoint_dir"]),
        data=parameters.settings_of(FetchConfig, "", values),
        data_gate=parameters.settings_of(DataGateConfig, "", values),
        base_training={} if start.base_model else training_settings("base", values),
        finetune_training=training_settings(FINETUNE, values),
        evaluation=parameters.settings_of(EvaluateConfig, "", values),
        evaluate_base=bool(values["evaluate_base"]),
        **start._asdict(),
        **{f"{name}_digest": digest for name, digest in data_digests.items()},
        endpoint=str(values["endpoint"]),
        traffic=int(values["traffic"]),
    )


def training_settings(step: str, values: Mapping[str, Value]) -> dict[str, Any]:
    """The settings of a training step, its machines and its job, by the names of their fields."""
    configs = (TrainConfig, AcceleratorConfig, JobConfig)
    return {
        name: value for config in configs for name, value in parameters.settings_of(config, step, values).items()
    }


def check_writable(checkpoint_dir: str) -> None:
    """Raise `UserError` if checkpoints could not be saved; empty for a folder beside the output of a training."""
    if not checkpoint_dir:
        return
    try:
        # Another run may check at the same time.
        Folder(checkpoint_dir).check_writable(f"{PROBE}-{secrets.token_hex(4)}")
    except UserError as error:
        raise UserError(f"checkpoint_dir is {checkpoint_dir!r}, where nothing can be written: {error}") from None


def _find_data(values: Mapping[str, Value], checks: Checks) -> dict[str, str]:
    """The digest of the source of each dataset of DATA; empty for one that the run does not need."""
    from trainer.data import fetch  # loads NumPy

    digests = dict.fromkeys(DATA, "")
    for name, title in parameters.needed_datasets(values).items():
        with checks.collect(title.lower()):
            config = FetchConfig(**parameters.data_settings(name, values))
            digests[name] = fetch.fingerprint(config.dataset, config.source, config.private_sources)
    return digests


class _Start(NamedTuple):
    """What the first training starts from; fields as in `Prepared`."""

    base_model: str = ""
    base_model_digest: str = ""
    base_version: str = ""
    weights_digest: str = ""


def _find_start(values: Mapping[str, Value]) -> _Start:
    """The base model, or the digest of the initial weights; raises `UserError` if they are not there."""
    from trainer.models import weight_sources  # loads NumPy

    if uri := str(values["base_model_uri"]):
        base_model, version = resolve_base_model(uri, str(values["registry"]))
        return _Start(base_model, weight_sources.fingerprint(base_model), version)
    return _Start(weights_digest=weight_sources.fingerprint_of_initial(str(values["initial_weights"])))


def _check_images(values: Mapping[str, Value], target: Target, checks: Checks) -> None:
    """Collect an error for each image of a training that Artifact Registry does not have."""
    for image in {plan.accelerator.image for plan in plans(values, location=target.location).values()}:
        with checks.collect():
            _check_image(target.image_pattern.format(image), str(values["registry"]))


def _check_image(image: str, registry: str) -> None:
    """Raise `UserError` if Artifact Registry says that it has no such image; any other answer counts as one."""
    path = cloud.tag_path(image)
    if not path or not registry.startswith(VERTEX):
        return
    try:
        found = cloud.Api(Address.at(registry)).find("artifactregistry", path)
    except (cloud.UnansweredError, UserError) as error:
        print(f"image {image}: {error}")
        return
    check(found is not None, f"image {image} does not exist; build it, or choose an accelerator of another image")


def _join_experiment(region: Address, experiment: str, run: str) -> None:
    """Make a run of Vertex AI part of an experiment, which is created if there is none of this name.

    Both are contexts of Vertex ML Metadata, as `aiplatform.PipelineJob.submit(experiment=...)` makes them.
    """
    from google.api_core.exceptions import Conflict
    from google.cloud.aiplatform_v1 import MetadataServiceClient

    store = f"{cloud.parent_of(region)}/metadataStores/default"
    context = {
        "display_name": experiment,
        "schema_title": "system.Experiment",
        "schema_version": "0.0.1",
        "metadata": {"experiment_deleted": False},
    }
    with cloud.reported_errors(f"experiment {experiment!r}"):
        service = cloud.client(MetadataServiceClient, region)
        request = {"parent": store, "context_id": experiment, "context": context}
        with contextlib.suppress(Conflict):
            service.create_context(request, timeout=cloud.TIMEOUT_S)
        children = [f"{store}/contexts/{run}"]
        service.add_context_children(
            context=f"{store}/contexts/{experiment}", child_contexts=children, timeout=cloud.TIMEOUT_S
        )


def digest_of_run(values: Mapping[str, Value], *digests: str) -> str:
    """The `digest_of_inputs` of the settings, and of the digests of the data and of the start of the training."""
    made_of = {
        name: values[name]
        for name, parameter in parameters.PARAMETERS.items()
        if parameter.config in MODEL_CONFIGS and parameter.field not in SOURCE_FIELDS
    }
    return digest_of_inputs(json.dumps(made_of, sort_keys=True), *digests)


def _is_unchanged(digest: str, base_version: str, values: Mapping[str, Value]) -> bool:
    """Whether the registry has the model of a run with this digest and start, and the decision about it."""
    name = str(values["model_name"])
    version = version_made_of(digest, base_version, connect(str(values["registry"])), name)
    if version:
        print(f"unchanged: version {version.number} of {name} already is this model")
    return version is not None
