"""What a registered version says of itself on Vertex: labels to find it by, and a description to read."""

import re
from collections.abc import Mapping
from typing import Any

CHARACTERS = 63
"""Keys and values have at most so many lowercase letters, digits, _ and -, a key begins with a letter, and a
resource has at most 64 labels (Google's requirements for labels)."""
OWNER = {"managed_by": "msinet-pipelines"}
RUN = "run"


def label(text: str) -> str:
    """`text` as the value of a label, cut where it is too long."""
    return re.sub(r"[^a-z0-9_-]", "-", text.lower())[:CHARACTERS]


def number(value: float) -> str:
    """A metric as the value of a label, which may have no point: 1.2345 is 1_2345."""
    return f"{value:.4f}".replace(".", "_")


def of(record: Mapping[str, Any]) -> dict[str, str]:
    """The labels of a version: its run, code, data and metrics. The key of a metric is DATASET_METRIC."""
    lineage = record["lineage"]
    data = {
        f"data_{step}": f"{found['dataset']}-{found['fingerprint']}" for step, found in lineage["data"].items()
    }
    named = {RUN: lineage["run"], "code": lineage["code_version"], **data}
    metrics = {
        label(f"{dataset}_{metric}"): number(value)
        for dataset, scores in record["metrics"].items()
        for metric, value in scores.items()
    }
    return {**metrics, **{key: label(value) for key, value in named.items()}, **OWNER}


def describe(record: Mapping[str, Any]) -> str:
    """What people read beside a version: why it got its alias, what it was made from, and its metrics."""
    lineage = record["lineage"]
    data = [f"{step}: {found['dataset']} from {found['source']}" for step, found in lineage["data"].items()]
    metrics = [
        f"{dataset}: " + ", ".join(f"{metric} {value:.4f}" for metric, value in scores.items())
        for dataset, scores in record["metrics"].items()
    ]
    made = f"Run {lineage['run']}, code {lineage['code_version']}."
    return "\n".join([record["reason"], made, *data, *metrics])
