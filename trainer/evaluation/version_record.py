"""What a registry records of a version in its `version.json`: scores, decision, and what it was made of.

Loads no NumPy.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from typing_extensions import TypedDict

from trainer.data import Statistics
from trainer.io import checked_json
from trainer.network import ModelConfig


@dataclasses.dataclass(frozen=True)
class DataRecord:
    """Prepared data that a version was trained on, such as 10,000 training images of `salicon`."""

    dataset: str = ""
    source: str = ""
    fingerprint: str = ""
    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    """Split -> number of images."""
    statistics: Statistics | None = None


@dataclasses.dataclass(frozen=True)
class Lineage:
    """The origin of a version. What is not known is empty."""

    UNKNOWN: ClassVar[str] = "unknown"
    """Digest of the inputs of a run if its code has no commit, or has changes since. Nothing is the same as it."""

    run: str = ""
    folder: str = ""
    """Folder of the run."""
    code_version: str = ""
    inputs: str = UNKNOWN
    """Digest of the inputs of the run."""
    base_version: str = ""
    """The version that it started from, such as `msinet@3`."""
    data: dict[str, DataRecord] = dataclasses.field(default_factory=dict)
    """`base`, `finetune` or `test` -> data."""
    model: dict[str, Any] | None = None
    """Content of MODEL_CONFIG. None for a version that another program registered."""
    pipeline_job: str = ""
    """Resource name of the run on Vertex AI."""

    def data_of(self, step: str) -> DataRecord:
        """The data of `base`, `finetune` or `test`. All of it is empty if they are not known."""
        return self.data.get(step, DataRecord())


@dataclasses.dataclass(frozen=True)
class GainRecord:
    """How much better a candidate is than the default on the deciding images. Positive is better in any metric."""

    metric: str
    mean: float
    n_images: int
    """Images, or groups of them."""
    low: float | None = None
    """Lower end of the interval of the mean. None if there are too few images."""
    high: float | None = None
    level: float | None = None
    """Confidence level of the interval."""
    of_groups: bool = False
    """Whether `n_images` counts groups, and an image of its own as one."""
    spread: float | None = None
    """Standard deviation of the gains on images."""


@dataclasses.dataclass(frozen=True)
class KnownRecord:
    """The gain on the known images: those on which the default was decided."""

    verdict: Literal["worse", "not worse", "gone", "forgotten"]
    n_images: int | None = None
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    level: float | None = None


@dataclasses.dataclass(frozen=True)
class VersionRecord:
    """The content of `version.json`. Its writer may be another program, so all of it may be absent."""

    created: str = ""
    """When the version was registered, such as `2026-03-02T10:00:00+00:00`."""
    reason: str = ""
    promote: bool | None = None
    decided: bool = True
    metrics: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Dataset -> metric -> mean score."""
    decided_on: str = ""
    """Name of the dataset that decided."""
    compared_with: int | None = None
    """Number of the default that it was compared with."""
    gain: GainRecord | None = None
    known: KnownRecord | None = None
    n_known: int = 0
    """Number of the known images that it has for the next candidate."""
    findings: list[str] | None = None
    """Sentences of the check of the data that hold a promotion. None if nothing was asked."""
    held: bool = False
    """Whether nothing but `findings` or `known` prevented the promotion."""
    decision: int = 0
    """Its number among the decisions of 365 days, from 1. It is 0 if it has none."""
    could_find: float | None = None
    """The least gain that the decision could find half of the time."""
    end: str = ""
    """promoted, challenger, not decided, held, or disagree: better on the new images, worse on the known ones."""
    lineage: Lineage = Lineage()

    @classmethod
    def of(cls, content: Mapping[str, Any], origin: str = "version.json", remedy: str = "") -> "VersionRecord":
        """Take what a record says. Keys of other programs are left out.

        Args:
            content: Parsed JSON.
            origin: Name of the file in error messages.
            remedy: End of the error message.

        Raises:
            ContentError: a value has another type.
        """
        checked_json(content, origin, remedy, _Form)
        record: VersionRecord = checked_json(content, origin, remedy, cls)
        return record


class _Lineage(TypedDict, total=False):
    model: ModelConfig | None


class _Form(TypedDict, total=False):
    """What is not made into objects."""

    lineage: _Lineage
