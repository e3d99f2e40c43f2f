"""One training step: fitted to its data, planned, sent as a job, and what it keeps outside of its machine.

Line numbers of Kubeflow are from kubeflow/pipelines 2.17.0, below backend/src/v2/.
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from lifecycle.machines.gke_pods import Pod
from lifecycle.machines.plan import DataSize, TrainingPlan, make_plan
from lifecycle.machines.settings import Target, TrainingSettings
from trainer.data import Manifest
from trainer.errors import Checks, FailedError, check
from trainer.io import replacing
from trainer.network import ModelFolder
from trainer.training import TrainConfig

MODEL_FOLDER = "model"
"""Folder of the model in the workspace of a training step."""
COMMAND = ["python", "-m", "trainer", "train"]


@dataclasses.dataclass(frozen=True)
class Folders:
    """Inputs and outputs of a training step, as paths that the job can also access."""

    dataset: str
    base_model: str | None
    workspace: str
    job_dir: str
    """URI of the workspace."""
    checkpoint_dir: str
    """Folder of the checkpoints. Empty for a folder next to the model."""
    initial_weights_fingerprint: str
    """Digest of the file of initial weights. The job refuses any other file. Empty if they are not a file."""


class Outputs(NamedTuple):
    """The outputs of `components/plan_training.py` for later tasks.

    A local run requests no machines, so it has the settings alone. The defaults are lists and dicts, as kfp wants
    them. Nothing changes them.
    """

    settings: dict[str, Any] = {}  # noqa: RUF012
    """The settings of `trainer.training.settings.TrainConfig`, as the job has them."""
    worker_pool_specs: list[dict[str, Any]] = []  # noqa: RUF012
    strategy: str = ""
    timeout: str = ""
    max_wait_duration: str = ""
    labels: dict[str, str] = {}  # noqa: RUF012
    job_dir: str = ""
    image: str = ""
    accelerator: str = ""
    accelerator_type: str = ""
    accelerator_limit: str = ""
    cpu: str = ""
    memory: str = ""
    node_selector: dict[str, str] = {}  # noqa: RUF012
    tolerations: list[dict[str, str]] = []  # noqa: RUF012
    restart: bool = False
    service_account: str = ""
    network: str = ""
    tensorboard: str = ""
    persistent_resource: str = ""


def fit_to_data(
    settings: TrainingSettings, manifest: Manifest, target: Target
) -> tuple[TrainingSettings, TrainingPlan | None]:
    """Settle what only the data of a training can tell: its default batch and learning rate, and its timeout.

    On this machine the settings stay as they are, and there is no plan, since its devices are not known here.
    `trainer.training.train.Job.resolve` settles the rest.

    Example: a batch of 0 becomes 32 on `l4`, or less for few images.

    Args:
        settings: of the training step, as the first task of the run settled them.
        manifest: of the prepared data.
        target: the platform of the run.

    Returns:
        The settings of the job, and the plan that they are from.

    Raises:
        UserError: if accelerator, batch, image size, precision and the number of images do not fit together, or if
            the timeout would stop the job too early.
    """
    training = settings.training
    data = DataSize(
        images=manifest.counts["train"],
        valid_images=manifest.counts["valid"],
        image_size=manifest.image_size,
    )
    if target.platform == "local":
        if training.batch_size:
            training.check_shares(1, data.images)
        return settings, None
    plan = make_plan(settings.machines, training, data, location=target.location, platform=target.platform)
    is_vertex = target.platform == "vertex"  # the other targets have no timeout
    timeout_hours = plan.timeout(settings.job.timeout_hours) if is_vertex else 0.0
    job = dataclasses.replace(settings.job, timeout_hours=timeout_hours)
    if job.persistent_resource:  # its machines have the disks that it was made with
        plan = dataclasses.replace(plan, has_own_disk=False)
    return TrainingSettings(plan.training, plan.machines, job), plan


def check_trainings(trainings: Mapping[str, Mapping[str, Any]], data: Mapping[str, str], target: Target) -> None:
    """Raise `UserError` unless each training fits its machines and its prepared data, before any of them starts.

    Args:
        trainings: Title of a training step -> its `TrainingSettings.by_name`. Empty if there is no such training.
        data: Title of a training step -> the folder of its prepared data.
        target: The platform of the run.
    """
    checks = Checks()
    for title, settings in trainings.items():
        if settings:
            with checks.collect(title):
                fit_to_data(TrainingSettings.of(settings), Manifest.load(data[title]), target)
    checks.raise_errors()


def plan_step(step: str, settings: TrainingSettings, target: Target, folders: Folders, markdown: str) -> Outputs:
    """Plan one training step, write the plan as Markdown to `markdown`, and return the outputs for later tasks.

    Raises `UserError` as `fit_to_data`.
    """
    manifest = Manifest.load(folders.dataset)
    settings, plan = fit_to_data(settings, manifest, target)
    training, job = settings.training, settings.job
    if plan is None:
        n_train, batch = manifest.counts["train"], training.batch_size
        steps = f"{n_train // batch} steps per epoch of batch {batch}" if batch else "the default batch"
        _publish(f"on this machine: {steps}\n", markdown)
        return Outputs(settings=dataclasses.asdict(training))
    _publish(plan.markdown(job.timeout_hours), markdown)
    image = target.image_pattern.format(plan.accelerator.image)
    chosen = plan.accelerator.name
    arguments = _arguments(step, training, folders, chosen)
    pod = Pod.on(plan.accelerator, plan.machines.provisioning)
    return Outputs(
        settings=dataclasses.asdict(training),
        worker_pool_specs=plan.worker_pool_specs(image, COMMAND, arguments),
        strategy=plan.scheduling_strategy,
        timeout=f"{round(3600 * job.timeout_hours)}s",
        max_wait_duration=f"{round(3600 * job.max_wait_hours)}s",
        labels=job.labels,
        job_dir=folders.job_dir,
        image=image,
        accelerator=chosen,
        accelerator_type=plan.accelerator.resource_name,
        accelerator_limit=str(plan.accelerator.chips if plan.accelerator.resource_name else 0),
        cpu=pod.cpu,
        memory=pod.memory,
        node_selector=pod.node_selector,
        tolerations=pod.tolerations,
        restart=job.restart_training,
        service_account=job.training_service_account,
        network=job.training_network,
        tensorboard=job.tensorboard,
        persistent_resource=job.persistent_resource,
    )


def _publish(text: str, markdown: str) -> None:
    """Print the plan and write it to the file `markdown`."""
    with replacing(markdown) as partial:
        partial.write_text(text)
    print(text)


def _arguments(step: str, training: TrainConfig, folders: Folders, accelerator: str) -> list[str]:
    """The flags of `python -m trainer train`, with the settings as one value.

    Example: `--accelerator=l4` and `--settings={"epochs": 10, ...}`.
    """
    flags = {
        "dataset-dir": folders.dataset,
        "output-dir": f"{folders.workspace}/{MODEL_FOLDER}",
        "checkpoint-dir": f"{folders.checkpoint_dir}/{step}" if folders.checkpoint_dir else "",
        "base-model": folders.base_model,
        "accelerator": accelerator,
        "initial-weights-fingerprint": folders.initial_weights_fingerprint,
        "settings": json.dumps(dataclasses.asdict(training)),
    }
    return [f"--{name}={value}" for name, value in flags.items() if value]


def read_model_config(workspace: str, gcp_resources: str) -> dict[str, Any]:
    """Read the configuration of the model in `workspace`.

    Raises:
        UserError: if the job wrote no model. `gcp_resources` identifies the job.
    """
    folder = ModelFolder(pathlib.Path(workspace) / MODEL_FOLDER)
    check(
        folder.config_file.is_file(),
        f"the training job wrote no model to {folder.path}. See the log of {gcp_resources}",
        FailedError,
    )
    return dict(folder.config("train again"))


def checkpoint_folder(checkpoint_dir: str, step: str, uri: str, path: str) -> str:
    """Folder or address of the checkpoints of a training step, for a training in this process.

    Example: `gs://b/checkpoints/RUN/base` on Kubeflow.

    On Kubeflow they are below the id of the run, which is in the address of the task's own output:
    ROOT/PIPELINE/RUN/TASK/SALT/NAME (metadata/client.go:420, driver/driver.go:775,786). The driver makes this
    address before the first attempt, so that all retries of the pod receive the same. It is not in the cache key.
    A parameter with `{{$.pipeline_job_uuid}}` would be: the driver replaces it before it computes the key
    (driver/resolve.go:440, cacheutils/cache.go:196,205), and no later run would find the training in the cache.

    Args:
        checkpoint_dir: parameter of this name. Empty for a folder next to `path`.
        step: base or finetune.
        uri: address of the model that the task writes. Equal to `path` on this machine.
        path: its path.
    """
    if not checkpoint_dir:
        return ModelFolder(path).checkpoints
    run = [uri.split("/")[-4]] if "://" in uri else []
    return "/".join([checkpoint_dir.rstrip("/"), *run, step])
