"""The one description of the DAG.

fingerprint(base)          fingerprint(fine-tuning)     never cached: what is at the source now
     |                          |
fetch_dataset              fetch_dataset                cached by fingerprint
     |                          |
plan, base training             |                       a training step (see targets.py), or import_model
     |__________________________|                       where base_model_uri names a model in its place
     |
plan, fine-tuning
     |
evaluate_model                                          beside the current default and the centre bias
     |
upload_model                                            a new version; the default only if it is better
"""

import contextlib
from collections.abc import Callable
from typing import Any

from kfp import dsl

from components import IMAGE
from components.evaluate_model import evaluate_model
from components.fetch_dataset import fetch_dataset
from components.fingerprint import fingerprint
from components.import_model import import_model
from components.upload_model import upload_model
from pipeline.graph.environment import Environment
from pipeline.graph.parameters import PARAMETERS, STEPS, docstring, settings_of, signature
from pipeline.graph.targets import TARGETS, Channel, Step
from trainer.config import EvaluateConfig, FetchConfig

NAME = "msinet"
SUMMARY = "Train MSI-Net on one data set, fine-tune it on another, evaluate it and register it."
SIZES = {
    "fetch-dataset": ("8", "16G"),
    "evaluate-model": ("8", "32G"),
    **dict.fromkeys(("collect-training", "import-model"), ("2", "8G")),
}
"""Cores and memory of tasks, where the smallest machine is not enough for SALICON's 15,000 images."""
RETRIED = ("fingerprint", "fetch-dataset", "plan-training", "collect-training", "import-model", "upload-model")
"""Tasks that may run twice: a registry knows a run that it has already. Not the evaluation, which fails a model on
purpose, nor training, which Vertex AI starts again by itself."""

NEVER_CACHED = ("fingerprint", "named-model", "importer", "evaluate-model", "upload-model")
"""Tasks whose result depends on more than their inputs: on the source, or on the registry, as it is now."""


def build(target: str = "local", environment: Environment | None = None) -> Any:
    """The pipeline for `target`; its parameters are the same on all targets.

    `environment` has the names of the images, by default those without a repository, and who is told of the end.
    """
    place = environment or Environment("local")

    def pipeline(*channels: Channel) -> None:
        given = dict(zip(PARAMETERS, channels, strict=True))
        with _told(place):
            seen = {step: _look(step, given) for step in STEPS}
            fetched = {step: _fetch(step, given, seen[step]) for step in STEPS}
            data = {step: task.outputs["prepared"] for step, task in fetched.items()}

            def train(step: str, base_model: Channel | None) -> Channel:
                weights = seen[step].outputs["weights"]
                made = Step(step, given, data[step], base_model, tuple(fetched.values()), weights)
                return TARGETS[target](made, place)

            base_model = _base_model(given, seen["base"], lambda: train("base", None), cached=target != "local")
            _evaluate_and_upload(given, train("finetune", base_model).outputs["model"], data)
        _equip(target, place)

    pipeline.__signature__ = signature({**place.derived, **place.parameters})  # type: ignore[attr-defined]
    pipeline.__doc__ = docstring(SUMMARY)
    return dsl.pipeline(pipeline, name=NAME)


def _told(place: Environment) -> contextlib.AbstractContextManager[Any]:
    """Surrounds the tasks after whose end, good or bad, an e-mail goes to those who want one."""
    if not place.notify:
        return contextlib.nullcontext()
    from google_cloud_pipeline_components.v1.vertex_notification_email import VertexNotificationEmailOp

    told: contextlib.AbstractContextManager[Any] = dsl.ExitHandler(
        VertexNotificationEmailOp(recipients=list(place.notify)), name="Run"
    )
    return told


def _equip(target: str, place: Environment) -> None:
    """Give our tasks their image, and where machines are asked for, their size and their retries.

    Tasks of NEVER_CACHED get no caching, whatever their image.
    """
    for task in dsl.pipeline_context.Pipeline.get_default_pipeline().tasks.values():
        kind = task.component_spec.name
        if kind in NEVER_CACHED:
            task.set_caching_options(False)
        if task.container_spec is None or task.container_spec.image != IMAGE:
            continue
        task.set_container_image(place.image)
        if target == "local":
            continue
        if kind in SIZES:
            cores, memory = SIZES[kind]
            task.set_cpu_limit(cores).set_memory_limit(memory)
        if kind in RETRIED:
            task.set_retry(2, backoff_duration="60s", backoff_factor=2)


def _look(step: str, given: dict[str, Channel]) -> Channel:
    wanted = settings_of(FetchConfig, step, given)
    # Fine-tuning starts from the base model, and reads no initial weights.
    instead = {"base_model_uri": "", "evaluate_base": False, "initial_weights": "none"}
    if step == "base":
        instead = {name: given[name] for name in instead}
    seen = fingerprint(dataset=wanted["dataset"], source=wanted["source"], **instead)
    return seen.set_display_name(f"{STEPS[step]}: source")


def _fetch(step: str, given: dict[str, Channel], seen: Channel) -> Channel:
    fetched = fetch_dataset(**settings_of(FetchConfig, step, given), fingerprint=seen.outputs["data"])
    return fetched.set_caching_options(True).set_display_name(f"{STEPS[step]}: data")


def _base_model(given: dict[str, Channel], seen: Channel, train: Callable[[], Channel], cached: bool) -> Channel:
    """The model to fine-tune: what `train` makes, or what `base_model_uri` names.

    The URI of either goes on, not the model: kfp.local cannot choose between artifacts, nor could Kubeflow's
    server before 2026 (docs/adr/0008).
    """
    wanted = settings_of(FetchConfig, "base", given)
    with dsl.If(given["base_model_uri"] == "", name=STEPS["base"]):
        trained = train()
    with dsl.Else(name="Base model: import"):
        imported = import_model(
            base_model_uri=given["base_model_uri"],
            dataset=wanted["dataset"],
            image_size=wanted["image_size"],
            fingerprint=seen.outputs["model"],
        )
        imported.set_caching_options(cached).set_display_name("Base model: import")
    chosen = named_model(uri=dsl.OneOf(trained.outputs["Output"], imported.outputs["Output"]))
    return chosen.set_display_name("Base model").output


@dsl.pipeline(name="named-model")  # type: ignore[untyped-decorator]
def named_model(uri: str) -> dsl.Model:
    """The model at `uri`.

    A pipeline of its own, because Kubeflow's importer takes its URI only from an input of the pipeline around it.
    The importer has no display name: Kubeflow would record it under that, and other tasks would not find it.
    """
    # The same artifact again, not one more of this place: so a fine-tuning that was done already is in the cache.
    importer = dsl.importer(artifact_uri=uri, artifact_class=dsl.Model, reimport=False)
    return importer.set_caching_options(False).output


def _evaluate_and_upload(given: dict[str, Channel], model: Channel, data: dict[str, Channel]) -> None:
    place = {"model_name": given["model_name"], "registry": given["registry"]}
    both = {"base_data": data["base"], "finetune_data": data["finetune"]}
    gate = settings_of(EvaluateConfig, "", given)
    judged = evaluate_model(evaluate_base=given["evaluate_base"], **gate, **place, **both, model=model)
    judged.set_display_name("Evaluation")
    run = dsl.PIPELINE_JOB_NAME_PLACEHOLDER
    uploaded = upload_model(**place, **both, run=run, model=model, evaluation=judged.outputs["evaluation"])
    uploaded.set_display_name("Registration")
