"""Checks whether a training step fits a platform, a region and an accelerator."""

from pipeline.plan.settings import AcceleratorConfig
from trainer.accelerators import Accelerator
from trainer.config import TrainConfig
from trainer.errors import check

SCRATCH = ("/gcs", "/s3", "/minio")
"""Folders of a Kubeflow pod in which the launcher keeps its copies of artifacts. Each is an emptyDir, which is
lost with the pod (kubeflow/pipelines 2.17.0,
backend/src/v2/compiler/argocompiler/container.go:476-496)."""


def check_platform(platform: str, machines: AcceleratorConfig, training: TrainConfig) -> None:
    """Raise `UserError` if `platform` (vertex, kubeflow or local) does not support these settings.

    Called where settings enter: by `parameters.validate` before a run starts here, and by the plan, because the
    console and Kubeflow start runs without it.
    """
    check(
        platform != "kubeflow" or machines.workers == 1,
        f"workers is {machines.workers}, but on Kubeflow a training step is one pod; set it to 1 and "
        "choose an accelerator with more chips",
    )
    check(
        platform != "local" or machines.chosen == "cpu",
        f"accelerator is {machines.chosen!r}, but a local run trains on this machine; set it to cpu, or "
        "run on Vertex AI or Kubeflow",
    )
    profiled = training.profile_steps
    check(
        platform == "vertex" or not profiled,
        f"profile_steps is {profiled}, but only a run on Vertex AI has a folder of TensorBoard logs for the "
        "profile; remove it and profile with "
        f"`python -m trainer train --profile-steps {profiled} --logs-dir DIR`, or run on Vertex AI",
    )


def check_location(row: Accelerator, location: str) -> None:
    """Raise `UserError` unless Vertex AI offers `row` for training in `location`; an empty location passes."""
    regions = row.chip.regions
    check(
        not location or not regions or location in regions,
        f"{row.name} is not available for training in {location}; it is in {', '.join(regions)}",
    )


def resolve_precision(row: Accelerator, precision: str) -> str:
    """The precision that `auto` stands for on `row`, or `precision` itself.

    Raises `UserError` if the chip does not support it.
    """
    resolved = row.chip.precision if precision == "auto" else precision
    supported = row.chip.flops
    check(
        resolved in supported,
        f"{row.name} ({row.chip.title}) has no {resolved}; set precision to {' or '.join(supported)}",
    )
    return resolved


def check_outside_pod(name: str, address: str) -> None:
    """Raise `UserError` if parameter `name` is empty or names a folder that ends with the pod."""
    lost = "which is lost with the pod"
    remedy = f"set {name} to gs://NAME/FOLDER, or to a folder of a volume (docs/kubeflow.md)"
    check(bool(address), f"{name} is empty: its default is a folder {lost}; {remedy}")
    if "://" in address:
        return
    check(address.startswith("/"), f"{name} is {address!r}, a folder {lost}; {remedy}")
    root = next((root for root in SCRATCH if f"{address}/".startswith(f"{root}/")), "")
    check(not root, f"{name} is {address!r}, but on Kubeflow {root} is a folder {lost}; {remedy}")
