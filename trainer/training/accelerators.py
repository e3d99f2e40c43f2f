"""The accelerators for training: machines, chips and prices, and what a training step takes on them.

Peaks are figures for dense matrices from the NVIDIA T4, V100, L4, A100 and H100 data sheets and from the TPU v5e
page of Google's documentation. Machines, regions and combinations are from Vertex AI's pages on custom training
(configure compute, use Spot VMs, schedule jobs with Flex-start, locations).
"""

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple

from trainer.errors import SettingError, UnknownNameError, check, look_up
from trainer.network import DEFAULT_NETWORK, Architecture

# === Prices ===

MANAGEMENT_FEE = 0.15
"""Vertex AI adds this share of Compute Engine's on-demand price to the price of the machine, spot or not."""

MONTH_HOURS = 730
STANDARD, SPOT, FLEX_START = "standard", "spot", "flex-start"
PROVISIONING = (STANDARD, SPOT, FLEX_START)


# === Chips ===

USABLE_MEMORY = 0.9
"""Share of the memory available to the step. The runtime and its workspaces need the rest."""


class Estimate(NamedTuple):
    """The ends of an estimate. They are equal if it was measured."""

    least: float
    most: float

    def text(self, form: Callable[[float], str]) -> str:
        """Both ends in the words of `form`, such as `9 min to 16 min`.

        If their words are equal, they stand once.
        """
        least, most = map(form, self)
        return least if least == most else f"{least} to {most}"


# Published shares of the peak, at 3 x 31 GFLOP for an image of VGG16 and 3 x 8.2 for one of ResNet-50:
# - VGG16 trained on a V100 in float16: 58.8 ms for 16 images in PyTorch 0.3 are 20%, 49.4 ms in TensorFlow 1.5 are
#   24% (u39kun/deep-learning-benchmark at 02ef743, README.md).
# - ResNet-50 trained in TensorFlow with XLA: 1270 images/s on a V100 are 25%, 2375 on an A100 19%
#   (NVIDIA/DeepLearningExamples at 1d4211f, TensorFlow/Classification/ConvNets/resnet50v1.5/README.md).
# - ResNet-50 trained on TPU v3: 1.05 million images/s on 1024 chips of 123 TFLOP/s are 21% (Ying et al. 2018,
#   "Image Classification at Supercomputer Scale", arXiv:1811.06992).
# - VGG16's convolutions alone, in predictions of 32 images on a V100 in float16: 14.6 ms are 54% (PaddlePaddle,
#   paddle/contrib/float16/float16_benchmark.md).
# None is of this network, whose step is nearly all convolutions of VGG16, nor of an L4, T4, H100 or v5e.
EFFICIENCY = Estimate(0.2, 0.5)
"""Share of the peak of a GPU or a TPU that a training step is assumed to reach: from about that of the published
trainings to that of the convolutions alone. It is one for both, because the figures do not tell them apart."""
# The first two sources in float32 on a V100: VGG16 in 83.5 and 71.7 ms for 16 images, 113 and 132%. ResNet-50 at
# 412 images/s, 65%. cuDNN can multiply less often than the count says, by Winograd's algorithm.
FLOAT32_EFFICIENCY = Estimate(0.65, 1.3)
"""Share of the peak in float32 that a step reaches on a GPU whose tensor cores do not multiply float32."""


def parts(images: int, largest: int) -> int:
    """The smallest `accumulation` that splits `images` into equal parts of at most `largest`.

    Example: 12 images with at most 5 at a time are 3 parts.
    """
    return next(count for count in range(-(-images // largest), images + 1) if images % count == 0)


@dataclasses.dataclass(frozen=True)
class Chip:
    """One kind of chip. A machine may have several. For `cpu` the chip is the whole machine."""

    title: str
    image: str
    """Container image for it: cpu, gpu or tpu."""
    vertex_type: str
    """Vertex AI's `accelerator_type`. Empty if the machine type determines it."""
    node_labels: Mapping[str, str]
    """Labels of GKE nodes with this chip."""
    memory_bytes: float
    flops: Mapping[str, float]
    """Peak FLOP/s by precision, for the precisions that the chip supports."""
    bandwidth_bytes_s: float
    """Memory bandwidth, bytes per second. Infinite if `flops` was measured and includes memory traffic."""
    precision: str
    """Precision that `auto` selects."""
    per_replica_batch: int
    """Default images per step and replica: learns as fast per epoch as batches of one (research/log.md)."""
    regions: tuple[str, ...]
    """Regions where Vertex AI trains on it. Empty for all."""
    flex_start: bool = False
    """Whether Vertex AI can wait for capacity (Flex-start)."""
    efficiency: Estimate = EFFICIENCY
    """Share of the peak that a training step reaches. An assumption, not measured on this chip."""
    float32_efficiency: Estimate | None = None
    """Share of the peak in float32, where it differs from `efficiency`."""
    quota: str = ""
    """End of Vertex AI's quota metric for its chips. Empty for a CPU: its metric counts vCPUs."""
    map_seconds: Estimate | None = None
    """Seconds of one vCPU for one map by the network. None where no maps are predicted: on GPUs and TPUs."""
    on_vertex: bool = True
    """Whether Vertex AI has the machine for custom jobs. Kubernetes has every machine of Compute Engine."""

    def efficiency_in(self, precision: str) -> Estimate:
        """Share of the peak that a training step is assumed to reach in a precision."""
        return (precision == "float32" and self.float32_efficiency) or self.efficiency

    # === Memory and time of a training step, by a roofline model, for a network ===

    @property
    def usable_bytes(self) -> float:
        """Bytes of memory that a step can use."""
        return USABLE_MEMORY * self.memory_bytes

    def step_memory_bytes(
        self, batch: int, image_size: tuple[int, int], precision: str, network: Architecture = DEFAULT_NETWORK
    ) -> float:
        """Bytes of memory that `batch` images on one chip need."""
        cost = network.cost
        return cost.state_bytes + cost.images(batch, image_size) * cost.memory_bytes[self.image][precision]

    def largest_batch(
        self, image_size: tuple[int, int], precision: str, network: Architecture = DEFAULT_NETWORK
    ) -> int:
        """Largest number of images that fits into the memory. 0 if none fits."""
        cost = network.cost
        image_bytes = cost.images(1, image_size) * cost.memory_bytes[self.image][precision]
        return max(0, int((self.usable_bytes - cost.state_bytes) / image_bytes))

    def step_seconds(
        self, batch: int, image_size: tuple[int, int], precision: str, network: Architecture = DEFAULT_NETWORK
    ) -> Estimate:
        """Seconds of one training step with `batch` images on each chip.

        They are the longer time of arithmetic and of memory traffic at the chip's peaks, by its efficiency.
        """
        seconds = max(self._seconds_at_peak(batch, image_size, precision, network).values())
        efficiency = self.efficiency_in(precision)
        return Estimate(seconds / efficiency.most, seconds / efficiency.least)

    def bound(
        self, batch: int, image_size: tuple[int, int], precision: str, network: Architecture = DEFAULT_NETWORK
    ) -> str:
        """The roofline limit of a step with `batch` images on each chip: `arithmetic` or `memory traffic`."""
        seconds = self._seconds_at_peak(batch, image_size, precision, network)
        return max(seconds, key=lambda limit: seconds[limit])

    def _seconds_at_peak(
        self, batch: int, image_size: tuple[int, int], precision: str, network: Architecture
    ) -> dict[str, float]:
        cost = network.cost
        images = cost.images(batch, image_size)
        traffic = cost.state_traffic_bytes[self.image] + images * cost.traffic_bytes[self.image][precision]
        return {
            "arithmetic": images * cost.flop / self.flops[precision],
            "memory traffic": traffic / self.bandwidth_bytes_s,
        }

    def default_batch(
        self,
        replicas: int,
        accumulation: int,
        images: int,
        image_size: tuple[int, int],
        precision: str,
        network: Architecture = DEFAULT_NETWORK,
    ) -> int:
        """Default number of images of a step over all replicas.

        For each part it is the chip's default, or less if the memory or the number of training `images` does
        not allow that. Example: two T4 with accumulation 2 have 4 x 32 images.
        """
        n_parts, largest = replicas * accumulation, self.largest_batch(image_size, precision, network)
        return n_parts * max(1, min(self.per_replica_batch, images // n_parts, largest))

    def check_memory(
        self,
        name: str,
        batch_size: int,
        replicas: int,
        accumulation: int,
        image_size: tuple[int, int],
        precision: str,
        network: Architecture = DEFAULT_NETWORK,
    ) -> None:
        """Raise `UserError` unless this chip, called `name` there, has enough memory for its share of a batch."""
        part, largest = batch_size // replicas // accumulation, self.largest_batch(image_size, precision, network)
        needs, has = self.step_memory_bytes(part, image_size, precision, network) / 1e9, self.usable_bytes / 1e9
        remedy = (
            f"Set batch_size to at most {largest * replicas * accumulation}, or accumulation to "
            f"{parts(batch_size // replicas, largest)}"
            if largest
            else "Use smaller images, or a machine with more memory"
        )
        check(
            part <= largest,
            f"batch_size is {batch_size}: {part} images of {image_size[0]}x{image_size[1]} a chip in {precision} "
            f"take about {needs:.1f} GB, and {name} has {has:.1f} GB for them. {remedy}",
            SettingError,
        )


def _node(name: str) -> dict[str, str]:
    return {"cloud.google.com/gke-accelerator": name}


def _regions(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# On two cores with AVX512_BF16 a step of MSI-Net with an image of 240 x 320 pixels took 1.57 s in float32, and
# 0.96 s in bfloat16, with deterministic operations (research/log.md, "What a training step costs"). A vCPU is half
# a core, hence an efficiency of 0.5 at most. Without AVX-512 the step takes twice as long
# (research/benchmarks.md), hence 0.25 at least.
_CPU_FLOPS = {
    "float32": 16 / 2 * DEFAULT_NETWORK.cost.flop / 1.57,
    "bfloat16": 16 / 2 * DEFAULT_NETWORK.cost.flop / 0.96,
}

# A map of MSI-Net at 240 x 320 took two cores 0.42 s with AVX2, 0.39 s with AVX-512 in float32, and in bfloat16
# 0.19 s with AVX512_BF16 and 0.044 s with AMX (research/log.md, "Ten million maps"). A vCPU is half a core on
# Compute Engine, hence up to twice as long.
CPU = Chip(
    "CPU", "cpu", "", {}, 60e9, _CPU_FLOPS, math.inf, "float32", 1, (), efficiency=Estimate(0.25, 0.5),
    map_seconds=Estimate(0.78, 1.7),
)  # fmt: skip
# Custom jobs of Vertex AI have E2, N1, N2 and C2 machines, and no C3 (kuds/mesozoic-labs, pull request 201 of
# 2026-03). Tasks of a pipeline choose no machine type at all (Vertex AI: Specify the machine configuration for a
# pipeline step).
CPU_AMX = dataclasses.replace(
    CPU, title="CPU with AMX", node_labels={"cloud.google.com/machine-family": "c3"}, memory_bytes=88e9,
    flops={name: 22 / 16 * flops for name, flops in _CPU_FLOPS.items()},
    map_seconds=Estimate(0.088, 0.176), on_vertex=False,
)  # fmt: skip
# T4 and V100 have no bfloat16. Their tensor cores multiply float16.
T4 = Chip(
    "NVIDIA T4", "gpu", "NVIDIA_TESLA_T4", _node("nvidia-tesla-t4"), 16e9,
    {"float16": 65e12, "float32": 8.1e12}, 320e9, "float16", 32,
    _regions(
        "us-central1 us-east1 us-east4 us-west1 us-west2 us-west4 northamerica-northeast1 southamerica-east1 "
        "europe-central2 europe-west1 europe-west2 europe-west3 europe-west4 asia-east1 asia-east2 "
        "asia-northeast1 asia-northeast3 asia-south1 asia-southeast1 asia-southeast2 australia-southeast1"
    ),
    float32_efficiency=FLOAT32_EFFICIENCY, quota="nvidia_t4_gpus",
)  # fmt: skip
V100 = Chip(
    "NVIDIA V100", "gpu", "NVIDIA_TESLA_V100", _node("nvidia-tesla-v100"), 16e9,
    {"float16": 125e12, "float32": 15.7e12}, 900e9, "float16", 32,
    _regions("us-central1 us-east1 us-west1 europe-west4 asia-east1"),
    float32_efficiency=FLOAT32_EFFICIENCY, quota="nvidia_v100_gpus",
)  # fmt: skip
# By default TensorFlow computes float32 convolutions in TF32 on these: the float32 peaks are those of TF32.
L4 = Chip(
    "NVIDIA L4", "gpu", "NVIDIA_L4", _node("nvidia-l4"), 24e9, {"bfloat16": 121e12, "float32": 60e12}, 300e9,
    "bfloat16", 32,
    _regions(
        "us-central1 us-east1 us-east4 us-west1 northamerica-northeast2 europe-west2 europe-west4 me-central2 "
        "asia-northeast3 asia-south1 asia-southeast1"
    ),
    flex_start=True,
    quota="nvidia_l4_gpus",
)  # fmt: skip
A100 = Chip(
    "NVIDIA A100 40 GB", "gpu", "NVIDIA_TESLA_A100", _node("nvidia-tesla-a100"), 40e9,
    {"bfloat16": 312e12, "float32": 156e12}, 1555e9, "bfloat16", 32,
    _regions(
        "us-central1 us-east1 us-west3 us-west4 europe-west4 me-west1 asia-northeast3 asia-southeast1"
    ),
    flex_start=True,
    quota="nvidia_a100_gpus",
)  # fmt: skip
A100_80GB = Chip(
    "NVIDIA A100 80 GB", "gpu", "NVIDIA_A100_80GB", _node("nvidia-a100-80gb"), 80e9,
    {"bfloat16": 312e12, "float32": 156e12}, 2039e9, "bfloat16", 32,
    _regions("us-central1 us-east4 us-east5 europe-west4 asia-southeast1"),
    flex_start=True,
    quota="nvidia_a100_80gb_gpus",
)  # fmt: skip
H100 = Chip(
    "NVIDIA H100 80 GB", "gpu", "NVIDIA_H100_80GB", _node("nvidia-h100-80gb"), 80e9,
    {"bfloat16": 989e12, "float32": 495e12}, 3350e9, "bfloat16", 32,
    _regions(
        "us-central1 us-east4 us-east5 us-west1 us-west4 northamerica-northeast2 europe-west3 europe-west4 "
        "asia-northeast1 asia-northeast3 asia-south1 asia-southeast1"
    ),
    flex_start=True,
    quota="nvidia_h100_gpus",
)  # fmt: skip
# By default XLA multiplies float32 on a TPU in one pass of bfloat16.
V5E = Chip(
    "TPU v5e", "tpu", "", {"cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice"}, 16e9,
    {"bfloat16": 197e12, "float32": 197e12}, 819e9, "bfloat16", 32,
    _regions("us-central1 us-east1 us-west1 us-west4"),
    quota="tpu_v5e",
)  # fmt: skip

UNNAMED = {"cpu": CPU, "gpu": T4, "tpu": V5E}
"""Assumed chip, by image, of devices without a named accelerator: the chip with the least memory."""


# === Machines ===


@dataclasses.dataclass(frozen=True)
class Accelerator:
    """One row of the table: a machine with `chips` chips. Each chip is a replica.

    Example: `t4-4` has four.
    """

    PRICE_REGION: ClassVar[str] = "us-central1"
    PRICE_SOURCE: ClassVar[str] = (
        f"Compute Engine list prices of {PRICE_REGION}, read between 2026-07 and 2026-10, and Vertex AI's "
        "management fee of 15% of the on-demand price. Vertex AI's own list has cpu, t4 and h100-8. All others, "
        "and every spot price, are estimates (spot moves by 20%). The first 100 GB of each disk "
        "(about 0.03 USD/h) are not counted."
    )
    """Where the prices of the table come from, in sentences for people."""
    DISK_USD_PER_GB_MONTH: ClassVar[float] = 0.17
    """Compute Engine's list price of SSD persistent disks (pd-ssd) in PRICE_REGION (its page on disk and image
    pricing: 34 USD for 200 GB)."""
    name: str
    chip: Chip
    chips: int
    machine_type: str
    vcpus: int
    host_memory_gb: float
    compute_engine_usd: float
    """Compute Engine's on-demand price per hour, chips included."""
    compute_engine_spot_usd: float
    flex_start_usd: float | None = None
    """Vertex AI's Flex-start price per hour, fee included. None if unknown."""
    on_demand: bool = True
    """Whether the machine is available without Spot or Flex-start."""
    tpu_topology: str = ""

    @classmethod
    def named(cls, name: str) -> "Accelerator":
        """The row of accelerator `name`.

        Raises:
            UserError: if there is no such row. It names the rows of the kind, chip or machine type that `name`
                is, such as `tpu` or `nvidia-l4`, smallest first, or else the most similar name.
        """
        if name not in ACCELERATORS and (meant := _rows_called(name)):
            raise UnknownNameError(
                f"unknown accelerator {name!r}. Did you mean {', '.join(repr(row.name) for row in meant)}?"
            )
        return look_up("accelerator", name, ACCELERATORS)

    def is_in(self, location: str) -> bool:
        """Whether Vertex AI has it for custom jobs in a region."""
        return self.chip.on_vertex and (not self.chip.regions or location in self.chip.regions)

    def check_in(self, location: str) -> None:
        """Raise `UserError` unless Vertex AI has it for custom jobs in a region."""
        check(self.is_in(location), self.not_in(location), SettingError)

    def not_in(self, location: str) -> str:
        """A sentence about a region where `is_in` says no."""
        if not self.chip.on_vertex:
            return f"{self.name} ({self.machine_type}) is no machine of custom jobs on Vertex AI. Use it on GKE"
        return f"{self.name} is not available for training in {location}. It is in {', '.join(self.chip.regions)}"

    @property
    def image(self) -> str:
        """Container image for it: cpu, gpu or tpu."""
        return self.chip.image

    @property
    def several_workers(self) -> bool:
        """Whether several such machines can train together."""
        return self.image == "gpu"

    @property
    def provisioning(self) -> tuple[str, ...]:
        """The ways of PROVISIONING in which Vertex AI offers the machine."""
        return tuple(
            name
            for name, offered in zip(PROVISIONING, (self.on_demand, True, self.chip.flex_start), strict=True)
            if offered
        )

    @property
    def machine_spec(self) -> dict[str, str | int]:
        """Vertex AI's MachineSpec: a TPU v5e has a topology and no accelerator, a CPU has neither."""
        spec: dict[str, str | int] = {"machine_type": self.machine_type}
        if self.tpu_topology:
            spec["tpu_topology"] = self.tpu_topology
        if self.chip.vertex_type:
            spec |= {"accelerator_type": self.chip.vertex_type, "accelerator_count": self.chips}
        return spec

    def quotas(self, provisioning: str) -> dict[str, int]:
        """Vertex AI's quota metrics of training, without their prefix -> how much of them one machine takes.

        Example: a `t4-2` takes `{"nvidia_t4_gpus": 2, "cpus": 16}`.

        Spot and Flex-start take the preemptible metrics (Vertex AI: Schedule training jobs based on resource
        availability). vCPUs count for N1 machines, and all preemptible ones with GPUs. A2, A3 and G2 machines
        have metrics of their own, which are unlimited in projects that were looked at.
        """
        prefix = "" if provisioning == STANDARD else "preemptible_"
        counts = {self.chip.quota: self.chips} if self.chip.quota else {}
        if self.machine_type.startswith("n1-") or (prefix and self.image == "gpu"):
            counts["cpus"] = self.vcpus
        return {f"{prefix}{name}": count for name, count in counts.items()}

    @property
    def resource_name(self) -> str:
        """Kubernetes resource, such as `nvidia.com/gpu`. A pod requests `chips` of it. Empty for a CPU."""
        return {"cpu": "", "gpu": "nvidia.com/gpu", "tpu": "google.com/tpu"}[self.image]

    @property
    def node_selector(self) -> dict[str, str]:
        """Labels of the GKE nodes on which a pod can run."""
        topology = {"cloud.google.com/gke-tpu-topology": self.tpu_topology} if self.tpu_topology else {}
        return {**self.chip.node_labels, **topology}

    def usd_per_hour(self, provisioning: str) -> float | None:
        """Vertex AI's price of one machine in PRICE_REGION. None if it is not offered or unknown."""
        if provisioning not in self.provisioning:
            return None
        fee = MANAGEMENT_FEE * self.compute_engine_usd
        return {
            STANDARD: self.compute_engine_usd + fee,
            SPOT: self.compute_engine_spot_usd + fee,
            FLEX_START: self.flex_start_usd,
        }[provisioning]

    @classmethod
    def disk_usd_per_hour(cls, size_gb: float) -> float:
        """Vertex AI's price of a disk (pd-ssd) of this size, fee included. Example: 0.027 for 100 GB."""
        return size_gb * cls.DISK_USD_PER_GB_MONTH / MONTH_HOURS * (1 + MANAGEMENT_FEE)

    def basis(
        self, batch: int, image_size: tuple[int, int], precision: str, network: Architecture = DEFAULT_NETWORK
    ) -> tuple[str, ...]:
        """Sentences that explain how the time and the memory with `batch` images a chip were estimated."""
        chip, cost = self.chip, network.cost
        share = "{:.0%} to {:.0%}".format(*chip.efficiency_in(precision))
        if self.image == "cpu":
            seconds = cost.flop / chip.flops[precision] * self.vcpus / 2
            speed = (
                f"Time: {2 * seconds:.2f} s of one core per 240x320 image, measured on two cores with "
                f"AVX512_BF16, divided by {self.vcpus} vCPUs, each assumed to reach {share} of such a core."
            )
            slow = "CPUs without AVX512_BF16 or AMX, such as this one, emulate bfloat16 and take far longer."
            return (speed, slow) if precision == "bfloat16" else (speed,)
        figures = "V100, A100 and TPU v3, alike for GPUs and TPUs"
        if chip.efficiency_in(precision) is FLOAT32_EFFICIENCY:
            figures = "V100 in float32, where cuDNN may multiply less often than is counted"
        compiled = "a TPU v5e" if self.image == "tpu" else "GPUs, but the operations for a TPU v5e"
        traffic, memory = (counts[self.image][precision] for counts in (cost.traffic_bytes, cost.memory_bytes))
        return (
            f"Time: {cost.flop / 1e9:.0f} GFLOP and {traffic / 1e9:.2f} GB of memory traffic per "
            f"240x320 image (counts of the step compiled for {compiled}), scaled by pixels, and "
            f"{cost.state_traffic_bytes[self.image] / 1e9:.1f} GB a step for the weights, at {share} "
            f"of its peaks ({chip.flops[precision] / 1e12:.0f} TFLOP/s, {chip.bandwidth_bytes_s / 1e9:.0f} GB/s, "
            f"bound by {chip.bound(batch, image_size, precision, network)}). The share of the peaks is assumed, "
            f"from published figures for VGG16 and ResNet-50 on {figures}. It was not measured on this chip.",
            f"Memory: {memory / 1e9:.2f} GB per 240x320 image (counted likewise), scaled by pixels, and "
            f"{cost.state_bytes / 1e9:.1f} GB of weights and optimizer. {USABLE_MEMORY:.0%} of a chip's memory is "
            "usable.",
        )


_ROWS = (
    Accelerator("cpu", CPU, 1, "n1-standard-16", 16, 60, 0.7600, 0.2553),
    Accelerator("cpu-amx", CPU_AMX, 1, "c3-standard-22", 22, 88, 1.1088, 0.4435),
    Accelerator("t4", T4, 1, "n1-standard-8", 8, 30, 0.7300, 0.3192),
    Accelerator("t4-2", T4, 2, "n1-standard-16", 16, 60, 1.4600, 0.6383),
    Accelerator("t4-4", T4, 4, "n1-standard-32", 32, 120, 2.9200, 1.2766),
    Accelerator("v100", V100, 1, "n1-standard-8", 8, 30, 2.8600, 1.3615),
    Accelerator("v100-2", V100, 2, "n1-standard-16", 16, 60, 5.7200, 2.7229),
    Accelerator("v100-4", V100, 4, "n1-standard-32", 32, 120, 11.4400, 5.4458),
    Accelerator("v100-8", V100, 8, "n1-standard-64", 64, 240, 22.8800, 10.8916),
    Accelerator("l4", L4, 1, "g2-standard-8", 8, 32, 0.8536, 0.4362),
    Accelerator("l4-2", L4, 2, "g2-standard-24", 24, 96, 2.0008, 1.0225),
    Accelerator("l4-4", L4, 4, "g2-standard-48", 48, 192, 4.0016, 2.0450),
    Accelerator("l4-8", L4, 8, "g2-standard-96", 96, 384, 8.0033, 4.0901),
    Accelerator("a100", A100, 1, "a2-highgpu-1g", 12, 85, 3.6734, 1.9280),
    Accelerator("a100-2", A100, 2, "a2-highgpu-2g", 24, 170, 7.3468, 3.8560),
    Accelerator("a100-4", A100, 4, "a2-highgpu-4g", 48, 340, 14.6935, 7.7121),
    Accelerator("a100-8", A100, 8, "a2-highgpu-8g", 96, 680, 29.3871, 15.4242),
    Accelerator("a100-80gb", A100_80GB, 1, "a2-ultragpu-1g", 12, 170, 5.0277, 2.7376),
    Accelerator("a100-80gb-2", A100_80GB, 2, "a2-ultragpu-2g", 24, 340, 10.0554, 5.4751),
    Accelerator("a100-80gb-4", A100_80GB, 4, "a2-ultragpu-4g", 48, 680, 20.1108, 10.9502),
    Accelerator("a100-80gb-8", A100_80GB, 8, "a2-ultragpu-8g", 96, 1360, 40.2216, 21.9005),
    Accelerator("h100", H100, 1, "a3-highgpu-1g", 26, 234, 10.9791, 5.9832, 6.4369, on_demand=False),
    Accelerator("h100-2", H100, 2, "a3-highgpu-2g", 52, 468, 21.9581, 11.9665, 12.8737, on_demand=False),
    Accelerator("h100-4", H100, 4, "a3-highgpu-4g", 104, 936, 43.9162, 23.9330, 25.7475, on_demand=False),
    Accelerator("h100-8", H100, 8, "a3-highgpu-8g", 208, 1872, 87.8325, 47.8659, 51.4949),
    Accelerator("v5e-1", V5E, 1, "ct5lp-hightpu-1t", 24, 48, 1.2000, 0.2977, tpu_topology="1x1"),
    Accelerator("v5e-4", V5E, 4, "ct5lp-hightpu-4t", 112, 192, 4.8000, 1.1908, tpu_topology="2x2"),
    Accelerator("v5e-8", V5E, 8, "ct5lp-hightpu-8t", 224, 384, 9.6000, 2.3817, tpu_topology="2x4"),
)
ACCELERATORS: dict[str, Accelerator] = {row.name: row for row in _ROWS}
SHORTEST_WORD = 3
"""Number of letters and digits from which the beginning of a word says which accelerators are meant."""


def _rows_called(name: str) -> list[Accelerator]:
    """The rows that Google's or NVIDIA's word `name`, in any case and spelling, stands for: smallest first.

    Example: `nvidia-tesla-t4` stands for `t4`, `t4-2` and `t4-4`.

    A row's own name comes first, such as `L4`. Then the word as it is, without a number of chips at its end, as in
    `v5e-16`, and as the beginning of others, as in `nvidia`.
    """
    rows = sorted(_ROWS, key=lambda row: (row.chips, row.compute_engine_usd))
    word, family = _plain(name), _plain(_family(name))
    if same := [row for row in rows if _plain(row.name) == word]:
        return same
    for fits in (word.__eq__, family.__eq__, lambda known: len(word) >= SHORTEST_WORD and known.startswith(word)):
        if found := [row for row in rows if any(map(fits, _words(row)))]:
            return found
    return []


def _words(row: Accelerator) -> set[str]:
    """The words for an accelerator: its name, kind, machine type, and what its chip is called."""
    chip = row.chip
    title = chip.title.partition(" ")[2]  # without the vendor
    names = (row.name, _family(row.name), row.image, row.machine_type, chip.title, title, chip.vertex_type)
    return {_plain(name) for name in (*names, chip.quota, row.resource_name, *chip.node_labels.values()) if name}


def _family(name: str) -> str:
    """An accelerator's name without the number of chips at its end, such as `v5e` for `v5e-16`."""
    return re.sub(r"-\d+$", "", name)


def _plain(name: str) -> str:
    """The letters and digits of a name, in lower case, such as `a10080gb`."""
    return "".join(filter(str.isalnum, name.casefold()))
