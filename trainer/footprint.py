"""Memory and time of a training step on a chip, by a roofline model.

XLA counted operations, memory traffic and memory of the whole training step when it compiled the step for a TPU
v5e at 240 x 320 with 32 images per chip (`make check-tpu`, docs/benchmarks.md). All counts are proportional to the
number of pixels, because the network is convolutional.
"""

from trainer.accelerators import STEP_FLOP, Accelerator, Chip
from trainer.errors import check

PIXELS = 240 * 320
BYTES = {"float32": 1.313e9, "bfloat16": 0.913e9, "float16": 0.913e9}
"""Memory traffic of one image by precision; float16 is assumed to equal bfloat16."""
STATE_BYTES = 24.93e6 * 4 * 4
"""Weights, their gradients and Adam's two moments, float32."""
MEMORY_BYTES = {"float32": 6.13e9 / 32, "bfloat16": 3.17e9 / 32, "float16": 3.17e9 / 32}
"""Other memory of the step for one image by precision; float16 is assumed to equal bfloat16."""
USABLE_MEMORY = 0.9
"""Share of the memory available to the step; the runtime and its workspaces need the rest."""
START_SECONDS = 300.0
"""Billed time before the first step: container image, data, compilation. An assumption, not measured."""
FORWARD_SHARE = 1 / 3
"""Time of a validation image relative to a training image: the backward pass takes twice the forward pass."""


def memory_bytes(batch: int, image_size: tuple[int, int], precision: str) -> float:
    """Bytes of memory that `batch` images on one chip need."""
    return STATE_BYTES + batch * MEMORY_BYTES[precision] * _scale(image_size)


def usable_bytes(chip: Chip) -> float:
    """Bytes of memory of one chip that a step can use."""
    return USABLE_MEMORY * chip.memory_bytes


def largest_batch(chip: Chip, image_size: tuple[int, int], precision: str) -> int:
    """Largest number of images that fits into the memory of one chip; 0 if none fits."""
    return max(0, int((usable_bytes(chip) - STATE_BYTES) / (MEMORY_BYTES[precision] * _scale(image_size))))


def step_seconds(chip: Chip, batch: int, image_size: tuple[int, int], precision: str) -> float:
    """Seconds of one training step with `batch` images on each chip: those of arithmetic or of memory traffic,
    whichever is longer.
    """
    images = batch * _scale(image_size)
    arithmetic = images * STEP_FLOP / chip.flops[precision]
    memory = images * BYTES[precision] / chip.bandwidth_bytes_s
    return max(arithmetic, memory) / chip.efficiency


def bound(chip: Chip, precision: str) -> str:
    """The roofline limit of a step on `chip`: `arithmetic` or `memory traffic`."""
    traffic = BYTES[precision] / chip.bandwidth_bytes_s
    return "memory traffic" if traffic > STEP_FLOP / chip.flops[precision] else "arithmetic"


def basis(accelerator: Accelerator, precision: str) -> tuple[str, ...]:
    """Sentences that explain how the time and the memory of a plan were estimated."""
    chip = accelerator.chip
    if accelerator.image == "cpu":
        seconds = STEP_FLOP / chip.flops[precision] * accelerator.vcpus / 2
        speed = (
            f"Time: {seconds:.2f} s per 240x320 image, measured on two cores with AVX512_BF16, "
            f"divided by {accelerator.vcpus} vCPUs, each assumed to reach {chip.efficiency:.0%} of a core."
        )
        slow = "CPUs without AVX512_BF16 or AMX, such as this one, emulate bfloat16 and take far longer."
        return (speed, slow) if precision == "bfloat16" else (speed,)
    source = " from NVIDIA's figures for ResNet-50 in TensorFlow" if accelerator.image == "gpu" else ""
    return (
        f"Time: {STEP_FLOP / 1e9:.0f} GFLOP and {BYTES[precision] / 1e9:.2f} GB of memory traffic per 240x320 "
        f"image (counts of the step compiled for a TPU v5e), scaled by pixels, at {chip.efficiency:.0%} of its "
        f"peaks ({chip.flops[precision] / 1e12:.0f} TFLOP/s, {chip.bandwidth_bytes_s / 1e9:.0f} GB/s; bound by "
        f"{bound(chip, precision)}). That share is an assumption{source}, not measured on this chip.",
        f"Memory: {MEMORY_BYTES[precision] / 1e9:.2f} GB per 240x320 image (same source), scaled by pixels, and "
        f"{STATE_BYTES / 1e9:.1f} GB of weights and optimizer; {USABLE_MEMORY:.0%} of a chip's memory is usable.",
    )


def _scale(image_size: tuple[int, int]) -> float:
    return image_size[0] * image_size[1] / PIXELS


# === The batch ===


def default_batch(
    chip: Chip, replicas: int, accumulation: int, images: int, image_size: tuple[int, int], precision: str
) -> int:
    """Default number of images of a step over all replicas: for each part the default of the chip, or less if the
    memory or the number of training `images` does not allow that.
    """
    parts, largest = replicas * accumulation, largest_batch(chip, image_size, precision)
    return parts * max(1, min(chip.per_replica_batch, images // parts, largest))


def parts(images: int, largest: int) -> int:
    """The smallest `accumulation` that splits `images` into equal parts of at most `largest`."""
    return next(count for count in range(-(-images // largest), images + 1) if images % count == 0)


def check_shares(batch_size: int, replicas: int, accumulation: int, images: int, accelerator: str = "") -> None:
    """Raise `UserError` unless the data have a whole batch, and all replicas and parts get equally many images."""
    parts = replicas * accumulation
    lower = batch_size // parts * parts
    near = " or ".join(str(batch) for batch in (lower, lower + parts) if batch)
    sharers = f"{replicas} replicas{f' of {accelerator}' if accelerator else ''}"
    sharers += f", in {accumulation} parts each (accumulation)," if accumulation > 1 else ""
    check(
        batch_size % parts == 0,
        f"batch_size is {batch_size}, which {sharers} cannot share; set it to {near}, or to 0 for the default",
    )
    check(
        batch_size <= images,
        f"batch_size is {batch_size} over {replicas} replicas, but there are {images} training images; "
        "make it smaller, use fewer chips, or prepare more images (max_examples)",
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
    """Raise `UserError` unless a `chip`, called `name`, has enough memory for its share of a batch."""
    part, largest = batch_size // replicas // accumulation, largest_batch(chip, image_size, precision)
    needs, has = memory_bytes(part, image_size, precision) / 1e9, usable_bytes(chip) / 1e9
    remedy = (
        f"set batch_size to at most {largest * replicas * accumulation}, or accumulation to "
        f"{parts(batch_size // replicas, largest)}"
        if largest
        else "use smaller images, or a machine with more memory"
    )
    check(
        part <= largest,
        f"batch_size is {batch_size}: {part} images of {image_size[0]}x{image_size[1]} a chip in {precision} take "
        f"about {needs:.1f} GB, and {name} has {has:.1f} GB for them; {remedy}",
    )
