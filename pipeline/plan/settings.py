"""Settings of the machines that train and of the jobs on them; both are parameters of the pipeline."""

import dataclasses
import math
import re

from trainer import accelerators
from trainer.accelerators import FLEX_START, PROVISIONING
from trainer.config import setting
from trainer.errors import UserError, check, check_choice


@dataclasses.dataclass(frozen=True)
class AcceleratorConfig:
    """The machines of one training step."""

    accelerator: str = setting(
        "cpu",
        "What it trains on: a name of `python -m pipeline plan`, such as l4 or v5e-4; a run on this machine takes "
        "cpu alone, and trains on what is here.",
    )
    workers: int = setting(1, "Machines that train together; several for GPUs only.")
    provisioning: str = setting(
        "standard",
        "standard; spot: cheaper, may be taken away and then goes on from its last checkpoint; or flex-start: "
        "waits for capacity (L4, A100 and H100).",
    )
    reduction_servers: int = setting(
        0, "CPU machines that add up the gradients of several GPU machines; 0 leaves that to the GPUs."
    )

    def __post_init__(self) -> None:
        row = accelerators.get(self.accelerator)
        check(self.workers >= 1, f"workers is {self.workers}; it must be at least 1")
        check(self.reduction_servers >= 0, f"reduction_servers is {self.reduction_servers}; it must be at least 0")
        check_choice("provisioning", self.provisioning, PROVISIONING)
        check(
            self.provisioning in row.provisioning,
            f"provisioning is {self.provisioning!r}, which is not offered for {row.name} ({row.machine_type}); "
            f"set it to {' or '.join(row.provisioning)}",
        )
        check(
            self.workers == 1 or row.several_workers,
            f"workers is {self.workers}, but {row.name} trains on one machine; set it to 1, or take "
            f"{'v5e-4 or v5e-8 for more chips' if row.image == 'tpu' else 'GPUs'}",
        )
        self._check_reduction_servers()

    def _check_reduction_servers(self) -> None:
        if not self.reduction_servers:
            return
        check(
            self.workers > 1,
            f"reduction_servers is {self.reduction_servers}, but they add up the gradients of several GPU "
            f"machines, and workers is {self.workers}; set it to 0",
        )
        check(
            self.provisioning != FLEX_START,
            f"reduction_servers is {self.reduction_servers}, but with provisioning flex-start all machines of a "
            "job must be the same; set it to 0, or provisioning to spot or standard",
        )


MAX_FLEX_START_HOURS = 168
"""Vertex AI ends a Flex-start job after seven days."""
LABEL = re.compile(r"[a-z0-9_-]{0,63}")
PATTERNS = {
    "persistent_resource": (r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", "the id of a persistent resource, such as gpus-1"),
    "tensorboard": (
        r"projects/[^/]+/locations/[^/]+/tensorboards/[^/]+",
        "projects/PROJECT/locations/LOCATION/tensorboards/ID",
    ),
    "training_service_account": (r"[^@\s]+@[^@\s]+", "an e-mail address"),
    "training_network": (r"projects/\d+/global/networks/[^/]+", "projects/NUMBER/global/networks/NAME"),
}
"""What the settings that name something in the cloud look like, when they are not empty."""


@dataclasses.dataclass(frozen=True)
class JobConfig:
    """How Vertex AI runs the training jobs; other targets take no notice of it."""

    timeout_hours: float = setting(168.0, "A training job is stopped after so many hours.")
    max_wait_hours: float = setting(24.0, "How long flex-start waits for capacity, in hours; 0 is without an end.")
    restart_training: bool = setting(
        True, "Start a job again whose machine was lost; it goes on from its last checkpoint."
    )
    persistent_resource: str = setting("", "Id of a persistent resource to train on; none if empty.")
    tensorboard: str = setting("", "Vertex AI TensorBoard that gets the logs, by its full name; none if empty.")
    training_service_account: str = setting("", "Account that training runs as; Vertex AI's own if empty.")
    training_network: str = setting(
        "", "VPC network that training is peered with, by its full name; none if empty."
    )
    training_labels: str = setting("", "Labels of the training jobs, as key=value,key=value.")

    def __post_init__(self) -> None:
        for name, least in (("timeout_hours", "above 0"), ("max_wait_hours", "at least 0")):
            value = getattr(self, name)
            enough = value > 0 if name == "timeout_hours" else value >= 0
            check(math.isfinite(value) and enough, f"{name} is {value:g}; it must be {least}")
        for name, (pattern, title) in PATTERNS.items():
            value = getattr(self, name)
            check(not value or bool(re.fullmatch(pattern, value)), f"{name} is {value!r}; write {title}")
        check(
            not self.tensorboard or bool(self.training_service_account),
            "tensorboard is given, but no training_service_account, which Vertex AI wants to write the logs as",
        )
        parse_labels(self.training_labels)


def parse_labels(text: str) -> dict[str, str]:
    """The labels of `key=value,key=value`; a `UserError` for one that Vertex AI would refuse."""
    labels: dict[str, str] = {}
    for each in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = each.partition("=")
        if not (equals and key[:1].isalpha() and LABEL.fullmatch(key) and LABEL.fullmatch(value)):
            raise UserError(
                f"training_labels has {each!r}; write key=value in lower-case letters, digits, _ and -, at most "
                "63 of them each, the key beginning with a letter"
            )
        check(key not in labels, f"training_labels has {key!r} twice")
        labels[key] = value
    check(len(labels) <= 64, f"training_labels has {len(labels)} labels; Vertex AI takes at most 64")
    return labels
