"""How much memory and time a training step takes on a chip: a roofline over its counts. Standard library only.

The counts are those of the whole training step compiled by XLA for a TPU v5e at 240 x 320 with 32 images a chip
(`make check-tpu`, docs/benchmarks.md). All of them grow with the pixels, since the network is convolutional.
"""

from trainer.accelerators import STEP_FLOP, Accelerator, Chip
from trainer.errors import check

PIXELS = 240 * 320
BYTES = {"float32": 1.313e9, "bfloat16": 0.913e9, "float16": 0.913e9}
"""Memory traffic of one image, by precision; float16 is taken to be as bfloat16."""
STATE_BYTES = 24.93e6 * 4 * 4
"""Weights, their gradients and Adam's two moments, float32."""
MEMORY_BYTES = {"float32": 6.13e9 / 32, "bfloat16": 3.17e9 / 32, "float16": 3.17e9 / 32}
"""What the step keeps of one image beside them, by precision; likewise."""
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
    arithmetic = images * STEP_FLOP / chip.flops[precision]
    memory = images * BYTES[precision] / chip.bandwidth_bytes_s
    return max(arithmetic, memory) / chip.efficiency


def bound(chip: Chip, precision: str) -> str:
    """What the time of a step on `chip` is that of: `arithmetic` or `memory traffic`."""
    traffic = BYTES[precision] / chip.bandwidth_bytes_s
    return "memory traffic" if traffic > STEP_FLOP / chip.flops[precision] else "arithmetic"


def basis(accelerator: Accelerator, precision: str) -> tuple[str, ...]:
    """Sentences that say what the time and the memory of a plan rest on."""
    chip = accelerator.chip
    if accelerator.image == "cpu":
        seconds = STEP_FLOP / chip.flops[precision] * accelerator.vcpus / 2
        speed = (
            f"Time: {seconds:.2f} s per 240x320 image, measured on two cores with AVX512_BF16, "
            f"spread over {accelerator.vcpus} vCPUs each taken to do {chip.efficiency:.0%} of a core."
        )
        slow = "Machines without AVX512_BF16 or AMX, such as this one, emulate bfloat16 and take far longer."
        return (speed, slow) if precision == "bfloat16" else (speed,)
    return (
        f"Time: {STEP_FLOP / 1e9:.0f} GFLOP and {BYTES[precision] / 1e9:.2f} GB of memory traffic per 240x320 "
        f"image (counts of the step compiled for a TPU v5e), scaled by pixels, at {chip.efficiency:.0%} of its "
        f"peaks ({chip.flops[precision] / 1e12:.0f} TFLOP/s, {chip.bandwidth_bytes_s / 1e9:.0f} GB/s; bound by "
        f"{bound(chip, precision)}). That share is an assumption: it has not been measured on this chip.",
        f"Memory: {MEMORY_BYTES[precision] / 1e9:.2f} GB per 240x320 image (same source), scaled by pixels, and "
        f"{STATE_BYTES / 1e9:.1f} GB of weights and optimizer; {USABLE_MEMORY:.0%} of a chip's memory is usable.",
    )


def _scale(image_size: tuple[int, int]) -> float:
    return image_size[0] * image_size[1] / PIXELS


# === The batch ===


def default_batch(
    chip: Chip, replicas: int, accumulation: int, images: int, image_size: tuple[int, int], precision: str
) -> int:
    """Images of a step over all replicas: for each part what the chip takes by default, or less where it has no
    memory, or the data no images, for that.
    """
    parts, most = replicas * accumulation, largest_batch(chip, image_size, precision)
    return parts * max(1, min(chip.per_replica_batch, images // parts, most))


def parts(images: int, most: int) -> int:
    """The least `accumulation` that splits `images` evenly into parts of at most `most`."""
    return next(count for count in range(-(-images // most), images + 1) if images % count == 0)


def check_shares(batch_size: int, replicas: int, accumulation: int, images: int, accelerator: str = "") -> None:
    """Raise `UserError` unless a batch is found in the data, and shared evenly by replicas, part by part."""
    parts = replicas * accumulation
    lower = batch_size // parts * parts
    near = " or ".join(str(batch) for batch in (lower, lower + parts) if batch)
    whose = f"{replicas} replicas of {accelerator}" if accelerator else f"{replicas} replicas"
    each = f", in {accumulation} parts each (accumulation)," if accumulation > 1 else ""
    check(
        batch_size % parts == 0,
        f"batch_size is {batch_size}, which {whose}{each} cannot share; set it to {near}, or to 0 for the default",
    )
    check(
        batch_size <= images,
        f"batch_size is {batch_size} over {replicas} replicas, but there are {images} training images; "
        "make it smaller, take fewer chips, or prepare more images (max_examples)",
    )


def check_memory(
    name: str,
    chip: Chip,
    batch_size: int,
    replicas: int,
    accumulation: int,
    image_size: tuple[int, int],
    precision: str,
) -> None:
    """Raise `UserError` unless a `chip`, called `name`, has memory for its share of a batch."""
    each, most = batch_size // replicas // accumulation, largest_batch(chip, image_size, precision)
    needs, has = memory_bytes(each, image_size, precision) / 1e9, usable_bytes(chip) / 1e9
    remedy = (
        f"set batch_size to at most {most * replicas * accumulation}, or accumulation to "
        f"{parts(batch_size // replicas, most)}"
        if most
        else "take smaller images, or a machine with more"
    )
    check(
        each <= most,
        f"batch_size is {batch_size}: {each} images of {image_size[0]}x{image_size[1]} a chip in {precision} take "
        f"about {needs:.1f} GB, and {name} has {has:.1f} GB for them; {remedy}",
    )
