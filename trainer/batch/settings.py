"""The settings of a job, and its sizes. It loads nothing that computes: each help of the pipeline imports it."""

import dataclasses
from typing import ClassVar, NamedTuple

from trainer.settings import check_ranges, setting

MOST_TASKS = 250
"""Tasks of a job on a service. Argo Workflows has 1 MiB for a run, a task takes 2 kB (research/kubeflow.md)."""


class Sizes(NamedTuple):
    """How many images a source has, and how large they are."""

    images: int
    bytes: int


@dataclasses.dataclass(frozen=True)
class BatchConfig:
    """How a job is cut, and when it stops."""

    TITLE: ClassVar[str] = "shards"
    shard_gigabytes: float = setting(
        1.0, "Bytes of images in one shard, which is one task on a service. A killed task loses a minute.", gt=0
    )
    max_bad_share: float = setting(
        0.01, "Share of a shard's images that may be unreadable. More stop it. Ten always may.", ge=0, le=1
    )
    precision: str = setting(
        "",
        "float32 or bfloat16. Empty for what each machine multiplies fastest. Then the last digits of maps may "
        "differ between machines.",
        choices=("", "float32", "bfloat16"),
    )

    def __post_init__(self) -> None:
        check_ranges(self)
