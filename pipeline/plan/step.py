"""One training step as a job: its plan, its command line, and its results."""

import dataclasses
import pathlib
from typing import Any, NamedTuple

from pipeline.plan import fit, worker_pools
from pipeline.plan import plan as planning
from pipeline.plan.plan import DataSize
from pipeline.plan.settings import AcceleratorConfig, JobConfig, parse_labels
from trainer import artifacts, files, footprint, records
from trainer.config import TrainConfig, with_recipe
from trainer.errors import check

MODEL_FOLDER = "model"
"""Folder of the model in the workspace of a training step."""
COMMAND = ["python", "-m", "trainer", "train"]
LOCAL = "local"


@dataclasses.dataclass(frozen=True)
class Target:
    """The platform that runs jobs (vertex, kubeflow or local), its Vertex AI region, and its image names."""

    platform: str
    location: str
    image_pattern: str
    """Image name with `{}` in place of cpu, gpu or tpu."""


@dataclasses.dataclass(frozen=True)
class Folders:
    """Inputs and outputs of a training step, as paths that the job can also access."""

    dataset: str
    base_model: str | None
    workspace: str
    job_dir: str
    """URI of the workspace."""
    checkpoint_dir: str
    """Folder of the checkpoints; empty for a folder next to the model."""
    initial_weights_fingerprint: str
    """Digest of the file of initial weights; the job refuses any other file. Empty if they are not a file."""


class Outputs(NamedTuple):
    """The outputs of `components/plan_training.py` for later tasks."""

    worker_pool_specs: list[dict[str, Any]]
    strategy: str
    timeout: str
    max_wait_duration: str
    labels: dict[str, str]
    job_dir: str
    image: str
    accelerator: str
    """Name of the accelerator; the settings have one for both trainings and one for this training alone."""
    accelerator_type: str
    accelerator_limit: str
    cpu: str
    memory: str
    node_selector: dict[str, str]


NO_MACHINES = Outputs([], "", "", "", {}, "", "", "", "", "", "", "", {})
"""The outputs for a local run, which requests no machines."""


def plan_step(
    step: str,
    config: TrainConfig,
    machines: AcceleratorConfig,
    job: JobConfig,
    target: Target,
    folders: Folders,
    markdown: str,
) -> Outputs:
    """Plan one training step, write the plan as Markdown to `markdown`, and return the outputs for later tasks.

    The job receives the settings with those of their recipe. The trainer resolves batch and precision for its
    devices by the same rules as the plan, so that they are equal on every target.

    Raises:
        UserError: if settings contradict the recipe; if accelerator, batch, image size and precision do not fit
            together; or if the timeout would stop the job too early.
    """
    config = with_recipe(config, fine_tuning=folders.base_model is not None)
    manifest = artifacts.Manifest.load(folders.dataset)
    data = DataSize(
        images=manifest.counts["train"],
        valid_images=manifest.counts["valid"],
        image_size=manifest.image_size,
    )
    if target.platform == LOCAL:
        _publish(_describe_local(machines, config, data), markdown)
        return NO_MACHINES
    plan = planning.make_plan(machines, config, data, location=target.location, platform=target.platform)
    timeout_hours = planning.timeout_of(plan, job.timeout_hours) if target.platform == "vertex" else 0.0
    _publish(planning.plan_markdown(plan, timeout_hours), markdown)
    image = target.image_pattern.format(plan.accelerator.image)
    arguments = _arguments(step, config, folders, machines.chosen)
    return Outputs(
        worker_pool_specs=worker_pools.worker_pool_specs(plan, image, COMMAND, arguments),
        strategy=worker_pools.scheduling_strategy(plan),
        timeout=f"{round(3600 * timeout_hours)}s",
        max_wait_duration=f"{round(3600 * job.max_wait_hours)}s",
        labels=parse_labels(job.training_labels),
        job_dir=folders.job_dir,
        image=image,
        accelerator=machines.chosen,
        accelerator_type=worker_pools.accelerator_type(plan),
        accelerator_limit=worker_pools.accelerator_limit(plan),
        cpu=worker_pools.cpu(plan),
        memory=worker_pools.memory(plan),
        node_selector=worker_pools.node_selector(plan),
    )


def _publish(text: str, markdown: str) -> None:
    """Print the plan and write it to the file `markdown`."""
    with files.replacing(markdown) as partial:
        partial.write_text(text)
    print(text)


def _describe_local(machines: AcceleratorConfig, config: TrainConfig, data: DataSize) -> str:
    """Describe a local training step, whose devices are unknown.

    Raises:
        UserError: if the step fits no device.
    """
    fit.check_platform(LOCAL, machines, config)
    batch = config.batch_size
    if batch:
        footprint.check_shares(batch, 1, config.accumulation, data.images)
    steps = (
        f"{data.images // batch} steps per epoch of batch {batch}" if batch else "the default batch of its devices"
    )
    return f"on this machine: {steps}; `python -m pipeline plan` compares the accelerators of Vertex AI\n"


def _arguments(step: str, config: TrainConfig, folders: Folders, accelerator: str) -> list[str]:
    """The flags of `python -m trainer train`."""
    digest = folders.initial_weights_fingerprint
    flags = {
        "dataset_dir": folders.dataset,
        "output_dir": f"{folders.workspace}/{MODEL_FOLDER}",
        **({"checkpoint_dir": f"{folders.checkpoint_dir}/{step}"} if folders.checkpoint_dir else {}),
        **({"base_model": folders.base_model} if folders.base_model else {}),
        "accelerator": accelerator,
        **({"initial_weights_fingerprint": digest} if digest else {}),
        **dataclasses.asdict(config),
    }
    return [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]


def read_model_config(workspace: str, gcp_resources: str) -> dict[str, Any]:
    """Read the configuration of the model in `workspace`.

    Raises:
        UserError: if the job wrote no model; `gcp_resources` identifies the job.
    """
    config = pathlib.Path(workspace) / MODEL_FOLDER / artifacts.MODEL_CONFIG
    check(config.is_file(), f"the training job wrote no model to {config.parent}; see the log of {gcp_resources}")
    return dict(files.read_json(config, "train again", records.ModelConfig))
