"""What a training step runs on: accelerator, data and batch become worker pools, a time and a cost.

Everything that does not fit is a `UserError` with the numbers and what to do, before any machine is asked for.
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
from trainer.errors import UserError, check


@dataclasses.dataclass(frozen=True)
class Plan:
    """A training step that fits its accelerator, and what it will take."""

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
    """Estimated use of one chip's memory."""
    usable_memory_bytes: float
    seconds_per_step: float
    hours: float
    """From when the machines are paid for to the end."""
    cost_usd: float | None
    """None where no price is known."""
    basis: tuple[str, ...]
    """Sentences that say what the estimates rest on."""

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
    """What a plan has to know of the data."""

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
) -> Plan:
    """Check that a training step fits its accelerator, and estimate what it takes.

    Args:
        machines: what it trains on.
        training: all of its settings; a `batch_size` of 0 is what the accelerator has by default, or less where
            it has no memory, or the data no images, for that.
        data: what it trains with.
        location: Vertex AI region, which must have the accelerator; empty for anywhere.
        platform: vertex, kubeflow or local.

    Raises:
        UserError: if something does not fit.
    """
    row = accelerators.get(machines.accelerator)
    fit.check_platform(platform, machines, training)
    fit.check_location(row, location if platform == "vertex" else "")
    images, image_size, accumulation = data.images, data.image_size, training.accumulation
    parse_image_size("x".join(map(str, image_size)))
    resolved = fit.resolve_precision(row, training.precision)
    replicas = machines.workers * row.chips
    batch_size = training.batch_size or footprint.default_batch(
        row.chip, replicas, accumulation, images, image_size, resolved
    )
    footprint.check_shares(batch_size, replicas, accumulation, images, row.name)
    footprint.check_memory(row.name, row.chip, batch_size, replicas, accumulation, image_size, resolved)
    each = batch_size // replicas
    steps = images // batch_size
    seconds = footprint.step_seconds(row.chip, each, image_size, resolved)
    validation = math.ceil(data.valid_images / batch_size) * seconds * footprint.FORWARD_SHARE
    hours = (footprint.START_SECONDS + training.epochs * (steps * seconds + validation)) / 3600
    return Plan(
        config=machines,
        accelerator=row,
        images=images,
        image_size=image_size,
        epochs=training.epochs,
        replicas=replicas,
        batch_per_replica=each,
        precision=resolved,
        steps_per_epoch=steps,
        memory_bytes=footprint.memory_bytes(each // accumulation, image_size, resolved),
        usable_memory_bytes=footprint.usable_bytes(row.chip),
        seconds_per_step=seconds,
        hours=hours,
        cost_usd=_cost(machines, row, hours),
        basis=_basis(machines, row, resolved, location),
    )


def comparison(
    machines: Mapping[str, Any], training: TrainConfig, data: DataSize, *, location: str = ""
) -> dict[str, Plan | str]:
    """For each accelerator its plan, or why it does not fit.

    Args:
        machines: settings of `AcceleratorConfig`, but for the accelerator.
        training: as for `make_plan`.
        data: likewise.
        location: likewise.
    """

    def attempt(name: str) -> Plan | str:
        try:
            return make_plan(AcceleratorConfig(name, **machines), training, data, location=location)
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
    known = "not known" if price is None else f"{price:.2f} USD an hour for one {row.machine_type}"
    elsewhere = f" {location} has its own prices." if location not in ("", accelerators.PRICE_REGION) else ""
    return (
        *footprint.basis(row, precision),
        f"The time has {footprint.START_SECONDS / 60:.0f} minutes for the start, an assumption. Not in it: "
        "waiting for data, checkpoints, and the exchange of gradients between machines.",
        f"Price ({config.provisioning}): {known}. {accelerators.PRICE_SOURCE}{elsewhere}",
    )


def check_timeout(plan: Plan, timeout_hours: float) -> None:
    """Raise `UserError` if Vertex AI would stop the job before it is done, or does not take such a long one."""
    check(
        plan.hours <= timeout_hours,
        f"training takes about {plan.hours:.1f} h, but timeout_hours is {timeout_hours:g}; raise it, or take a "
        "faster accelerator (see `python -m pipeline plan`)",
    )
    check(
        plan.config.provisioning != FLEX_START or timeout_hours <= MAX_FLEX_START_HOURS,
        f"timeout_hours is {timeout_hours:g}; with provisioning flex-start it is {MAX_FLEX_START_HOURS} at most",
    )


# === Vertex AI ===


# === Kubeflow ===


# === For people ===


def markdown(plan: Plan) -> str:
    """The plan as people read it."""
    row, config = plan.accelerator, plan.config
    machines = f"{plan.workers} x {row.machine_type}, {row.chips} x {row.chip.title} each"
    servers = f", {config.reduction_servers} Reduction Servers" if config.reduction_servers else ""
    facts = {
        "Accelerator": f"{row.name}: {machines}, {config.provisioning}{servers}",
        "Replicas": str(plan.replicas),
        "Batch": f"{plan.batch_size} images in a step, {plan.batch_per_replica} on each replica",
        "Precision": plan.precision,
        "Data": f"{plan.images} training images at {plan.image_size[0]}x{plan.image_size[1]}",
        "Steps": f"{plan.epochs} epochs of {plan.steps_per_epoch} = {plan.epochs * plan.steps_per_epoch}",
        "Memory": f"{plan.memory_bytes / 1e9:.1f} GB of {plan.usable_memory_bytes / 1e9:.1f} GB on each chip",
        "Step": f"about {1000 * plan.seconds_per_step:.3g} ms",
        "Time": f"about {duration(plan.hours)}",
        "Cost": "not known" if plan.cost_usd is None else f"about {plan.cost_usd:.2f} USD",
    }
    first, *rest = [f"| {name} | {value} |" for name, value in facts.items()]
    table = "\n".join([first, "|---|---|", *rest])
    basis = "\n".join(f"- {sentence}" for sentence in plan.basis)
    return f"# Training on {row.name}\n\n{table}\n\n## What this rests on\n\n{basis}\n"


def duration(hours: float) -> str:
    """A time as a person says it: `7 min`, `3.4 h`."""
    return f"{60 * hours:.0f} min" if hours < 2 else f"{hours:.1f} h"
