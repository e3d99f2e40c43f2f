"""What `python -m pipeline benchmark` has measured: one JSON file, which plans prefer to their estimates."""

import dataclasses
import datetime
import pathlib
from typing import Self

from trainer.io import checked_json, parse_json, read_json, write_json

FILE = pathlib.Path(__file__).parents[2] / "configs" / "measured.json"
"""It is in the folder of the environments, so the images that are built from here have it too."""
LOCAL = "this machine"
"""Stands for an accelerator's name in what `--target local` measured."""


@dataclasses.dataclass(frozen=True)
class Measurement:
    """The speed, memory and start of a training on one machine, at these settings.

    Example: 160 images/s, 5 GB and 200 s on `l4`, with a batch of 32 in bfloat16.
    """

    accelerator: str
    """Name of an accelerator, or `LOCAL`."""
    date: str
    images_per_s: float
    """Over all chips, without the first step."""
    memory_bytes: float | None
    """The peak of one chip, or on a CPU of the process. None if it is unknown."""
    start_s: float
    """Time from the start of the job, or here of the command, until its first step had ended."""
    image_size: tuple[int, int]
    """(height, width), pixels."""
    batch_size: int
    """Images in one step, over all chips."""
    accumulation: int
    precision: str
    steps: int
    devices: str
    """Their number and name."""
    versions: str

    @property
    def settings(self) -> tuple[str, str, int, int]:
        """What must be equal for two speeds to be comparable. Times are proportional to the number of pixels.

        Example: `("l4", "bfloat16", 32, 1)`.
        """
        return self.accelerator, self.precision, self.batch_size, self.accumulation

    @property
    def is_local(self) -> bool:
        """Whether it is of this machine, and not of an accelerator of Vertex AI."""
        return self.accelerator == LOCAL

    @classmethod
    def of_result(cls, line: str, started: datetime.datetime, accelerator: str = LOCAL) -> Self:
        """The measurement of what `python -m trainer benchmark` printed in a job that began at `started`.

        Raises `UserError` if that is damaged.
        """
        origin, remedy = "the result of the benchmark", "build the images again from this code, and measure again"
        result: dict[str, object] = parse_json(line.encode(), origin, remedy, dict[str, object])
        first = checked_json(result, origin, remedy, _Start).first_step_at
        result |= {"accelerator": accelerator, "date": f"{first:%Y-%m-%d}"}
        result |= {"start_s": round((first - started).total_seconds(), 1)}
        measurement: Self = checked_json(result, origin, remedy, cls)
        return measurement

    @classmethod
    def all(cls) -> "list[Measurement]":
        """All measurements that were kept, the newest first. Raises `UserError` if their file is damaged."""
        if not FILE.exists():
            return []
        content: _Content = read_json(FILE, "correct or remove it, and measure again", _Content)
        return content.measurements

    @classmethod
    def find(
        cls, accelerator: str, precision: str, batch_size: int, accumulation: int, image_size: tuple[int, int]
    ) -> "Measurement | None":
        """The newest measurement at these settings, if possible at this image size. None if there is none."""
        wanted = (accelerator, precision, batch_size, accumulation)
        found = [each for each in cls.all() if each.settings == wanted]
        return max(found, key=lambda each: each.image_size == image_size) if found else None

    def keep(self) -> pathlib.Path:
        """Keep it in a file, instead of the one at the same settings and image size. Returns the file."""
        key = (self.settings, self.image_size)
        others = [each for each in self.all() if (each.settings, each.image_size) != key]
        write_json(FILE, dataclasses.asdict(_Content([self, *others])))
        return FILE


@dataclasses.dataclass(frozen=True)
class _Start:
    first_step_at: datetime.datetime


@dataclasses.dataclass(frozen=True)
class _Content:
    measurements: list[Measurement]
