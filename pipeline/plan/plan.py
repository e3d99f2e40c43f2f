"""Plans one training step: checks that it fits its accelerator, and estimates memory, time and cost.

A step that does not fit raises `UserError` with the numbers and the remedy, before any machine is requested.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from pipeline.plan import fit
from pipeline.plan.settings import MAX_FLEX_START_HOURS, AcceleratorConfig
from trainer import accelerators, footprint
from trainer.accelerators import FLEX_START, Accelerator
from trainer.config import TrainConfig, parse_image_size
from trainer.duration import format_duration
from trainer.errors import UserError, check


@dataclasses.dataclass(frozen=True)
class TrainingPlan:
    """A training step that fits its accelerator, with its estimated memory, time and cost."""

    config: AcceleratorConfig
    accelerator: Accelerator
    images: int
    image_size: tuple[int, int]
    epochs: int
    replicas: int
    """Chips over all workers."""
    batch_per_replica: int
    precision: str
    """float32, bfloat16 or float16."""
    steps_per_epoch: int
    memory_bytes: float
    """Estimated memory use of one chip."""
    usable_memory_bytes: float
    seconds_per_step: float
    hours: float
    """All billed time: the start of the machines, training and validation."""
    cost_usd: float | None
    """None if the price is unknown."""
    basis: tuple[str, ...]
    """Sentences that explain the estimates."""

    @property
    def workers(self) -> int:
        """Machines that train together."""
        return self.config.workers

    @property
    def batch_size(self) -> int:
        """Images in one step, over all replicas."""
        return self.batch_per_replica * self.replicas


@dataclasses.dataclass(frozen=True)
class DataSize:
    """Number and size of the images."""

    images: int
    """Training images of one epoch."""
    valid_images: int
    """Images evaluated after each epoch."""
    image_size: tuple[int, int]
    """(height, width) of the network's input, pixels."""


def make_plan(
    machines: AcceleratorConfig,
    training: TrainConfig,
    data: DataSize,
    *,
    location: str = "",
    platform: str = "vertex",
) -> TrainingPlan:
    """Check that a training step fits its accelerator, and estimate its time and cost.

    Args:
        machines: accelerator and number of machines.
        training: all settings of the training. A `batch_size` of 0 is the accelerator's default, reduced if
            the memory or the number of images is too small for it.
        data: number and size of the images.
        location: Vertex AI region that must offer the accelerator; empty for any region.
        platform: vertex, kubeflow or local.

    Raises:
        UserError: if something does not fit.
    """
    row = machines.row
    fit.check_platform(platform, machines, training)
    fit.check_location(row, location if platform == "vertex" else "")
    parse_image_size("x".join(map(str, data.image_size)))
    precision = fit.resolve_precision(row, training.precision)
    replicas = machines.workers * row.chips
    batch_size = _batch_size(row, replicas, training, data, precision)
    per_replica = batch_size // replicas
    steps = data.images // batch_size
    step_s = footprint.step_seconds(row.chip, per_replica, data.image_size, precision)
    validation_s = math.ceil(data.valid_images / batch_size) * step_s * footprint.FORWARD_SHARE
    hours = (footprint.START_SECONDS + training.epochs * (steps * step_s + validation_s)) / 3600
    return TrainingPlan(
        config=machines,
        accelerator=row,
        images=data.images,
        image_size=data.image_size,
        epochs=training.epochs,
        replicas=replicas,
        batch_per_replica=per_replica,
        precision=precision,
        steps_per_epoch=steps,
        memory_bytes=footprint.memory_bytes(per_replica // training.accumulation, data.image_size, precision),
        usable_memory_bytes=footprint.usable_bytes(row.chip),
        seconds_per_step=step_s,
        hours=hours,
        cost_usd=_cost(machines, row, hours),
        basis=_basis(machines, row, precision, location),
    )


def _batch_size(row: Accelerator, replicas: int, training: TrainConfig, data: DataSize, precision: str) -> int:
    """The global batch size, the default if the settings have none; raises `UserError` if it does not fit."""
    parts, size = training.accumulation, data.image_size
    batch_size = training.batch_size or footprint.default_batch(
        row.chip, replicas, parts, data.images, size, precision
    )
    footprint.check_shares(batch_size, replicas, parts, data.images, row.name)
    footprint.check_memory(row.name, row.chip, batch_size, replicas, parts, size, precision)
    return batch_size


def compare_accelerators(
    machines: Mapping[str, Any], training: TrainConfig, data: DataSize, *, location: str = ""
) -> dict[str, TrainingPlan | str]:
    """For each accelerator, its plan or the reason why it does not fit.

    Args:
        machines: fields of `AcceleratorConfig` other than the accelerator.
        training: as for `make_plan`.
        data: as for `make_plan`.
        location: as for `make_plan`.
    """

    def attempt(name: str) -> TrainingPlan | str:
        try:
            return make_plan(AcceleratorConfig(accelerator=name, **machines), training, data, location=location)
        except UserError as error:
            return str(error)

    return {name: attempt(name) for name in accelerators.ACCELERATORS}


def _cost(config: AcceleratorConfig, row: Accelerator, hours: float) -> float | None:
    price = row.usd_per_hour(config.provisioning)
    if price is None:
        return None
    total = config.workers * price
    if config.reduction_servers:
        reduction = accelerators.REDUCTION_SERVER.usd_per_hour(config.provisioning)
        assert reduction is not None
        total += config.reduction_servers * reduction
    return hours * total


def _basis(config: AcceleratorConfig, row: Accelerator, precision: str, location: str) -> tuple[str, ...]:
    price = row.usd_per_hour(config.provisioning)
    hourly = "unknown" if price is None else f"{price:.2f} USD per hour for one {row.machine_type}"
    elsewhere = f" Prices in {location} differ." if location not in ("", accelerators.PRICE_REGION) else ""
    return (
        *footprint.basis(row, precision),
        f"The time includes {footprint.START_SECONDS / 60:.0f} minutes for the start (an assumption). It excludes "
        "waiting for data, checkpoints, and the exchange of gradients between machines.",
        f"Price ({config.provisioning}): {hourly}. {accelerators.PRICE_SOURCE}{elsewhere}",
    )


def check_timeout(plan: TrainingPlan, timeout_hours: float) -> None:
    """Raise `UserError` if Vertex AI would stop the job too early, or does not accept so long a timeout."""
    check(
        plan.hours <= timeout_hours,
        f"training takes about {plan.hours:.1f} h, but timeout_hours is {timeout_hours:g}; raise it, or choose a "
        "faster accelerator (see `python -m pipeline plan`)",
    )
    check(
        plan.config.provisioning != FLEX_START or timeout_hours <= MAX_FLEX_START_HOURS,
        f"timeout_hours is {timeout_hours:g}; with provisioning flex-start it must be at most "
        f"{MAX_FLEX_START_HOURS}",
    )


def plan_markdown(plan: TrainingPlan) -> str:
    """The plan as a Markdown page."""
    row, config = plan.accelerator, plan.config
    machines = f"{plan.workers} x {row.machine_type}, {row.chips} x {row.chip.title} each"
    servers = f", {config.reduction_servers} Reduction Servers" if config.reduction_servers else ""
    facts = {
        "Accelerator": f"{row.name}: {machines}, {config.provisioning}{servers}",
        "Replicas": str(plan.replicas),
        "Batch": f"{plan.batch_size} images per step, {plan.batch_per_replica} per replica",
        "Precision": plan.precision,
        "Data": f"{plan.images} training images at {plan.image_size[0]}x{plan.image_size[1]}",
        "Steps": f"{plan.epochs} epochs of {plan.steps_per_epoch} = {plan.epochs * plan.steps_per_epoch}",
        "Memory": f"{plan.memory_bytes / 1e9:.1f} GB of {plan.usable_memory_bytes / 1e9:.1f} GB per chip",
        "Step": f"about {1000 * plan.seconds_per_step:.3g} ms",
        "Time": f"about {format_duration(3600 * plan.hours)}",
        "Cost": "unknown" if plan.cost_usd is None else f"about {plan.cost_usd:.2f} USD",
    }
    first, *rest = [f"| {name} | {value} |" for name, value in facts.items()]
    table = "\n".join([first, "|---|---|", *rest])
    basis = "\n".join(f"- {sentence}" for sentence in plan.basis)
    return f"# Training on {row.name}\n\n{table}\n\n## Basis of the estimates\n\n{basis}\n"
