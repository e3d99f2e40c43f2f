"""The settings of the machines of a training, and of its job."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from trainer.errors import SettingError, check
from trainer.settings import check_ranges, configs_of, setting
from trainer.training import PROVISIONING, Accelerator, TrainConfig


@dataclasses.dataclass(frozen=True)
class AcceleratorConfig:
    """The machines of one training step."""

    TITLE: ClassVar[str] = "machines"
    accelerator: str = setting(
        "cpu",
        "Accelerator of both trainings, such as l4 or v5e-4. `python -m pipeline plan` lists them. Of several, "
        "such as v5e-1,l4, the first that the region has, and for which `submit` finds quota. A local run accepts "
        "cpu only, and trains on the devices of this machine.",
    )
    step_accelerator: str = setting("", "Accelerator of this training alone. Empty for `accelerator`.")
    workers: int = setting(1, "Number of machines that train together. More than one only with GPUs.", ge=1)
    provisioning: str = setting(
        "standard",
        "standard, spot or flex-start. A spot machine is cheaper, but Google may reclaim it, and training then "
        "resumes from its last checkpoint. With flex-start, a job waits for capacity (L4, A100 and H100).",
        choices=PROVISIONING,
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        for row in self.rows:
            check(
                self.provisioning in row.provisioning,
                f"{row.name} ({row.machine_type}) is not offered as {self.provisioning}. Set provisioning to "
                f"{' or '.join(row.provisioning)}",
                SettingError,
            )
            check(
                self.workers == 1 or row.several_workers,
                f"workers is {self.workers}, but {row.name} trains on one machine. Set it to 1, or choose "
                f"{'v5e-4 or v5e-8 for more chips' if row.image == 'tpu' else 'GPUs'}",
                SettingError,
            )

    @property
    def chosen(self) -> str:
        """Name of the accelerator of this training, or several with commas between them."""
        return self.step_accelerator or self.accelerator

    @property
    def rows(self) -> list[Accelerator]:
        """The rows of the table, the preferred one first. Raises `UserError` for an unknown name."""
        return [Accelerator.named(name.strip()) for name in self.chosen.split(",")]

    @property
    def row(self) -> Accelerator:
        """The row of the accelerator, or of the preferred one."""
        return self.rows[0]

    def offered(self, location: str) -> "AcceleratorConfig":
        """Keep only the first accelerator that `location` offers. An empty one offers all.

        Example: of `v5e-1,l4`, a region without v5e keeps `l4`.

        Raises `UserError` if none is available.
        """
        for row in self.rows:
            if not location or row.is_in(location):
                return dataclasses.replace(self, accelerator=row.name, step_accelerator="")
        raise SettingError(". ".join(row.not_in(location) for row in self.rows))

    def check_platform(self, platform: str, training: TrainConfig) -> None:
        """Raise `UserError` if `platform` (vertex, kubeflow or local) does not support these settings."""
        check(
            platform != "kubeflow" or self.workers == 1,
            f"workers is {self.workers}, but on Kubeflow a training step is one pod. Set it to 1 and "
            "choose an accelerator with more chips",
            SettingError,
        )
        check(
            platform != "local" or self.chosen == "cpu",
            f"accelerator is {self.chosen!r}, but a local run trains on this machine. Set it to cpu, or "
            "run on Vertex AI or Kubeflow",
            SettingError,
        )
        profiled = training.profile_steps
        check(
            platform == "vertex" or not profiled,
            f"profile_steps is {profiled}, but only a run on Vertex AI has a folder of TensorBoard logs for the "
            "profile. Remove it and profile with "
            f"`python -m trainer train --profile-steps {profiled} --logs-dir DIR`, or run on Vertex AI",
            SettingError,
        )


LABEL = re.compile(r"[a-z0-9_-]{0,63}")
"""Key or value of a label of Vertex AI."""


@dataclasses.dataclass(frozen=True)
class JobConfig:
    """Settings of the training jobs on Vertex AI. Other targets ignore them."""

    TITLE: ClassVar[str] = "training jobs on Vertex AI"
    timeout_hours: float = setting(
        0.0,
        "Stop a training job after this many hours. 0 for six times the longest estimate, at least 3 hours.",
        ge=0,
    )
    max_wait_hours: float = setting(24.0, "Hours that flex-start waits for capacity. 0 waits without limit.", ge=0)
    restart_training: bool = setting(
        True, "Restart a job if its machine is lost. It resumes from its last checkpoint."
    )
    persistent_resource: str = setting(
        "",
        "Id of a persistent resource to train on. None if empty.",
        pattern=r"([a-z]([a-z0-9-]{0,61}[a-z0-9])?)?",
        hint="the id of a persistent resource, such as gpus-1",
    )
    tensorboard: str = setting(
        "",
        "Full resource name of the Vertex AI TensorBoard to log to. None if empty.",
        pattern=r"(projects/[^/]+/locations/[^/]+/tensorboards/[^/]+)?",
        hint="projects/PROJECT/locations/LOCATION/tensorboards/ID",
    )
    training_service_account: str = setting(
        "",
        "Service account of the training jobs. Vertex AI's default if empty.",
        pattern=r"([^@\s]+@[^@\s]+)?",
        hint="an e-mail address",
    )
    training_network: str = setting(
        "",
        "Full resource name of the VPC network to peer the training with. None if empty.",
        pattern=r"(projects/\d+/global/networks/[^/]+)?",
        hint="projects/NUMBER/global/networks/NAME",
    )
    training_labels: str = setting("", "Labels of the training jobs, as key=value,key=value.")

    def __post_init__(self) -> None:
        check_ranges(self)
        check(
            not self.tensorboard or bool(self.training_service_account),
            "tensorboard is set, but training_service_account is empty. Set it to the account that writes the "
            "logs",
            SettingError,
        )
        parse_labels(self.training_labels)

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the training jobs, such as `{"team": "vision"}`."""
        return parse_labels(self.training_labels)


def parse_labels(text: str) -> dict[str, str]:
    """Parse `key=value,key=value`. Raises `UserError` for a label that Vertex AI would reject."""
    labels: dict[str, str] = {}
    for label in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = label.partition("=")
        if not (equals and key[:1].isalpha() and LABEL.fullmatch(key) and LABEL.fullmatch(value)):
            raise SettingError(
                f"training_labels has {label!r}. Write key=value, each at most 63 lower-case letters, digits, "
                "_ and -, with a letter at the start of the key"
            )
        labels[key] = value
    return labels


@dataclasses.dataclass(frozen=True)
class Target:
    """The platform that runs jobs (vertex, kubeflow or local), its Vertex AI region, and its image names."""

    platform: str
    location: str
    image_pattern: str
    """Image name with `{}` instead of cpu, gpu or tpu."""


@dataclasses.dataclass(frozen=True)
class TrainingSettings:
    """The settings of one training step, with the values of its recipe and one accelerator."""

    training: TrainConfig
    machines: AcceleratorConfig
    job: JobConfig

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """The settings with these `values`, which `by_name` returned in another task."""
        return cls(*configs_of(values, TrainConfig, AcceleratorConfig, JobConfig))

    def by_name(self) -> dict[str, Any]:
        """All settings as one JSON object, by the names of the fields, such as `{"epochs": 10, ...}`.

        No two parts have a field of the same name.
        """
        parts = (self.training, self.machines, self.job)
        return {name: value for part in parts for name, value in dataclasses.asdict(part).items()}
