"""How a training step becomes tasks on each target. Everything else of the DAG is the same on all of them.

- local: plan_training -> train_model
- kubeflow: plan_training -> train_model, on a node that the plan selects
- vertex: plan_training -> CustomTrainingJobOp -> collect_training
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from components.collect_training import collect_training
from components.plan_training import plan_training
from components.train_model import train_model
from pipeline.graph.environment import TARGET_NAMES, Environment
from pipeline.graph.parameters import STEPS, settings_of
from pipeline.plan.settings import AcceleratorConfig, JobConfig
from trainer.config import TrainConfig

Channel = Any
"""What kfp passes between tasks: a pipeline parameter or a task's output."""
PLANNED = ("timeout_hours", "max_wait_hours", "training_labels")
"""The settings of a job that its plan turns into what the API takes; the others go to the job as they are."""


@dataclasses.dataclass(frozen=True)
class Step:
    """What a training step is made from, on any target."""

    name: str
    given: Mapping[str, Channel]
    """The pipeline's parameters."""
    dataset: Channel
    base_model: Channel | None
    after: Iterable[Channel]
    initial_weights_fingerprint: Channel
    """A digest, by which the training is cached: the address of the weights does not say what is there."""

    def train(self, accelerator: Channel) -> Channel:
        """The task that trains, on the devices that it finds if `accelerator` is empty.

        It takes the settings as they were given, on every target: only the devices know what 0 and `auto` mean.
        """
        task = train_model(**self.learning, accelerator=accelerator)
        return task.set_display_name(STEPS[self.name])

    @property
    def learning(self) -> dict[str, Channel]:
        """Settings and inputs of the training itself."""
        base = {} if self.base_model is None else {"base_model": self.base_model}
        place = {"checkpoint_dir": self.given["checkpoint_dir"], "dataset": self.dataset}
        place["initial_weights_fingerprint"] = self.initial_weights_fingerprint
        return {"step": self.name, **settings_of(TrainConfig, self.name, self.given), **place, **base}

    def plan(self, environment: Environment, cached: bool) -> Channel:
        """The task that resolves and checks what the step runs on."""
        job = settings_of(JobConfig, self.name, self.given)
        task = plan_training(
            platform=environment.target,
            location=environment.location,
            image_pattern=environment.image_of("{}"),
            **settings_of(AcceleratorConfig, self.name, self.given),
            **{name: job[name] for name in PLANNED},
            **self.learning,
        )
        # After all fetching: a mistake in the last source is to be found before hours of training.
        task.after(*self.after)
        return task.set_caching_options(cached).set_display_name(f"{STEPS[self.name]}: plan")


class TrainingStep(Protocol):
    """Makes the tasks of one training step; the last one's `model` is the trained one, its `Output` the URI."""

    def __call__(self, step: Step, environment: Environment) -> Channel: ...


def local(step: Step, environment: Environment) -> Channel:
    """One task, run as the others are."""
    # A working copy's code changes while the name of its image stays: a cached model could be an old one's.
    planned = step.plan(environment, cached=False)
    return step.train("").after(planned).set_caching_options(False)


def kubeflow(step: Step, environment: Environment) -> Channel:
    """One task on a node with the accelerator, in the image for it."""
    from kfp import kubernetes

    planned = step.plan(environment, cached=True)
    accelerator = settings_of(AcceleratorConfig, step.name, step.given)["accelerator"]
    task = step.train(accelerator).set_caching_options(True)
    task.set_container_image(planned.outputs["image"])
    task.set_accelerator_type(planned.outputs["accelerator_type"])
    task.set_accelerator_limit(planned.outputs["accelerator_limit"])
    kubernetes.add_node_selector_json(task, planned.outputs["node_selector"])
    return task


def vertex(step: Step, environment: Environment) -> Channel:
    """A custom job, which takes its machines at run time; it has no artifacts, so the plan's workspace has them.

    The same image, data and settings make the same model, and training is dear: all three are cached. A plan out
    of the cache names the workspace of an earlier run, where a job that had failed goes on from its checkpoints.
    """
    from google_cloud_pipeline_components.v1.custom_job import CustomTrainingJobOp

    planned = step.plan(environment, cached=True)
    job = settings_of(JobConfig, step.name, step.given)
    trained = CustomTrainingJobOp(
        display_name=f"msinet-{step.name}",
        location=environment.location,
        worker_pool_specs=planned.outputs["worker_pool_specs"],
        strategy=planned.outputs["strategy"],
        timeout=planned.outputs["timeout"],
        max_wait_duration=planned.outputs["max_wait_duration"],
        labels=planned.outputs["labels"],
        base_output_directory=planned.outputs["job_dir"],
        restart_job_on_worker_restart=job["restart_training"],
        service_account=job["training_service_account"],
        network=job["training_network"],
        tensorboard=job["tensorboard"],
        persistent_resource_id=job["persistent_resource"],
    )
    trained.set_caching_options(True).set_display_name(STEPS[step.name])
    collected = collect_training(
        gcp_resources=trained.outputs["gcp_resources"], workspace=planned.outputs["workspace"]
    )
    collected.set_caching_options(True).set_display_name(f"{STEPS[step.name]}: model")
    return collected


TARGETS: dict[str, TrainingStep] = {"local": local, "vertex": vertex, "kubeflow": kubeflow}
assert tuple(TARGETS) == TARGET_NAMES
