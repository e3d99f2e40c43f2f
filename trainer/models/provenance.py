"""Notices about models that were trained on the sample set of generated shapes, and about scores on it."""

import itertools
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from trainer.data.prepared_data import dataset_name
from trainer.data.settings import SAMPLE
from trainer.io.files import read_json
from trainer.network.model_folder import MODEL_CONFIG, ModelConfig

SUBJECTS = {"candidate": "The candidate", "champion": "The current default"}
"""Models of an evaluation -> their names in sentences."""
SHAPES = "generated shapes"
MARK = f"trained on {SHAPES}"
"""How a model of the sample set was trained, in words that follow "was"."""
SCORES = (
    "{} are of generated shapes. They say nothing about photographs or designs, so do not compare them with "
    "scores on other data."
)
ALL_SCORES = SCORES.format("These scores")
DATA = "These images are generated shapes, and no person has looked at them. They are for trying the pipeline."
NEXT = "train on real data: docs/datasets.md lists public datasets, docs/data.md says how to use your own"


def is_sample(facts: Mapping[str, Any] | None) -> bool:
    """Whether the content of a MODEL_CONFIG or of a manifest names the sample set as its source.

    The data of a model's last training decides.
    """
    return facts is not None and facts.get("source") == SAMPLE


def observers(manifest: Mapping[str, Any]) -> str:
    """Words for those who looked at the images of a dataset, by its manifest."""
    return "generated observers" if is_sample(manifest) else "people"


def of_model(config: Mapping[str, Any] | None, subject: str = "This model") -> str:
    """Notice that `subject`, a model with this MODEL_CONFIG, was trained on the sample set. Empty if not."""
    if not is_sample(config):
        return ""
    return f"{subject} was {MARK}. Its maps of photographs and designs mean nothing."


def trainings(config: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    """The MODEL_CONFIG of a model, of its base model, and so on."""
    while config is not None:
        yield config
        config = config.get("base_model")


def datasets(config: Mapping[str, Any] | None) -> list[str]:
    """The datasets that a model was trained on, in order, such as `["salicon", "osie"]`.

    SHAPES is the sample set.
    """
    names = [dataset(each) for each in trainings(config)]
    return [name for name, _ in itertools.groupby(reversed(names)) if name]


def dataset(config: Mapping[str, Any]) -> str:
    """The dataset of a model's last training. SHAPES for the sample set, empty if unknown."""
    if is_sample(config):
        return SHAPES
    return dataset_name(str(config.get("dataset") or ""), str(config.get("source") or ""))


def origin(config: Mapping[str, Any] | None) -> str:
    """Say what a model was trained on, such as "trained on A, then on B". Empty if unknown."""
    return f"trained on {', then on '.join(names)}" if (names := datasets(config)) else ""


def of_folder(folder: str | os.PathLike[str], subject: str = "This model") -> str:
    """Notice that the model in a folder, called `subject`, was trained on the sample set. Empty if not."""
    path = pathlib.Path(folder) / MODEL_CONFIG
    return (
        of_model(read_json(path, "name the folder of a whole model", ModelConfig), subject)
        if path.exists()
        else ""
    )


def of_evaluation(
    configs: Mapping[str, Mapping[str, Any] | None], datasets: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Notices for readers of an evaluation: model -> its MODEL_CONFIG, and dataset -> content of its manifest."""
    models = [of_model(config, SUBJECTS[model]) for model, config in configs.items()]
    of_sample = [name for name, manifest in datasets.items() if is_sample(manifest)]
    if len(of_sample) < len(datasets):
        models = [*(SCORES.format(f"The scores on {name}") for name in of_sample), *models]
    elif of_sample:
        models = [ALL_SCORES, *models]
    return [text for text in models if text]
