"""The one description of the DAG.

fingerprint(base)          fingerprint(fine-tuning)     never cached: what is at the source now
     |                          |
fetch_dataset              fetch_dataset                cached by fingerprint
     |                          |
base training                   |                       a training step: see targets.py
     |__________________________|
     |
fine-tuning
     |
evaluate_model                                          beside the current default and the centre bias
     |
upload_model                                            a new version; the default only if it is better
"""

from typing import Any

from kfp import dsl

from components.evaluate_model import evaluate_model
from components.fetch_dataset import fetch_dataset
from components.fingerprint import fingerprint
from components.upload_model import upload_model
from pipeline import settings
from pipeline.parameters import PARAMETERS, STEPS, docstring, settings_of, signature
from pipeline.targets import TARGETS, Channel
from trainer.config import EvaluateConfig, FetchConfig, TrainConfig

NAME = "msinet"
SUMMARY = "Train MSI-Net on one data set, fine-tune it on another, evaluate it and register it."


def build(target: str = "local", image: str = settings.IMAGE) -> Any:
    """The pipeline for `target`, its tasks run by `image`; parameters are the same on all targets."""

    def pipeline(*channels: Channel) -> None:
        given = dict(zip(PARAMETERS, channels, strict=True))
        fetched = {step: _fetch(step, given) for step in STEPS}
        data = {step: task.outputs["prepared"] for step, task in fetched.items()}
        model = None
        for step in STEPS:
            learning = settings_of(TrainConfig, step, given) | {"checkpoint_dir": given["checkpoint_dir"]}
            # After all fetching: a mistake in the last source is to be found before hours of training.
            model = TARGETS[target].training_step(step, learning, data[step], model, after=fetched.values())
        _evaluate_and_upload(given, model, data)
        for task in dsl.pipeline_context.Pipeline.get_default_pipeline().tasks.values():
            task.set_container_image(image)

    pipeline.__signature__ = signature()  # type: ignore[attr-defined]
    pipeline.__doc__ = docstring(SUMMARY)
    return dsl.pipeline(pipeline, name=NAME)


def _fetch(step: str, given: dict[str, Channel]) -> Channel:
    wanted = settings_of(FetchConfig, step, given)
    seen = fingerprint(dataset=wanted["dataset"], source=wanted["source"])
    seen.set_caching_options(False).set_display_name(f"{STEPS[step]}: source")
    fetched = fetch_dataset(**wanted, fingerprint=seen.output)
    return fetched.set_caching_options(True).set_display_name(f"{STEPS[step]}: data")


def _evaluate_and_upload(given: dict[str, Channel], model: Channel, data: dict[str, Channel]) -> None:
    place = {"model_name": given["model_name"], "registry": given["registry"]}
    both = {"base_data": data["base"], "finetune_data": data["finetune"]}
    judged = evaluate_model(**settings_of(EvaluateConfig, "", given), **place, **both, model=model)
    judged.set_caching_options(False).set_display_name("Evaluation")
    run = dsl.PIPELINE_JOB_NAME_PLACEHOLDER
    uploaded = upload_model(**place, **both, run=run, model=model, evaluation=judged.outputs["evaluation"])
    uploaded.set_caching_options(False).set_display_name("Registration")
