"""One training step as a job: its plan, its command, and what it leaves behind."""

import dataclasses
import pathlib
from typing import Any, NamedTuple

from pipeline.plan import fit, worker_pools
from pipeline.plan import plan as planning
from pipeline.plan.plan import DataSize, Plan
from pipeline.plan.settings import AcceleratorConfig, parse_labels
from trainer import artifacts, files, footprint
from trainer.config import TrainConfig
from trainer.errors import check

MODEL = "model"
"""Folder of the model in a training step's workspace; `components/collect_training.py` names its address."""
COMMAND = ["python", "-m", "trainer", "train"]
HERE = "local"


@dataclasses.dataclass(frozen=True)
class Target:
    """Where jobs run: platform (vertex, kubeflow or local), location, and the images' names."""

    platform: str
    location: str
    image_pattern: str
    """With `{}` in the place of cpu, gpu or tpu."""


@dataclasses.dataclass(frozen=True)
class Folders:
    """What a training step reads and writes, as paths that the job sees too."""

    dataset: str
    base_model: str | None
    workspace: str
    checkpoint_dir: str
    """Empty for a place in the workspace."""
    initial_weights_fingerprint: str
    """Digest of the initial weights; the job refuses others. Empty where they are no file."""


class Outputs(NamedTuple):
    """What `components/plan_training.py` hands to the tasks behind it."""

    worker_pool_specs: list[dict[str, Any]]
    strategy: str
    timeout: str
    max_wait_duration: str
    labels: dict[str, str]
    job_dir: str
    image: str
    accelerator_type: str
    accelerator_limit: str
    node_selector: dict[str, str]


NO_MACHINES = Outputs([], "", "", "", {}, "", "", "", "", {})
"""What a run on this machine takes from its plan: it asks for no machines."""


@dataclasses.dataclass(frozen=True)
class Job:
    """A training step that fits what it runs on."""

    plan: Plan | None
    """None on this machine, whose devices are not known before the training looks for them."""
    target: Target
    arguments: list[str]

    def outputs(self, timeout_hours: float, max_wait_hours: float, labels: str, job_dir: str) -> Outputs:
        """The values that tasks behind the plan take; durations as the API writes them.

        Raises `UserError` if the job would be stopped before it is done, and for malformed labels.
        """
        if self.plan is None:
            return NO_MACHINES
        if self.target.platform == "vertex":
            planning.check_timeout(self.plan, timeout_hours)
        image = self.target.image_pattern.format(self.plan.accelerator.image)
        return Outputs(
            worker_pool_specs=worker_pools.worker_pool_specs(self.plan, image, COMMAND, self.arguments, {}),
            strategy=worker_pools.scheduling_strategy(self.plan),
            timeout=f"{round(3600 * timeout_hours)}s",
            max_wait_duration=f"{round(3600 * max_wait_hours)}s",
            labels=parse_labels(labels),
            job_dir=job_dir,
            image=image,
            accelerator_type=worker_pools.accelerator_type(self.plan),
            accelerator_limit=worker_pools.accelerator_limit(self.plan),
            node_selector=worker_pools.node_selector(self.plan),
        )


def plan_step(
    step: str, config: TrainConfig, machines: AcceleratorConfig, target: Target, folders: Folders, markdown: str
) -> Job:
    """Plan one training step and write the plan for people to `markdown`.

    The job gets the settings as they were given. The trainer resolves the batch and the precision for its devices
    as the plan does, so that they are the same on every target.

    Raises:
        UserError: if accelerator, batch, image size and precision do not fit together.
    """
    manifest = artifacts.Manifest.load(folders.dataset)
    data = DataSize(manifest.counts["train"], manifest.counts["valid"], manifest.image_size)
    here = target.platform == HERE
    if here:
        made, text = None, _here(machines, config, data)
    else:
        made = planning.make_plan(machines, config, data, location=target.location, platform=target.platform)
        text = planning.markdown(made)
    with files.replacing(markdown) as partial:
        partial.write_text(text)
    print(text)
    return Job(made, target, _arguments(step, config, folders, "" if here else machines.accelerator))


def _here(machines: AcceleratorConfig, config: TrainConfig, data: DataSize) -> str:
    """The plan of a step that runs on this machine, whatever its devices are.

    Raises:
        UserError: if the step fits no device at all.
    """
    fit.check_platform(HERE, machines, config)
    batch = config.batch_size
    if batch:
        footprint.check_shares(batch, 1, config.accumulation, data.images)
    steps = (
        f"{data.images // batch} steps an epoch of batch {batch}" if batch else "the default batch of its devices"
    )
    return f"on this machine: {steps}; `python -m pipeline plan` compares the accelerators of Vertex AI\n"


def _arguments(step: str, config: TrainConfig, folders: Folders, accelerator: str) -> list[str]:
    """The flags of `python -m trainer train`."""
    digest = folders.initial_weights_fingerprint
    checkpoints = f"{folders.checkpoint_dir or folders.workspace + '/checkpoints'}/{step}"
    flags = {
        "dataset_dir": folders.dataset,
        "output_dir": f"{folders.workspace}/{MODEL}",
        "checkpoint_dir": checkpoints,
        **({"base_model": folders.base_model} if folders.base_model else {}),
        **({"accelerator": accelerator} if accelerator else {}),
        **({"initial_weights_fingerprint": digest} if digest else {}),
        **dataclasses.asdict(config),
    }
    return [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]


def summary(workspace: str, gcp_resources: str) -> dict[str, Any]:
    """What the configuration of the model in `workspace` says.

    Raises:
        UserError: if the job wrote no model; `gcp_resources` says which job it was.
    """
    config = pathlib.Path(workspace) / MODEL / artifacts.MODEL_CONFIG
    check(config.is_file(), f"the training job wrote no model to {config.parent}; see the log of {gcp_resources}")
    return dict(files.read_json(config, "train again"))
