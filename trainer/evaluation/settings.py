"""The settings of the gate that decides whether a model becomes the default."""

import dataclasses
from typing import ClassVar

from trainer.errors import SettingError, check
from trainer.metrics import DECIDING, DENSITY, FIXATIONS, LEAD, METRICS, metrics_that_need
from trainer.settings import check_ranges, setting

GATE_ON = ("finetune", "test")
KEEP, FORGET = "keep", "forget"


@dataclasses.dataclass(frozen=True)
class EvaluateConfig:
    """Settings of the gate, which compares a candidate with the current default model."""

    TITLE: ClassVar[str] = "gate"
    gate: str = setting(
        LEAD,
        "Metric in which a candidate must beat the current default model to replace it: "
        f"{', '.join(metrics_that_need(DENSITY))}, or if the deciding dataset has fixations "
        f"{', '.join(name for name in DECIDING if name not in metrics_that_need(DENSITY))}. "
        "`always` promotes every candidate, `never` none.",
        choices=(*DECIDING, "always", "never"),
    )
    gate_margin: float = setting(0.0, "Minimum gain of the candidate in the gate's metric.", ge=0)
    gate_confidence: float = setting(
        0.95,
        "Probability that a year of weekly runs promotes only models that are better. The confidence interval of "
        "the gain, over images that neither model was trained on, must lie above gate_margin. The more decisions "
        "there were in the last year, the wider it is. 0 compares the means alone.",
        ge=0,
        lt=1,
    )
    gate_on: str = setting(
        "finetune",
        "Images on which the gate decides: finetune (the validation images of the fine-tuning data, in `evaluate` "
        "of the first --dataset-dir), or test (the images of test_dataset).",
        choices=GATE_ON,
    )

    known_images: str = setting(
        KEEP,
        "What the images do on which the current default was decided: keep (a candidate that is significantly "
        "worse on them is not promoted), or forget (once, to start anew: after a change of what people are asked "
        "to do, or if the images had to be deleted).",
        choices=(KEEP, FORGET),
    )

    def __post_init__(self) -> None:
        check_ranges(self)

    def check_measurable(self, name: str, has_fixations: bool) -> None:
        """Raise `UserError` unless the metric can be computed on dataset `name`, which decides."""
        check(
            self.gate not in metrics_that_need(FIXATIONS) or has_fixations,
            f"the gate {self.gate} needs fixations, but dataset {name} has only maps: choose one of "
            f"{', '.join(metrics_that_need(DENSITY))}",
            SettingError,
        )


def metric_of(gate: str) -> str:
    """The metric that compares the candidate with the current default: LEAD if the gate is `always` or `never`.

    Example: `cc` for the gate `cc`, and `kld` for `never`.
    """
    return gate if gate in METRICS else LEAD
