"""Whether a training step fits an accelerator."""

from pipeline.plan.settings import AcceleratorConfig
from trainer.accelerators import Accelerator
from trainer.config import PRECISIONS, TrainConfig
from trainer.errors import check, check_choice


def check_platform(platform: str, machines: AcceleratorConfig, training: TrainConfig) -> None:
    """Raise `UserError` if `platform` (vertex, kubeflow or local) cannot do what these settings ask."""
    check(
        platform != "kubeflow" or machines.workers == 1,
        f"workers is {machines.workers}, but on Kubeflow a training step is one pod; set it to 1 and "
        "take an accelerator with more chips",
    )
    check(
        platform != "local" or machines.accelerator == "cpu",
        f"accelerator is {machines.accelerator!r}, but a local run trains on this machine; set it to cpu, or "
        "run on Vertex AI or Kubeflow",
    )
    profiled = training.profile_steps
    check(
        platform == "vertex" or not profiled,
        f"profile_steps is {profiled}, but only on Vertex AI does a run have a folder of TensorBoard logs for the "
        "profile; leave it out and profile with "
        f"`python -m trainer train --profile-steps {profiled} --logs-dir DIR`, or run on Vertex AI",
    )


def check_location(row: Accelerator, location: str) -> None:
    """Raise `UserError` unless Vertex AI trains on `row` in `location`, where one is given."""
    regions = row.chip.regions
    check(
        not location or not regions or location in regions,
        f"{row.name} cannot be had for training in {location}; it can in {', '.join(regions)}",
    )


def resolve_precision(row: Accelerator, precision: str) -> str:
    """What `precision` is on `row`; a `UserError` if it has no such arithmetic."""
    check_choice("precision", precision, PRECISIONS)
    resolved = row.chip.precision if precision == "auto" else precision
    known = row.chip.flops
    check(
        resolved in known,
        f"{row.name} ({row.chip.title}) has no {resolved}; set precision to {' or '.join(known)}",
    )
    return resolved
