"""The tasks of a training step on each target. The rest of the DAG is the same on all targets.

- local: plan_training -> train_model
- kubeflow: plan_training -> train_model, on the node that the plan selects
- vertex: plan_training -> CustomTrainingJobOp -> collect_training
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from components.collect_training import collect_training
from components.plan_training import plan_training
from components.train_model import train_model
from pipeline.graph.environment import TARGET_NAMES, Environment
from pipeline.graph.parameters import STEPS, settings_of
from pipeline.plan.settings import AcceleratorConfig, JobConfig
from trainer.config import TrainConfig

Channel = Any
"""A value that kfp passes between tasks: a pipeline parameter or the output of a task."""
PLANNED_JOB_SETTINGS = ("timeout_hours", "max_wait_hours", "training_labels")
"""Settings of a job that the plan converts for the API; the job receives the others unchanged."""


@dataclasses.dataclass(frozen=True)
class TrainingStepInputs:
    """The inputs of a training step, the same on every target."""

    name: str
    """base or finetune."""
    parameters: Mapping[str, Channel]
    """All pipeline parameters."""
    dataset: Channel
    base_model: Channel | None
    after: Iterable[Channel]
    """Tasks that must end before the plan starts."""
    initial_weights_fingerprint: Channel
    """Digest of the weights. Caching needs it, because files can change behind the same address."""

    def train(self, accelerator: Channel) -> Channel:
        """The task that trains, on the devices that it finds if `accelerator` is empty.

        It receives the settings unchanged on every target: what 0 and `auto` mean depends on the devices.
        """
        task = train_model(**self.train_arguments, accelerator=accelerator)
        return task.set_display_name(STEPS[self.name])

    @property
    def train_arguments(self) -> dict[str, Channel]:
        """Arguments that plan_training and train_model share."""
        base = {} if self.base_model is None else {"base_model": self.base_model}
        return {
            "step": self.name,
            **settings_of(TrainConfig, self.name, self.parameters),
            "checkpoint_dir": self.parameters["checkpoint_dir"],
            "initial_weights_fingerprint": self.initial_weights_fingerprint,
            "dataset": self.dataset,
            **base,
        }

    def plan(self, environment: Environment, cached: bool) -> Channel:
        """The task that checks the settings and plans the machines of the step."""
        job = settings_of(JobConfig, self.name, self.parameters)
        task = plan_training(
            platform=environment.target,
            location=environment.location,
            image_pattern=environment.image_of("{}"),
            **settings_of(AcceleratorConfig, self.name, self.parameters),
            **{name: job[name] for name in PLANNED_JOB_SETTINGS},
            **self.train_arguments,
        )
        # After all fetching, so that a mistake in the last source is found before hours of training.
        task.after(*self.after)
        return task.set_caching_options(cached).set_display_name(f"{STEPS[self.name]}: plan")


TrainingStep = Callable[[TrainingStepInputs, Environment], Channel]
"""Creates the tasks of one training step and returns the last, with outputs `model` and `Output` (its URI)."""


def local(step: TrainingStepInputs, environment: Environment) -> Channel:
    """One task on this machine."""
    # Not cached: a working copy's code changes under the same image name, so a cached model could be out of date.
    plan = step.plan(environment, cached=False)
    return step.train("").after(plan).set_caching_options(False)


def kubeflow(step: TrainingStepInputs, environment: Environment) -> Channel:
    """One task, on a node with the accelerator and in the image for it.

    A retry resumes from the checkpoints that an earlier pod has written outside of it (`plan.places`).
    """
    from kfp import kubernetes

    plan = step.plan(environment, cached=True)
    task = step.train(plan.outputs["accelerator"]).set_caching_options(True)
    task.set_container_image(plan.outputs["image"])
    task.set_accelerator_type(plan.outputs["accelerator_type"])
    task.set_accelerator_limit(plan.outputs["accelerator_limit"])
    # No limit of cores: on a node of its own the pod may use all of them.
    task.set_cpu_request(plan.outputs["cpu"])
    task.set_memory_request(plan.outputs["memory"]).set_memory_limit(plan.outputs["memory"])
    kubernetes.add_node_selector_json(task, plan.outputs["node_selector"])
    return task


def vertex(step: TrainingStepInputs, environment: Environment) -> Channel:
    """A custom job, which gets its machines at run time and writes its model to the workspace of the plan.

    All three tasks are cached, because the same image, data and settings give the same model. A cached plan names
    the workspace of an earlier run, where a job that failed resumes from its checkpoints.
    """
    from google_cloud_pipeline_components.v1.custom_job import CustomTrainingJobOp

    plan = step.plan(environment, cached=True)
    job = settings_of(JobConfig, step.name, step.parameters)
    trained = CustomTrainingJobOp(
        display_name=f"msinet-{step.name}",
        location=environment.location,
        worker_pool_specs=plan.outputs["worker_pool_specs"],
        strategy=plan.outputs["strategy"],
        timeout=plan.outputs["timeout"],
        max_wait_duration=plan.outputs["max_wait_duration"],
        labels=plan.outputs["labels"],
        base_output_directory=plan.outputs["job_dir"],
        restart_job_on_worker_restart=job["restart_training"],
        service_account=job["training_service_account"],
        network=job["training_network"],
        tensorboard=job["tensorboard"],
        persistent_resource_id=job["persistent_resource"],
    )
    trained.set_caching_options(True).set_display_name(STEPS[step.name])
    collected = collect_training(
        gcp_resources=trained.outputs["gcp_resources"], workspace=plan.outputs["workspace"]
    )
    collected.set_caching_options(True).set_display_name(f"{STEPS[step.name]}: model")
    return collected


TARGETS: dict[str, TrainingStep] = {"local": local, "vertex": vertex, "kubeflow": kubeflow}
assert tuple(TARGETS) == TARGET_NAMES
