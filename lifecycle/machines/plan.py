"""The machines of one training step and its plan: whether it fits them, and its memory, time and cost.

A step that does not fit raises `UserError` with the numbers and the remedy, before any machine is requested.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Self

from lifecycle.machines.benchmark_results import Measurement
from lifecycle.machines.settings import AcceleratorConfig
from trainer.data import SAMPLE, FetchConfig, parse_image_size
from trainer.datasets import Dataset
from trainer.errors import SettingError, check
from trainer.texts import format_duration
from trainer.training import FLEX_START, Accelerator, Estimate, TrainConfig

ASSUMED_COUNTS = (800, 200)
"""Images for training and validation where any number is complete. The plan of a run counts them."""
LEAST_TIMEOUT_HOURS, TIMEOUT_FACTOR, MOST_TIMEOUT_HOURS = 3.0, 6.0, 168.0
"""The default timeout of a job: so many times the longest estimate, at least and at most so many hours. Vertex
AI itself stops a job without a timeout, and every Flex-start job, after these seven days."""
START_SECONDS = 300.0
"""Billed time before the first step: container image, data, compilation. An assumption, not measured."""
FORWARD_SHARE = 1 / 3
"""Time of a validation image relative to a training image: the backward pass takes twice the forward pass."""
BOOT_DISK_GB = 100
"""Size of a machine's boot disk on Vertex AI, if a job asks for no other."""
MOST_BOOT_DISK_GB = 2000
"""Largest boot disk that a plan asks for. Of more images, the shards are read in each epoch."""
BOOT_DISK_TYPE = "pd-ssd"
"""Vertex AI's default for these machines (its DiskSpec)."""
SYSTEM_DISK_GB = 40
"""What else is on a boot disk: the system, the container image and checkpoints on their way. An assumption."""
FREE_DISK = 0.15
"""Share of a disk that a training leaves free (`trainer.data.load.DISK_RESERVE`)."""
IMAGES_MEMORY = 0.8
"""Share of a machine's memory that decoded images may take. The rest is for TensorFlow and the network."""
SCRATCH = ("/gcs", "/s3", "/minio")
"""Folders of a Kubeflow pod in which the launcher keeps its copies of artifacts. Each is an emptyDir: it is
lost with the pod (kubeflow/pipelines 2.17.0,
backend/src/v2/compiler/argocompiler/container.go:476-496)."""


def needed_disk_gb(data_gb: float) -> int:
    """The size of a disk with room for data, the system and `FREE_DISK`, GB. Example: 410 for 307 GB."""
    return math.ceil((data_gb + SYSTEM_DISK_GB) / (1 - FREE_DISK) / 10) * 10


def disk_spec_of(disk_gb: int) -> dict[str, str | int]:
    """Vertex AI's DiskSpec of a boot disk of this size. Empty for one that is no larger than the default."""
    if disk_gb <= BOOT_DISK_GB:
        return {}
    return {"boot_disk_type": BOOT_DISK_TYPE, "boot_disk_size_gb": disk_gb}


@dataclasses.dataclass(frozen=True)
class DataSize:
    """Number and size of the images, such as `DataSize(10_000, 5_000, (240, 320))` for SALICON."""

    images: int
    """Training images of one epoch."""
    valid_images: int
    """Images evaluated after each epoch."""
    image_size: tuple[int, int]
    """(height, width) of the network's input, pixels."""

    @classmethod
    def of(cls, config: FetchConfig) -> Self:
        """The size of the dataset of `config`, by the table of datasets or by the sample's.

        A partial dataset counts as a complete one.
        """
        row = Dataset.named(config.dataset)
        counts = ASSUMED_COUNTS if row.any_count else (row.n_train, row.n_valid)
        if config.source == SAMPLE:
            from trainer.data import sample_counts  # slow to import

            generated = sample_counts(config.dataset)
            counts = generated["train"], generated["valid"]
        n_train, n_valid = counts
        n_valid -= round(n_valid * config.test_share)
        n_train, n_valid = (min(count, config.max_examples or count) for count in (n_train, n_valid))
        return cls(
            images=n_train,
            valid_images=n_valid,
            image_size=parse_image_size(config.image_size) if config.image_size else row.image_size,
        )


@dataclasses.dataclass(frozen=True)
class TrainingPlan:
    """A training step that fits its accelerator, with estimates of its memory, time and cost."""

    machines: AcceleratorConfig
    """With one accelerator."""
    training: TrainConfig
    """With batch size, scaling of the learning rate, and precision. On a CPU alone, it may be `auto`."""
    data: DataSize
    location: str
    """Vertex AI region. Empty for any region."""
    precision: str
    """float32, bfloat16 or float16, which the estimates are for."""
    measured: Measurement | None = None
    """A benchmark at these settings, perhaps at another image size. None if there was none."""
    has_own_disk: bool = True
    """Whether the job gets a boot disk of its own size: on Vertex AI, except on a persistent resource."""

    @property
    def accelerator(self) -> Accelerator:
        """The accelerator's row in the table."""
        return self.machines.row

    @property
    def batch_size(self) -> int:
        """Images in one step, over all replicas."""
        return self.training.batch_size

    @property
    def replicas(self) -> int:
        """Chips over all machines. Example: 8 for two machines of `l4-4`."""
        return self.machines.workers * self.accelerator.chips

    @property
    def batch_per_replica(self) -> int:
        """Images in one step on one chip. Example: 8 of a batch of 32 on 4 chips."""
        return self.batch_size // self.replicas

    @property
    def steps_per_epoch(self) -> int:
        """Full batches in the training images. Example: 312 of 10,000 images with a batch of 32."""
        return self.data.images // self.batch_size

    @property
    def memory_bytes(self) -> float:
        """Memory use of one chip, which computes one part of its batch at a time: measured, else estimated."""
        if self._measured_memory_bytes is not None:
            return self._measured_memory_bytes
        part = self.batch_per_replica // self.training.accumulation
        return self.accelerator.chip.step_memory_bytes(part, self.data.image_size, self.precision)

    @property
    def _measured_memory_bytes(self) -> float | None:
        is_same = self.measured is not None and self.measured.image_size == self.data.image_size
        return self.measured.memory_bytes if self.measured and is_same else None

    @property
    def usable_memory_bytes(self) -> float:
        """Memory of one chip that a training can use."""
        return self.accelerator.chip.usable_bytes

    @property
    def images_gb(self) -> float:
        """Size of all images, decoded. Example: 307 GB for a million of 240 x 320."""
        return (self.data.images + self.data.valid_images) * math.prod(self.data.image_size) * 4 / 1e9

    @property
    def images_place(self) -> str:
        """Where the training is expected to keep the decoded images: memory, disk or stream (its setting `cache`).

        It decides by itself, from the room that it finds (`trainer.data.load`).
        """
        if self.images_gb <= IMAGES_MEMORY * self.accelerator.host_memory_gb * 2**30 / 1e9:
            return "memory"
        return "disk" if self.has_own_disk and self._needed_disk_gb <= MOST_BOOT_DISK_GB else "stream"

    @property
    def _needed_disk_gb(self) -> int:
        return needed_disk_gb(self.images_gb)

    @property
    def disk_gb(self) -> int:
        """Size of each machine's boot disk: `BOOT_DISK_GB`, or more for images that memory has no room for.

        Example: 410 for a million images of 240 x 320 on a machine with 32 GB of memory.
        """
        return max(BOOT_DISK_GB, self._needed_disk_gb) if self.images_place == "disk" else BOOT_DISK_GB

    @property
    def disk_spec(self) -> dict[str, str | int]:
        """Vertex AI's DiskSpec. Empty for the default disk."""
        return disk_spec_of(self.disk_gb)

    @property
    def disk_usd_per_hour(self) -> float:
        """Price of what a machine's disk has above `BOOT_DISK_GB`, with the management fee."""
        return self.accelerator.disk_usd_per_hour(self.disk_gb - BOOT_DISK_GB)

    @property
    def disk_text(self) -> str:
        """The disk and the images in words, such as `410 GB, with 307 GB of decoded images`."""
        size = f"{self.disk_gb} GB" if self.has_own_disk else "the machine's own"
        images = f"{self.images_gb:.1f} GB of decoded images"
        return {
            "memory": f"{size}. {images} are in memory",
            "disk": f"{size}, with {images}",
            "stream": f"{size}. {images} are read in each epoch if it has no room",
        }[self.images_place]

    @property
    def step_seconds(self) -> Estimate:
        """Time of one training step: measured, else estimated."""
        size = self.data.image_size
        if self.measured:
            pixels = math.prod(size) / math.prod(self.measured.image_size)
            seconds = self.batch_size / self.measured.images_per_s * pixels
            return Estimate(seconds, seconds)
        return self.accelerator.chip.step_seconds(self.batch_per_replica, size, self.precision)

    @property
    def most_seconds_per_step(self) -> float:
        """Time of one training step, at most."""
        return self.step_seconds.most

    @property
    def hours_range(self) -> Estimate:
        """Estimated billed time: the start of the machines, training and validation."""
        valid_steps = math.ceil(self.data.valid_images / self.batch_size) * FORWARD_SHARE
        steps = self.training.epochs * (self.steps_per_epoch + valid_steps)
        return Estimate(*((self.start_s + steps * seconds) / 3600 for seconds in self.step_seconds))

    @property
    def most_hours(self) -> float:
        """Estimated billed time, at most."""
        return self.hours_range.most

    @property
    def start_s(self) -> float:
        """Time of the start of the machines, before the first step: measured, else assumed."""
        return self.measured.start_s if self.measured else START_SECONDS

    @property
    def time_basis(self) -> str:
        """Where the time comes from: `measured`, with the date, or `estimated`."""
        return f"measured {self.measured.date}" if self.measured else "estimated"

    @property
    def cost_range_usd(self) -> Estimate | None:
        """Estimated cost of all machines. None if the price is unknown."""
        price = self.accelerator.usd_per_hour(self.machines.provisioning)
        if price is None:
            return None
        hourly = self.machines.workers * (price + self.disk_usd_per_hour)
        return Estimate(*(hours * hourly for hours in self.hours_range))

    @property
    def most_cost_usd(self) -> float | None:
        """Estimated cost of all machines, at most. None if the price is unknown."""
        return self.cost_range_usd and self.cost_range_usd.most

    @property
    def time_text(self) -> str:
        """The billed time in words, such as `9 min to 16 min`."""
        return self.hours_range.text(lambda hours: format_duration(3600 * hours))

    @property
    def cost_text(self) -> str:
        """The cost in USD, such as `0.21 to 0.36`. `?` if the price is unknown."""
        return self.cost_range_usd.text("{:.2f}".format) if self.cost_range_usd else "?"

    @property
    def has_other_prices(self) -> bool:
        """Whether the prices are of another region than the job's."""
        return self.location not in ("", Accelerator.PRICE_REGION)

    @property
    def basis(self) -> tuple[str, ...]:
        """Sentences that explain the estimates."""
        row, provisioning = self.accelerator, self.machines.provisioning
        price = row.usd_per_hour(provisioning)
        hourly = "unknown" if price is None else f"{price:.2f} USD per hour for one {row.machine_type}"
        elsewhere = f" Prices in {self.location} differ." if self.has_other_prices else ""
        hourly_disk = (
            f"Disk: {self.disk_usd_per_hour:.2f} USD per hour and machine for what it has above {BOOT_DISK_GB} "
            f"GB, at {Accelerator.DISK_USD_PER_GB_MONTH} USD per GB and month ({BOOT_DISK_TYPE}) and the fee."
        )
        speed, *others = row.basis(self.batch_per_replica, self.data.image_size, self.precision)
        start = "an assumption"
        if self.measured:
            height, width = self.measured.image_size
            is_scaled = self.measured.image_size != self.data.image_size
            start = "measured, without the reading of data"
            speed = (
                f"Time: {self.measured.images_per_s:.3g} images/s at {height}x{width}, {self.time_basis} over "
                f"{self.measured.steps} steps with {self.measured.versions}"
                f"{', scaled by pixels' if is_scaled else ''}."
            )
        if self._measured_memory_bytes is not None:
            others = [f"Memory: the peak of the same steps, {self.time_basis}."]
        return (
            speed,
            *others,
            f"The time includes {self.start_s / 60:.0f} minutes for the start ({start}), and after each epoch "
            f"{self.data.valid_images} validation images, at a third of the time of a training image. It excludes "
            "waiting for data, checkpoints, and the exchange of gradients between machines.",
            f"Price ({provisioning}): {hourly}. {Accelerator.PRICE_SOURCE}{elsewhere}",
            *([hourly_disk] if self.disk_spec else []),
        )

    def timeout(self, timeout_hours: float) -> float:
        """Hours after which Vertex AI stops the job: `timeout_hours`, or if it is 0 a multiple of `most_hours`.

        A job that hangs, such as in a download or in an exchange between GPUs, is billed until then.

        Raises:
            UserError: the job would be stopped too early, or Vertex AI does not accept so long a timeout.
        """
        timeout_hours = timeout_hours or min(
            max(LEAST_TIMEOUT_HOURS, TIMEOUT_FACTOR * self.most_hours), MOST_TIMEOUT_HOURS
        )
        check(
            self.most_hours <= timeout_hours,
            f"training takes up to {self.most_hours:.1f} h, but timeout_hours is {timeout_hours:g}. Raise it, or "
            "choose a faster accelerator (see `python -m pipeline plan`)",
            SettingError,
        )
        check(
            self.machines.provisioning != FLEX_START or timeout_hours <= MOST_TIMEOUT_HOURS,
            f"timeout_hours is {timeout_hours:g}. With provisioning flex-start it must be at most "
            f"{MOST_TIMEOUT_HOURS:g}",
            SettingError,
        )
        return timeout_hours

    @property
    def scheduling_strategy(self) -> str:
        """The custom job's `scheduling.strategy`: STANDARD, SPOT or FLEX_START."""
        return self.machines.provisioning.upper().replace("-", "_")

    def worker_pool_specs(self, image: str, command: Sequence[str], args: Sequence[str]) -> list[dict[str, Any]]:
        """The worker pools of Vertex AI's custom job, for `CustomTrainingJobOp`.

        Pool 0 is the leader alone, and pool 1 all other machines. No pool is empty: the launcher would drop it.
        A disk is named only if it is not the default one.
        There is no pool of Reduction Servers: an image needs Google's plugin for NCCL to use them (Vertex AI's
        page on distributed training).
        """
        container = {"image_uri": image, "command": list(command), "args": list(args)}
        others = self.machines.workers - 1
        return [
            {
                "machine_spec": self.accelerator.machine_spec,
                "replica_count": replicas,
                "container_spec": container,
                **({"disk_spec": self.disk_spec} if self.disk_spec else {}),
            }
            for replicas in ([1, others] if others else [1])
        ]

    def markdown(self, timeout_hours: float = 0.0) -> str:
        """The plan as a Markdown page. `timeout_hours`, if not 0, is when Vertex AI stops the job."""
        row, machines, data = self.accelerator, self.machines, self.data
        epochs, steps = self.training.epochs, self.steps_per_epoch
        hardware = f"{machines.workers} x {row.machine_type}, {row.chips} x {row.chip.title} each"
        facts = {
            "Accelerator": f"{row.name}: {hardware}, {machines.provisioning}",
            "Replicas": str(self.replicas),
            "Batch": f"{self.batch_size} images per step, {self.batch_per_replica} per replica",
            "Precision": self.precision,
            "Data": f"{data.images} training images at {data.image_size[0]}x{data.image_size[1]}",
            "Steps": f"{epochs} epochs of {steps} = {epochs * steps}",
            "Speed": self.time_basis,
            "Memory": f"{self.memory_bytes / 1e9:.1f} GB of {self.usable_memory_bytes / 1e9:.1f} GB per chip",
            "Disk": self.disk_text,
            "Step": f"about {self.step_seconds.text(lambda seconds: f'{1000 * seconds:.3g}')} ms",
            "Time": f"about {self.time_text}",
            "Cost": "unknown" if self.most_cost_usd is None else f"about {self.cost_text} USD",
        }
        if timeout_hours:
            facts["Timeout"] = f"stopped after {format_duration(3600 * timeout_hours)} (timeout_hours)"
        first, *rest = [f"| {name} | {value} |" for name, value in facts.items()]
        table = "\n".join([first, "|---|---|", *rest])
        basis = "\n".join(f"- {sentence}" for sentence in self.basis)
        return f"# Training on {row.name}\n\n{table}\n\n## Basis of the estimates\n\n{basis}\n"


def make_plan(
    machines: AcceleratorConfig,
    training: TrainConfig,
    data: DataSize,
    *,
    location: str = "",
    platform: str = "vertex",
) -> TrainingPlan:
    """Check that a training step fits its accelerator, and estimate its time and cost.

    - A `batch_size` of 0 is the accelerator's default, or less if memory or images are too few for it.
    - A precision of `auto` is the chip's best, such as bfloat16 on a TPU. Only the machine can tell whether a CPU
      multiplies bfloat16: `auto` stays for a CPU, and the estimates are for float32.
    - `location` is the Vertex AI region that must offer the accelerator. Any region may, if it is empty.
    - Of several accelerators, the plan has the first that the region offers.

    Raises `UserError` if it does not fit.
    """
    machines = machines.offered(location if platform == "vertex" else "")
    row = machines.row
    parse_image_size("x".join(map(str, data.image_size)))
    precision = row.chip.precision if training.precision == "auto" else training.precision
    check(
        precision in row.chip.flops,
        f"{row.name} ({row.chip.title}) has no {precision}. Set precision to {' or '.join(row.chip.flops)}",
        SettingError,
    )
    replicas, parts, size = machines.workers * row.chips, training.accumulation, data.image_size
    batch_size = training.batch_size or row.chip.default_batch(replicas, parts, data.images, size, precision)
    training = training.with_batch(batch_size)
    training.check_shares(replicas, data.images, row.name)
    row.chip.check_memory(row.name, batch_size, replicas, parts, size, precision)
    return TrainingPlan(
        machines=machines,
        training=training if row.image == "cpu" else dataclasses.replace(training, precision=precision),
        data=data,
        location=location,
        precision=precision,
        measured=Measurement.find(row.name, precision, batch_size, parts, size) if machines.workers == 1 else None,
        has_own_disk=platform == "vertex",
    )


def check_outside_pod(name: str, address: str) -> None:
    """Raise `UserError` if parameter `name` is empty or names a folder that ends with the pod."""
    lost = "which is lost with the pod"
    remedy = f"Set {name} to gs://NAME/FOLDER, or to a folder of a volume (docs/kubeflow.md)"
    check(bool(address), f"{name} is empty: its default is a folder {lost}. {remedy}", SettingError)
    if "://" in address:
        return
    check(address.startswith("/"), f"{name} is {address!r}, a folder {lost}. {remedy}", SettingError)
    root = next((root for root in SCRATCH if f"{address}/".startswith(f"{root}/")), "")
    check(not root, f"{name} is {address!r}, but on Kubeflow {root} is a folder {lost}. {remedy}", SettingError)
