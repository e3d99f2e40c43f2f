"""Task that plans a training step: its machines, time and cost."""

from typing import NamedTuple

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def plan_training(
    step: str,
    platform: str,
    location: str,
    image_pattern: str,
    accelerator: str,
    step_accelerator: str,
    workers: int,
    provisioning: str,
    timeout_hours: float,
    max_wait_hours: float,
    training_labels: str,
    recipe: str,
    epochs: int,
    batch_size: int,
    accumulation: int,
    learning_rate: float,
    learning_rate_scaling: str,
    warmup_epochs: float,
    schedule: str,
    flip: bool,
    flip_prediction: bool,
    patience: int,
    seed: int,
    precision: str,
    initial_weights: str,
    checkpoint_minutes: float,
    deterministic: bool,
    profile_steps: str,
    checkpoint_dir: str,
    initial_weights_fingerprint: str,
    dataset: dsl.Input[dsl.Dataset],
    workspace: dsl.Output[dsl.Artifact],
    plan: dsl.Output[dsl.Markdown],
    base_model: dsl.Input[dsl.Model] = None,
) -> NamedTuple(  # type: ignore[valid-type]
    "Outputs",
    [
        ("settings", dict),
        ("worker_pool_specs", list),
        ("strategy", str),
        ("timeout", str),
        ("max_wait_duration", str),
        ("labels", dict),
        ("job_dir", str),
        ("image", str),
        ("accelerator", str),
        ("accelerator_type", str),
        ("accelerator_limit", str),
        ("cpu", str),
        ("memory", str),
        ("node_selector", dict),
    ],
):
    """Resolve the accelerator, check that everything fits it, and estimate time and cost.

    Its output `settings` has the settings of the training, with those of the recipe, as one value.
    """
    from pipeline.plan import AcceleratorConfig
    from pipeline.training_job import Folders, JobConfig, Target, plan_step
    from trainer.config import TrainConfig, config_of
    from trainer.errors import reported

    with reported():
        config = config_of(TrainConfig, locals())
        machines = config_of(AcceleratorConfig, locals())
        target = config_of(Target, locals())
        job = JobConfig(
            timeout_hours=timeout_hours, max_wait_hours=max_wait_hours, training_labels=training_labels
        )
        folders = Folders(
            dataset=dataset.path,
            base_model=base_model.path if base_model else None,
            workspace=workspace.path,
            job_dir=workspace.uri,
            checkpoint_dir=checkpoint_dir,
            initial_weights_fingerprint=initial_weights_fingerprint,
        )
        return plan_step(step, config, machines, job, target, folders, plan.path)
