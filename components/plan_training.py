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
    settings: dict,  # type: ignore[type-arg]
    checkpoint_dir: str,
    initial_weights_fingerprint: str,
    dataset: dsl.Input[dsl.Dataset],
    workspace: dsl.Output[dsl.Artifact],
    plan: dsl.Output[dsl.Markdown],
    base_model_uri: str = "",
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
        ("tolerations", list),
        ("restart", bool),
        ("service_account", str),
        ("network", str),
        ("tensorboard", str),
        ("persistent_resource", str),
    ],
):
    """Check that the training fits its data and accelerator, and estimate time and cost.

    `settings` come from check_run. The output `settings` has the settings of the training as one value,
    with a batch and a precision in place of 0 and `auto`. The model to fine-tune comes by its URI: an artifact
    could not be missing (`components`).
    """
    from lifecycle.machines import Folders, Target, TrainingSettings, plan_step
    from trainer.errors import reported

    with reported():
        target = Target(platform, location, image_pattern)
        folders = Folders(
            dataset=dataset.path,
            base_model=dsl.Model(uri=base_model_uri).path if base_model_uri else None,
            workspace=workspace.path,
            job_dir=workspace.uri,
            checkpoint_dir=checkpoint_dir,
            initial_weights_fingerprint=initial_weights_fingerprint,
        )
        return plan_step(step, TrainingSettings.of(settings), target, folders, plan.path)
