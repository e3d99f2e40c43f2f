"""What a registry records of a version: its scores, and the data and model that it was made of."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from trainer.data.prepared_data import Statistics
from trainer.network.model_folder import ModelConfig

UNKNOWN = "unknown"
"""Digest of the inputs of a run whose code has no commit, or has changes since: nothing is the same as it."""


class DataRecord(TypedDict, total=False):
    """Prepared data that a version was trained on."""

    dataset: str
    source: str
    counts: dict[str, int]
    statistics: Statistics | None


class Lineage(TypedDict, total=False):
    """The origin of a version."""

    run: str
    folder: str
    code_version: str
    inputs: str
    base_version: str
    data: dict[str, DataRecord]
    model: ModelConfig | None


class GainRecord(TypedDict):
    """How much better a candidate is than the default on the deciding images; positive is better in any metric."""

    metric: str
    mean: float
    low: NotRequired[float | None]
    """Lower end of the interval of the mean; None if there are too few images."""
    high: NotRequired[float | None]
    level: NotRequired[float | None]
    """Confidence level of the interval."""
    n_images: int
    """Images, or groups of them."""
    of_groups: NotRequired[bool]
    """Whether `n_images` counts groups, and an image of its own as one."""


class KnownRecord(TypedDict):
    """The gain on the known images: those on which the default was decided."""

    n_images: NotRequired[int | None]
    mean: NotRequired[float | None]
    low: NotRequired[float | None]
    high: NotRequired[float | None]
    level: NotRequired[float | None]
    verdict: Literal["worse", "not worse", "gone", "forgotten"]


class VersionRecord(TypedDict, total=False):
    """VERSION; its writer may be another program."""

    version: int
    created: str
    reason: str
    promote: bool
    decided: bool
    metrics: dict[str, Any]
    decided_on: str
    compared_with: int
    gain: GainRecord | None
    known: KnownRecord | None
    findings: list[str]
    """Sentences of the check of the data that hold a promotion."""
    held: bool
    """Whether nothing but `findings` or `known` prevented the promotion."""
    decision: int
    """Its number among the decisions of 365 days, from 1."""
    could_find: float | None
    """The least gain that the decision could find half of the time."""
    end: str
    """promoted, challenger, not decided, held, or disagree: better on the new images, worse on the known ones."""
    lineage: Lineage
