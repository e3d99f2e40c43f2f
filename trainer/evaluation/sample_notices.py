"""Notices about an evaluation with data or models of the sample set of generated shapes."""

from collections.abc import Mapping
from typing import Any

from trainer.models import Provenance

SUBJECTS = {"candidate": "The candidate", "champion": "The current default"}
"""Models of an evaluation -> their names in sentences."""


def of_evaluation(
    configs: Mapping[str, Mapping[str, Any] | None], datasets: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Notices for readers of an evaluation: model -> its MODEL_CONFIG, and dataset -> content of its manifest."""
    models = [Provenance(config).notice(SUBJECTS[model]) for model, config in configs.items()]
    origins = {name: Provenance(manifest) for name, manifest in datasets.items()}
    if origins and all(origin.is_sample for origin in origins.values()):
        scores = [next(iter(origins.values())).scores_notice()]
    else:
        scores = [origin.scores_notice(f"The scores on {name}") for name, origin in origins.items()]
    return [text for text in (*scores, *models) if text]
