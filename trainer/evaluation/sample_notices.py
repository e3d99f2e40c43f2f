"""Notices about data of the sample set of generated shapes, and about scores on it."""

from collections.abc import Mapping
from typing import Any

from trainer.models.provenance import Provenance

SUBJECTS = {"candidate": "The candidate", "champion": "The current default"}
"""Models of an evaluation -> their names in sentences."""
SCORES = (
    "{} are of generated shapes. They say nothing about photographs or designs, so do not compare them with "
    "scores on other data."
)
ALL_SCORES = SCORES.format("These scores")
DATA = "These images are generated shapes, and no person has looked at them. They are for trying the pipeline."


def observers(manifest: Mapping[str, Any]) -> str:
    """Words for those who looked at the images of a dataset, by its manifest."""
    return "generated observers" if Provenance(manifest).is_sample else "people"


def of_evaluation(
    configs: Mapping[str, Mapping[str, Any] | None], datasets: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Notices for readers of an evaluation: model -> its MODEL_CONFIG, and dataset -> content of its manifest."""
    models = [Provenance(config).notice(SUBJECTS[model]) for model, config in configs.items()]
    of_sample = [name for name, manifest in datasets.items() if Provenance(manifest).is_sample]
    if len(of_sample) < len(datasets):
        models = [*(SCORES.format(f"The scores on {name}") for name in of_sample), *models]
    elif of_sample:
        models = [ALL_SCORES, *models]
    return [text for text in models if text]
