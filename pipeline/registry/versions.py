"""Versions of a model: the interface of a registry, and what a version says about itself.

To programs it says so by the labels of Vertex AI and as JSON, to people by a description and by tables.
"""

import dataclasses
import datetime
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from trainer import artifacts, generated
from trainer.artifacts import SPLIT_NAMES
from trainer.errors import check
from trainer.metric_table import METRICS
from trainer.text import printable

NO_VERSION = 0
"""Number of the default version if there is none yet; versions count from 1."""
READERS = 8
"""Threads that read the records of several versions."""
OWNER = {"managed_by": "msinet-pipelines"}
"""The label of all that this project makes on Vertex AI."""
RUN_LABEL = "run"
"""Key of the label that says which run has made a version."""
MAX_LABEL = 63
"""Characters of a key or value of a label: lower-case letters, digits, _ and -; a key begins with a letter."""
SCORES = ("kld", "cc", "nss")
"""The metrics in the table of versions."""
COLUMNS = ("version", "date", "data", *map(str.upper, SCORES), "alias", "place")
"""The headings of the table of versions."""
UNKNOWN = "-"
"""A cell of which nothing is known."""


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
        compared_with: int,
        evaluation: pathlib.Path | None = None,
    ) -> tuple[int, str]:
        """Register a model folder and the folder of its evaluation; returns the version's number and its alias.

        The model becomes the default if `promote` is true and the default still is the version that it was
        compared with; otherwise its alias is `challenger`. (Vertex AI makes the first version of a model the
        default in any case.) A model that the same run has registered already gets its alias, but no second
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
    if (model / artifacts.TRAINING_IMAGES).exists():  # models of earlier versions and imported ones do not have it
        files[artifacts.TRAINING_IMAGES] = model / artifacts.TRAINING_IMAGES
    if evaluation is not None:
        files |= {name: evaluation / name for name in (artifacts.EVALUATION, artifacts.PER_IMAGE)}
    return files


# === Labels and description on Vertex AI ===


def label(text: str) -> str:
    """`text` as the value of a label, shortened if it is too long."""
    return re.sub(r"[^a-z0-9_-]", "-", text.lower())[:MAX_LABEL]


def labels_of(record: Mapping[str, Any]) -> dict[str, str]:
    """The labels of a version: its run, code and data."""
    lineage = record["lineage"]
    data = {
        f"data_{step}": f"{facts['dataset']}-{facts['fingerprint']}" for step, facts in lineage["data"].items()
    }
    values = {RUN_LABEL: lineage["run"], "code": lineage["code_version"], **data}
    return {**{key: label(value) for key, value in values.items()}, **OWNER}


def description_of(record: Mapping[str, Any]) -> str:
    """The text that people read next to a version in the console: its decision, its origin, and its metrics."""
    lineage = record["lineage"]
    data = [f"{step}: {facts['dataset']} from {facts['source']}" for step, facts in lineage["data"].items()]
    metrics = [
        f"{dataset}: " + ", ".join(f"{metric} {value:.4f}" for metric, value in scores.items())
        for dataset, scores in record["metrics"].items()
    ]
    origin = f"Run {lineage['run']}, code {lineage['code_version']}."
    notice = generated.of_model(lineage.get("model"))
    return "\n".join([*([notice] if notice else []), record["reason"], origin, *data, *metrics])


# === Tables and JSON ===


def table(name: str, versions: Iterable[Version], aliases: Mapping[str, int]) -> list[str]:
    """A line for each version of model `name`, below one of headings. Its last cell, the place, may be long."""
    rows = [COLUMNS, *(_row(name, version, _aliases_of(version, aliases)) for version in versions)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    sides = [">" if column.lower() in SCORES else "<" for column in COLUMNS]
    cells = (
        [f"{text:{side}{width}}" for text, side, width in zip(row, sides, widths, strict=True)] for row in rows
    )
    return ["  ".join(row).rstrip() for row in cells]


def facts(name: str, version: Version, aliases: Mapping[str, int]) -> list[str]:
    """What people ask of a version, in about ten lines; what is not known of it is left out."""
    record, lineage = version.record, version.record.get("lineage", {})
    names = _aliases_of(version, aliases)
    folder = lineage.get("folder", "")
    report = pathlib.Path(folder, "report.html") if folder and "://" not in folder else None
    known = {
        "Model": f"{name}@{version.number}" + (f" ({', '.join(names)})" if names else ""),
        "Created": str(record.get("created", "")).replace("T", " ").replace("+00:00", " UTC"),
        "Data": "; ".join(_data(step, data) for step, data in lineage.get("data", {}).items()),
        **{f"On {dataset}": _scores(scores) for dataset, scores in _metrics(version).items()},
        "Decision": record.get("reason", ""),
        "Code": lineage.get("code_version", ""),
        "Run": lineage.get("run", ""),
        "Report": str(report) if report and report.is_file() else "",
        "Place": version.place,
    }
    width = max(len(key) for key, value in known.items() if value) + 3
    return [f"{key + ':':<{width}}{printable(str(value))}" for key, value in known.items() if value]


def as_json(name: str, version: Version, aliases: Mapping[str, int]) -> dict[str, Any]:
    """A version for programs: its whole record, with its name, number, aliases and place."""
    about = {"model": name, "version": version.number, "aliases": _aliases_of(version, aliases)}
    return {**about, "place": version.place, **version.record}


def _metrics(version: Version) -> dict[str, dict[str, float]]:
    """Dataset -> metric -> score; another program may have written other metrics, and other values."""
    return {
        dataset: {metric: score for metric, score in scores.items() if isinstance(score, (int, float))}
        for dataset, scores in version.record.get("metrics", {}).items()
        if isinstance(scores, Mapping)
    }


def _aliases_of(version: Version, aliases: Mapping[str, int]) -> list[str]:
    return sorted(alias for alias, number in aliases.items() if number == version.number)


def _row(name: str, version: Version, aliases: Sequence[str]) -> tuple[str, ...]:
    record = version.record
    scores = _metrics(version).get(record.get("decided_on", ""), {})
    return (
        f"{name}@{version.number}",
        printable(str(record.get("created", UNKNOWN))[:10]),
        printable(", ".join(generated.datasets(version.model_config))) or UNKNOWN,
        *(f"{scores[metric]:.3f}" if metric in scores else UNKNOWN for metric in SCORES),
        ", ".join(aliases) or UNKNOWN,
        printable(version.place),
    )


def _data(step: str, data: Mapping[str, Any]) -> str:
    """One prepared dataset of a run, such as `base salicon (160 training and 40 validation)`."""
    counts = " and ".join(f"{count:,} {SPLIT_NAMES[split]}" for split, count in data.get("counts", {}).items())
    source = ", generated" if generated.is_sample(data) else ""
    return f"{step} {data.get('dataset', '')}{source}" + (f" ({counts})" if counts else "")


def _scores(scores: Mapping[str, float]) -> str:
    return ", ".join(f"{METRICS[metric].label} {scores[metric]:.3f}" for metric in METRICS if metric in scores)
