"""The settings of the gate that data pass before anything is trained."""

import dataclasses
from typing import ClassVar

from trainer.settings.fields import check_ranges, setting


@dataclasses.dataclass(frozen=True)
class DataGateConfig:
    """Settings of the gate that data have to pass before anything is trained."""

    TITLE: ClassVar[str] = "data gate"
    min_images: int = setting(
        0, "Smallest number of images of the fine-tuning data; with fewer, the run ends before it trains.", ge=0
    )
    min_observers: int = setting(
        0,
        "Smallest number of observers of the median image of the fine-tuning data; with fewer, or if observers "
        "are not told apart, the run ends before it trains. 0 for any.",
        ge=0,
    )
    data_gate: str = setting(
        "warn",
        "What large differences from the data of the current default do, in sizes, luminance, fixations or centre "
        "bias: warn (a sentence in the report), or strict (the run ends before it trains).",
        choices=("warn", "strict"),
    )

    def __post_init__(self) -> None:
        check_ranges(self)
