"""The machines of work in shards, and for a batch prediction how long they take and what they cost."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from lifecycle.machines.plan import START_SECONDS, disk_spec_of, needed_disk_gb
from trainer.batch import MOST_TASKS, BatchConfig, Sizes
from trainer.errors import SettingError, check
from trainer.settings import check_ranges, setting
from trainer.texts import format_duration
from trainer.training import ACCELERATORS, Accelerator, Estimate

OTHER_SECONDS_PER_MB = 0.12
"""Seconds of one vCPU to decode, restore, measure and write an image, for each megabyte of its file.

Measured with JPEGs of 1 to 12 megapixels and maps as PNG (research/log.md, "Ten million maps").
"""


@dataclasses.dataclass(frozen=True)
class BatchMachines:
    """The machines of work in shards on a service: of a batch prediction, or of a dataset that is prepared."""

    TITLE = "machines of a service"
    accelerator: str = setting("cpu", "Machine of each task: " + ", ".join(
        name for name, row in ACCELERATORS.items() if row.chip.map_seconds
    ) + ".")  # fmt: skip
    machines: int = setting(10, "Tasks at a time, each on a machine of its own.", ge=1)
    provisioning: str = setting("standard", "standard or spot.", choices=("standard", "spot"))

    def __post_init__(self) -> None:
        check_ranges(self)
        check(
            self.row.chip.map_seconds is not None,
            f"accelerator is {self.accelerator}, but maps are predicted on CPUs. Choose one of "
            + ", ".join(name for name, row in ACCELERATORS.items() if row.chip.map_seconds),
            SettingError,
        )

    @property
    def row(self) -> Accelerator:
        """The machine's row in the table of accelerators."""
        return Accelerator.named(self.accelerator)

    def worker_pools(
        self, image: str, module: str, arguments: Sequence[Sequence[str]], disks_gb: Sequence[float] = ()
    ) -> list[list[dict[str, Any]]]:
        """The worker pools of Vertex AI's custom jobs, one job for each shard.

        Args:
            image: full name of the image.
            module: what `python -m` runs.
            arguments: its arguments, for each shard.
            disks_gb: the data that are on the disk of each, GB. A disk is named only if they need a larger one
                than the default. Empty if they are few.
        """
        pools = []
        for number, words in enumerate(arguments):
            disk = disk_spec_of(needed_disk_gb(disks_gb[number])) if disks_gb else {}
            container = {"image_uri": image, "command": ["python", "-m", module], "args": list(words)}
            pool = {"machine_spec": self.row.machine_spec, "replica_count": 1, "container_spec": container}
            pools.append([pool | ({"disk_spec": disk} if disk else {})])
        return pools


@dataclasses.dataclass(frozen=True)
class PredictionPlan:
    """A batch prediction on a service."""

    sizes: Sizes
    machines: BatchMachines
    shards: int

    @classmethod
    def of(cls, sizes: Sizes, machines: BatchMachines, config: BatchConfig) -> "PredictionPlan":
        """The plan of a source of these sizes."""
        return cls(sizes, machines, max(1, math.ceil(sizes.bytes / (10**9 * config.shard_gigabytes))))

    @property
    def tasks(self) -> int:
        """Tasks that predict the shards."""
        return min(self.shards, MOST_TASKS)

    @property
    def machine_hours(self) -> Estimate:
        """Hours of all machines together, with the start of each task."""
        row = self.machines.row
        assert row.chip.map_seconds is not None
        other = OTHER_SECONDS_PER_MB * self.sizes.bytes / 10**6
        ends = (
            (self.sizes.images * each + other) / row.vcpus + self.tasks * START_SECONDS
            for each in row.chip.map_seconds
        )
        return Estimate(*(seconds / 3600 for seconds in ends))

    @property
    def hours(self) -> Estimate:
        """Hours from the start to the end, if all machines are there at once."""
        at_once = min(self.machines.machines, self.tasks)
        return Estimate(*(each / at_once for each in self.machine_hours))

    @property
    def usd(self) -> Estimate | None:
        """The cost in USD. None if the price is unknown."""
        price = self.machines.row.usd_per_hour(self.machines.provisioning)
        return None if price is None else Estimate(*(price * each for each in self.machine_hours))

    def line(self) -> str:
        """The plan as a line.

        Example: `cpu: 40 shards, 10 x n1-standard-16, standard, about 2 h to 4 h, about 16.20 to 35.00 USD`.
        """
        row, usd = self.machines.row, self.usd
        cost = "" if usd is None else f", about {usd.text('{:.2f}'.format)} USD"
        time = self.hours.text(lambda hours: format_duration(3600 * hours))
        return (
            f"{row.name}: {self.shards:,} shards, {min(self.machines.machines, self.tasks)} x {row.machine_type}, "
            f"{self.machines.provisioning}, about {time}{cost}"
        )

    def table(self) -> list[str]:
        """The lines of all machines that predict maps, with the same number of them, the cheapest first."""
        plans = [
            dataclasses.replace(self, machines=dataclasses.replace(self.machines, accelerator=name))
            for name, row in ACCELERATORS.items()
            if row.chip.map_seconds
        ]
        return [each.line() for each in sorted(plans, key=lambda plan: (plan.usd or plan.hours).most)]
