"""What a batch prediction is asked for."""

import dataclasses

from lifecycle.machines import BatchMachines
from trainer.batch import BatchConfig
from trainer.prediction import PredictConfig


@dataclasses.dataclass(frozen=True)
class Prediction:
    """What is predicted, and on which machines."""

    source: str
    output: str
    model: str
    regions: list[str]
    predict: PredictConfig
    batch: BatchConfig
    machines: BatchMachines
