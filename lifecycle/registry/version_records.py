"""What a registry records of a version: its scores, and the data and model that it was made of."""

from typing import Any

from typing_extensions import TypedDict

from trainer.data.prepared_data import Statistics
from trainer.models.model_folder import ModelConfig

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


class VersionRecord(TypedDict, total=False):
    """VERSION; its writer may be another program."""

    version: int
    created: str
    reason: str
    promote: bool
    decided: bool
    metrics: dict[str, Any]
    decided_on: str
    lineage: Lineage
