"""Where a model or data come from, above all whether from the sample set of generated shapes."""

import dataclasses
import itertools
import os
from collections.abc import Iterator, Mapping
from typing import Any, Self

from trainer.data import SAMPLE, Manifest
from trainer.network import ModelFolder

SHAPES = "generated shapes"
MARK = f"trained on {SHAPES}"
"""How a model of the sample set was trained, in words that follow "was"."""


@dataclasses.dataclass(frozen=True)
class Provenance:
    """The origin of a model, by the content of its MODEL_CONFIG, or of data, by its manifest.

    Example: as text, `Provenance({"dataset": "osie", "base_model": {"dataset": "salicon"}})` is "trained on
    salicon, then on osie".
    """

    facts: Mapping[str, Any] | None
    """The content. None if nothing is known."""

    @classmethod
    def of_folder(cls, folder: str | os.PathLike[str]) -> Self:
        """The origin of the model in a folder. A folder without MODEL_CONFIG tells nothing."""
        return cls(ModelFolder(folder).known_config("name the folder of a whole model"))

    @property
    def is_sample(self) -> bool:
        """Whether the sample set is the source: of the data, or of a model's last training."""
        return self.facts is not None and self.facts.get("source") == SAMPLE

    def notice(self, subject: str = "This model") -> str:
        """Notice that a model, called `subject`, was trained on the sample set. Empty if not."""
        if not self.is_sample:
            return ""
        return f"{subject} was {MARK}. Its maps of photographs and designs mean nothing."

    def scores_notice(self, subject: str = "These scores") -> str:
        """Notice that scores, called `subject`, are on data of the sample set. Empty if not."""
        if not self.is_sample:
            return ""
        return (
            f"{subject} are of {SHAPES}. They say nothing about photographs or designs, so do not compare them "
            "with scores on other data."
        )

    @property
    def observers(self) -> str:
        """Words for the observers of data, such as "people"."""
        return "generated observers" if self.is_sample else "people"

    @property
    def trainings(self) -> Iterator[Mapping[str, Any]]:
        """The MODEL_CONFIG of a model, of its base model, and so on."""
        facts = self.facts
        while facts is not None:
            yield facts
            facts = facts.get("base_model")

    @property
    def dataset(self) -> str:
        """The dataset of a model's last training, such as `osie`. SHAPES for the sample set, empty if unknown."""
        if self.facts is None:
            return ""
        if self.is_sample:
            return SHAPES
        return Manifest.name_of(str(self.facts.get("dataset") or ""), str(self.facts.get("source") or ""))

    @property
    def datasets(self) -> list[str]:
        """The datasets that a model was trained on, in order, such as `["salicon", "osie"]`."""
        names = [Provenance(each).dataset for each in self.trainings]
        return [name for name, _ in itertools.groupby(reversed(names)) if name]

    def __str__(self) -> str:
        """What a model was trained on, such as "trained on A, then on B". Empty if unknown."""
        return f"trained on {', then on '.join(names)}" if (names := self.datasets) else ""
