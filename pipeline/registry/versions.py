"""Versions of a model, and what the pipeline asks of a registry that keeps them."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any, Protocol

from trainer import artifacts
from trainer.errors import check

VERSION = "version.json"
NO_VERSION = 0
"""Stands for the champion where there is no default yet; versions count from 1."""


@dataclasses.dataclass(frozen=True)
class Version:
    """One registered version of a model."""

    number: int
    model: pathlib.Path
    """Folder of the model as the trainer reads it: to evaluate it again, or to train from it."""
    place: str
    """Folder, or `gs://` address, by which `predict` and `compare` take it as a model."""
    record: dict[str, Any]
    """When it was created, its metrics, and its lineage: run, code, data and settings."""


class Registry(Protocol):
    """What the pipeline asks of a registry, wherever it is."""

    def versions(self, name: str) -> list[Version]:
        """All versions of model `name`, oldest first; none where it is unknown."""

    def aliases(self, name: str) -> dict[str, int]:
        """The version that each alias names."""

    def default(self, name: str) -> Version | None:
        """The version that the alias `default` names; None on the first run."""

    def add(
        self,
        name: str,
        model: pathlib.Path,
        record: Mapping[str, Any],
        promote: bool,
        champion: int,
        evaluation: pathlib.Path | None = None,
    ) -> tuple[int, str]:
        """Register a model folder, with the scores of its evaluation; returns its new version and its alias.

        It becomes the default if `promote` and the default still is the version `champion` that it was
        compared with; otherwise the challenger. (Vertex makes the first version of a model the default in any
        case.) What the same run has registered already is not registered again, it gets its alias.
        """

    def set_alias(self, name: str, alias: str, version: int) -> None:
        """Let `alias` name `version`."""


def check_model(model: pathlib.Path) -> None:
    """Raise `UserError` unless a model's folder has what is to be registered."""
    saved_model = model / artifacts.SAVED_MODEL / "saved_model.pb"
    check(saved_model.is_file(), f"{model} has no {artifacts.SAVED_MODEL}; train it again")


def files_of(model: pathlib.Path, evaluation: pathlib.Path | None) -> dict[str, pathlib.Path]:
    """What a version keeps in VERSION_EXTRA beside VERSION: name -> file.

    The evaluation's scores of each image let two versions be compared without their data.
    """
    files = {name: model / name for name in (artifacts.WEIGHTS, artifacts.MODEL_CONFIG, artifacts.HISTORY)}
    if evaluation is not None:
        files |= {name: evaluation / name for name in (artifacts.EVALUATION, artifacts.PER_IMAGE)}
    return files
