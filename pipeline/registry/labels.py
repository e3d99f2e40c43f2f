"""What a registered version says about itself on Vertex AI: labels to find it by, and a description to read."""

import re
from collections.abc import Mapping
from typing import Any

from trainer import generated

MAX_CHARACTERS = 63
"""Google's limit for keys and values: lower-case letters, digits, _ and -; a key begins with a letter."""
OWNER = {"managed_by": "msinet-pipelines"}
RUN = "run"


def label(text: str) -> str:
    """`text` as the value of a label, shortened if it is too long."""
    return re.sub(r"[^a-z0-9_-]", "-", text.lower())[:MAX_CHARACTERS]


def of(record: Mapping[str, Any]) -> dict[str, str]:
    """The labels of a version: its run, code and data."""
    lineage = record["lineage"]
    data = {
        f"data_{step}": f"{facts['dataset']}-{facts['fingerprint']}" for step, facts in lineage["data"].items()
    }
    values = {RUN: lineage["run"], "code": lineage["code_version"], **data}
    return {**{key: label(value) for key, value in values.items()}, **OWNER}


def describe(record: Mapping[str, Any]) -> str:
    """The text that people read next to a version: why it got its alias, its origin, and its metrics."""
    lineage = record["lineage"]
    data = [f"{step}: {facts['dataset']} from {facts['source']}" for step, facts in lineage["data"].items()]
    metrics = [
        f"{dataset}: " + ", ".join(f"{metric} {value:.4f}" for metric, value in scores.items())
        for dataset, scores in record["metrics"].items()
    ]
    origin = f"Run {lineage['run']}, code {lineage['code_version']}."
    notice = generated.of_model(lineage.get("model"))
    return "\n".join([*([notice] if notice else []), record["reason"], origin, *data, *metrics])
