"""The versions of a model as text for people, and as JSON for programs."""

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline.registry.versions import Version
from trainer import generated
from trainer.artifacts import SPLIT_NAMES
from trainer.metric_table import METRICS
from trainer.text import printable

COLUMNS = ("version", "date", "data", "KLD", "CC", "NSS", "alias", "place")
SCORES = ("kld", "cc", "nss")
"""The metrics of those columns."""
NUMBERS = ("KLD", "CC", "NSS")
UNKNOWN = "-"


def table(name: str, versions: Iterable[Version], aliases: Mapping[str, int]) -> list[str]:
    """A line for each version of model `name`, below one of headings. Its last cell, the place, may be long."""
    rows = [COLUMNS, *(_row(name, version, _aliases_of(version, aliases)) for version in versions)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    return ["  ".join(_cell(*each) for each in zip(COLUMNS, row, widths, strict=True)).rstrip() for row in rows]


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


def _metrics(version: Version) -> dict[str, Mapping[str, float]]:
    """Dataset -> metric -> score; another program may have written other metrics, and other values."""
    metrics = version.record.get("metrics", {})
    return {dataset: _numbers(scores) for dataset, scores in metrics.items() if isinstance(scores, Mapping)}


def _numbers(scores: Mapping[str, Any]) -> dict[str, float]:
    return {metric: score for metric, score in scores.items() if isinstance(score, (int, float))}


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


def _cell(column: str, text: str, width: int) -> str:
    return f"{text:>{width}}" if column in NUMBERS else f"{text:<{width}}"


def _data(step: str, data: Mapping[str, Any]) -> str:
    """One prepared dataset of a run, such as `base salicon (160 training and 40 validation)`."""
    counts = " and ".join(f"{count:,} {SPLIT_NAMES[split]}" for split, count in data.get("counts", {}).items())
    source = ", generated" if generated.is_sample(data) else ""
    return f"{step} {data.get('dataset', '')}{source}" + (f" ({counts})" if counts else "")


def _scores(scores: Mapping[str, float]) -> str:
    return ", ".join(f"{METRICS[metric].label} {scores[metric]:.3f}" for metric in METRICS if metric in scores)
