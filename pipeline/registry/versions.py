"""Versions of a model, and the interface of a registry."""

import dataclasses
import datetime
import pathlib
from collections.abc import Mapping
from typing import Any, Protocol

from trainer import artifacts
from trainer.errors import check

NO_VERSION = 0
"""The champion's number if there is no default version yet; versions count from 1."""


@dataclasses.dataclass(frozen=True)
class Version:
    """One registered version of a model."""

    number: int
    model: pathlib.Path
    """Folder of the model as the trainer reads it, to evaluate it again or to train from it."""
    place: str
    """Folder or `gs://` address of the model for `predict` and `compare`."""
    record: dict[str, Any]
    """Time of creation, metrics, and lineage: run, code, data and settings."""

    @property
    def model_config(self) -> dict[str, Any] | None:
        """MODEL_CONFIG of the model; None for a version that another program registered."""
        config: dict[str, Any] | None = self.record.get("lineage", {}).get("model")
        return config


class Registry(Protocol):
    """The interface of a registry. Its methods raise `UserError` if the registry cannot be read or written."""

    def versions(self, name: str) -> list[Version]:
        """All versions of model `name`, oldest first; empty if the model is unknown."""

    def aliases(self, name: str) -> dict[str, int]:
        """Alias -> number of the version that it names."""

    def default(self, name: str) -> Version | None:
        """The version that the alias `default` names; None if there is no version yet."""

    def add(
        self,
        name: str,
        model: pathlib.Path,
        record: Mapping[str, Any],
        promote: bool,
        champion: int,
        evaluation: pathlib.Path | None = None,
    ) -> tuple[int, str]:
        """Register a model folder and the folder of its evaluation; returns the version's number and its alias.

        The model becomes the default if `promote` is true and the default still is `champion`, the version that
        it was compared with; otherwise it becomes the challenger. (Vertex AI makes the first version of a model
        the default in any case.) A model that the same run has registered already gets its alias, but no second
        version.
        """

    def set_alias(self, name: str, alias: str, version: int) -> None:
        """Let `alias` name `version`. Raises `UserError` if there is no such version."""

    def check_writable(self, name: str) -> None:
        """Raise `UserError` if a version of model `name` could not be added, or its default not be read.

        To be called before hours of training. It writes where a version would be, and removes what it wrote.
        """


def dated(record: Mapping[str, Any]) -> dict[str, Any]:
    """The content of VERSION: when the version was created, and its record."""
    return {"created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), **record}


def check_model(model: pathlib.Path) -> None:
    """Raise `UserError` unless a model's folder has the SavedModel to register."""
    saved_model = model / artifacts.SAVED_MODEL / "saved_model.pb"
    check(saved_model.is_file(), f"{model} has no {artifacts.SAVED_MODEL}; train it again")


def files_of(model: pathlib.Path, evaluation: pathlib.Path | None) -> dict[str, pathlib.Path]:
    """The files in a version's VERSION_EXTRA, other than VERSION: name -> path.

    With the evaluation's scores of each image, two versions can be compared without their data.
    """
    files = {name: model / name for name in (artifacts.WEIGHTS, artifacts.MODEL_CONFIG, artifacts.HISTORY)}
    if evaluation is not None:
        files |= {name: evaluation / name for name in (artifacts.EVALUATION, artifacts.PER_IMAGE)}
    return files
