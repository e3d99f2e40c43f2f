"""What the preparation of a dataset in shards is asked for."""

import dataclasses

from lifecycle.machines import BatchMachines
from trainer.data import FetchConfig


@dataclasses.dataclass(frozen=True)
class Preparation:
    """What is prepared, and on which machines."""

    config: FetchConfig
    output: str
    machines: BatchMachines
    shard_gigabytes: float
    """Bytes at the source of the images of a shard."""
    test: bool = False
    """Whether it becomes a test set."""

    @property
    def test_of(self) -> str:
        """As in `PreparedData.decide`."""
        return self.config.dataset if self.test else ""
