"""Whether a training step fits an accelerator, and how much memory and time it takes: a roofline over its counts.

The counts are those of the whole training step (bilinear up-sampling as shifted averages, Adam) compiled by XLA
for a TPU v5e at 240 x 320 with 32 images a chip. All of them grow with the pixels, since the network is
convolutional.
"""

from trainer.accelerators import Accelerator, Chip
from trainer.config import PRECISIONS, check, check_choice

# === Time and memory ===

PIXELS = 240 * 320
FLOP = 260e9
BYTES = {"float32": 2.809e9, "bfloat16": 1.808e9}
"""Memory traffic of one image, by precision."""
MEMORY_BYTES = {"float32": 11.6e9 / 32, "bfloat16": 7.7e9 / 32}
"""What the step keeps of one image, by precision."""
STATE_BYTES = 24.93e6 * 4 * 4
"""Weights, their gradients and Adam's two moments, float32."""
USABLE_MEMORY = 0.9
"""Share of the memory that is left to the step by the runtime and its work spaces."""
START_SECONDS = 300.0
"""From when a machine is paid for to its first step: image, data, compilation. An assumption, not measured."""
FORWARD_SHARE = 1 / 3
"""Time of a validation image over that of a training image: the backward pass takes twice the forward one."""


def memory_bytes(batch: int, image_size: tuple[int, int], precision: str) -> float:
    """Memory of one chip for `batch` images on it."""
    return STATE_BYTES + batch * MEMORY_BYTES[precision] * _scale(image_size)


def usable_bytes(chip: Chip) -> float:
    """Memory of one chip that a step may take."""
    return USABLE_MEMORY * chip.memory_bytes


def largest_batch(chip: Chip, image_size: tuple[int, int], precision: str) -> int:
    """The most images that one chip has memory for; 0 if not even one."""
    return max(0, int((usable_bytes(chip) - STATE_BYTES) / (MEMORY_BYTES[precision] * _scale(image_size))))


def step_seconds(chip: Chip, batch: int, image_size: tuple[int, int], precision: str) -> float:
    """Time of one training step with `batch` images on each chip: arithmetic or memory, whichever takes longer."""
    images = batch * _scale(image_size)
    arithmetic = images * FLOP / chip.flops[precision]
    memory = images * BYTES[precision] / chip.bandwidth_bytes_s
    return max(arithmetic, memory) / chip.efficiency


def bound(chip: Chip, precision: str) -> str:
    """What the time of a step on `chip` is that of: `arithmetic` or `memory traffic`."""
    traffic = BYTES[precision] / chip.bandwidth_bytes_s
    return "memory traffic" if traffic > FLOP / chip.flops[precision] else "arithmetic"


def basis(accelerator: Accelerator, precision: str) -> tuple[str, ...]:
    """Sentences that say what the time and the memory of a plan rest on."""
    chip = accelerator.chip
    if accelerator.image == "cpu":
        seconds = FLOP / chip.flops[precision] * accelerator.vcpus / 2
        speed = (
            f"Time: {seconds:.2f} s per 240x320 image, measured on two cores with AVX512_BF16, "
            f"spread over {accelerator.vcpus} vCPUs each taken to do {chip.efficiency:.0%} of a core."
        )
        slow = "Machines without AVX512_BF16 or AMX, such as this one, emulate bfloat16 and take far longer."
        return (speed, slow) if precision == "bfloat16" else (speed,)
    return (
        f"Time: {FLOP / 1e9:.0f} GFLOP and {BYTES[precision] / 1e9:.2f} GB of memory traffic per 240x320 image "
        f"(counts of the step compiled for a TPU v5e), scaled by pixels, at {chip.efficiency:.0%} of the chip's "
        f"peaks ({chip.flops[precision] / 1e12:.0f} TFLOP/s, {chip.bandwidth_bytes_s / 1e9:.0f} GB/s; bound by "
        f"{bound(chip, precision)}). That share is an assumption: it has not been measured on this chip.",
        f"Memory: {MEMORY_BYTES[precision] / 1e9:.2f} GB per 240x320 image (same source), scaled by pixels, and "
        f"{STATE_BYTES / 1e9:.1f} GB of weights and optimizer; {USABLE_MEMORY:.0%} of a chip's memory is usable.",
    )


def _scale(image_size: tuple[int, int]) -> float:
    return image_size[0] * image_size[1] / PIXELS


# === What must fit ===


def check_platform(platform: str, accelerator: str, workers: int) -> None:
    """Raise `UserError` if `platform` (vertex, kubeflow or local) cannot give a step these machines."""
    check(
        platform != "kubeflow" or workers == 1,
        f"workers is {workers}, but on Kubeflow a training step is one pod; set it to 1 and take an accelerator "
        "with more chips",
    )
    check(
        platform != "local" or accelerator == "cpu",
        f"accelerator is {accelerator!r}, but a local run trains on this machine; set it to cpu, or run on Vertex "
        "AI or Kubeflow",
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


def check_batch(
    row: Accelerator,
    replicas: int,
    batch_size: int,
    images: int,
    most: int,
    image_size: tuple[int, int],
    precision: str,
) -> None:
    """Raise `UserError` unless a global batch is shared evenly, found in the data, and fits `most` on a chip."""
    size = f"{image_size[0]}x{image_size[1]}"
    lower = batch_size // replicas * replicas
    near = " or ".join(str(batch) for batch in (lower, lower + replicas) if batch)
    check(
        batch_size % replicas == 0,
        f"batch_size is {batch_size}, which {replicas} replicas of {row.name} cannot share; set it to {near}, or "
        "to 0 for the default",
    )
    check(
        batch_size <= images,
        f"batch_size is {batch_size} over {replicas} replicas, but there are {images} training images; "
        "make it smaller, or take fewer chips",
    )
    needs = memory_bytes(batch_size // replicas, image_size, precision) / 1e9
    has = usable_bytes(row.chip) / 1e9
    remedy = f"set batch_size to at most {most * replicas}" if most else "take smaller images, or a chip with more"
    check(
        batch_size // replicas <= most,
        f"batch_size is {batch_size}: {batch_size // replicas} images of {size} a chip in {precision} take about "
        f"{needs:.1f} GB, and {row.name} has {has:.1f} GB for them; {remedy}",
    )
